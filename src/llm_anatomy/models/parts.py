"""From the names in a config to the layers that they mean. Nothing here knows the name of a model."""

from typing import Any

from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.experts import (
    Experts,
    GatedExperts,
    MixtureOfExperts,
    SoftmaxOfTopK,
    TopKOfSigmoid,
    TopKOfSigmoidInGroups,
    TopKOfSoftmax,
    TopKOfSoftmaxInGroups,
)
from llm_anatomy.layers.feedforward import ACTIVATIONS, GATES, FeedForward, GatedFeedForward
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.normalization import AcrossHeads, LayerNorm, RMSNorm, UnitOffsetRMSNorm
from llm_anatomy.layers.positions.absolute import Learned, Sinusoidal
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.positions.buckets import Clip, DeBERTaLogBuckets, T5Buckets, T5CausalBuckets
from llm_anatomy.layers.positions.relative import TUPE, ALiBi, ReleasedDeBERTa, Shaw, T5Bias, TransformerXL
from llm_anatomy.layers.positions.rotary import (
    Frequencies,
    HalfSplitRotary,
    InterleavedRotary,
    LinearScaling,
    Llama3Scaling,
    NTKScaling,
    YaRNScaling,
)
from llm_anatomy.layers.residual import PostNorm, PostSublayerNorm, PreNorm, Residual, ReZero, SandwichNorm
from llm_anatomy.layers.softcapping import Softcapping

# --- Positions: some change the embeddings, once; the others are asked by attention in every layer ---


def embedding_position(config: ModelConfig) -> PositionScheme:
    """What changes the embeddings; for schemes of attention, nothing does.

    Args:
        config: of the model.

    Source: IITD-16, CMU-23.

    >>> embedding_position(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="sinusoidal"))
    Sinusoidal()
    """
    if config.position == "sinusoidal":
        return Sinusoidal(config.d_model)
    if config.position == "learned":
        return Learned(config.n_ctx + config.position_offset, config.d_model)
    return PositionScheme()


def attention_positions(config: ModelConfig, n_layers: int, causal: bool) -> list[PositionScheme]:
    """The schemes of a stack's attention layers: the same object for all where the layers share it.

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
    d_model, n_heads, d_head, far = config.d_model, config.n_heads, config.d_head, config.max_distance
    buckets = T5CausalBuckets if causal else T5Buckets
    shared = {
        "rope": lambda: _rotary(config),
        "alibi": lambda: ALiBi(n_heads),
        "t5": lambda: T5Bias(n_heads, buckets(config.n_buckets, far)),
        "tupe": lambda: TUPE(config.n_ctx, d_model, n_heads, d_head),
    }
    table = None
    if config.position == "deberta":
        table = nn.Embedding(2 * far, d_model)
    elif config.position == "deberta_v2":
        table = nn.Sequential(nn.Embedding(config.n_buckets, d_model), norm(config))
    own = {
        "shaw": lambda: Shaw(Clip(-far, 0 if causal else far), d_head, config.d_value),
        "transformer_xl": lambda: TransformerXL(d_model, n_heads, d_head),
        "deberta": lambda: ReleasedDeBERTa(
            table,
            Clip(-far, far - 1),
            (nn.Linear(d_model, n_heads * d_head), nn.Linear(d_model, n_heads * d_head, bias=False)),
        ),
        "deberta_v2": lambda: ReleasedDeBERTa(table, DeBERTaLogBuckets(config.n_buckets // 2, far)),
    }
    if config.position in own:
        return [own[config.position]() for _ in range(n_layers)]
    return [shared.get(config.position, PositionScheme)()] * n_layers


def _rotary(config: ModelConfig) -> PositionScheme:
    pairing = {"half_split": HalfSplitRotary, "interleaved": InterleavedRotary}[config.rope_pairing]
    turns = {"beta_fast": config.rope_beta_fast, "beta_slow": config.rope_beta_slow}
    turns = {name: value for name, value in turns.items() if value is not None}
    factor, original_max_position_embeddings = config.rope_factor, config.rope_original_max_position_embeddings
    scaling = {
        None: lambda: Frequencies(),
        "linear": lambda: LinearScaling(factor),
        "ntk": lambda: NTKScaling(factor),
        "yarn": lambda: YaRNScaling(
            factor, original_max_position_embeddings, **turns, attention_factor=config.rope_attention_factor
        ),
        "llama3": lambda: Llama3Scaling(factor, original_max_position_embeddings, **turns),
    }[config.rope_scaling]
    return pairing(config.d_rotary or rotary_width(config), config.rope_base, scaling())


def rotary_width(config: ModelConfig) -> int:
    """How many entries of a head RoPE turns: the given fraction, rounded down to an even number.

    Args:
        config: of the model.

    Source: Black et al. (2022), "GPT-NeoX-20B", section 2.1; IITD-26.

    >>> sizes = dict(d_model=192, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> rotary_width(ModelConfig(position="rope", rope_fraction=0.25, **sizes))
    24
    """
    return 2 * int(config.d_head * config.rope_fraction / 2)


# --- Norms and where they stand ---


def norm(config: ModelConfig, width: int | None = None) -> nn.Module:
    """A norm of the width of the stream, or of another.

    Args:
        config: of the model.
        width: ``d_model`` by default.

    Source: CMU-17, CMU-20, GT-43.

    >>> norm(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, norm="rmsnorm")).weight.shape
    torch.Size([8])
    """
    width = config.d_model if width is None else width
    if config.norm == "layernorm":
        return LayerNorm(width, eps=config.norm_eps, weight=config.norm_weight, bias=config.norm_bias)
    return {"rmsnorm": RMSNorm, "unit_offset_rmsnorm": UnitOffsetRMSNorm}[config.norm](width, eps=config.norm_eps)


def placement(config: ModelConfig) -> Residual:
    """A residual connection with its norms.

    Args:
        config: of the model.

    Source: CMU-18, CMU-19, GT-13.

    >>> type(placement(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, norm_placement="post")))
    <class 'llm_anatomy.layers.residual.PostNorm'>
    """
    return {
        "pre": lambda: PreNorm(norm(config)),
        "post": lambda: PostNorm(norm(config)),
        "sandwich": lambda: SandwichNorm(norm(config), norm(config)),
        "post_sublayer": lambda: PostSublayerNorm(norm(config)),
        "rezero": lambda: ReZero(),
    }[config.norm_placement]()


# --- Sublayers ---


def attention(config: ModelConfig, position: PositionScheme) -> SelfAttention | LatentAttention:
    """Attention of one layer to its own tokens.

    Args:
        config: of the model.
        position: its scheme.

    Source: CMU-09, CMU-11, CMU-12, CMU-13, UCL-21, UCL-31.

    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=4, n_kv_heads=2, d_ff=9, n_vocab=5)
    >>> attention(config, PositionScheme()).w_key.weight.shape
    torch.Size([4, 8])
    """
    if config.attention == "latent":
        return _latent_attention(config, position)
    return SelfAttention(position=position, scale=config.attention_scale, **_heads(config))


def cross_attention(config: ModelConfig, position: PositionScheme) -> CrossAttention:
    """Attention of one layer to a source: no positions, and scores scaled as the layer's own are (in T5 they are not).

    Args:
        config: of the model.
        position: the scheme of the layer's attention to its own tokens.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-31.

    >>> config = ModelConfig(kind="encoder-decoder", position="t5", d_model=8, n_layers=1, n_heads=4, d_ff=9, n_vocab=5)
    >>> cross_attention(config, *attention_positions(config, n_layers=1, causal=True)).scale
    1.0
    """
    scale = position.scale(config.d_head) if config.attention_scale is None else config.attention_scale
    return CrossAttention(scale=scale, **_heads(config))


def _heads(config: ModelConfig) -> dict[str, Any]:
    """What self-attention and cross-attention have in common."""
    norms = {"query_norm": None, "key_norm": None}
    if config.qk_norm == "per_head":
        norms = {name: norm(config, config.d_head) for name in norms}
    elif config.qk_norm == "across_heads":
        widths = {"query_norm": config.n_heads * config.d_head, "key_norm": config.n_kv_heads * config.d_head}
        norms = {name: AcrossHeads(norm(config, width)) for name, width in widths.items()}
    cap = config.attn_logit_softcapping
    return dict(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        d_head=config.d_head,
        d_value=config.d_value,
        score_mod=None if cap is None else Softcapping(cap),
        bias=config.attention_bias,
        output_bias=config.output_bias,
        **norms,
    )


def _latent_attention(config: ModelConfig, position: PositionScheme) -> LatentAttention:
    d_model, d_query = config.d_model, config.n_heads * (config.d_head + (config.d_rotary or 0))
    through_latent = None
    if config.d_query_latent is not None:
        through_latent = nn.Sequential(
            nn.Linear(d_model, config.d_query_latent, bias=config.attention_bias),
            norm(config, config.d_query_latent),
            nn.Linear(config.d_query_latent, d_query, bias=False),
        )
    return LatentAttention(
        d_model,
        config.n_heads,
        d_latent=config.d_latent,
        d_head=config.d_head,
        d_value=config.d_value,
        position=position if config.position == "rope" else None,
        latent_norm=norm(config, config.d_latent),
        w_query=through_latent,
        scale=config.attention_scale,
        bias=config.attention_bias,
    )


def feedforward(config: ModelConfig, layer: int = 0) -> nn.Module:
    """The feed-forward sublayer: plain, gated, or a mixture of experts.

    Args:
        config: of the model.
        layer: which; the first ``n_dense_layers`` have no experts.

    Source: CMU-03, CMU-05, GT-19, GT-20, UCL-26.

    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, feedforward="swiglu")
    >>> sum(parameter.numel() for parameter in feedforward(config).parameters()) == 3 * 8 * 9
    True
    """
    if config.n_experts and layer >= config.n_dense_layers:
        return _mixture(config)
    return _dense(config, config.d_ff)


def _dense(config: ModelConfig, width: int) -> nn.Module:
    gated = config.feedforward in GATES
    activation = ACTIVATIONS[GATES.get(config.feedforward, config.feedforward)]()
    return (GatedFeedForward if gated else FeedForward)(config.d_model, width, activation, bias=config.ff_bias)


def _mixture(config: ModelConfig) -> MixtureOfExperts:
    router = {
        "softmax_of_top_k": SoftmaxOfTopK,
        "top_k_of_softmax": TopKOfSoftmax,
        "top_k_of_softmax_in_groups": TopKOfSoftmaxInGroups,
        "top_k_of_sigmoid": TopKOfSigmoid,
        "top_k_of_sigmoid_in_groups": TopKOfSigmoidInGroups,
    }[config.router]
    more = {} if config.router == "softmax_of_top_k" else {"scale": config.expert_scale}
    if config.n_expert_groups is not None:
        more |= {"n_groups": config.n_expert_groups, "n_open_groups": config.n_open_groups}
    experts = GatedExperts if config.feedforward in GATES else Experts
    activation = ACTIVATIONS[GATES.get(config.feedforward, config.feedforward)]()
    shared = _dense(config, config.n_shared_experts * config.d_expert) if config.n_shared_experts else None
    return MixtureOfExperts(
        router(config.d_model, config.n_experts, config.n_experts_per_token, **more),
        experts(config.n_experts, config.d_model, config.d_expert, activation),
        shared=shared,
    )
