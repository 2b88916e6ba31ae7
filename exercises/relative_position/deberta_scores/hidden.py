import torch


def cases(generator):
    def drawn(n_heads, n_queries, n_keys, d_head, span, dtype=torch.float32):
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "position_query": (n_heads, 2 * span, d_head),
            "position_key": (n_heads, 2 * span, d_head),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        positions = torch.randint(0, 30, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(2, 1, 7, 5, 6), drawn(4, 6, 3, 2, 1), drawn(1, 5, 8, 4, 12), drawn(3, 4, 9, 6, 5, torch.float64)]
