import torch


def cases(generator):
    def drawn(n_heads, d_head, d_rotary, d_model, dtype=torch.float32):
        weight = torch.randn(n_heads * d_head, d_model, generator=generator).to(dtype)
        return {"weight": weight, "n_heads": n_heads, "d_rotary": d_rotary}

    return [
        drawn(5, 9, 6, 8),
        drawn(2, 16, 8, 4),
        drawn(3, 10, 6, 6, torch.float64),
        drawn(1, 8, 6, 2),
        drawn(6, 6, 2, 4),
    ]
