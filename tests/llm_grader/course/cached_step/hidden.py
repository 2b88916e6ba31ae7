import torch


def cases(generator):
    def step(heads, past, width, dtype=torch.float32):
        rows = [torch.randn(heads, width, generator=generator).to(dtype) for _ in range(3)]
        held = [torch.randn(heads, past, width, generator=generator).to(dtype) for _ in range(2)]
        names = ("query", "key", "value")
        return dict(zip(names, rows, strict=True)) | {"cache": dict(zip(("keys", "values"), held, strict=True))}

    return [step(2, 5, 4), step(4, 0, 3), step(1, 8, 6, torch.float64)]
