import torch


def cases(generator):
    def drawn(n_words, theta):
        positions = torch.randint(-20, 200, (n_words,), generator=generator)
        return {"angles": torch.randn(n_words, generator=generator) * 2, "positions": positions, "theta": theta}

    return [drawn(2, 0.3), drawn(7, 0.02), drawn(4, 1.0), drawn(6, 0.1)]
