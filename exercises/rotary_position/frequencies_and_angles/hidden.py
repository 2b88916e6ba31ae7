import torch


def cases(generator):
    def drawn(n_tokens, d_head, base):
        positions = torch.randint(-50, 900, (n_tokens,), generator=generator)
        return {"positions": positions, "d_head": d_head, "base": base}

    return [drawn(5, 4, 10000), drawn(2, 16, 1000), drawn(7, 6, 50), drawn(1, 64, 500000)]
