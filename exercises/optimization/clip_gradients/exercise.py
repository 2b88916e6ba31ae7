import torch

from llm_anatomy.shapes import Tensor


def clip_gradients(gradients: dict[str, Tensor], max_norm: float) -> tuple[dict[str, Tensor], float]:
    """Return the clipped gradients by name, and the global norm before the clipping."""
    norm = sum(gradient.square().sum().item() for gradient in gradients.values()) ** 0.5
    factor = max_norm / norm if norm > max_norm else 1
    return {name: factor * gradient for name, gradient in gradients.items()}, norm


def accepted_library(gradients, max_norm):
    """Gives copies to PyTorch's function."""
    parameters = {name: torch.zeros_like(gradient).requires_grad_() for name, gradient in gradients.items()}
    for name, parameter in parameters.items():
        parameter.grad = gradients[name].clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters.values(), max_norm)
    return {name: parameter.grad for name, parameter in parameters.items()}, norm


def accepted_one_vector(gradients, max_norm):
    """Joins all entries, clips the vector, and cuts it up again."""
    vector = torch.cat([gradient.flatten() for gradient in gradients.values()]).double()
    norm = torch.linalg.vector_norm(vector)
    vector = vector * torch.clamp(max_norm / norm, max=1) if norm > 0 else vector
    parts = vector.split([gradient.numel() for gradient in gradients.values()])
    return [{name: part.view(gradients[name].shape) for name, part in zip(gradients, parts, strict=True)}, norm.item()]


def accepted_norm_of_norms(gradients, max_norm):
    """Takes the norm of the norms of all tensors."""
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    factor = 1 / torch.maximum(norm / max_norm, torch.ones(()))
    return {name: gradient.mul(factor).numpy() for name, gradient in gradients.items()}, norm


def cases(generator):
    def drawn(size, max_norm, **shapes):
        def tenths(shape):
            return size * (10 * torch.randn(*shape, generator=generator)).round() / 10

        return {"gradients": {name: tenths(shape) for name, shape in shapes.items()}, "max_norm": max_norm}

    return [
        drawn(1.0, 1.0, embedding=(3, 4), weight=(2, 3), bias=(2,)),
        {"gradients": {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, "max_norm": 1.0},
        drawn(0.1, 2.5, weight=(2, 5), bias=(5,)),
        drawn(2.0, 3.0, a=(4,), b=(1, 3), c=(2, 2, 2)),
        {"gradients": {"a": torch.tensor([0.3, -0.4]), "b": torch.tensor([1.2])}, "max_norm": 1.3},
        {"gradients": {"a": torch.tensor([0.9]), "b": torch.tensor([0.8, 0.6])}, "max_norm": 1.0},
        {"gradients": {"a": torch.zeros(2), "b": torch.zeros(1, 3)}, "max_norm": 0.5},
    ]


def property_direction(answer, generator):
    gradients = {f"w{i}": size * torch.randn(4, 3, generator=generator) for i, size in enumerate((0.1, 1.0, 20.0))}
    clipped = answer({name: gradient.clone() for name, gradient in gradients.items()}, 0.7)[0]
    before, after = (
        torch.cat([torch.as_tensor(each[name]).flatten() for name in gradients]) for each in (gradients, clipped)
    )
    assert abs(after.norm().item() - 0.7) < 1e-3, (
        "After the clipping, the global norm of large gradients should be max_norm."
    )
    assert torch.cosine_similarity(before, after, dim=0) > 0.9999, (
        "The clipping should not change the direction of the gradients, taken together as one vector."
    )


def hidden_cases(generator):
    def drawn(size, max_norm, **shapes):
        return {
            "gradients": {name: size * torch.randn(*shape, generator=generator) for name, shape in shapes.items()},
            "max_norm": max_norm,
        }

    return [
        drawn(1.0, 0.5, weight=(5, 3), bias=(3,)),
        drawn(0.2, 4.0, a=(2, 3), b=(6,)),
        drawn(3.0, 2.0, query=(4, 2), key=(4, 2), value=(4, 3), norm=(4,)),
        drawn(0.3, 1.0, a=(3, 3), b=(3,), c=(2, 1)),
    ]
