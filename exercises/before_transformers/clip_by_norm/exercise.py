import torch

from llm_anatomy.shapes import Tensor


def clip_by_norm(gradients: dict[str, Tensor], max_norm: float) -> dict[str, Tensor]:
    """Return the gradients, shortened by a common factor if they are longer than max_norm together."""
    length = torch.cat([gradient.flatten() for gradient in gradients.values()]).norm()
    if length <= max_norm:
        return dict(gradients)
    return {name: gradient * (max_norm / length) for name, gradient in gradients.items()}


def accepted_library(gradients, max_norm):
    """Lets PyTorch clip the gradients of parameters made for this purpose."""
    parameters = {name: torch.nn.Parameter(torch.zeros_like(value)) for name, value in gradients.items()}
    for name, value in gradients.items():
        parameters[name].grad = value.clone()
    torch.nn.utils.clip_grad_norm_(parameters.values(), max_norm)
    return {name: parameter.grad for name, parameter in parameters.items()}


def accepted_sum_of_squares(gradients, max_norm):
    """Adds up squares with Python numbers."""
    squares = 0.0
    for value in gradients.values():
        squares += float((value**2).sum())
    factor = 1.0 if squares == 0 else min(1.0, max_norm / squares**0.5)
    return {name: factor * value for name, value in gradients.items()}


def accepted_norm_of_norms(gradients, max_norm):
    """Takes the norm of the norms, with a tiny number that keeps the divisor above 0."""
    norms = torch.stack([torch.linalg.vector_norm(each) for each in gradients.values()])
    scale = torch.clamp(max_norm / (norms.square().sum().sqrt() + 1e-12), max=1.0)
    return {name: scale * value for name, value in gradients.items()}


def cases(generator):
    def drawn(max_norm, **shapes):
        values = {name: (10 * torch.randn(*shape, generator=generator)).round() / 10 for name, shape in shapes.items()}
        return {"gradients": values, "max_norm": max_norm}

    return [
        {"gradients": {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, "max_norm": 1.0},
        {"gradients": {"a": torch.tensor([0.3, 0.4]), "b": torch.tensor([0.5])}, "max_norm": 2.0},
        drawn(1.5, w=(3, 4), b=(2,)),  # the first is the longest, in the first case it is the last
        drawn(0.1, u=(3, 2), v=(1, 5), c=(2,)),  # max_norm times the length is below 1
        {"gradients": {"a": torch.zeros(2), "b": torch.zeros(1, 3)}, "max_norm": 1.0},
    ]


def property_length_and_direction(answer, generator):
    given = {name: 5 * torch.randn(*shape, generator=generator) for name, shape in (("w", (4, 3)), ("b", (5,)))}
    clipped = answer({name: value.clone() for name, value in given.items()}, 2.0)
    old, new = (torch.cat([values[name].flatten() for name in ("w", "b")]) for values in (given, clipped))
    after = f"After gradients of the length {float(old.norm()):.3f} are clipped with max_norm = 2"
    assert abs(float(new.norm()) - 2.0) < 1e-3, (
        f"{after}, all of them together should have the length 2. Yours have {float(new.norm()):.3f}."
    )
    assert torch.allclose(new / new.norm(), old / old.norm(), atol=1e-5), (
        f"{after}, their direction should be the same as before. Yours is another."
    )


def hidden_cases(generator):
    def drawn(max_norm, scale, **shapes):
        values = {name: scale * torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        return {"gradients": values, "max_norm": max_norm}

    return [
        drawn(1.0, 3.0, w=(5, 4), b=(5,), c=(3,)),
        drawn(50.0, 0.3, w=(3, 3), b=(2,)),
        drawn(0.1, 1.0, a=(7,), b=(2, 2, 2)),
        drawn(4.0, 6.0, a=(6, 2), b=(9,)),
    ]
