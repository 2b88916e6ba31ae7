import torch

from llm_anatomy.shapes import Float, Tensor


def first_steps(seed: int) -> tuple[Float[Tensor, "3"], str]:
    """The mean spectral norms of the first, third and 200th power, and what they say about the gradient."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(20, 32, 32, generator=generator)
    w = 0.95 * w / torch.linalg.eigvals(w).abs().amax(-1)[:, None, None]
    norms = [torch.linalg.matrix_norm(torch.linalg.matrix_power(w, n), ord=2).mean() for n in (1, 3, 200)]
    if norms[2] > 1:
        return torch.stack(norms), "grows for ever"
    grows = max(norms[:2]) > 1
    return torch.stack(norms), "grows first, then shrinks" if grows else "shrinks from the first step"


def accepted_singular_values(seed):
    """Multiplies in a loop, and takes the largest singular value."""
    torch.manual_seed(seed)
    sums = [0.0, 0.0, 0.0]
    for _ in range(20):
        matrix = torch.randn(32, 32).double()
        matrix *= 0.95 / torch.linalg.eigvals(matrix).abs().max()
        power = torch.eye(32).double()
        for n in range(1, 201):
            power = matrix @ power
            if n in (1, 3, 200):
                sums[(1, 3, 200).index(n)] += torch.linalg.svdvals(power)[0].item() / 20
    return [sums, "grows first, then shrinks"]


def accepted_numpy(seed):
    """Does it with NumPy."""
    import numpy as np

    rng = np.random.default_rng(seed)
    norms = np.zeros(3)
    for _ in range(20):
        w = rng.standard_normal((32, 32))
        w *= 0.95 / np.abs(np.linalg.eigvals(w)).max()
        norms += [np.linalg.norm(np.linalg.matrix_power(w, n), 2) for n in (1, 3, 200)]
    return (norms / 20).tolist(), "grows first, then shrinks"


def cases(generator):
    return [{"seed": 0}, {"seed": 1}]


CONCLUSIONS = ["shrinks from the first step", "grows first, then shrinks", "grows for ever"]


def observe(returned, seed):
    """your three norms with those of the experiment, and your conclusion with your norms"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, (
        "you should return two things, the three norms and the conclusion"
    )
    norms, conclusion = returned
    assert not isinstance(norms, str), "the norms should come first, then the conclusion"
    values = torch.as_tensor(norms).double().flatten().tolist()
    assert len(values) == 3, f"there should be three norms, not {len(values)}"
    assert conclusion in CONCLUSIONS, f"the conclusion is {conclusion!r}, which is not one of the three strings"
    bounds = [(1.5, 2.0), (1.65, 2.55), (0.0, 0.05)]
    words = []
    for x, (low, high), n in zip(values, bounds, (1, 3, 200), strict=True):
        of_the_radius = n < 200 and abs(x - 0.95**n) < 0.01
        size = "right" if low <= x <= high else "too small" if x < low else "too large" if x < 100 else "exploding"
        words.append("the spectral radius" if of_the_radius else size)
    if words != ["right"] * 3:
        return "first power {}, third {}, 200th {}".format(*words)
    return f"all norms are right, and the conclusion {'follows' if conclusion == CONCLUSIONS[1] else 'does not follow'}"


def hidden_cases(generator):
    return [{"seed": seed} for seed in (2, 3, 40)]
