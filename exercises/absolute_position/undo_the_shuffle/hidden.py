import torch


def cases(generator):
    def drawn(n_tokens, d_model, dtype=torch.float32):
        return {
            "outputs": torch.randn(n_tokens, d_model, generator=generator).to(dtype),
            "order": torch.randperm(n_tokens, generator=generator),
        }

    return [drawn(8, 5), drawn(12, 3, torch.float64), drawn(30, 2), drawn(1, 4)]
