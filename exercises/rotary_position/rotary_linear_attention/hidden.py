import torch


def cases(generator):
    def drawn(n_heads, n_tokens, d_head, d_value, base, dtype=torch.float32):
        widths = d_head, d_head, d_value
        tensors = [torch.randn(n_heads, n_tokens, w, generator=generator).to(dtype) for w in widths]
        positions = torch.randint(-20, 150, (n_tokens,), generator=generator).sort().values
        return dict(zip(("queries", "keys", "values"), tensors, strict=True)) | {"positions": positions, "base": base}

    return [
        drawn(2, 6, 10, 4, 500),
        drawn(4, 1, 2, 6, 10000),
        drawn(1, 9, 4, 8, 10000),
        drawn(3, 5, 8, 2, 50, torch.float64),
    ]
