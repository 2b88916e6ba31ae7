"""An optimized model computes what its model computes, whatever it is made of and however it is read."""

import inspect
import shutil
from functools import cache

import pytest
import torch
from layers.pairs import each_pair
from randomness import randomize

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers import packed_linear
from llm_anatomy.layers.normalization import RMSNorm
from llm_anatomy.layers.packed_linear import GROUP
from llm_anatomy.layers.quantization import quantize_groups, quantize_rows
from llm_anatomy.models.before_transformers import MambaLM
from llm_anatomy.models.generation import beam_search, generate
from llm_anatomy.models.inference import (
    CompiledStep,
    FusedRMSNorm,
    FusedSelfAttention,
    fastest_inference_model,
    for_inference,
)
from llm_anatomy.models.presets import presets, tiny
from llm_anatomy.models.sampling import Sampler, Temperature
from llm_anatomy.models.transformer import Transformer

NEEDS_COMPILER = pytest.mark.skipif(not shutil.which("c++"), reason="the default backend needs a compiler")
BATCH, TOKENS, VOCAB = 3, 13, 101
SIZES = dict(d_model=24, n_layers=3, n_heads=4, d_ff=36, n_vocab=VOCAB)
BIASES = dict(attention_bias=True, output_bias=True, ff_bias=True)
ALTERNATING = ("sliding_attention", "full_attention")
LATENT = {"attention": "latent", "latent.d_latent": 8, "latent.d_rotary": 4, "d_value": 5}
VARIETIES = {
    "plain": {},
    "learned": {"position": "learned", "n_ctx": 40, "learned.offset": 2, "tie_embeddings": True, **BIASES},
    "sinusoidal, post-norm": dict(position="sinusoidal", scale_embeddings=True, norm_placement="post"),
    "rope, grouped": dict(position="rope", n_kv_heads=2, norm="rmsnorm", feedforward="swiglu", d_head=10),
    "rope, multi-query, biases": dict(position="rope", n_kv_heads=1, **BIASES),
    "rope, part of a head": {"position": "rope", "rope.fraction": 0.5, "d_head": 8},
    "rope, part of an odd head": {"position": "rope", "rope.fraction": 0.8, "d_head": 5},
    "rope, norm and part of an odd head": {
        "position": "rope",
        "rope.fraction": 0.6,
        "d_head": 7,
        "qk_norm": "per_head",
    },
    "rope, interleaved, parallel": {"position": "rope", "rope.pairing": "interleaved", "parallel_block": True},
    "rope, parallel with two norms": dict(position="rope", parallel_block=True, n_parallel_norms=2, n_kv_heads=2),
    "rope in some layers": {"position": "rope", "rope.layers": (True, False)},
    "rope, norm of each head": dict(position="rope", qk_norm="per_head", n_kv_heads=2, norm="rmsnorm"),
    "rope, norm across heads": dict(
        position="rope", qk_norm="across_heads", n_kv_heads=2, norm_placement="post_sublayer", norm="rmsnorm"
    ),
    "rope, norm with weights of each head": dict(position="rope", qk_norm="per_head_weights", n_kv_heads=2),
    "norms without positions": dict(qk_norm="per_head"),
    "clipped": dict(position="rope", clip_qkv=0.5),
    "alibi": dict(position="alibi", embedding_norm=True, tie_embeddings=True),
    "alibi, grouped, window": dict(position="alibi", n_kv_heads=2, window=4),
    "windows": dict(position="rope", window=4, layer_types=ALTERNATING, n_kv_heads=2),
    "t5": dict(position="t5", norm="rmsnorm", scale_logits=True),
    "shaw": {"position": "shaw", "clipping.max_distance": 3, "norm_placement": "rezero"},
    "transformer-xl": dict(position="transformer_xl"),
    "tupe": dict(position="tupe", n_ctx=40),
    "soft-capped": dict(
        position="rope", window=4, layer_types=ALTERNATING, attn_logit_softcapping=2.0, final_logit_softcapping=3.0
    ),
    "latent": dict(position="rope", **LATENT),
    "wide values": dict(position="rope", d_value=7),
    "multipliers": dict(embedding_multiplier=3.0, residual_multiplier=0.4, logit_multiplier=0.2, attention_scale=0.2),
    "experts": {
        "feedforward": "swiglu",
        "moe.n_experts": 4,
        "moe.n_experts_per_token": 2,
        "moe.n_shared_experts": 1,
        "moe.n_dense_layers": 1,
    },
    "sandwich": dict(feedforward="squared_relu", norm_placement="sandwich", norm="unit_offset_rmsnorm"),
    "segments, a head": dict(n_segments=2, token_head=True, unembedding_bias=True),
}
DECODERS = {  # models that differ in size alone have one tiny twin
    tiny(name): name
    for name, preset in presets().items()
    if preset.known and preset.values.get("kind", "decoder") == "decoder"
}.values()
WITHOUT_FUSED_ATTENTION = {"t5", "shaw", "transformer-xl", "tupe", "soft-capped", "latent", "wide values"}


def build(name="rope, grouped", **more):
    return randomize(Transformer(ModelConfig.of(SIZES | VARIETIES[name] | more))).double().eval()


@cache
def read_only(name):
    """A model of these parts and its optimized model, for tests that change neither."""
    model = build(name)
    return model, for_inference(model)


def ids(tokens=TOKENS, batch=BATCH, n_vocab=VOCAB):
    return torch.randint(0, n_vocab, (batch, tokens), generator=torch.Generator().manual_seed(1))


def padding(*ranges):
    mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    for row, tokens in ranges:
        mask[row, tokens] = False
    return mask


MASKS = {
    "no padding": None,
    "left": padding((0, slice(3)), (2, slice(1))),
    "left and right": padding((0, slice(5)), (1, slice(9, None)), (2, slice(1))),
}


PARTS = {"steps": [5, 1, 1, 1, 1, 1, 1, 1, 1], "parts": [4, 3, 6], "at once": [TOKENS]}


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize("name, mask, parts", each_pair(VARIETIES, MASKS, PARTS))
def test_it_is_the_model(name, mask, parts):
    model, optimized = read_only(name)
    tokens, attention_mask, parts = ids(), MASKS[mask], PARTS[parts]
    expected = model(tokens, attention_mask=attention_mask)
    assert any(block.fused for block in optimized.blocks) == (name not in WITHOUT_FUSED_ATTENTION)
    cache, masks = optimized.new_cache(BATCH, TOKENS + 2), [None] * len(parts)
    if attention_mask is not None:
        masks = attention_mask.split(parts, 1)
    with torch.inference_mode():
        pairs = zip(tokens.split(parts, 1), masks, strict=True)
        found = torch.cat([optimized(part, attention_mask=m, cache=cache) for part, m in pairs], 1)
    real = torch.ones(BATCH, TOKENS, dtype=torch.bool) if attention_mask is None else attention_mask
    torch.testing.assert_close(found[real], expected[real], rtol=1e-9, atol=1e-9)
    assert cache.length == TOKENS and not found.requires_grad


@pytest.mark.parametrize("name", DECODERS)
def test_presets_in_float32(name):
    model = randomize(Transformer(tiny(name))).eval()
    tokens = ids(n_vocab=model.config.n_vocab)
    optimized = for_inference(model)
    cache = optimized.new_cache(BATCH, TOKENS)
    with torch.inference_mode():
        expected = model(tokens)
        found = torch.cat([optimized(part, cache=cache) for part in tokens.split([6] + [1] * (TOKENS - 6), 1)], 1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * expected.abs().max().item())
    prompts = [[3, 1, 4], [1, 5], [9, 2, 6, 5]]
    assert generate(optimized, prompts, max_new_tokens=3).ids == generate(model, prompts, max_new_tokens=3).ids


@pytest.mark.parametrize("name", ["rope, grouped", "alibi", "windows", "t5"])
def test_a_prefill_in_chunks_is_the_same(name):
    model, tokens = build(name), ids()
    whole, chunked = for_inference(model), for_inference(model, chunk=4)
    for mask in MASKS.values():
        real = torch.ones(BATCH, TOKENS, dtype=torch.bool) if mask is None else mask
        found, expected = chunked(tokens, attention_mask=mask), whole(tokens, attention_mask=mask)
        torch.testing.assert_close(found[real], expected[real], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["rope, grouped", "alibi", "latent"])
def test_beams_stop_strings_and_probabilities(name):
    model = build(name)
    optimized, prompts = for_inference(model), [[3, 1, 4], [1, 5], [9, 2, 6, 5]]
    found, expected = (beam_search(m, prompts, n_beams=3, max_new_tokens=5) for m in (optimized, model))
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    settings = dict(max_new_tokens=6, log_probs=True, stop_strings=["7"], decode=lambda new: " ".join(map(str, new)))
    samplers = [Sampler(Temperature(0.8), generator=torch.Generator().manual_seed(5)) for _ in range(2)]
    found, expected = (
        generate(m, prompts, sampler=s, **settings) for m, s in zip((optimized, model), samplers, strict=True)
    )
    assert found.ids == expected.ids and found.finish_reason == expected.finish_reason
    for row, other in zip(found.log_probs, expected.log_probs, strict=True):
        torch.testing.assert_close(row, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("position", [{"position": "t5", "buckets.n_buckets": 6}, {"position": "sinusoidal"}])
def test_an_encoder_decoder(position):
    model = randomize(
        Transformer(ModelConfig.of(SIZES | {"kind": "encoder-decoder", "n_encoder_layers": 2} | position))
    )
    model.double().eval()
    sources, prompts = [[7, 7, 1], [2, 9, 9, 4, 4], [5]], [[0], [0], [0]]
    settings = dict(max_new_tokens=6, sources=sources, log_probs=True)
    found, expected = generate(for_inference(model), prompts, **settings), generate(model, prompts, **settings)
    assert found.ids == expected.ids
    torch.testing.assert_close(found.log_probs, expected.log_probs, rtol=1e-6, atol=1e-6)


def rounded_like(weight, weights):
    """A weight as the packed layers read it."""
    if weights == "bfloat16":
        return weight.bfloat16().float()
    if weights == "int8":
        integers, scales = quantize_rows(weight)
        return integers * scales.bfloat16().float()[:, None]
    integers, *rest = quantize_groups(weight, GROUP)
    scales, zeros = (x.bfloat16().float()[..., None] for x in rest)
    return (integers.unflatten(1, (-1, GROUP)) * scales + zeros).flatten(1)


@pytest.mark.parametrize("weights", ["bfloat16", "int8", "int4"])
def test_fewer_bits_are_those_of_rounded_weights(weights):
    """What is left is the rounding of the inputs to bfloat16; in 4 bits, the unembedding has 8."""
    sizes = dict(d_model=64, n_heads=4, d_ff=96, n_vocab=112, feedforward="swiglu", **BIASES)
    model, tokens = build("plain", **sizes).float(), ids(n_vocab=112)
    exact, found = model(tokens).detach(), for_inference(model, quantize=weights)(tokens)
    with torch.no_grad():
        for module in model.stack.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.copy_(rounded_like(module.weight, weights))
        head = model.unembedding.embedding
        head.weight.copy_(rounded_like(head.weight, "int8" if weights == "int4" else weights))
        expected = model(tokens)
    assert (found - expected).norm() < 0.04 * expected.norm()
    if weights == "int4":  # rounding the weights changes more than that
        assert (exact - expected).norm() > 0.1 * expected.norm()


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
@pytest.mark.parametrize("name", ["rope, grouped", "learned", "windows", "experts"])
def test_the_layout_of_onednn_changes_no_logits(name, monkeypatch):
    monkeypatch.setattr(packed_linear, "SMALLEST", 1)
    monkeypatch.setattr(packed_linear, "SMALLEST_FOR_ONE_ROW", 1000)
    model = build(name).float()
    optimized, plain = for_inference(model), for_inference(model, prepack=False)
    assert optimized.is_packed and not plain.is_packed and not for_inference(build(name)).is_packed
    for mask in MASKS.values():
        real = torch.ones(BATCH, TOKENS, dtype=torch.bool) if mask is None else mask
        expected = model(ids(), attention_mask=mask)[real]
        torch.testing.assert_close(optimized(ids(), attention_mask=mask)[real], expected, rtol=1e-4, atol=1e-4)
    prompts = [[3, 1, 4], [1, 5]]
    assert generate(optimized, prompts, max_new_tokens=5).ids == generate(model, prompts, max_new_tokens=5).ids
    with pytest.raises(ValueError, match="cannot read packed weights; optimize the model with prepack=False"):
        generate(optimized, prompts, max_new_tokens=5, step=CompiledStep(backend="eager"))


def test_the_fastest_model_is_the_model_itself_where_it_cannot_be_optimized():
    encoder, decoder = Transformer(ModelConfig.of(SIZES | dict(kind="encoder"))), build()
    assert fastest_inference_model(encoder) is encoder
    assert fastest_inference_model(decoder).quantize is None
    assert fastest_inference_model(decoder, quantize="bfloat16").quantize == "bfloat16"
    left_out = "quantize='int8' must be left out for a model that cannot be optimized: "
    with pytest.raises(ValueError, match=f"{left_out}kind='encoder'"):
        fastest_inference_model(encoder, quantize="int8")
    with pytest.raises(ValueError, match=f"{left_out}it is optimized already"):
        fastest_inference_model(fastest_inference_model(decoder), quantize="int8")
    with pytest.raises(ValueError, match=f"{left_out}an object of class MambaLM is not a Transformer"):
        fastest_inference_model(MambaLM(n_vocab=7, d_model=8, n_layers=1), quantize="int8")


def test_what_it_refuses():
    encoder = Transformer(ModelConfig.of(SIZES | dict(kind="encoder")))
    with pytest.raises(ValueError, match="cannot be optimized for inference: kind='encoder' must be 'decoder'"):
        for_inference(encoder)
    scaling = {"rope.scaling.type": "dynamic", "rope.scaling.factor": 2.0}
    scaling["rope.scaling.original_max_position_embeddings"] = 8
    with pytest.raises(ValueError, match="optimized for inference: with rope.scaling.type='dynamic', what is cached"):
        for_inference(build(**scaling))
    with pytest.raises(ValueError, match="quantize='int3' must be one of None, 'bfloat16', 'int8', 'int4'"):
        for_inference(build(), quantize="int3")
    with pytest.raises(ValueError, match="quantize='int4' fits no matrix of this model: they need a multiple of 32"):
        for_inference(build(), quantize="int4")
    for chunk in (0, 2.5):
        with pytest.raises(ValueError, match=f"chunk={chunk} must be a number without fraction, at least 1"):
            inspect.unwrap(for_inference)(build(), chunk=chunk)  # without shape checks
    optimized = for_inference(build())
    with pytest.raises(ValueError, match="6 tokens do not fit into a cache of 5 slots"):
        optimized(ids(6), cache=optimized.new_cache(BATCH, 5))
    with pytest.raises(ValueError, match="41 tokens are more than n_ctx=40"):
        for_inference(build("learned")).new_cache(1, 41)
    with pytest.raises(ValueError, match="n_source=3 must be given for an encoder-decoder"):
        optimized.new_cache(1, 5, 3)
    with pytest.raises(ValueError, match="ids have 2 rows, and the cache has 3; they must be equal"):
        optimized(ids(4, 2), cache=optimized.new_cache(BATCH, 5))
    for convert in (torch.nn.Module.float, torch.nn.Module.half, lambda module: module.to("cpu")):
        with pytest.raises(ValueError, match="its dtype and device: convert or move the model, and optimize it again"):
            convert(optimized)
    both = {"kind": "encoder-decoder", "n_encoder_layers": 1, "position": "sinusoidal"}
    reader = for_inference(Transformer(ModelConfig.of(SIZES | both)))
    for given in (None, reader.new_cache(BATCH, 5, 2)):
        with pytest.raises(ValueError, match="source must be given for an encoder-decoder, and only then; kind='enc"):
            reader(ids(4), cache=given)


def test_it_holds_no_weight_of_the_model_that_it_has_laid_out_anew():
    model = build("rope, grouped")
    optimized = for_inference(model)
    kept = {id(parameter) for parameter in optimized.parameters()}
    names = {name.split(".")[-2] for name, p in model.named_parameters() if id(p) not in kept}
    assert names == {"w_query", "w_key", "w_value", "w_output", "w_gate_up", "w_down", "embedding", "norm"}
    norms = [module for module in optimized.modules() if isinstance(module, FusedRMSNorm)]
    scales = {norm.weight.data_ptr() for norm in model.modules() if isinstance(norm, RMSNorm)}
    assert len(norms) == 7 and {norm._scale.data_ptr() for norm in norms} == scales  # the same numbers, not copies


@pytest.mark.parametrize("of", ["query_norm", "key_norm"])
def test_a_norm_of_queries_or_keys_alone(of):
    model = build("rope, grouped")
    for block in model.stack.blocks:
        setattr(block.attention, of, randomize(RMSNorm(10)).double())
    torch.testing.assert_close(for_inference(model)(ids()), model(ids()), rtol=1e-9, atol=1e-9)


def test_only_rms_norms_that_are_computed_in_their_own_dtype_are_fused():
    for dtype, n_fused in ((torch.float32, 7), (torch.float64, 7), (torch.bfloat16, 0)):
        optimized = for_inference(build("rope, grouped").to(dtype))
        assert sum(isinstance(module, FusedRMSNorm) for module in optimized.modules()) == n_fused


def test_unknown_attention_is_left_as_it_is():
    class Another(type(build().stack.blocks[0].attention)):
        pass

    model = build()
    model.stack.blocks[1].attention.__class__ = Another
    optimized = for_inference(model)
    assert [block.fused for block in optimized.blocks] == [True, False, True]
    assert not FusedSelfAttention.fits(model.stack.blocks[1].attention)
    torch.testing.assert_close(optimized(ids()), model(ids()), rtol=1e-9, atol=1e-9)


def test_static_steps_are_one_graph_and_the_model(run_without_shape_checks):
    """A graph for each model and batch; a GPU would replay it."""
    run_without_shape_checks("""
import torch
from torch._dynamo.utils import counters
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.generation import generate
from llm_anatomy.models.inference import CompiledStep, for_inference
from llm_anatomy.models.transformer import Transformer
sizes = dict(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=101, n_ctx=64)
one, several = [[1, 2, 3]], [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]]
for prompts, parts in (
    (one, dict(position="rope", norm="rmsnorm", feedforward="swiglu", n_kv_heads=2)),
    (several, dict(position="rope", window=5, qk_norm="per_head")),
    (several, dict(position="alibi", n_kv_heads=2)),
    (several, dict(position="learned", parallel_block=True)),
):
    model = Transformer(ModelConfig.of(sizes | parts)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    optimized = for_inference(model)
    torch._dynamo.reset(), counters.clear()
    step = CompiledStep(backend="aot_eager")
    found, expected = (
        generate(m, prompts, max_new_tokens=12, log_probs=True, **more)
        for m, more in ((optimized, dict(step=step)), (model, {}))
    )
    assert found.ids == expected.ids, parts
    torch.testing.assert_close(found.log_probs, expected.log_probs, rtol=1e-9, atol=1e-9)
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"], counters
""")


def test_static_steps_refuse_what_is_not_fused():
    model = build("t5")
    with pytest.raises(ValueError, match="must hold the keys and values of fused self-attention alone"):
        generate(for_inference(model), [[1, 2]], max_new_tokens=3, step=CompiledStep(backend="eager"))
    with pytest.raises(ValueError, match="a compiled step reads an inference-optimized decoder, and not a Transf"):
        generate(model, [[1, 2]], max_new_tokens=3, step=CompiledStep(backend="eager"))
    both = {"kind": "encoder-decoder", "n_encoder_layers": 1, "position": "sinusoidal"}
    reader = for_inference(Transformer(ModelConfig.of(SIZES | both)))
    with pytest.raises(ValueError, match="a compiled step reads .*, and not an encoder-decoder"):
        generate(reader, [[1]], sources=[[2]], max_new_tokens=3, step=CompiledStep(backend="eager"))


def test_static_steps_between_other_reads_and_for_many_lengths(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.generation import generate, next_logits
from llm_anatomy.models.inference import CompiledStep, for_inference
from llm_anatomy.models.transformer import Transformer
sizes = dict(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=101, position="rope", window=5)
model = Transformer(ModelConfig(**sizes)).double().eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
optimized, step, ids = for_inference(model), CompiledStep(backend="eager"), torch.randint(101, (2, 17))
cache, found, expected, start = optimized.new_cache(2, 20), [], [], 0
for n_tokens in (3, 1, 1, 4, 1, 1, 2, 1, 1, 2):  # one token: a static step
    part = ids[:, start : start + n_tokens]
    found.append((step if n_tokens == 1 else next_logits)(optimized, part, cache))
    start += n_tokens
    expected.append(model(ids[:, :start])[:, -1])
torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=1e-9, atol=1e-9)
assert not cache.layers[0].keys.requires_grad
for length in range(1, 13):  # more shapes than PyTorch compiles for one piece of code
    prompts = [list(range(length))]
    assert generate(optimized, prompts, max_new_tokens=4, step=step) == generate(model, prompts, max_new_tokens=4)
""")


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=[pytest.mark.slow, NEEDS_COMPILER])])
def test_compiled_steps_are_one_graph_without_recompilation(backend, run_without_shape_checks):
    run_without_shape_checks(f"""
import torch
from torch._dynamo.utils import counters
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.generation import next_logits
from llm_anatomy.models.inference import for_inference
from llm_anatomy.models.transformer import Transformer
sizes = dict(d_model=24, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=36, n_vocab=101)
model = Transformer(ModelConfig(position="rope", norm="rmsnorm", feedforward="swiglu", **sizes))
optimized, step = for_inference(model), torch.compile(next_logits, dynamic=True, fullgraph=True, backend={backend!r})
cache, other, prompt = optimized.new_cache(1, 600), model.new_cache(1, 600), torch.tensor([[3, 1, 4]])
with torch.inference_mode():
    next_logits(optimized, prompt, cache), next_logits(model, prompt, other)
    for new in range(60):
        ids = torch.tensor([[new % 101]])
        found, expected = step(optimized, ids, cache), next_logits(model, ids, other)
        if new == 1:
            n_graphs = counters["stats"]["unique_graphs"]
torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
assert counters["stats"]["unique_graphs"] == n_graphs and not counters["graph_break"], counters
""")
