import torch


def cases(generator):
    def drawn(n_heads, d_head, r_max, n_queries, n_keys, dtype=torch.float32):
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "table": (n_heads, 2 * r_max + 1),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        positions = torch.randint(0, 25, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(5, 2, 6, 3, 8), drawn(2, 7, 1, 6, 4), drawn(3, 1, 12, 1, 9), drawn(4, 6, 3, 8, 5, torch.float64)]
