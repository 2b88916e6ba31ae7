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
