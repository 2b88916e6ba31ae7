import torch

from llm_anatomy.shapes import Float, Tensor


def scan_in_parallel(
    a: Float[Tensor, "n_steps n_channels"], b: Float[Tensor, "n_steps n_channels"]
) -> Float[Tensor, "n_steps n_channels"]:
    """Return all states of the recurrence h_t = a_t h_(t-1) + b_t, which begins with 0."""
    distance = 1
    while distance < len(a):
        later, earlier = slice(distance, None), slice(None, -distance)
        b = torch.cat([b[:distance], a[later] * b[earlier] + b[later]])
        a = torch.cat([a[:distance], a[later] * a[earlier]])
        distance *= 2
    return b


def accepted_step_by_step(a, b):
    """Goes through time in a loop."""
    h, states = torch.zeros(a.shape[1]), []
    for a_t, b_t in zip(a, b, strict=True):
        h = a_t * h + b_t
        states.append(h)
    return torch.stack(states)


def accepted_matrix_of_products(a, b):
    """Writes down how much of each earlier input is left at each step, and multiplies once."""
    n = len(a)
    left = torch.zeros(n, n, a.shape[1])
    for s in range(n):
        left[s, s] = 1.0
        left[s + 1 :, s] = a[s + 1 :].cumprod(0)
    return torch.einsum("tsc, sc -> tc", left, b)


def accepted_halves(a, b):
    """Solves both halves on their own, and carries the last state of the first into the second."""
    if len(a) == 1:
        return b.clone()
    middle = len(a) // 2
    first, second = (accepted_halves(a[part], b[part]) for part in (slice(middle), slice(middle, None)))
    return torch.cat([first, second + a[middle:].cumprod(0) * first[-1]])


def cases(generator):
    small = {"a": torch.tensor([[0.5], [0.5], [2.0]]), "b": torch.tensor([[1.0], [1.0], [3.0]])}
    reset = {"a": torch.tensor([[0.5], [0.0], [-0.5], [1.0]]), "b": torch.tensor([[4.0], [2.0], [-1.0], [0.5]])}

    def drawn(n_steps, n_channels):
        a = torch.rand(n_steps, n_channels, generator=generator).round(decimals=1)
        return {"a": a, "b": (10 * torch.randn(n_steps, n_channels, generator=generator)).round() / 10}

    return [small, reset, drawn(7, 3), drawn(4, 2), drawn(1, 4)]


def property_each_step_follows_from_the_last(answer, generator):
    a, b = torch.rand(9, 2, generator=generator), torch.randn(9, 2, generator=generator)
    h = answer(a, b)
    wanted = torch.cat([b[:1], a[1:] * h[:-1] + b[1:]])
    wrong = (h - wanted).abs().amax(1) > 1e-4
    assert not wrong.any(), (
        f"In a sequence of 9 steps, counted from 0, step {int(wrong.int().argmax())} of your states is the first that "
        "is not a times your state before plus b."
    )


def property_long_and_forgetful(answer, generator):
    a, b = torch.full((600, 2), 0.5), torch.randn(600, 2, generator=generator)
    a[100] = 0.0
    states = answer(a, b)
    assert states.isfinite().all(), (
        "Over 600 steps your states are not finite. Do you divide by a product of many factors?"
    )
    last = 0.5 * states[-2] + b[-1]
    assert torch.allclose(states[-1], last, atol=1e-4), (
        "After 600 steps, your last state does not follow from the one before."
    )


def property_channels_do_not_mix(answer, generator):
    a, b = torch.rand(9, 3, generator=generator), torch.randn(9, 3, generator=generator)
    assert torch.allclose(answer(a, b)[:, 1:2], answer(a[:, 1:2], b[:, 1:2]), atol=1e-5), (
        "Your states of one channel depend on the others. The channels do not mix."
    )


def hidden_cases(generator):
    def drawn(n_steps, n_channels):
        a = 1.2 * torch.rand(n_steps, n_channels, generator=generator)
        a[n_steps // 2, 0] = 0.0
        a[-1] *= -1  # nothing says that a is positive
        return {"a": a, "b": torch.randn(n_steps, n_channels, generator=generator)}

    return [drawn(13, 3), drawn(2, 5), drawn(33, 2), drawn(8, 4)]


TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
