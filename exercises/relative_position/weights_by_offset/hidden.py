import torch


def cases(generator):
    def drawn(n_heads, n_queries, n_keys, r_max, dtype=torch.float32):
        weights = torch.randn(n_heads, n_queries, n_keys, generator=generator).softmax(-1).to(dtype)
        positions = torch.randint(0, 15, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return {"weights": weights, "query_positions": positions[0], "key_positions": positions[1], "r_max": r_max}

    return [drawn(3, 1, 9, 2), drawn(2, 6, 4, 9), drawn(5, 4, 8, 0), drawn(4, 7, 12, 3, torch.float64)]
