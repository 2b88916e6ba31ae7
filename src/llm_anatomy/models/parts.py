"""Build the layers that a config names. Nothing here knows the name of a model."""

from functools import partial
from inspect import signature
from typing import Any

from torch import nn

from llm_anatomy.config import LatentAttentionConfig, ModelConfig, MoEConfig
from llm_anatomy.layers._checks import _accepted
from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.attention_sinks import AttentionSinks
from llm_anatomy.layers.experts import ClampedExperts, Experts, GatedExperts, MixtureOfExperts
from llm_anatomy.layers.feedforward import (
    ACTIVATIONS,
    GATES,
    ClampedFeedForward,
    ClampedSwiGLU,
    FeedForward,
    GatedFeedForward,
)
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.normalization import AcrossHeads, LayerNormPerHead
from llm_anatomy.layers.positions.base import ModelSizes, PositionScheme
from llm_anatomy.layers.positions.rotary import Rotary
from llm_anatomy.layers.residual import Residual
from llm_anatomy.layers.softcapping import Softcapping
from llm_anatomy.registry import PARTS

# --- Position schemes: some change the embeddings, once; the others belong to attention, in every layer ---


def embedding_position(config: ModelConfig) -> PositionScheme:
    """The position scheme that is applied to the embeddings; one without any effect where attention has the scheme.

    Args:
        config: of the model.

    Source: IITD-16, CMU-23.

    >>> embedding_position(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="sinusoidal"))
    Sinusoidal()
    """
    if not PARTS["position"][config.position].at_input:
        return PositionScheme()
    return _schemes(config, n_layers=1, causal=config.kind != "encoder")[0]


def attention_positions(config: ModelConfig, n_layers: int, causal: bool) -> list[PositionScheme]:
    """The position schemes of a stack's attention layers: the same object for all layers where they share it.

    Args:
        config: of the model.
        n_layers: of the stack.
        causal: whether its masks hide the future.

    Source: Raffel et al. (2020), section 2.1 (T5 shares its bias); He et al. (2021) (DeBERTa its table); IITD-16.

    >>> config = ModelConfig(d_model=8, n_layers=2, n_heads=2, d_ff=9, n_vocab=5, position="t5")
    >>> first, second = attention_positions(config, n_layers=2, causal=True)
    >>> first is second
    True
    """
    if PARTS["position"][config.position].at_input:
        return [PositionScheme()] * n_layers
    return _schemes(config, n_layers, causal)


def _schemes(config: ModelConfig, n_layers: int, causal: bool) -> list[PositionScheme]:
    """The scheme that the config names, for each layer of a stack."""
    scheme, options = PARTS["position"][config.position], {}
    if scheme.options:
        options = dict(vars(getattr(config, scheme.options)))
    if config.rope:
        scaling = config.rope.scaling
        options["pairing"] = PARTS["rope.pairing"][config.rope.pairing]
        options["scaling"] = scaling and PARTS["rope.scaling.type"][scaling.type](**scaling.options())
    schemes = scheme.for_model(model_sizes(config, n_layers, causal), **options)
    if len(schemes) != n_layers:
        raise ValueError(f"{scheme.__name__}.for_model returned {len(schemes)} schemes for {n_layers} layers")
    return schemes


def model_sizes(config: ModelConfig, n_layers: int, causal: bool) -> ModelSizes:
    """What a position scheme may ask of one stack of a model.

    Args:
        config: of the model.
        n_layers: of the stack.
        causal: whether its masks hide the future.

    Source: IITD-16.

    >>> sizes = model_sizes(ModelConfig(d_model=8, n_layers=2, n_heads=2, d_ff=9, n_vocab=5), n_layers=2, causal=True)
    >>> sizes.d_head, sizes.windows
    (4, (None, None))
    """
    return ModelSizes(
        d_model=config.d_model,
        n_heads=config.n_heads,
        d_head=config.latent and config.latent.d_rotary or config.d_head,
        d_value=config.d_value,
        n_layers=n_layers,
        n_ctx=config.n_ctx,
        causal=causal,
        windows=tuple(map(config.window_of, range(n_layers))),
        norm=partial(norm, config),
    )


def rotary_width(config: ModelConfig) -> int:
    """The number of entries of a head that RoPE rotates: the given fraction, rounded down to an even number.

    Args:
        config: of the model.

    Source: Black et al. (2022), "GPT-NeoX-20B", section 2.1; IITD-26.

    >>> from llm_anatomy.config import RopeConfig
    >>> sizes = dict(d_model=192, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> rotary_width(ModelConfig(position="rope", rope=RopeConfig(fraction=0.25), **sizes))
    24
    """
    return 2 * int(config.d_head * (config.rope.fraction if config.rope else 0) / 2)


# --- Norms and where they are ---


def norm(config: ModelConfig, width: int | None = None) -> nn.Module:
    """A norm as wide as the residual stream, or of another width.

    Args:
        config: of the model.
        width: ``d_model`` by default.

    Source: CMU-17, CMU-20, GT-43.

    >>> norm(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, norm="rmsnorm")).weight.shape
    torch.Size([8])
    """
    kind, options = PARTS["norm"][config.norm], vars(config.layernorm) if config.layernorm else {}
    arguments = _accepted(kind, options | dict(eps=config.norm_eps))
    return kind(config.d_model if width is None else width, **arguments)


def placement(config: ModelConfig) -> Residual:
    """A residual connection with its norms.

    Args:
        config: of the model.

    Source: CMU-18, CMU-19, GT-13.

    >>> type(placement(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, norm_placement="post")))
    <class 'llm_anatomy.layers.residual.PostNorm'>
    """
    residual = PARTS["norm_placement"][config.norm_placement]
    arguments = signature(residual).parameters
    norms = [norm(config) for argument in arguments.values() if argument.default is argument.empty]
    options = dict(multiplier=config.residual_multiplier) if "multiplier" in arguments else {}
    return residual(*norms, **options)


# --- Sublayers ---


def attention(config: ModelConfig, position: PositionScheme) -> SelfAttention | LatentAttention:
    """The self-attention of one layer.

    Args:
        config: of the model.
        position: its position scheme.

    Source: CMU-09, CMU-11, CMU-12, CMU-13, UCL-21, UCL-31.

    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=4, n_kv_heads=2, d_ff=9, n_vocab=5)
    >>> attention(config, PositionScheme()).w_key.weight.shape
    torch.Size([4, 8])
    """
    kind = PARTS["attention"][config.attention]
    offered = _heads(config) | dict(position=position, scale=config.attention_scale)
    if config.attention_sinks:
        offered["sinks"] = AttentionSinks(config.n_heads)
    if config.latent:
        offered |= _latent(config, config.latent, position)
    return kind(**_accepted(kind, offered))


def cross_attention(config: ModelConfig, position: PositionScheme) -> CrossAttention:
    """The cross-attention of one layer: without positions, its scores scaled as those of self-attention (in T5 not at
    all).

    Args:
        config: of the model.
        position: the position scheme of the layer's self-attention.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-31.

    >>> config = ModelConfig(kind="encoder-decoder", position="t5", d_model=8, n_layers=1, n_heads=4, d_ff=9, n_vocab=5)
    >>> cross_attention(config, *attention_positions(config, n_layers=1, causal=True)).scale
    1.0
    """
    scale = position.scale(config.d_head) if config.attention_scale is None else config.attention_scale
    return CrossAttention(scale=scale, **_heads(config))


def _heads(config: ModelConfig) -> dict[str, Any]:
    """What self-attention and cross-attention have in common."""
    query_norm = key_norm = score_mod = None
    if config.qk_norm == "per_head":
        query_norm, key_norm = norm(config, config.d_head), norm(config, config.d_head)
    elif config.qk_norm == "across_heads":
        query_norm = AcrossHeads(norm(config, config.n_heads * config.d_head))
        key_norm = AcrossHeads(norm(config, config.n_kv_heads * config.d_head))
    elif config.qk_norm == "per_head_weights":
        query_norm = LayerNormPerHead(config.n_heads, config.d_head, eps=config.norm_eps)
        key_norm = LayerNormPerHead(config.n_kv_heads, config.d_head, eps=config.norm_eps)
    if config.attn_logit_softcapping is not None:
        score_mod = Softcapping(config.attn_logit_softcapping)
    return dict(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        d_head=config.d_head,
        d_value=config.d_value,
        score_mod=score_mod,
        clip_qkv=config.clip_qkv,
        bias=config.attention_bias,
        output_bias=config.output_bias,
        query_norm=query_norm,
        key_norm=key_norm,
    )


def _latent(config: ModelConfig, latent: LatentAttentionConfig, position: PositionScheme) -> dict[str, Any]:
    """What latent attention has beside other attention, and what differs there."""
    w_query = None
    if latent.d_query_latent is not None:
        w_query = nn.Sequential(
            nn.Linear(config.d_model, latent.d_query_latent, bias=config.attention_bias),
            norm(config, latent.d_query_latent),
            nn.Linear(latent.d_query_latent, config.n_heads * (config.d_head + (latent.d_rotary or 0)), bias=False),
        )
    return dict(
        d_latent=latent.d_latent,
        position=position if isinstance(position, Rotary) else None,
        latent_norm=norm(config, latent.d_latent),
        w_query=w_query,
    )


def feedforward(config: ModelConfig, layer: int = 0) -> nn.Module:
    """The feed-forward sublayer: plain, gated, or a mixture of experts.

    Args:
        config: of the model.
        layer: index of the layer, which tells whether it has experts.

    Source: CMU-03, CMU-05, GT-19, GT-20, UCL-26.

    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, feedforward="swiglu")
    >>> sum(parameter.numel() for parameter in feedforward(config).parameters()) == 3 * 8 * 9
    True
    """
    if config.moe and config.moe.has_layer(layer):
        return _mixture(config, config.moe)
    return _dense(config, config.d_ff)


def activation(config: ModelConfig) -> nn.Module:
    """The activation of the feed-forward layer, or of its gate.

    Args:
        config: of the model.

    Source: CMU-05; Shazeer (2020), "GLU Variants Improve Transformer", section 2.

    >>> activation(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, feedforward="reglu"))
    ReLU()
    """
    if config.clamped_swiglu:
        return ClampedSwiGLU(**vars(config.clamped_swiglu))
    return ACTIVATIONS[GATES.get(config.feedforward, config.feedforward)]()


def _dense(config: ModelConfig, width: int) -> nn.Module:
    kind = PARTS["feedforward"][config.feedforward]
    offered: dict[str, Any] = dict(d_model=config.d_model, d_ff=width, bias=config.ff_bias)
    if "activation" in signature(kind).parameters:
        offered["activation"] = activation(config)
    return kind(**_accepted(kind, offered))


EXPERTS = {FeedForward: Experts, GatedFeedForward: GatedExperts, ClampedFeedForward: ClampedExperts}
"""For each feed-forward layer, the experts that compute the same."""


def _mixture(config: ModelConfig, moe: MoEConfig) -> MixtureOfExperts:
    router = PARTS["moe.router"][moe.router]
    options = {name: getattr(moe, name) for name in signature(router).parameters if hasattr(moe, name)}
    experts = EXPERTS.get(PARTS["feedforward"][config.feedforward])
    if experts is None:
        raise ValueError(f"moe must be None with feedforward={config.feedforward!r}, which has no form for experts")
    shared = _dense(config, moe.n_shared_experts * moe.d_expert) if moe.n_shared_experts else None
    return MixtureOfExperts(
        router(d_model=config.d_model, k=moe.n_experts_per_token, **options),
        experts(moe.n_experts, config.d_model, moe.d_expert, activation(config), bias=moe.expert_bias),
        shared=shared,
    )
