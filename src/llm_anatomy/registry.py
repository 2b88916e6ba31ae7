"""The registry: every name that a config may give to a part, and the class behind it.

This is the one place where names and parts meet. ``config`` asks it which names are allowed and which options belong to
them, ``models.parts`` builds the classes, and costs and diagrams ask these in turn. So a new part touches its own
module and this table, to which a program may also add parts of its own:

>>> class Distance(PositionScheme):
...     label = "distance"
...     slope = 0.1
...
...     def bias(self, query, key, context):  # added to the scores (batch, heads, queries, keys)
...         return -self.slope * context.offsets[:, None].abs()  # the offsets are (batch, queries, keys)
>>> PARTS["position"]["distance"] = Distance
>>> from llm_anatomy.config import ModelConfig
>>> from llm_anatomy.models.transformer import Transformer
>>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="distance"))
>>> type(model.stack.blocks[0].attention.position)
<class 'llm_anatomy.registry.Distance'>
>>> del PARTS["position"]["distance"]

A program that loads the model again registers the scheme first. A number such as ``slope`` is an attribute of the
class, and another value of it a subclass with a name of its own: configs have options for this package's parts only.
"""

from inspect import signature

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.experts import (
    SoftmaxOfTopK,
    TopKOfSigmoid,
    TopKOfSigmoidInGroups,
    TopKOfSoftmax,
    TopKOfSoftmaxInGroups,
)
from llm_anatomy.layers.feedforward import GATES, ClampedFeedForward, FeedForward, GatedFeedForward
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.normalization import LayerNorm, RMSNorm, UnitOffsetRMSNorm
from llm_anatomy.layers.positions.absolute import Learned, Sinusoidal
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.positions.relative import (
    TUPE,
    ALiBi,
    DeBERTaV2,
    FalconALiBi,
    ReleasedDeBERTa,
    Shaw,
    T5Bias,
    TransformerXL,
)
from llm_anatomy.layers.positions.rotary import HalfSplitRotary, InterleavedRotary, Rotary
from llm_anatomy.layers.positions.rotary_scaling import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    YaRNScaling,
)
from llm_anatomy.layers.residual import PostNorm, PostSublayerNorm, PreNorm, ReZero, SandwichNorm

ACTIVATED = (
    "relu",
    "squared_relu",
    "gelu",
    "gelu_tanh",
    "swish",
    "elu",
    "selu",
    "sigmoid",
    "softplus",
    "tanh",
)

PARTS = {
    "attention": {"multi_head": SelfAttention, "latent": LatentAttention},
    "position": {
        "none": PositionScheme,
        "sinusoidal": Sinusoidal,
        "learned": Learned,
        "rope": Rotary,
        "alibi": ALiBi,
        "falcon_alibi": FalconALiBi,
        "t5": T5Bias,
        "shaw": Shaw,
        "transformer_xl": TransformerXL,
        "deberta": ReleasedDeBERTa,
        "deberta_v2": DeBERTaV2,
        "tupe": TUPE,
    },
    "rope.pairing": {"half_split": HalfSplitRotary, "interleaved": InterleavedRotary},
    "rope.scaling.type": {
        "linear": LinearScaling,
        "ntk": NTKScaling,
        "dynamic": DynamicNTKScaling,
        "longrope": LongRoPEScaling,
        "yarn": YaRNScaling,
        "llama3": Llama3Scaling,
    },
    "norm": {"layernorm": LayerNorm, "rmsnorm": RMSNorm, "unit_offset_rmsnorm": UnitOffsetRMSNorm},
    "norm_placement": {
        "pre": PreNorm,
        "post": PostNorm,
        "sandwich": SandwichNorm,
        "post_sublayer": PostSublayerNorm,
        "rezero": ReZero,
    },
    "feedforward": {
        **dict.fromkeys(ACTIVATED, FeedForward),
        **dict.fromkeys(GATES, GatedFeedForward),
        "clamped_swiglu": ClampedFeedForward,
    },
    "moe.router": {
        "softmax_of_top_k": SoftmaxOfTopK,
        "top_k_of_softmax": TopKOfSoftmax,
        "top_k_of_softmax_in_groups": TopKOfSoftmaxInGroups,
        "top_k_of_sigmoid": TopKOfSigmoid,
        "top_k_of_sigmoid_in_groups": TopKOfSigmoidInGroups,
    },
}
"""For each field that names a part, the classes by name."""


def takes(field: str, name: str) -> dict[str, bool]:
    """The options that belong to a part, and whether each must be given.

    Args:
        field: that names the part, with dots, such as ``"position"`` or ``"rope.scaling.type"``.
        name: of the part.

    Returns:
        For a class with the attribute ``options``, the field of the config that this names, if any; for any other
        class, the arguments of its constructor.

    >>> takes("position", "rope"), takes("rope.scaling.type", "linear")
    ({'rope': False}, {'factor': True})
    """
    part = PARTS[field][name]
    if hasattr(part, "options"):
        return {part.options: False} if part.options else {}
    return {name: argument.default is argument.empty for name, argument in signature(part).parameters.items()}
