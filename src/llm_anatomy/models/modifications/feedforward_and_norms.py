"""Modifications of the feed-forward layer and of the norms, and other depths at the same cost: rows 1 to 21."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.residual import FixupResidual, fixup_
from llm_anatomy.models import parts
from llm_anatomy.models.modifications.base import Modification
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Tensor

_SHAZEER = "Shazeer (2020), GLU Variants Improve Transformer"
_REZERO = "Bachlechner et al. (2020), ReZero is All You Need"
_DEPTH = "Narang et al. (2021), section 3.1"

_Change = Callable[[ModelConfig], dict[str, object]]


def _activation(name: str) -> _Change:
    return lambda config: dict(feedforward=name)


def _gated(gate: str) -> _Change:
    """A gated layer has three matrices: two thirds of the width, rounded, give it the parameters of a plain one."""
    return lambda config: dict(feedforward=gate, d_ff=round(config.d_ff * 2 / 3))


def _depth(numerator: int, denominator: int) -> _Change:
    """More layers, each with fewer heads and a narrower feed-forward layer, or the other way round."""

    def change(config: ModelConfig) -> dict[str, object]:
        n_layers = config.n_layers * numerator // denominator
        return dict(
            n_layers=n_layers,
            n_encoder_layers=n_layers,
            d_ff=config.d_ff * denominator // numerator,
            n_heads=config.n_heads * denominator // numerator,
            n_kv_heads=0,
        )

    return change


def _rezero_with(norm: str) -> _Change:
    return lambda config: dict(norm_placement="rezero", norm=norm)


def norms_beside_rezero(model: Transformer) -> None:
    """Put a norm before every sublayer of a model with ReZero, and one behind each stack.

    Args:
        model: built with ``norm_placement="rezero"``; changed in place. Its config names the norm.

    Source: Narang et al. (2021), table 1; GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> model = Transformer(baseline(n_vocab=60))
    >>> norms_beside_rezero(model)
    >>> model.stack.blocks[0].attention_residual.norm
    LayerNorm()
    """
    stacks: list[Any] = [model.encoder, model.stack]
    for stack in stacks:
        for block in stack.blocks:
            for residual in _residuals(block):
                getattr(block, residual).norm = parts.norm(model.config)
        stack.norm = parts.norm(model.config)


class Shift(nn.Module):
    r"""Add one learned number to all entries, as Fixup does before every layer of a branch.

    .. math:: y = x + b, \quad b = 0 \text{ at first}

    Source: Zhang, Dauphin and Ma (2019), section 3, rule 3; GT-19.

    >>> Shift()(torch.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return x + self.shift


def without_norms(model: Transformer) -> None:
    r"""Replace all norms by Fixup: its initialization, a learned factor for each branch, and a learned shift before
    each layer and each activation.

    The last matrix of a branch starts at zero. With L branches in both stacks, the others are multiplied by
    :math:`L^{-1/6}` in attention, which has four matrices, and by :math:`L^{-1/2}` in the feed-forward layer, which has
    two.

    Args:
        model: a built encoder-decoder, whose weights were drawn; changed in place.

    Source: Zhang, Dauphin and Ma (2019), section 3; GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> model = Transformer(baseline(n_vocab=60))
    >>> without_norms(model)
    >>> model.stack.blocks[0].attention_residual
    FixupResidual()
    """
    encoder: Any = model.encoder
    decoder: Any = model.stack
    blocks = [*encoder.blocks, *decoder.blocks]
    attentions = [block.attention for block in blocks] + [block.cross_attention for block in decoder.blocks]
    feedforwards = [block.feedforward for block in blocks]
    fixup_(
        [[layer.w_query, layer.w_key, layer.w_value, layer.w_output] for layer in attentions]
        + [[layer.w_up, layer.w_down] for layer in feedforwards]
    )
    for layer in attentions:
        layer.w_output = nn.Sequential(Shift(), layer.w_output)
    for layer in feedforwards:
        layer.activation = nn.Sequential(Shift(), layer.activation, Shift())
    for block in blocks:
        for residual in _residuals(block):
            setattr(block, residual, FixupResidual())
    encoder.norm, decoder.norm = Shift(), Shift()  # before the keys and values of the decoder, and the logits


def _residuals(block: nn.Module) -> list[str]:
    return [name for name, _ in block.named_children() if name.endswith("_residual")]


ROWS = [
    Modification(
        row=1,
        name="baseline",
        title="Vanilla Transformer",
        paper="Raffel et al. (2020), with LayerNorm",
        card="The model to which all others are compared: an encoder-decoder with norms before the sublayers, ReLU, "
        "relative positions, no biases, and one table for both inputs and the output.",
    ),
    Modification(
        row=2,
        name="gelu",
        title="GeLU",
        paper="Hendrycks and Gimpel (2016), Gaussian Error Linear Units",
        card="GELU multiplies its argument z by the probability that a standard normal number is below z. It is smooth "
        "where ReLU has a corner, and slightly negative to the left of zero, so that a unit with a negative argument "
        "still has a gradient.",
        reading="The exact function; the code of T5 has an approximation by the hyperbolic tangent.",
        config=_activation("gelu"),
    ),
    Modification(
        row=3,
        name="swish",
        title="Swish",
        paper="Ramachandran et al. (2017), Searching for Activation Functions",
        card="Swish multiplies its argument by the sigmoid of its argument. It was found by an automatic search among "
        "functions of one number, and looks much like GELU.",
        reading="The factor in the sigmoid is one and is not trained.",
        config=_activation("swish"),
    ),
    Modification(
        row=4,
        name="elu",
        title="ELU",
        paper="Clevert et al. (2016), Exponential Linear Units",
        card="To the left of zero, where ReLU is zero, ELU is the exponential of the argument minus one, which tends "
        "to -1. Its mean output is closer to zero, which was meant to do part of the work of normalization.",
        config=_activation("elu"),
    ),
    Modification(
        row=5,
        name="glu",
        title="GLU",
        paper="Dauphin et al. (2017); " + _SHAZEER,
        card="The feed-forward layer has two projections up instead of one. The sigmoid of the first is a gate between "
        "zero and one, by which the second is multiplied, entry by entry. Each of the three matrices is two thirds as "
        "wide as before, so that the number of parameters stays the same.",
        config=_gated("glu"),
    ),
    Modification(
        row=6,
        name="geglu",
        title="GeGLU",
        paper=_SHAZEER,
        card="A gated feed-forward layer like GLU, with GELU in place of the sigmoid. Where GELU is close to the "
        "identity, the layer multiplies two linear functions of its input, which a plain layer cannot do.",
        reading="The exact GELU; the code of T5 has an approximation by the hyperbolic tangent.",
        config=_gated("geglu"),
    ),
    Modification(
        row=7,
        name="reglu",
        title="ReGLU",
        paper=_SHAZEER,
        card="A gated feed-forward layer like GLU, with ReLU in place of the sigmoid: a unit is either off, or the "
        "product of two linear functions of the input.",
        config=_gated("reglu"),
    ),
    Modification(
        row=8,
        name="selu",
        title="SeLU",
        paper="Klambauer et al. (2017), Self-Normalizing Neural Networks",
        card="SELU is an ELU with two fixed factors, chosen such that in a deep plain network the outputs of all "
        "layers tend to mean zero and variance one without a norm.",
        reading="Only the activation changes; the initialization and the dropout that belong to it do not.",
        config=_activation("selu"),
    ),
    Modification(
        row=9,
        name="swiglu",
        title="SwiGLU",
        paper=_SHAZEER,
        card="A gated feed-forward layer like GLU, with Swish in place of the sigmoid. LLaMA and most open models "
        "since then have this layer.",
        config=_gated("swiglu"),
    ),
    Modification(
        row=10,
        name="liglu",
        title="LiGLU",
        paper=_SHAZEER,
        card="A gated feed-forward layer without any activation, also called bilinear: the product of two linear "
        "functions of the input, entry by entry, is the only nonlinearity.",
        config=_gated("bilinear"),
    ),
    Modification(
        row=11,
        name="sigmoid",
        title="Sigmoid",
        paper="Narang et al. (2021), table 1",
        card="The sigmoid was the usual activation before ReLU. Its output lies between zero and one, and its "
        "derivative is at most a quarter and vanishes for large arguments of either sign.",
        config=_activation("sigmoid"),
    ),
    Modification(
        row=12,
        name="softplus",
        title="Softplus",
        paper="Dugas et al. (2001), Incorporating Second-Order Functional Knowledge",
        card="Softplus, the logarithm of one plus the exponential of the argument, is a smooth ReLU whose derivative "
        "is the sigmoid. It is always positive: a unit is never quite off.",
        config=_activation("softplus"),
    ),
    Modification(
        row=13,
        name="rmsnorm",
        title="RMS Norm",
        paper="Zhang and Sennrich (2019), Root Mean Square Layer Normalization",
        card="RMSNorm divides a vector by its root mean square and multiplies it by learned factors. Unlike LayerNorm "
        "it neither subtracts the mean nor adds a bias, which saves time. T5 has it, and LLaMA after it.",
        config=lambda config: dict(norm="rmsnorm"),
    ),
    Modification(
        row=14,
        name="rezero",
        title="Rezero",
        paper=_REZERO,
        card="There are no norms. The output of each sublayer is multiplied by one learned number, which is zero at "
        "first: the untrained stack is the identity, whatever its depth, and each sublayer comes in as training needs "
        "it.",
        reading="The norm behind each stack is left out too.",
        config=lambda config: dict(norm_placement="rezero"),
    ),
    Modification(
        row=15,
        name="rezero_layernorm",
        title="Rezero + LayerNorm",
        paper=_REZERO,
        card="The factors of ReZero, zero at first, together with the norms of the baseline.",
        reading="The norms stand where the baseline has them: before each sublayer and behind each stack.",
        config=_rezero_with("layernorm"),
        modify=norms_beside_rezero,
    ),
    Modification(
        row=16,
        name="rezero_rmsnorm",
        title="Rezero + RMS Norm",
        paper=_REZERO,
        card="The factors of ReZero, zero at first, together with RMSNorm.",
        reading="The norms stand where the baseline has them: before each sublayer and behind each stack.",
        config=_rezero_with("rmsnorm"),
        modify=norms_beside_rezero,
    ),
    Modification(
        row=17,
        name="fixup",
        title="Fixup",
        paper="Zhang, Dauphin and Ma (2019), Fixup Initialization",
        card="There are no norms. Instead the weights start such that the first update of all branches together "
        "changes the output about as much as that of a single branch: the last matrix of each branch is zero, and the "
        "others are the smaller, the more branches there are. Each branch has a learned factor, and each layer and "
        "each activation a learned number that is added to its input.",
        reading="Both stacks are counted together, and attention counts as four matrices, as in the paper's code. "
        "The table of the logits, which should start at zero, is that of the inputs, and is left as it is. Queries, "
        "keys and values share one shift; so do all keys and values that read the encoder's output.",
        modify=without_norms,
    ),
    Modification(
        row=18,
        name="depth_24",
        title="24 layers, d_ff=1536, H=6",
        paper=_DEPTH,
        card="Twice as many layers in each stack, each with half the heads and half the width of the feed-forward "
        "layer, at the same parameters and operations. A deeper model composes more steps, one after the other.",
        config=_depth(2, 1),
    ),
    Modification(
        row=19,
        name="depth_18",
        title="18 layers, d_ff=2048, H=8",
        paper=_DEPTH,
        card="One and a half times as many layers in each stack, each with two thirds of the heads and two thirds of "
        "the width of the feed-forward layer, at the same parameters and operations.",
        config=_depth(3, 2),
    ),
    Modification(
        row=20,
        name="depth_8",
        title="8 layers, d_ff=4608, H=18",
        paper=_DEPTH,
        card="Two thirds of the layers in each stack, each with one and a half times the heads and one and a half "
        "times the width of the feed-forward layer, at the same parameters and operations.",
        config=_depth(2, 3),
    ),
    Modification(
        row=21,
        name="depth_6",
        title="6 layers, d_ff=6144, H=24",
        paper=_DEPTH,
        card="Half as many layers in each stack, each with twice the heads and twice the width of the feed-forward "
        "layer, at the same parameters and operations. Fewer and larger products suit the hardware better.",
        config=_depth(1, 2),
    ),
]
