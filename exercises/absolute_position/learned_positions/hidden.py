import torch


def cases(generator):
    def drawn(batch, n_tokens, d_model, n_ctx, dtype=torch.float32):
        return {
            "x": torch.randn(batch, n_tokens, d_model, generator=generator).to(dtype),
            "positions": torch.randint(-1, n_ctx, (batch, n_tokens), generator=generator),
            "table": torch.randn(d_model, n_ctx, generator=generator).to(dtype),
        }

    return [drawn(3, 8, 5, 12), drawn(4, 6, 7, 3, torch.float64), drawn(2, 15, 6, 9), drawn(5, 1, 2, 4)]
