import torch


def cases(generator):
    def drawn(batch, n_queries, n_keys, low=0, dtype=torch.int64):
        positions = torch.randint(low, low + 300, (batch, n_queries + n_keys), generator=generator).to(dtype)
        return dict(zip(("query_positions", "key_positions"), positions.split((n_queries, n_keys), 1), strict=True))

    return [drawn(1, 1, 9, 50), drawn(3, 7, 2), drawn(5, 4, 8, 1000), drawn(2, 6, 11, -100, torch.int32)]
