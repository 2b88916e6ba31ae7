import torch

from llm_anatomy.shapes import Float, Tensor


def scaled_step(
    weights: Float[Tensor, "n_weights"],
    gradients: Float[Tensor, "n_weights"],
    lr: float,
    scale: float,
    n_good: int,
    growth_interval: int,
) -> tuple[Float[Tensor, "n_weights"], float, int]:
    """Return the weights after the step, and the scale and the number of good steps for the next one."""
    if not gradients.isfinite().all():
        return weights, scale / 2, 0
    weights = weights - lr * gradients.to(weights.dtype) / scale
    if n_good + 1 == growth_interval:
        return weights, 2 * scale, 0
    return weights, scale, n_good + 1


def accepted_library(weights, gradients, lr, scale, n_good, growth_interval):
    """Lets PyTorch's operations for GradScaler and SGD do it."""
    found = torch.zeros(1)
    unscaled = gradients.float()
    torch._amp_foreach_non_finite_check_and_unscale_([unscaled], found, torch.tensor(1 / scale))
    scales, tracker = torch.tensor([scale]), torch.tensor([n_good], dtype=torch.int32)
    torch._amp_update_scale_(scales, tracker, found, 2.0, 0.5, growth_interval)
    parameter = weights.clone().requires_grad_()
    if not found:
        parameter.grad = unscaled
        torch.optim.SGD([parameter], lr=lr).step()
    return parameter.detach(), scales[0], tracker[0]


def accepted_where(weights, gradients, lr, scale, n_good, growth_interval):
    """Computes both outcomes, and chooses."""
    wide = gradients.to(torch.float64)
    finite = bool((wide - wide == 0).all())
    stepped = torch.add(weights.double(), wide.nan_to_num() / scale, alpha=-lr).to(weights.dtype)
    n_good = (n_good + 1) % growth_interval if finite else 0
    grown = finite and n_good == 0
    return [
        torch.where(torch.tensor(finite), stepped, weights),
        scale * (2.0 if grown else 1 if finite else 0.5),
        n_good,
    ]


def accepted_in_order(weights, gradients, lr, scale, n_good, growth_interval):
    """Unscales first, and looks for what is not finite afterwards."""
    unscaled = gradients.float().div(scale)
    if torch.isnan(unscaled).any() or torch.isinf(unscaled).any():
        return weights.clone(), 0.5 * scale, 0
    n_good += 1
    if n_good >= growth_interval:
        scale, n_good = scale * 2, 0
        return weights - lr * unscaled, scale, n_good
    return weights.sub(unscaled, alpha=lr), scale, n_good


NAMES = ("weights", "gradients", "lr", "scale", "n_good", "growth_interval")


def cases(generator):
    def drawn(n, lr, scale, n_good, growth_interval, bad=None, size=1.0):
        weights = (10 * torch.randn(n, generator=generator)).round() / 10
        gradients = (size * torch.randn(n, generator=generator)).half()
        if bad is not None:
            gradients[n // 2] = bad
        return dict(zip(NAMES, (weights, gradients, lr, scale, n_good, growth_interval), strict=True))

    inf, nan = float("inf"), float("nan")
    return [
        drawn(4, 0.5, 1024.0, 5, 2000, size=500),
        dict(zip(NAMES, (torch.tensor([1.0]), torch.tensor([8.0]).half(), 0.5, 4.0, 0, 5), strict=True)),
        drawn(3, 0.5, 65536.0, 7, 20, bad=inf),
        drawn(5, 0.25, 512.0, 3, 20, bad=nan),
        drawn(4, 0.5, 64.0, 9, 10, size=40),
        drawn(3, 0.5, 32.0, 8, 10, size=30),
        drawn(6, 0.5, 256.0, 2, 9, bad=-inf),
        drawn(5, 20_000.0, 65536.0, 1, 7, size=0.003),
        drawn(2, 0.5, 16.0, 5, 6, bad=inf),
        drawn(3, 0.1, 8.0, 0, 1, size=5),
        drawn(2, 0.5, 1.0, 3, 6, bad=nan),  # half of the scale is not whole
        drawn(3, 0.3, 4.0, 1, 9, size=50),  # lr times a gradient needs more digits than float16 has
        dict(zip(NAMES, (torch.zeros(2), torch.tensor([60_000.0, 50_000.0]).half(), 0.5, 8192.0, 0, 3), strict=True)),
    ]


def property_ten_steps(answer, generator):
    weights, scale, n_good = torch.zeros(2), 8.0, 0
    scales = []
    for step in range(10):
        gradients = torch.tensor([1.0, float("inf") if step == 4 else 0.0]).half()
        weights, scale, n_good = answer(weights, gradients, 0.1, scale, n_good, 3)
        weights, scale, n_good = torch.as_tensor(weights), float(scale), int(n_good)
        scales.append(scale)
    assert scales == [8, 8, 16, 16, 8, 8, 8, 16, 16, 16], (
        "Ten steps from the scale 8, with a growth interval of 3 and an overflow in the fifth, should lead to the "
        f"scales 8, 8, 16, 16, 8, 8, 8, 16, 16, 16. Yours are {', '.join(f'{each:g}' for each in scales)}."
    )


def hidden_cases(generator):
    def drawn(n, lr, scale, n_good, growth_interval, bad=None, size=1.0, large=0):
        weights, gradients = torch.randn(2, n, generator=generator)
        gradients = (size * (gradients + gradients.sign())).half()
        if bad is not None:
            gradients[-1] = bad
        gradients[:large] = 40_000
        return dict(zip(NAMES, (weights, gradients, lr, scale, n_good, growth_interval), strict=True))

    return [
        drawn(5, 0.25, 2048.0, 4, 100, size=300),
        drawn(3, 0.5, 128.0, 11, 12, size=50),
        drawn(4, 10_000.0, 32768.0, 0, 8, size=0.002),
        drawn(6, 0.5, 512.0, 6, 8, bad=float("-inf")),
        drawn(2, 0.5, 1024.0, 7, 8, bad=float("nan")),
        drawn(3, 0.5, 64.0, 10, 12, size=20),
        drawn(4, 0.5, 0.5, 1, 12, bad=float("inf")),
        drawn(4, 0.7, 8.0, 2, 12, size=60),
        drawn(5, 0.5, 16384.0, 2, 9, large=3),
    ]
