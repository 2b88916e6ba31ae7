import numpy as np
import torch

from llm_anatomy.shapes import Float, Tensor


def measured_decay(sizes: Float[Tensor, "n_weights"], n_steps: int) -> tuple[Float[Tensor, "2 n_weights"], str]:
    """Return the weights after Adam with L2 and after AdamW, and which weights the first of them shrinks less."""
    rows = []
    for method in (torch.optim.Adam, torch.optim.AdamW):
        x = torch.nn.Parameter(torch.ones_like(sizes))
        optimizer = method([x], lr=0.01, weight_decay=0.1)
        for t in range(1, n_steps + 1):
            x.grad = sizes.clone() if t % 2 else -sizes
            optimizer.step()
        rows.append(x.detach())
    return torch.stack(rows), "large gradients"


def accepted_formulas(sizes, n_steps):
    """Writes down the formulas, for both methods at once, in double precision."""
    x = np.ones((2, len(sizes)))
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t in range(1, n_steps + 1):
        gradient = np.stack([sizes.numpy().astype(float) * (-1) ** (t + 1)] * 2)
        gradient[0] += 0.1 * x[0]
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        update = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        update[1] += 0.1 * x[1]
        x = x - 0.01 * update
    order = np.argsort(sizes.numpy())
    return x, ["small gradients", "large gradients"][int(x[0, order[-1]] > x[0, order[0]])]


def accepted_weight_by_weight(sizes, n_steps):
    """Takes one weight at a time, and returns lists."""
    table = [[], []]
    for size in sizes.tolist():
        for row, penalty, decay in ((0, 0.1, 0.0), (1, 0.0, 0.001)):
            x, m, v = 1.0, 0.0, 0.0
            for t in range(1, n_steps + 1):
                g = (size if t % 2 else -size) + penalty * x
                m, v = m + 0.1 * (g - m), v + 0.001 * (g * g - v)
                x -= 0.01 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8) + decay * x
            table[row].append(x)
    return table, "Large gradients"


def cases(generator):
    return [
        {"sizes": torch.tensor([1.0, 2.0, 10.0]), "n_steps": 1000},
        {"sizes": torch.tensor([20.0, 0.5, 4.0]), "n_steps": 301},
        {"sizes": torch.tensor([3.0, 0.8, 6.0, 1.5]), "n_steps": 150},
    ]


def observe(returned, sizes, n_steps):
    """your table and your conclusion"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, (
        "you should return two things, the table and the conclusion"
    )
    table, conclusion = returned
    assert not isinstance(table, str), "the table should come first, then the conclusion"
    spelt = str(conclusion).strip().lower()
    words = ("large gradients", "small gradients", "neither")
    assert spelt in words, f"the conclusion is {conclusion!r}, which is not one of the three strings"
    if isinstance(table, tuple | list):
        table = torch.stack([torch.as_tensor([float(x) for x in row], dtype=torch.float64) for row in table])
    assert tuple(table.shape) == (2, len(sizes)), (
        f"the table has shape {tuple(table.shape)}, and not one row for each method and one column for each weight"
    )
    return table.detach().double(), spelt


def hidden_cases(generator):
    sizes = 0.7 + 8 * torch.rand(5, generator=generator)
    return [
        {"sizes": sizes, "n_steps": 200},
        {"sizes": torch.tensor([4.0, 1.0, 12.0]), "n_steps": 603},
        {"sizes": torch.tensor([0.9, 7.0]), "n_steps": 100},
    ]
