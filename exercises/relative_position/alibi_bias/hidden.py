import torch


def cases(generator):
    def drawn(n_heads, n_queries, n_keys):
        positions = torch.randint(0, 400, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return {"n_heads": n_heads} | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(2, 3, 5), drawn(3, 6, 4), drawn(16, 1, 9), drawn(25, 5, 2), drawn(7, 4, 6), drawn(1, 2, 3)]
