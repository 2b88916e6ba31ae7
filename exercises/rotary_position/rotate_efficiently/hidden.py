import torch


def cases(generator):
    def drawn(batch, n_heads, n_tokens, n_pairs, dtype=torch.float32):
        return {
            "x": torch.randn(batch, n_heads, n_tokens, 2 * n_pairs, generator=generator).to(dtype),
            "angles": (torch.randn(batch, n_tokens, n_pairs, generator=generator) * 5).to(dtype),
        }

    return [
        drawn(2, 3, 5, 4),
        drawn(4, 1, 3, 8),
        drawn(3, 3, 1, 2),
        drawn(1, 4, 6, 3, torch.float64),
        drawn(5, 2, 2, 1),
    ]
