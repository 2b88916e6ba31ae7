import torch
from torch import nn

from llm_anatomy.shapes import Float, Tensor


def through_the_depth(seed: int) -> tuple[Float[Tensor, "2 2"], str]:
    """The ratios (rows: plain, residual; columns: 2 and 16 layers), and which stack loses the gradient."""
    torch.manual_seed(seed)

    def layer():
        parts = torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)
        return torch.nn.Sequential(*parts)

    def ratio(n_layers, residual):
        layers = [layer() for _ in range(n_layers)]
        h = torch.randn(32, 64)
        for each in layers:
            h = h + each(h) if residual else each(h)
        h.square().mean().backward()
        return (layers[0][0].weight.grad.norm() / layers[-1][0].weight.grad.norm()).item()

    table = torch.tensor([[ratio(n, residual) for n in (2, 16)] for residual in (False, True)])
    lost = tuple((table[:, 1] < 0.01).tolist())
    names = {(True, True): "both lose it", (True, False): "only plain loses it"}
    return table, names.get(lost, "only residual loses it" if lost[1] else "neither loses it")


def accepted_module(seed):
    """Wraps each layer in a module, and returns lists."""

    class Residual(nn.Module):
        def __init__(self, layer, weight):
            super().__init__()
            self.layer, self.weight = layer, weight

        def forward(self, x):
            return self.weight * x + self.layer(x)

    torch.manual_seed(seed)
    rows = []
    for weight in (0, 1):
        row = []
        for depth in (2, 16):
            made = (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)) for _ in range(depth))
            stack = nn.Sequential(*(Residual(layer, weight) for layer in made))
            (stack(torch.randn(32, 64)) ** 2).mean().backward()
            first, last = (stack[i].layer[0].weight.grad.square().sum().sqrt() for i in (0, -1))
            row.append(float(first / last))
        rows.append(row)
    return rows, "only plain loses it"


def accepted_autograd(seed):
    """Asks for the two gradients alone, in float64, with the same weights in both stacks."""
    torch.manual_seed(seed)
    x = torch.randn(32, 64).double()
    table = torch.zeros(2, 2)
    for column, depth in enumerate((2, 16)):
        stack = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)) for _ in range(depth))
        stack.double()
        for row in range(2):
            h = x
            for layer in stack:
                h = layer(h) + row * h
            grads = torch.autograd.grad(h.pow(2).mean(), [stack[0][0].weight, stack[-1][0].weight])
            table[row, column] = torch.linalg.norm(grads[0]) / torch.linalg.norm(grads[1])
    return table, "only plain loses it"


def cases(generator):
    return [{"seed": 0}, {"seed": 1}]


CONCLUSIONS = ["both lose it", "only plain loses it", "only residual loses it", "neither loses it"]
LIMITS = [(0.25, 0.7), (3e-11, 3e-8), (0.7, 1.4), (0.5, 1.5)]  # 60 seeds: 0.35-0.57, 2e-10-3e-9, 0.9-1.13, 0.67-1.23


def observe(returned, seed):
    """your four ratios with those of the experiment, and your conclusion with your ratios"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, (
        "you should return two things, the table and the conclusion"
    )
    table, conclusion = returned
    assert not isinstance(table, str), "the table should come first, then the conclusion"
    if isinstance(table, tuple | list):
        table = [[float(x) for x in row] for row in table]
    ratios = torch.as_tensor(table).detach().double()
    assert ratios.shape == (2, 2), f"the table has shape {tuple(ratios.shape)}, not (2, 2)"
    assert conclusion in CONCLUSIONS, f"the conclusion is {conclusion!r}, which is not one of the four strings"
    assert not ratios.isnan().any(), (
        "some of your ratios are NaN. Gradients that overflow lead to this, and so does 0 / 0. With the initialization "
        "that PyTorch gives to the layers, neither happens"
    )
    if ratios.sub(1).abs().max() < 1e-4:
        return "all four ratios are 1"
    pairs = zip(ratios.flatten().tolist(), LIMITS, strict=True)
    words = ["too small" if x < low else "too large" if x > high else "right" for x, (low, high) in pairs]
    if words[1] == "too large" and ratios[0, 1] < 0.01:
        words[1] = "too large, though below 0.01"
    if words != ["right"] * 4:
        return "plain: 2 layers {}, 16 layers {}; residual: 2 layers {}, 16 layers {}".format(*words)
    follows = conclusion == "only plain loses it"
    return f"all four ratios are right, and the conclusion {'follows' if follows else 'does not follow'} from them"


def hidden_cases(generator):
    return [{"seed": seed} for seed in (2, 3, 40)]
