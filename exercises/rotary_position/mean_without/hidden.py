import torch


def cases(generator):
    def drawn(n_models, n_tasks, dtype=torch.float32):
        return {"scores": (torch.randn(n_models, n_tasks, generator=generator) * 20).to(dtype)}

    return [drawn(4, 3), drawn(2, 9), drawn(3, 2), drawn(6, 5, torch.float64)]
