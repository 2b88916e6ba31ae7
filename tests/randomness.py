"""Random tensors and parameters that are the same in every run."""

import torch


def randn(*shape, seed=0, dtype=torch.float32):
    """The same numbers in every dtype, but for rounding."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def randomize(module, seed=0):
    """Every parameter random, biases too: a default zero hides a bug."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g) * 0.3)
    return module
