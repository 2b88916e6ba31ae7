import torch


def cases(generator):
    def drawn(batch, n_heads, n_queries, n_keys, d_head, d_value, base, dtype=torch.float32):
        positions = torch.randint(-30, 200, (batch, n_keys), generator=generator).sort(-1).values
        mask = torch.rand(batch, n_queries, n_keys, generator=generator) < 0.5
        mask[:, :, 0] = True
        shapes = (n_queries, d_head), (n_keys, d_head), (n_keys, d_value)
        queries, keys, values = (torch.randn(batch, n_heads, *s, generator=generator).to(dtype) for s in shapes)
        return {
            "queries": queries,
            "keys": keys,
            "values": values,
            "query_positions": positions[:, n_keys - n_queries :],
            "key_positions": positions,
            "mask": mask,
            "base": base,
        }

    return [
        drawn(2, 3, 4, 7, 10, 8, 500),
        drawn(1, 2, 6, 6, 4, 2, 10000),
        drawn(5, 1, 1, 3, 2, 4, 10000),
        drawn(3, 4, 2, 5, 6, 10, 20, torch.float64),
    ]
