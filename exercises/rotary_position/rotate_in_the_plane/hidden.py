import torch


def cases(generator):
    def drawn(n_tokens, theta, dtype=torch.float32):
        x = torch.randn(n_tokens, 2, generator=generator).to(dtype)
        return {"x": x, "positions": torch.randint(-9, 90, (n_tokens,), generator=generator), "theta": theta}

    return [drawn(1, 0.4), drawn(6, 0.05), drawn(11, 1.0), drawn(4, 0.2, torch.float64)]
