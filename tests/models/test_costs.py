"""Costs told from a config, against the model that it describes, PyTorch's counter, and published numbers."""

import dataclasses
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from llm_anatomy.config import ALLOWED, LatentAttentionConfig, LayerNormConfig, ModelConfig, MoEConfig, types_of
from llm_anatomy.models import costs as module
from llm_anatomy.models.costs import costs, crossover, exponents
from llm_anatomy.models.transformer import Transformer

BATCH, TOKENS, SOURCE = 3, 5, 7
SIZES = dict(d_model=24, n_layers=2, n_heads=4, d_ff=37, n_vocab=101, n_ctx=29)
BIASES = dict(attention_bias=True, output_bias=True, ff_bias=True, unembedding_bias=True)
EXPERTS = {"moe.n_experts": 5, "moe.n_experts_per_token": 2, "moe.d_expert": 13}
LATENT = {"attention": "latent", "latent.d_latent": 11, "d_head": 5, "d_value": 3}
LATENT_ROPE = {**LATENT, "position": "rope", "latent.d_rotary": 4}

# Each field of the config, away from its default, alone and where parts meet.
CHANGES = {
    "plain": {},
    **{f"position {p}": dict(position=p) for p in ALLOWED["position"]},
    **{f"position {p}, grouped": dict(position=p, n_kv_heads=2) for p in ("shaw", "transformer_xl", "tupe")},
    **{
        f"position {p}, encoder": {"position": p, "kind": "encoder", f"{options}.max_distance": 40}
        for p, options in dict(shaw="clipping", deberta="clipping", deberta_v2="buckets", t5="buckets").items()
    },
    "position learned, offset": {"position": "learned", "learned.offset": 2},
    "buckets": {"position": "t5", "buckets.n_buckets": 10, "buckets.max_distance": 20},
    "rope, a part of the head": {"position": "rope", "rope.fraction": 0.5, "rope.pairing": "interleaved"},
    "rope, scaled": {
        "position": "rope",
        "rope.scaling.type": "llama3",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_max_position_embeddings": 16,
    },
    **{f"norm {n}": dict(norm=n, qk_norm="per_head", embedding_norm=True) for n in ALLOWED["norm"]},
    "norm without bias": {"layernorm.bias": False, "qk_norm": "across_heads", "n_kv_heads": 2},
    "norm without anything": {"layernorm.weight": False, "layernorm.bias": False, "token_head": True},
    **{f"placement {p}": dict(norm_placement=p) for p in ALLOWED["norm_placement"]},
    "parallel": dict(parallel_block=True),
    "parallel, two norms": dict(parallel_block=True, n_parallel_norms=2),
    **{f"feed-forward {f}": dict(feedforward=f, ff_bias=True) for f in ("relu", "tanh", "bilinear", "swiglu")},
    "biases": BIASES,
    **{f"{b} alone": {b: True} for b in BIASES},
    "widths of heads": dict(d_head=5, d_value=3, n_kv_heads=2, attention_bias=True),
    "values wider": dict(d_head=4, d_value=9, n_kv_heads=1),
    "experts": EXPERTS,
    "experts, gated and shared": {**EXPERTS, "feedforward": "swiglu", "moe.n_shared_experts": 2, "ff_bias": True},
    "experts, dense layers": {
        **EXPERTS,
        "moe.n_dense_layers": 1,
        "moe.router": "top_k_of_softmax",
        "moe.routed_scaling_factor": 2.0,
    },
    "experts, dense layers only": {**EXPERTS, "moe.n_dense_layers": 3, "n_layers": 3},
    "experts, sigmoid": {**EXPERTS, "moe.router": "top_k_of_sigmoid"},
    "experts, sigmoid in groups": {
        **EXPERTS | {"moe.n_experts": 6},
        "moe.router": "top_k_of_sigmoid_in_groups",
        "moe.n_groups": 2,
        "moe.n_groups_per_token": 1,
    },
    "latent": dict(**LATENT),
    "latent, turned": dict(**LATENT_ROPE, norm="rmsnorm"),
    "latent, narrow": dict(**LATENT_ROPE | {"latent.d_latent": 2}),
    "latent, wide": dict(**LATENT_ROPE | {"latent.d_latent": 60}),
    "latent, queries too, biases": {**LATENT_ROPE, "latent.d_query_latent": 7, "attention_bias": True},
    "encoder": dict(
        kind="encoder", n_segments=2, token_head=True, norm_placement="post", embedding_norm=True, **BIASES
    ),
    "encoder-decoder": dict(kind="encoder-decoder", n_encoder_layers=3, n_kv_heads=2, qk_norm="per_head", **BIASES),
    "encoder-decoder, experts": {
        "kind": "encoder-decoder",
        "n_encoder_layers": 1,
        "position": "t5",
        **EXPERTS,
        "moe.n_dense_layers": 1,
    },
    **{
        f"encoder-decoder {p}": dict(kind="encoder-decoder", position=p)
        for p in ("learned", "tupe", "shaw", "transformer_xl", "deberta")
    },
    "tied": dict(tie_embeddings=True, unembedding_bias=True),
    "scales and caps": dict(
        scale_embeddings=True,
        scale_logits=True,
        final_logit_softcapping=3.0,
        attn_logit_softcapping=5.0,
        attention_scale=0.3,
    ),
    "clipped": dict(clip_qkv=2.0, n_kv_heads=2, qk_norm="per_head_weights"),
    "alibi, gentle": {"position": "alibi", "alibi.bias_max": 16},
    "multipliers": dict(embedding_multiplier=3.0, residual_multiplier=0.3, logit_multiplier=0.2),
    "some layers turned": {"position": "rope", "rope.layers": (True, True, False), "n_layers": 4},
    "some layers dense": {**EXPERTS, "moe.dense_layers": (1, 3), "n_layers": 5},
    "sinks": dict(attention_sinks=True, n_kv_heads=2),
    "clamped": {"feedforward": "clamped_swiglu", "clamped_swiglu.alpha": 1.5, "clamped_swiglu.limit": 2.0},
    "experts, clamped, biases": {
        **EXPERTS,
        "feedforward": "clamped_swiglu",
        "moe.router_bias": True,
        "moe.expert_bias": True,
    },
    "two ropes": {
        "position": "rope",
        "window": 3,
        "layer_types": ("sliding_attention", "full_attention"),
        "rope.local_base": 500.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_max_position_embeddings": 16,
        "rope.scaling.truncate": False,
    },
    "rope, for long texts": {
        "position": "rope",
        "rope.scaling.type": "longrope",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_max_position_embeddings": 16,
        "rope.scaling.short_factor": (1.0, 1.0, 1.0),
        "rope.scaling.long_factor": (1.0, 2.0, 4.0),
    },
    "windows": dict(
        window=3, layer_types=(*["sliding_attention"] * 2, "full_attention", "sliding_attention"), n_layers=7
    ),
    **{
        f"windows, {p}": dict(window=3, position=p) for p in ("tupe", "shaw", "transformer_xl", "deberta", "deberta_v2")
    },
    "windows, latent": dict(window=3, **LATENT_ROPE),
    "windows, encoder-decoder": dict(
        window=3, kind="encoder-decoder", layer_types=("sliding_attention", "full_attention"), n_encoder_layers=3
    ),
    "a window of one": dict(window=1, position="tupe"),
    "a window that holds all": dict(window=20),
    "unbounded": dict(n_ctx=None),
    "no head": dict(unembedding=False),
}
CONFIGS = {name: ModelConfig.of(SIZES | change) for name, change in CHANGES.items()}


def of(config, n_tokens=TOKENS, **more):
    more = dict(n_source=SOURCE) | more if config.kind == "encoder-decoder" else more
    return costs(config, n_tokens, batch=BATCH, **more)


def ids(tokens, seed=0):
    return torch.randint(0, SIZES["n_vocab"], (BATCH, tokens), generator=torch.Generator().manual_seed(seed))


def asked(config):
    return dict(source=ids(SOURCE, seed=1)) if config.kind == "encoder-decoder" else {}


every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
model_of = cache(Transformer)  # only read


def test_the_configs_change_every_field():
    """Else a field could be forgotten, here and in the formulas."""
    defaults = ModelConfig(**{**SIZES, "n_ctx": None})
    unchanged = set(types_of())
    for config in CONFIGS.values():
        unchanged -= {name for name in config.difference(defaults)}
    without_cost = {"norm_eps", "rope.base", *(f"rope.scaling.{name}" for name in ("beta_fast", "beta_slow"))}
    without_cost |= {"rope.scaling.attention_factor"}
    assert unchanged - without_cost == {"d_model", "n_heads", "n_vocab", "d_ff"}


@pytest.mark.syllabus("UCL-29")
@every_config
def test_parameters_equal_those_counted(config):
    assert of(config).total.n_parameters == sum(parameter.numel() for parameter in model_of(config).parameters())


@pytest.mark.syllabus("UCL-29")
@every_config
def test_operations_equal_pytorchs_counter(config):
    """Where products are made one by one: PyTorch has no formula for the fused kernel of a processor."""
    model = model_of(config)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        logits, _ = model(ids(TOKENS), return_records=True, **asked(config))
    assert of(config).total.flops == counter.get_total_flops()
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        logits.square().sum().backward()
    assert of(config).total.flops_backward == counter.get_total_flops()


ONE_BY_ONE = {"plain", "position tupe", "experts", "latent", "latent, turned", "latent, narrow", "latent, wide"}
ONE_BY_ONE |= {"encoder-decoder", "windows", "a window of one", "windows, latent"}


@pytest.mark.syllabus("UCL-29", "CMU-10")
@pytest.mark.parametrize(
    "config, n_new",
    [
        pytest.param(config, n, id=f"{name}-{n}", marks=[pytest.mark.slow] * (n == 1 and name not in ONE_BY_ONE))
        for name, config in CONFIGS.items()
        for n in (1, 2)
    ],
)
def test_a_step_of_decoding_over_a_cache(config, n_new):
    """Operations and cache; of two tokens at once, so that rows and keys are not mixed up."""
    if config.kind == "encoder":
        with pytest.raises(ValueError, match="n_cached=6 must be 0 for an encoder"):
            of(config, n_cached=6)
        return
    model, n_cached = model_of(config), 6
    n_source = SOURCE if config.kind == "encoder-decoder" else None
    cache = model.new_cache(BATCH, n_cached + n_new, n_source)
    with torch.no_grad():
        more = dict(source=model.encode(asked(config)["source"])) if n_source else {}
        model(ids(n_cached), cache=cache, **more)
        with FlopCounterMode(display=False) as counter:
            model(ids(n_new), cache=cache, return_records=True, **more)
    found = of(config, n_new, n_cached=n_cached)
    assert found.total.flops == counter.get_total_flops()
    assert found.cache_bytes == cache.n_bytes
    whole = of(config, n_cached + n_new)
    assert whole.cache_bytes == cache.n_bytes
    assert of(config, n_new, n_cached=n_cached, bytes_per_number=2).cache_bytes == cache.n_bytes / 2


def test_latent_attention_is_counted_both_ways():
    """A long cache is read absorbed, a text at once expanded; else the tests above would see one way only."""
    config = CONFIGS["latent, turned"]
    step = of(config, 1, n_cached=20)["attention projections"].flops
    assert step == of(config, 1, n_cached=28)["attention projections"].flops  # absorbed: the cache is not mapped
    d, h, T = config.d_model, config.n_heads, BATCH * TOKENS
    widths = d * h * 9 + d * (11 + 4) + 11 * h * (5 + 3) + h * 3 * d
    assert of(config)["attention projections"].flops == 2 * 2 * T * widths


@pytest.mark.parametrize("name", ["latent", "latent, turned", "latent, narrow", "latent, wide"])
def test_latent_attention_takes_the_way_that_the_layer_takes(name):
    config = CONFIGS[name]
    layer = Transformer(config).stack.blocks[0].attention
    for n_new in range(1, 9):
        for n_cached in range(21):
            absorbed = layer._absorbing_saves(n_new, n_new + n_cached)
            d_rotary = config.latent.d_rotary or 0
            widths = 2 * (config.latent.d_latent + d_rotary) if absorbed else 5 + d_rotary + 3
            found = costs(config, n_new, n_cached=n_cached)["scores and mixing"].flops
            assert found == 2 * n_new * (n_new + n_cached) * 2 * 4 * widths, (n_new, n_cached)


def test_parameters_that_a_pass_reads():
    """All of them once; of a table that is looked up, the rows; of experts, those that can be reached."""
    plain = costs(CONFIGS["position learned"], 2, batch=3, n_cached=9).total
    assert plain.n_parameters - plain.n_weights_read == (101 - 3 * 2) * 24 + (29 - 2) * 24
    assert costs(CONFIGS["tied"], 2).total.n_weights_read == costs(CONFIGS["tied"], 2).total.n_parameters + 2 * 24
    expert = 2 * 24 * 13
    for n, reached in [(1, 2), (2, 4), (3, 5), (9, 5)]:
        assert costs(CONFIGS["experts"], n)["experts"].n_weights_read == 2 * reached * expert
    step = of(CONFIGS["encoder-decoder"], 1, n_cached=2)
    assert step["encoder: feed-forward"].n_weights_read == 0 < step["encoder: feed-forward"].n_parameters
    # of attention to the source, queries and output alone: its keys and values are in the cache
    assert step["decoder: source: attention projections"].n_weights_read == 2 * (2 * (24 * 24 + 24) + 2 * 2 * 6)


@pytest.mark.syllabus("UCL-29")
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize(
    "windows",
    [{}, dict(window=3), dict(window=4, layer_types=("sliding_attention", "full_attention")), dict(window=40)],
)
@pytest.mark.parametrize("n_cached", [0, 2, 9])
def test_visible_pairs_are_those_that_the_masks_allow(kind, windows, n_cached):
    if kind == "encoder" and n_cached:
        return
    config = ModelConfig(**SIZES, kind=kind, **windows)
    positions = torch.arange(n_cached + TOKENS)[None]
    masks = [mask(positions[:, n_cached:], positions) for mask in Transformer(config).stack.masks]
    seen = sum(mask.expand(1, 1, TOKENS, n_cached + TOKENS).sum().item() for mask in masks)
    found = of(config, n_cached=n_cached, only_visible=True)
    assert found["scores and mixing"].flops == BATCH * seen * 2 * 4 * (6 + 6)
    others = [part for part in found.parts if part.name != "scores and mixing"]
    assert others == [part for part in of(config, n_cached=n_cached).parts if part.name != "scores and mixing"]


# --- Activations, against what PyTorch keeps ---

LARGER = dict(d_model=96, n_layers=3, n_heads=4, d_ff=160, n_vocab=211, n_ctx=64)


def kept_by_pytorch(config, n_tokens, n_source=None):
    """Bytes of all that autograd saves for a loss, but for parameters, buffers and integers."""
    model, kept = Transformer(config), []
    known = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    tokens, more = ids(n_tokens), {} if n_source is None else dict(source=ids(n_source, seed=1))
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        F.cross_entropy(model(tokens, **more).flatten(0, 1), tokens.flatten())
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in kept if x.is_floating_point()}
    return sum(storage.nbytes() for pointer, storage in storages.items() if pointer not in known)


@pytest.mark.syllabus("UCL-29")
@pytest.mark.parametrize(
    "change",
    [
        *(dict(feedforward=name) for name in ("gelu", "relu", "tanh", "elu", "squared_relu")),
        *(dict(feedforward=name) for name in ("swiglu", "reglu", "glu", "bilinear")),
        *(dict(norm_placement=name) for name in ALLOWED["norm_placement"]),
        dict(parallel_block=True),
        dict(parallel_block=True, n_parallel_norms=2),
        dict(n_kv_heads=2, embedding_norm=True, position="learned"),
        dict(kind="encoder", token_head=True),
        dict(kind="encoder-decoder"),
        dict(position="alibi"),
        dict(position="falcon_alibi"),
        dict(clip_qkv=2.0),
        {"moe.n_experts": 4, "moe.n_experts_per_token": 2, "moe.d_expert": 48},
    ],
    ids=lambda change: ", ".join(map(str, change.values())),
)
def test_activations_are_what_pytorch_keeps(change):
    """It keeps a little more: a mean and a deviation of each norm, a sum of each row of weights."""
    config = ModelConfig.of(LARGER | change)
    n_source = 30 if config.kind == "encoder-decoder" else None
    found = costs(config, 40, batch=BATCH, n_source=n_source).activation_bytes
    assert 0.985 < found / kept_by_pytorch(config, 40, n_source) < 1


@pytest.mark.parametrize(
    "name", ["position t5", "position shaw", "position deberta", "latent, turned", "experts, sigmoid", "clipped"]
)
def test_elsewhere_it_is_a_lower_bound(name):
    config = dataclasses.replace(CONFIGS[name], d_model=96, d_ff=160, n_ctx=64)
    assert costs(config, 40, batch=BATCH).activation_bytes < kept_by_pytorch(config, 40)


# --- What the lecture asks, and published numbers ---

GPT3 = ModelConfig(
    d_model=12288, n_layers=96, n_heads=96, d_ff=4 * 12288, n_vocab=50257, n_ctx=2048, position="learned",
    feedforward="gelu_tanh", tie_embeddings=True, attention_bias=True, output_bias=True, ff_bias=True,
)  # fmt: skip


@pytest.mark.syllabus("UCL-29")
def test_operations_of_training_gpt_3():
    """Brown et al. (2020), table D.1: 174.6 billion parameters, 300 billion tokens, 3.14e23 operations, by 6 N D."""
    text = costs(GPT3, 2048)
    assert text.total.n_parameters == pytest.approx(174.6e9, rel=1e-3)
    assert text.rule_of_thumb / 2048 * 300e9 == pytest.approx(3.14e23, rel=2e-3)
    # attention to 2048 tokens comes on top: N layers x 12 d n a token; biases, norms and positions come off
    both = text.total.flops + text.total.flops_backward
    assert both / text.rule_of_thumb == pytest.approx(1 + 96 * 12 * 12288 * 2048 / (6 * 174.6e9), rel=1e-3)
    assert text["logits"].flops == 2 * 2048 * 12288 * 50257


@pytest.mark.syllabus("UCL-29")
def test_the_rule_of_thumb_misses_attention_to_long_texts():
    config = ModelConfig(
        d_model=64,
        n_layers=2,
        n_heads=4,
        d_ff=256,
        n_vocab=50,
        tie_embeddings=True,
        layernorm=LayerNormConfig(weight=False, bias=False),
    )

    def ratio(n):
        found = costs(config, n)
        return (found.total.flops + found.total.flops_backward) / found.rule_of_thumb

    n = config.d_model * 2 + config.d_ff
    blocks = 2 * (4 * 64**2 + 2 * 64 * 256)
    assert ratio(1) == pytest.approx(1 + blocks / n / (blocks + 50 * 64))
    assert ratio(n) == pytest.approx(1 + blocks / (blocks + 50 * 64))  # at the crossover, as much again as the blocks


def test_active_parameters_of_a_mixture():
    """Jiang et al. (2024), "Mixtral", section 1: 47 billion, 13 billion of them active."""
    mixtral = ModelConfig(
        d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14336, n_vocab=32000, position="rope",
        norm="rmsnorm", feedforward="swiglu", moe=MoEConfig(n_experts=8, n_experts_per_token=2),
    )  # fmt: skip
    text = costs(mixtral, 1)
    assert text.total.n_parameters == 46_702_792_704
    assert text.total.n_active == pytest.approx(12.9e9, rel=2e-3)
    assert text.total.n_weights_read < 1.01 * text.total.n_active  # a step of decoding reads two experts of eight
    assert costs(mixtral, 100).total.n_weights_read > 0.99 * text.total.n_parameters  # a text reads them all


@pytest.mark.syllabus("CMU-10", "CMU-11", "CMU-13")
def test_cache_of_published_models():
    """Llama 2 7B in float16: half a mebibyte a token. DeepSeek-V2 (2024), table 1: 4.5 d_head numbers a layer."""
    llama = ModelConfig(d_model=4096, n_layers=32, n_heads=32, d_ff=11008, n_vocab=32000, position="rope")
    assert costs(llama, 1, bytes_per_number=2).cache_bytes == 2**19
    grouped = dataclasses.replace(llama, n_kv_heads=8)
    assert costs(grouped, 1, bytes_per_number=2).cache_bytes == 2**17
    latent = dict(attention="latent", n_kv_heads=0, d_head=128, d_value=128)
    latent |= dict(latent=LatentAttentionConfig(d_latent=512, d_rotary=64))
    deepseek = dataclasses.replace(llama, d_model=5120, n_heads=128, **latent)
    assert costs(deepseek, 1).total.n_cached == 32 * 4.5 * 128


@pytest.mark.syllabus("UCL-29")
@pytest.mark.parametrize("n_heads", [4, 6])
def test_complexity_is_as_the_lecture_answers(n_heads):
    config = ModelConfig(d_model=48, n_layers=3, n_heads=n_heads, d_ff=100, n_vocab=301, n_ctx=30)
    grown = exponents(config, 30)
    expected = {
        #            projections, scores, feed-forward, logits
        "d_model": (2, 1, 1, 1),
        "n_vocab": (0, 0, 0, 1),
        "n_tokens": (1, 2, 1, 1),
        "d_ff": (0, 0, 1, 0),
        "n_heads": (0, 0, 0, 0),
        "n_layers": (1, 1, 1, 0),
    }
    parts = ("attention projections", "scores and mixing", "feed-forward", "logits")
    assert {size: tuple(of[part] for part in parts) for size, of in grown.items()} == expected
    assert 1 < grown["d_model"]["total"] < 2 and 1 < grown["n_tokens"]["total"] < 2 and grown["n_heads"]["total"] == 0
    # and the sums are the lecture's formula, written out
    d, n, N = 48, 30, 3
    assert costs(config, n).total.flops == 2 * (N * (4 * n * d**2 + 2 * n**2 * d + 2 * n * d * 100) + n * d * 301)


@pytest.mark.syllabus("UCL-29")
def test_exponents_hold_for_other_parts():
    grown = exponents(ModelConfig.of({**SIZES, "n_kv_heads": 2, **EXPERTS}), 29)
    assert grown["d_model"]["experts"] == grown["d_model"]["router"] == grown["n_tokens"]["experts"] == 1
    assert grown["d_ff"]["experts"] == 0  # their width is d_expert
    grown = exponents(ModelConfig.of(SIZES | LATENT_ROPE | dict(d_head=6, d_value=4)), 29)
    assert 1 < grown["d_model"]["attention projections"] < 2


@pytest.mark.syllabus("UCL-29")
def test_attention_equals_the_matrices_at_the_crossover():
    config = ModelConfig(d_model=24, n_layers=3, n_heads=4, d_ff=37, n_vocab=101)
    n = crossover(config)
    assert n == 2 * 24 + 37
    text = costs(config, int(n))
    assert text["scores and mixing"].flops == text["attention projections"].flops + text["feed-forward"].flops
    gated = dataclasses.replace(config, feedforward="swiglu", n_kv_heads=1)
    # (2 d^2 + 2 d d / h + 3 d d_ff) / 2 d
    assert crossover(gated) == pytest.approx(24 + 24 / 4 + 1.5 * 37)


@pytest.mark.syllabus("CMU-10")
def test_reading_ahead_computes_and_decoding_waits_for_memory():
    """One new token takes two operations for each parameter of two bytes; a prompt shares each read."""
    config = ModelConfig(**SIZES | dict(d_model=96, n_vocab=500, n_ctx=None), tie_embeddings=True)

    def intensity(n, **more):
        return costs(config, n, bytes_per_number=2, **more).intensity

    assert intensity(1) == pytest.approx(1, rel=0.05)
    assert intensity(500) > 100
    assert intensity(1, batch=32) == pytest.approx(32, rel=0.15)
    # a long cache is read for each text of the batch, so that more texts do not help
    long = dict(n_cached=100_000)
    assert intensity(1, batch=64, **long) < 1.2 * intensity(1, batch=1, **long)
    grouped = costs(dataclasses.replace(config, n_kv_heads=1), 1, batch=64, bytes_per_number=2, **long)
    assert grouped.intensity == pytest.approx(4 * intensity(1, batch=64, **long), rel=0.05)


# --- The table, and what is refused ---


def test_the_table_says_every_part_with_its_numbers():
    found = of(CONFIGS["experts, gated and shared"], bytes_per_number=2)
    lines = str(found).splitlines()
    assert [line[: len(part.name)] for line, part in zip(lines[1:], [*found.parts, found.total], strict=True)] == [
        *(part.name for part in found.parts),
        "total",
    ]
    assert len({len(line) for line in lines}) == 1 and not any(line.endswith(" ") for line in lines)
    assert found.flops_per_text * BATCH == found.flops_per_token * BATCH * TOKENS == found.total.flops
    assert found.flops_per_token_backward == 2 * found.flops_per_token
    assert found.weight_bytes == 2 * found.total.n_parameters
    with pytest.raises(KeyError, match="no part 'attention'; there are token embedding, "):
        found["attention"]


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0"), (7, "7"), (999, "999"), (1000, "1.00 k"), (12_345, "12.3 k"), (999_499, "999 k"), (999_500, "1.00 M")]
    + [(9_994_999, "9.99 M"), (9_999_999, "10.0 M"), (99_960_000, "100 M"), (10**15, "1.00 P"), (5 * 10**21, "5000 E")],
)
def test_numbers_are_readable(n, text):
    assert module._readable(n) == text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (dict(n_tokens=0), "n_tokens=0 must be at least 1"),
        (dict(batch=0), "batch=0 must be at least 1"),
        (dict(bytes_per_number=0), "bytes_per_number=0"),
        (dict(n_cached=-1), "n_cached=-1 must be at least 0"),
        (dict(n_source=3), "n_source=3 must be given for an encoder-decoder, and only then; kind='decoder'"),
        (dict(n_tokens=10, n_cached=20), "n_cached \\+ n_tokens=30 must be at most n_ctx=29"),
    ],
)
def test_what_makes_no_sense_is_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        costs(CONFIGS["plain"], **dict(n_tokens=5) | given)


def test_a_source_is_asked_for_where_there_is_one():
    config = CONFIGS["encoder-decoder"]
    for given, sentence in [
        ({}, "n_source=None"),
        (dict(n_source=0), "n_source=0"),
        (dict(n_source=30), "n_source=30"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            costs(config, 5, **given)
    for f in (lambda: crossover(config), lambda: exponents(config, 5)):
        with pytest.raises(ValueError, match="kind='encoder-decoder' must be 'decoder' or 'encoder'"):
            f()
    with pytest.raises(ValueError, match="d_head=5 and d_value=3 must be even"):
        exponents(CONFIGS["widths of heads"], 5)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("_on_meta", lambda config: Transformer(dataclasses.replace(config, ff_bias=True))),
        ("_of_activations", lambda *args: iter(())),
        ("_flops", lambda forward: dict(flops=forward // 2, flops_backward=forward)),
    ],
)
def test_planted_faults_are_seen(monkeypatch, name, fault):
    config = ModelConfig(**SIZES, feedforward="swiglu", norm="rmsnorm")
    right = costs(config, 5, only_visible=True)
    monkeypatch.setattr(module, name, fault)
    wrong = costs(config, 5, only_visible=True)
    assert (right.total.n_parameters, right.total.flops) != (wrong.total.n_parameters, wrong.total.flops)
