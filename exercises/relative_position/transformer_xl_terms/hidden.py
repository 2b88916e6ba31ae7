import torch


def cases(generator):
    def drawn(n_heads, n_queries, n_keys, d_head, d_model, dtype=torch.float32):
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "u": (n_heads, d_head),
            "v": (n_heads, d_head),
            "w_position": (n_heads, d_head, d_model),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        positions = torch.randint(0, 60, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(2, 1, 7, 5, 6), drawn(5, 4, 3, 2, 12), drawn(1, 6, 8, 4, 2), drawn(3, 5, 9, 1, 14, torch.float64)]
