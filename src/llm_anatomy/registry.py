"""The registry: every name that a config may give to a part, and the class behind it.

This is the one place where names and parts meet. ``config`` reads from it which names are allowed, and ``models.parts``
which classes they mean, so a new activation or norm touches its own module and this table.
"""

from llm_anatomy.layers.attention import MultiHeadAttention
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
    FalconALiBi,
    ReleasedDeBERTa,
    Shaw,
    T5Bias,
    TransformerXL,
)
from llm_anatomy.layers.positions.rotary import (
    DynamicNTKScaling,
    HalfSplitRotary,
    InterleavedRotary,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    Rotary,
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
    "attention": {"multi_head": MultiHeadAttention, "latent": LatentAttention},
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
        "deberta_v2": ReleasedDeBERTa,
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
