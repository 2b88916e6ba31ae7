import torch


def cases(generator):
    def drawn(n_heads, n_queries, n_keys, d_head, d_model, n_ctx, dtype=torch.float32):
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "positions": (n_ctx, d_model),
            "u_query": (n_heads, d_model, d_head),
            "u_key": (n_heads, d_model, d_head),
            "bias": (n_heads, n_queries, n_keys),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        positions = torch.randint(0, n_ctx, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [
        drawn(2, 1, 7, 5, 6, 12),
        drawn(4, 6, 3, 2, 5, 40),
        drawn(1, 5, 8, 4, 3, 9),
        drawn(3, 4, 9, 6, 8, 20, torch.float64),
    ]
