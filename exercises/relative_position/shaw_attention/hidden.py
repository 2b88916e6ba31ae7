import torch


def cases(generator):
    def drawn(batch, n_heads, n_queries, n_keys, d_head, d_value, r_max, dtype=torch.float32):
        shapes = {
            "query": (batch, n_heads, n_queries, d_head),
            "key": (batch, n_heads, n_keys, d_head),
            "value": (batch, n_heads, n_keys, d_value),
            "key_vectors": (2 * r_max + 1, d_head),
            "value_vectors": (2 * r_max + 1, d_value),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        first = torch.randint(0, 50, (batch, 1), generator=generator)
        tensors["query_positions"] = first + n_keys - n_queries + torch.arange(n_queries)
        tensors["key_positions"] = first + torch.arange(n_keys)
        if n_keys > 2:  # two of the sequences' keys are out of order: packed texts
            tensors["key_positions"][0, 1] += 4
        mask = torch.rand(batch, n_queries, n_keys, generator=generator) < 0.6
        mask[:, :, 0] = True
        return tensors | {"mask": mask}

    return [
        drawn(3, 2, 4, 9, 5, 6, 3),
        drawn(1, 5, 1, 8, 3, 2, 2),
        drawn(2, 1, 7, 7, 4, 4, 1),
        drawn(4, 3, 6, 5, 2, 7, 9, torch.float64),
    ]
