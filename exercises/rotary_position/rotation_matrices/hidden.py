import torch


def cases(generator):
    def drawn(n_tokens, n_pairs, dtype=torch.float32):
        return {"angles": (torch.randn(n_tokens, n_pairs, generator=generator) * 3).to(dtype)}

    return [drawn(1, 1), drawn(3, 2), drawn(6, 4, torch.float64), drawn(2, 7), drawn(4, 16)]
