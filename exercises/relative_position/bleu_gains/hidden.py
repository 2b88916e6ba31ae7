import torch


def cases(generator):
    def drawn(n_models, n_pairs, dtype=torch.float32):
        return {"bleu": 10 + 30 * torch.rand(n_models, 2, n_pairs, generator=generator).to(dtype)}

    return [drawn(1, 5), drawn(6, 4), drawn(2, 7), drawn(4, 3, torch.float64)]
