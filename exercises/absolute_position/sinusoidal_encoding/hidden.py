import torch


def cases(generator):
    def drawn(batch, n_tokens, d_model, dtype=torch.int64):
        return {
            "positions": torch.randint(0, 60, (batch, n_tokens), generator=generator).to(dtype),
            "d_model": d_model,
        }

    return [
        drawn(3, 5, 16),
        drawn(2, 9, 12, torch.int32),
        drawn(5, 4, 33),
        drawn(1, 6, 2),
        drawn(4, 7, 64),
        drawn(6, 2, 5),
    ]
