import torch


def cases(generator):
    def drawn(batch, n_tokens, d_model, d_head, d_value, dtype=torch.float32):
        shapes = {
            "w_query": (d_model, d_head),
            "w_key": (d_model, d_head),
            "w_value": (d_model, d_value),
        }
        n_padding = torch.randint(0, n_tokens, (batch, 1), generator=generator)
        starts = torch.randint(0, 5, (batch, 1), generator=generator)
        n_padding[0] = n_tokens // 2
        starts[0] = 0
        positions = torch.arange(n_tokens) - n_padding
        matrices = {name: (torch.randn(*shape, generator=generator) / 2).to(dtype) for name, shape in shapes.items()}
        return {
            "x": torch.randn(batch, n_tokens, d_model, generator=generator).to(dtype),
            "positions": torch.where(positions < 0, -1, positions + starts),
        } | matrices

    return [drawn(3, 7, 10, 4, 2), drawn(5, 6, 8, 3, 9, torch.float64), drawn(2, 1, 4, 5, 3), drawn(4, 9, 16, 8, 5)]
