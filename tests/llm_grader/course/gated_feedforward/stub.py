from torch.nn import Module

from llm_anatomy.shapes import Tensor


def gated_feedforward(weights: dict[str, Tensor]) -> Module:
    """A module that computes silu(gate(x)) * up(x), brought back by down."""
    raise NotImplementedError
