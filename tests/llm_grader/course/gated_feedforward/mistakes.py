from torch import nn
from torch.nn.functional import gelu, silu


def _module(weights, inner):
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            d_model, d_ff = weights["down.weight"].shape
            self.gate, self.up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
            self.down = nn.Linear(d_ff, d_model, bias=False)

        def forward(self, x):
            return self.down(inner(self.gate(x), self.up(x)))

    module = Wrong().to(weights["down.weight"].dtype)
    module.load_state_dict(weights)
    return module


def gelu_not_silu(weights):
    """Your gate goes through GELU. Here it is SiLU, x times its sigmoid."""
    return _module(weights, lambda gate, up: gelu(gate) * up)


def gate_not_activated(weights):
    """You multiply gate and up as they are. That is the bilinear layer: an activation is missing."""
    return _module(weights, lambda gate, up: gate * up)


def up_activated(weights):
    """Your activation is on the side of up. It belongs to the gate."""
    return _module(weights, lambda gate, up: gate * silu(up))


def sum_not_product(weights):
    """You add gate and up. A gate multiplies: it lets through or holds back."""
    return _module(weights, lambda gate, up: silu(gate) + up)


def activated_last(weights):
    """You activate the product. The activation comes before it, on the gate alone."""
    return _module(weights, lambda gate, up: silu(gate * up))
