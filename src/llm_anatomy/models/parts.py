"""Build the layers that a config names. Nothing here knows the name of a model."""

from dataclasses import replace
from inspect import signature
from typing import Any

from torch import nn

from llm_anatomy.config import ModelConfig, MoEConfig, RopeConfig
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
from llm_anatomy.layers.positions.absolute import Learned, Sinusoidal
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.positions.buckets import Clip, DeBERTaLogBuckets, T5Buckets, T5CausalBuckets
from llm_anatomy.layers.positions.relative import (
    TUPE,
    ALiBi,
    FalconALiBi,
    ReleasedDeBERTa,
    Shaw,
    T5Bias,
    TransformerXL,
)
from llm_anatomy.layers.positions.rotary import Frequencies, Rotary
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
    if config.position == "sinusoidal":
        return Sinusoidal(config.d_model)
    if config.learned and config.n_ctx:
        return Learned(config.n_ctx + config.learned.offset, config.d_model)
    return PositionScheme()


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
    d_model, n_heads, d_head = config.d_model, config.n_heads, config.d_head
    clipping, buckets, layers = config.clipping, config.buckets, range(n_layers)
    if config.position == "shaw" and clipping:
        far = clipping.max_distance
        return [Shaw(Clip(-far, 0 if causal else far), d_head, config.d_value) for _ in layers]
    if config.position == "transformer_xl":
        return [TransformerXL(d_model, n_heads, d_head) for _ in layers]
    if config.position == "deberta" and clipping:
        far, width = clipping.max_distance, n_heads * d_head
        table, clip = nn.Embedding(2 * far, d_model), Clip(-far, far - 1)
        own = [(nn.Linear(d_model, width), nn.Linear(d_model, width, bias=False)) for _ in layers]
        return [ReleasedDeBERTa(table, clip, projections) for projections in own]
    if config.position == "deberta_v2" and buckets:
        table = nn.Sequential(nn.Embedding(buckets.n_buckets, d_model), norm(config))
        return [ReleasedDeBERTa(table, DeBERTaLogBuckets(buckets.n_buckets // 2, buckets.max_distance)) for _ in layers]
    shared = PositionScheme()
    if config.rope:
        everywhere = local = _rotary(config, config.rope)
        if config.rope.local_base is not None:
            local = _rotary(config, replace(config.rope, base=config.rope.local_base, scaling=None))
        rotaries = [everywhere if config.window_of(layer) is None else local for layer in layers]
        return [rotaries[layer] if config.rope.has_layer(layer) else shared for layer in layers]
    if config.alibi:
        shared = ALiBi(n_heads, bias_max=config.alibi.bias_max)
    elif config.position == "falcon_alibi":
        shared = FalconALiBi(n_heads)
    elif config.position == "t5" and buckets:
        kind = T5CausalBuckets if causal else T5Buckets
        shared = T5Bias(n_heads, kind(buckets.n_buckets, buckets.max_distance))
    elif config.position == "tupe" and config.n_ctx:
        shared = TUPE(config.n_ctx, d_model, n_heads, d_head)
    return [shared] * n_layers


def _rotary(config: ModelConfig, rope: RopeConfig) -> Rotary:
    scaling, frequencies = rope.scaling, Frequencies()
    if scaling:
        frequencies = PARTS["rope.scaling.type"][scaling.type](**scaling.options())
    width = config.latent and config.latent.d_rotary or rotary_width(config)
    return PARTS["rope.pairing"][rope.pairing](width, rope.base, frequencies)


def rotary_width(config: ModelConfig) -> int:
    """The number of entries of a head that RoPE rotates: the given fraction, rounded down to an even number.

    Args:
        config: of the model.

    Source: Black et al. (2022), "GPT-NeoX-20B", section 2.1; IITD-26.

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
    options = vars(config.layernorm) if config.layernorm else {}
    return PARTS["norm"][config.norm](config.d_model if width is None else width, eps=config.norm_eps, **options)


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
    if config.latent:
        return _latent_attention(config, position)
    sinks = AttentionSinks(config.n_heads) if config.attention_sinks else None
    return SelfAttention(position=position, scale=config.attention_scale, sinks=sinks, **_heads(config))


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


def _latent_attention(config: ModelConfig, position: PositionScheme) -> LatentAttention:
    latent, w_query = config.latent, None
    assert latent is not None
    if latent.d_query_latent is not None:
        w_query = nn.Sequential(
            nn.Linear(config.d_model, latent.d_query_latent, bias=config.attention_bias),
            norm(config, latent.d_query_latent),
            nn.Linear(latent.d_query_latent, config.n_heads * (config.d_head + (latent.d_rotary or 0)), bias=False),
        )
    return LatentAttention(
        config.d_model,
        config.n_heads,
        d_latent=latent.d_latent,
        d_head=config.d_head,
        d_value=config.d_value,
        position=position if isinstance(position, Rotary) else None,
        latent_norm=norm(config, latent.d_latent),
        w_query=w_query,
        scale=config.attention_scale,
        bias=config.attention_bias,
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
    layer = PARTS["feedforward"][config.feedforward]
    return layer(config.d_model, width, activation(config), bias=config.ff_bias)


EXPERTS = {FeedForward: Experts, GatedFeedForward: GatedExperts, ClampedFeedForward: ClampedExperts}
"""For each feed-forward layer, the experts that compute the same."""


def _mixture(config: ModelConfig, moe: MoEConfig) -> MixtureOfExperts:
    router = PARTS["moe.router"][moe.router]
    options = {name: getattr(moe, name) for name in signature(router).parameters if hasattr(moe, name)}
    experts = EXPERTS[PARTS["feedforward"][config.feedforward]]
    shared = _dense(config, moe.n_shared_experts * moe.d_expert) if moe.n_shared_experts else None
    return MixtureOfExperts(
        router(d_model=config.d_model, k=moe.n_experts_per_token, **options),
        experts(moe.n_experts, config.d_model, moe.d_expert, activation(config), bias=moe.expert_bias),
        shared=shared,
    )
