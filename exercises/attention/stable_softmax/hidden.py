import torch


def cases(generator):
    def drawn(n_queries, n_keys, dtype=torch.float32, size=3.0):
        return {"scores": (size * torch.randn(n_queries, n_keys, generator=generator)).to(dtype)}

    sizes = torch.tensor([[5000.0], [-5000.0], [0.0]])
    levels = {"scores": sizes + torch.tensor([[3.0, 1.0, 2.5, -1.0], [0.0, 4.0, 1.0, 1.5], [2.0, 2.0, -2.0, 1.0]])}
    return [levels, drawn(1, 9), drawn(8, 5), drawn(6, 6), drawn(4, 11, torch.float64), drawn(7, 3, size=900.0)]
