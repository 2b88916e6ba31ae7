import torch
from torch import nn
from torch.nn import Module
from torch.nn.functional import silu

from llm_anatomy.shapes import Tensor


class GatedFeedforward(Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(silu(self.gate(x)) * self.up(x))


def gated_feedforward(weights: dict[str, Tensor]) -> Module:
    """A module that computes silu(gate(x)) * up(x), brought back by down."""
    d_model, d_ff = weights["down.weight"].shape
    module = GatedFeedforward(d_model, d_ff).to(weights["down.weight"].dtype)
    module.load_state_dict(weights)
    return module


def accepted_parameters_by_hand(weights):
    """Modules that hold their parameters and know nothing else."""

    class Rows(Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = nn.Parameter(weight.clone())

    class Gated(Module):
        def __init__(self):
            super().__init__()
            self.down, self.gate, self.up = (Rows(weights[f"{name}.weight"]) for name in ("down", "gate", "up"))

        def forward(self, x):
            gate, up = x @ self.gate.weight.T, x @ self.up.weight.T
            return (gate * torch.sigmoid(gate) * up) @ self.down.weight.T

    return Gated()


def accepted_named_modules(weights):
    """A dictionary of modules, whose names are the keys."""

    class Gated(nn.ModuleDict):
        def forward(self, x):
            return self["down"](nn.SiLU()(self["gate"](x)) * self["up"](x))

    layers = {}
    for name in ("gate", "up", "down"):
        weight = weights[f"{name}.weight"]
        layers[name] = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
        layers[name].weight.data.copy_(weight)
    return Gated(layers)


def drawn(generator, d_model, d_ff, dtype=torch.float32):
    shapes = {"gate.weight": (d_ff, d_model), "up.weight": (d_ff, d_model), "down.weight": (d_model, d_ff)}
    return {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}


def cases(generator):
    return [{"weights": drawn(generator, *sizes)} for sizes in ((3, 5), (4, 2))]


def observe(returned, weights):
    """what the module makes of three rows of numbers"""
    assert isinstance(returned, torch.nn.Module), "a module is asked"
    down = weights["down.weight"]
    x = torch.linspace(-2, 2, 3 * len(down)).reshape(3, len(down)).to(down.dtype)
    return returned(x)


def property_names_of_parameters(answer, generator):
    names = sorted(answer(drawn(generator, 2, 6)).state_dict())
    assert names == ["down.weight", "gate.weight", "up.weight"], (
        f"The parameters of your module are called {names}. They should be called as in `weights`."
    )


TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def hidden_cases(generator):
    def matrices(width, inner, dtype=torch.float32):
        tall = [torch.randn(inner, width, generator=generator).to(dtype) for _ in range(2)]
        flat = torch.randn(width, inner, generator=generator).to(dtype)
        return {"weights": {"gate.weight": tall[0], "up.weight": tall[1], "down.weight": flat}}

    return [matrices(6, 7), matrices(1, 9), matrices(5, 3, torch.float64)]


def _rows(weights):
    down = weights["down.weight"]
    return torch.linspace(-3, 2, 4 * len(down)).reshape(4, len(down)).to(down.dtype)


def call(answer, weights):
    module = answer({name: torch.zeros_like(tensor) for name, tensor in weights.items()})
    module.load_state_dict(weights)
    return module(_rows(weights))


def probe_state_dict_round_trip(answer, weights):
    """A second module that loads the state of the first computes the same."""
    first, second = answer(weights), answer({name: tensor + 1 for name, tensor in weights.items()})
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    return second(_rows(weights))
