"""Whole models: the properties that all must have. Their logits are compared in checkpoints/test_parity.py."""

import copy
import pickle
import re

import pytest
import safetensors.torch
import torch
from randomness import randomize
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.feedforward import GatedFeedForward
from llm_anatomy.layers.masks import CausalMask, Mask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
from llm_anatomy.layers.residual import PostNorm, PreNorm, SandwichNorm
from llm_anatomy.models.block import Block, BlockRecord, EncoderOutput, ParallelBlock
from llm_anatomy.models.transformer import Transformer

BATCH, TOKENS, VOCAB = 3, 11, 101
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BIASES = dict(attention_bias=True, output_bias=True, ff_bias=True)


def ids(seed=1, tokens=TOKENS, batch=BATCH):
    return torch.randint(0, VOCAB, (batch, tokens), generator=torch.Generator().manual_seed(seed))


SIZES = dict(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=VOCAB)


# --- Properties of every model ---

LATENT = {"attention": "latent", "latent.d_latent": 8, "latent.d_rotary": 4, "d_value": 5}
VARIETIES = {
    "plain": {},
    "learned": {"position": "learned", "n_ctx": 40, "learned.offset": 2, **BIASES},
    "sinusoidal, scaled": dict(position="sinusoidal", scale_embeddings=True, norm_placement="post"),
    "rope, parallel": dict(position="rope", parallel_block=True, n_parallel_norms=2, n_kv_heads=2),
    "rope, qk-norm": dict(
        position="rope", qk_norm="across_heads", n_kv_heads=2, norm_placement="post_sublayer", norm="rmsnorm"
    ),
    "alibi": dict(position="alibi", embedding_norm=True, tie_embeddings=True),
    "t5": dict(position="t5", norm="rmsnorm", scale_logits=True),
    "shaw": {"position": "shaw", "clipping.max_distance": 3, "norm_placement": "rezero"},
    "transformer-xl": dict(position="transformer_xl"),
    "tupe": dict(position="tupe", n_ctx=40),
    "window": dict(
        position="rope",
        window=4,
        layer_types=("sliding_attention", "full_attention"),
        attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0,
    ),
    "multipliers": dict(position="rope", embedding_multiplier=3.0, residual_multiplier=0.4, logit_multiplier=0.2),
    "rope in one layer": {"position": "rope", "rope.layers": (False, True)},
    "latent": dict(position="rope", **LATENT),
    "latent, query latent": {"position": "rope", "latent.d_query_latent": 9, **LATENT},
    "experts": {
        "feedforward": "swiglu",
        "moe.n_experts": 4,
        "moe.n_experts_per_token": 2,
        "moe.n_shared_experts": 1,
        "moe.n_dense_layers": 1,
    },
    "trained activation": dict(feedforward="squared_relu", norm_placement="sandwich", norm="unit_offset_rmsnorm"),
}


def build(name, **more):
    return randomize(Transformer(ModelConfig.of(SIZES | VARIETIES[name] | more))).double().eval()


@pytest.mark.syllabus("UCL-27", "IITD-44")
@pytest.mark.parametrize("name", VARIETIES)
def test_the_future_has_no_influence_on_a_decoder(name):
    model, tokens = build(name), ids()
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(after[:, :6], before[:, :6], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(after[:, 6:], before[:, 6:])


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize(
    "name, padded", [*((name, True) for name in VARIETIES), ("plain", False), ("learned", False), ("window", False)]
)
def test_cached_equals_uncached(name, padded):
    model, tokens = build(name), ids()
    attention_mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    if padded:
        attention_mask[0, :3] = attention_mask[2, :1] = False
    expected = model(tokens, attention_mask=attention_mask if padded else None)
    cache = model.new_cache(BATCH, TOKENS)
    with torch.inference_mode():
        found = [model(tokens[:, :5], attention_mask=attention_mask[:, :5] if padded else None, cache=cache)]
        found += [model(token, cache=cache) for token in tokens[:, 5:].split(1, 1)]
    torch.testing.assert_close(torch.cat(found, 1)[attention_mask], expected[attention_mask], rtol=1e-8, atol=1e-8)
    assert cache.length == TOKENS


@pytest.mark.parametrize("name", ["learned", "rope, parallel", "t5", "window", "latent"])
def test_a_padded_text_may_be_read_in_parts(name):
    """Padding in the first part and in the last, whose rows go on from where they stand."""
    model, tokens = build(name), ids()
    attention_mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    attention_mask[0, :5] = attention_mask[1, 9:] = attention_mask[2, :1] = False
    cache = model.new_cache(BATCH, TOKENS)
    with torch.inference_mode():
        parts = zip(tokens.split([4, 3, 4], 1), attention_mask.split([4, 3, 4], 1), strict=True)
        found = [model(part, attention_mask=real, cache=cache) for part, real in parts]
    expected = model(tokens, attention_mask=attention_mask)
    torch.testing.assert_close(torch.cat(found, 1)[attention_mask], expected[attention_mask], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", VARIETIES)
def test_padding_on_the_left_changes_nothing(name):
    model, tokens = build(name), ids(batch=2)
    attention_mask = torch.ones(2, TOKENS, dtype=torch.bool)
    attention_mask[1, :4] = False
    together = model(tokens, attention_mask=attention_mask)
    alone = model(tokens[1:, 4:])
    torch.testing.assert_close(together[1:, 4:], alone, rtol=1e-8, atol=1e-8)


DOCUMENTS = [(4, 7), (1, 2, 8), (11,)]  # the lengths of those in each row


def rows_of_documents():
    return torch.stack([torch.repeat_interleave(torch.tensor(lengths)) for lengths in DOCUMENTS])


@pytest.mark.syllabus("GT-03")
@pytest.mark.parametrize(
    "name, kind",
    [
        *((name, "decoder") for name in VARIETIES),
        *((name, "encoder") for name in ("learned", "alibi", "t5", "shaw", "transformer-xl", "tupe")),
    ],
)
def test_documents_in_one_row_are_as_if_each_were_read_alone(name, kind):
    model, tokens = build(name, kind=kind), ids()
    together, records = model(tokens, documents=rows_of_documents(), return_records=True)
    for row, lengths in enumerate(DOCUMENTS):
        alone = [model(part) for part in tokens[row : row + 1].split(lengths, 1)]
        torch.testing.assert_close(together[row : row + 1], torch.cat(alone, 1), rtol=1e-8, atol=1e-8)
    apart = rows_of_documents()[:, None, :, None] != rows_of_documents()[:, None, None, :]
    assert all(record.attention_weights[apart.expand(-1, 4, -1, -1)].eq(0).all() for record in records)
    torch.testing.assert_close(model(tokens, documents=rows_of_documents()), together, rtol=1e-8, atol=1e-8)


def test_documents_may_have_any_numbers():
    model, tokens = build("rope, parallel"), ids()
    expected = model(tokens, documents=rows_of_documents())
    torch.testing.assert_close(model(tokens, documents=9 - 3 * rows_of_documents()), expected)
    assert not torch.allclose(model(tokens), expected)


def test_documents_are_not_combined_with_padding_or_a_cache():
    model, tokens = build("plain"), ids()
    for name, value in {
        "attention_mask": torch.ones(BATCH, TOKENS, dtype=torch.bool),
        "cache": model.new_cache(BATCH, TOKENS),
    }.items():
        with pytest.raises(ValueError, match=f"{name} and documents cannot be given together"):
            model(tokens, documents=rows_of_documents(), **{name: value})


@pytest.mark.syllabus("GT-12")
@pytest.mark.parametrize("name", [name for name in VARIETIES if name != "window"])
def test_an_encoder_sees_both_sides_and_no_padding_on_either(name):
    model, tokens = build(name, kind="encoder"), ids(batch=2)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % VOCAB
    assert (model(changed) - model(tokens))[:, 0].abs().max() > 1e-6
    attention_mask = torch.ones(2, TOKENS, dtype=torch.bool)
    attention_mask[0, -3:] = False
    torch.testing.assert_close(
        model(tokens, attention_mask=attention_mask)[:1, :-3], model(tokens[:1, :-3]), rtol=1e-8, atol=1e-8
    )
    with pytest.raises(ValueError, match="cache must be None for an encoder"):
        model(tokens, cache=model.new_cache(2, TOKENS))


@pytest.mark.syllabus("UCL-31", "IITD-45")
@pytest.mark.parametrize("name", ["plain", "sinusoidal, scaled", "t5", "rope, qk-norm"])
def test_an_encoder_decoder_with_caches_and_padded_source(name):
    model = build(name, kind="encoder-decoder", n_encoder_layers=3)
    tokens, source = ids(), ids(5, tokens=8)
    attention_mask = torch.ones(BATCH, 8, dtype=torch.bool)
    attention_mask[1, 5:] = False
    read = model.encode(source, attention_mask)
    expected = model(tokens, source=read)
    cache = model.new_cache(BATCH, TOKENS, n_source=8)
    with torch.inference_mode():
        found = [model(part, source=read, cache=cache) for part in tokens.split([4, 1, 6], 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-8, atol=1e-8)
    alone = model(tokens[1:2], source=source[1:2, :5])
    torch.testing.assert_close(expected[1:2], alone, rtol=1e-8, atol=1e-8)
    _, records = model(tokens, source=source, return_records=True)
    assert records[1].cross_attention_weights.shape == (BATCH, 4, TOKENS, 8) and len(records) == 2


@pytest.mark.parametrize("name", VARIETIES)
def test_weights_on_request_and_the_same_logits(name):
    model, tokens = build(name), ids()
    logits, records = model(tokens, return_records=True)
    torch.testing.assert_close(logits, model(tokens), rtol=1e-8, atol=1e-8)
    assert len(records) == 2
    for record in records:
        assert record.attention_weights.shape == (BATCH, 4, TOKENS, TOKENS)
        torch.testing.assert_close(record.attention_weights.sum(-1), torch.ones(BATCH, 4, TOKENS, dtype=torch.float64))
    assert [record.routing is not None for record in records] == [False, name == "experts"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", VARIETIES)
def test_gradients_reach_every_parameter_and_state_goes_round(name, device):
    model, tokens = build(name).to(device), ids().to(device)
    model(tokens).square().mean().backward()
    unreached = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # shares of a softmax: a bias of all keys alike moves nothing; distances that this text does not have
    assert not [n for n in unreached if not re.search(r"w_key\.bias|selection_bias", n)]
    twin = Transformer(model.config).to(device).double()
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin(tokens), model(tokens))


def test_tied_embeddings_are_one_table():
    tied, untied = build("alibi"), build("alibi", tie_embeddings=False)
    assert tied.unembedding.embedding is tied.embedding
    count = [sum(p.numel() for p in model.parameters()) for model in (tied, untied)]
    assert count[1] - count[0] == VOCAB * 24


def test_schemes_are_shared_or_not_as_the_papers_have_them():
    t5, xl = build("t5"), build("transformer-xl")
    assert t5.stack.blocks[0].attention.position is t5.stack.blocks[1].attention.position
    assert xl.stack.blocks[0].attention.position is not xl.stack.blocks[1].attention.position


def test_misuse_is_refused_before_any_work():
    model, tokens = build("learned"), ids(tokens=41)
    with pytest.raises(ValueError, match="41 tokens are more than n_ctx=40"):
        model(tokens)
    with pytest.raises(ValueError, match="41 tokens are more than n_ctx=40"):
        model.new_cache(BATCH, 41)
    with pytest.raises(ValueError, match="source must be given for an encoder-decoder, and only then"):
        model(ids(), source=ids())
    with pytest.raises(ValueError, match="kind='decoder' has no encoder"):
        model.encode(ids())
    with pytest.raises(ValueError, match="n_source=5 must be given for an encoder-decoder, and only then"):
        model.new_cache(BATCH, 8, n_source=5)
    with pytest.raises(ValueError, match="ids hold 101; they must be 0 to n_vocab - 1 = 100"):
        model(torch.full((1, 3), 101))


def test_compiles_whole(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
from llm_anatomy.models.transformer import Transformer
documents = torch.tensor([[0, 0, 0, 1, 1, 2, 2]]).expand(3, -1)
for more, given in (
    (dict(position="rope", norm="rmsnorm"), {}),
    (dict(position="rope", norm="rmsnorm"), dict(documents=documents)),
    (dict(position="t5"), dict(documents=documents)),
    (dict(position="learned", n_ctx=20), {}),
):
    model = Transformer(ModelConfig(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=101, **more)).eval()
    ids = torch.randint(0, 101, (3, 7))
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(ids, **given), model(ids, **given))
""")


def test_layers_with_equal_windows_share_the_mask_of_documents(monkeypatch):
    masks, rule = [], Mask.__call__
    monkeypatch.setattr(Mask, "__call__", lambda *a: masks.append(1) or rule(*a))
    build("window", n_layers=4)(ids(), documents=rows_of_documents())
    assert len(masks) == 2


@pytest.mark.parametrize("window", [None, 3])
def test_positions_are_worked_out_once_for_all_layers(window, monkeypatch):
    """One set of rotation tables per forward, and one mask per layout of keys, whatever the number of layers."""
    made, masks = [], []
    tables, rule = HalfSplitRotary.tables, Mask.__call__
    monkeypatch.setattr(HalfSplitRotary, "tables", lambda *a: made.append(1) or tables(*a))
    monkeypatch.setattr(Mask, "__call__", lambda *a: masks.append(1) or rule(*a))
    config = ModelConfig(d_model=16, n_layers=4, n_heads=2, d_ff=9, n_vocab=11, position="rope", window=window)
    model, ids = Transformer(config).eval(), torch.arange(10).view(2, 5)
    attention_mask = torch.ones(2, 5, dtype=torch.bool)
    attention_mask[0, :2] = False
    with torch.inference_mode():
        model(ids, attention_mask=attention_mask)
        assert (len(made), len(masks)) == (1, 1)
        cache = model.new_cache(2, 7)
        model(ids, attention_mask=attention_mask, cache=cache)
        model(ids[:, :1], cache=cache)
        assert (len(made), len(masks)) == (3, 3)


# --- Blocks from their parts ---


def own_block(cross_attention=False):
    """A block that no config describes: its norms and widths differ from part to part."""
    return Block(
        attention=SelfAttention(24, 4, n_kv_heads=2, d_head=5, position=HalfSplitRotary(4)),
        feedforward=GatedFeedForward(24, 36, nn.GELU()),
        attention_residual=PreNorm(nn.RMSNorm(24)),
        feedforward_residual=SandwichNorm(nn.LayerNorm(24), nn.RMSNorm(24)),
        cross_attention=CrossAttention(24, 4, d_context=17) if cross_attention else None,
        cross_attention_residual=PostNorm(nn.LayerNorm(24)) if cross_attention else None,
    )


def test_a_block_of_parts_computes_what_its_parts_do():
    block = randomize(own_block(cross_attention=True)).double()
    g = torch.Generator().manual_seed(4)
    x = torch.randn(2, 5, 24, generator=g, dtype=torch.float64)
    source = EncoderOutput(torch.randn(2, 3, 17, generator=g, dtype=torch.float64))
    context = PositionContext(torch.arange(5)[None], source.key_positions)
    result, record = block(x, mask=CausalMask(), encoder_output=source, cross_position_context=context)
    expected = x + block.attention(block.attention_residual.norm(x), mask=CausalMask())
    norm = block.cross_attention_residual.norm
    expected = norm(expected + block.cross_attention(expected, source.hidden_states))
    inner = block.feedforward(block.feedforward_residual.norm_in(expected))
    torch.testing.assert_close(result, expected + block.feedforward_residual.norm_out(inner))
    assert record == BlockRecord(None, None, None)
    tensor = CausalMask().as_tensor(5)  # a mask may also be a tensor
    alone = own_block().double()
    torch.testing.assert_close(alone(x, mask=tensor)[0], alone(x, mask=CausalMask())[0])
    with torch.no_grad():
        cache, steps = alone.attention.new_cache(2, 5), []
        for t in range(5):
            steps.append(alone(x[:, t : t + 1], mask=CausalMask(), cache=cache)[0])
    torch.testing.assert_close(torch.cat(steps, 1), alone(x, mask=CausalMask())[0])


@pytest.mark.parametrize("n_norms", [1, 2])
def test_a_parallel_block_of_parts_computes_what_its_parts_do(n_norms):
    norms = dict(attention_norm=nn.LayerNorm(24), feedforward_norm=nn.RMSNorm(24) if n_norms == 2 else None)
    feedforward = nn.Sequential(nn.Linear(24, 24), shared := nn.GELU(), nn.Linear(24, 24), shared)
    block = randomize(ParallelBlock(SelfAttention(24, 4), feedforward, **norms)).double()
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    first, second = block.attention_norm, block.feedforward_norm if n_norms == 2 else block.attention_norm
    expected = x + block.attention(first(x), mask=CausalMask()) + block.feedforward(second(x))
    torch.testing.assert_close(block(x, mask=CausalMask())[0], expected)
    assert len(block.feedforward) == 4  # a list of layers may run one of them twice
    assert (block.feedforward_norm is block.attention_norm) == (n_norms == 1)


def test_a_block_says_which_part_is_missing():
    parts = dict(attention_residual=PreNorm(nn.RMSNorm(24)), feedforward_residual=PreNorm(nn.RMSNorm(24)))
    attention, feedforward, cross = SelfAttention(24, 4), GatedFeedForward(24, 36, nn.GELU()), CrossAttention(24, 4)
    with pytest.raises(ValueError, match="cross_attention and cross_attention_residual must be given together"):
        Block(attention, feedforward, cross_attention=cross, **parts)
    with pytest.raises(ValueError, match="encoder_output must be None for a block without cross_attention"):
        source = EncoderOutput(torch.zeros(2, 3, 24))
        Block(attention, feedforward, **parts)(torch.zeros(2, 5, 24), mask=CausalMask(), encoder_output=source)


# --- Nothing to read ---

SCHEMES = {  # in addition to those of VARIETIES
    "deberta": {"position": "deberta", "clipping.max_distance": 3},
    "deberta, log buckets": {"position": "deberta_v2", "norm_placement": "post"},
    "tied, one norm": dict(position="rope", tie_embeddings=True, parallel_block=True, n_parallel_norms=1),
}
EMPTY = [(0, 5), (2, 0), (0, 0)]


def any_model(name, **more):
    return Transformer(ModelConfig.of(SIZES | (VARIETIES | SCHEMES)[name] | more))


def check_empty(model, shape, **more):
    for return_records in (False, True):
        result = model(torch.zeros(shape, dtype=torch.long), return_records=return_records, **more)
        logits, records = result if return_records else (result, [])
        assert logits.shape == (*shape, VOCAB)
        for record in records:
            weights = record.attention_weights
            assert weights.shape == (shape[0], SIZES["n_heads"], shape[1], shape[1])
        model.zero_grad()
        logits.sum().backward()
        assert all(p.grad is None or p.grad.eq(0).all() for p in model.parameters())


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", VARIETIES | SCHEMES)
def test_no_sequences_and_no_tokens_give_empty_logits(name, kind):
    if kind == "encoder" and "latent" in name:
        return
    model, (no_sequences, no_tokens, neither) = any_model(name, kind=kind), EMPTY
    check_empty(model, no_tokens)
    for shape in (no_sequences, no_tokens, neither) if kind == "decoder" else (no_sequences,):
        check_empty(model, shape, attention_mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("position", ["t5", "rope"])
def test_an_empty_source_and_an_empty_target(position):
    model = Transformer(ModelConfig.of(SIZES | dict(kind="encoder-decoder", position=position)))
    for batch, n_source, n_target in [(0, 3, 4), (2, 3, 0), (0, 0, 0)]:
        check_empty(model, (batch, n_target), source=torch.zeros(batch, n_source, dtype=torch.long))
    assert model(ids(), source=torch.zeros(BATCH, 0, dtype=torch.long)).isfinite().all()  # cross-attention adds zeros


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["rope, parallel", "window", "latent"])
def test_no_new_tokens_leave_a_cache_as_it_is(name, masked):
    model, tokens = build(name), ids()
    nothing = torch.ones(BATCH, 0, dtype=torch.bool) if masked else None
    found = []
    with torch.no_grad():
        expected, cache = model(tokens), model.new_cache(BATCH, TOKENS)
        for part in (tokens[:, :6], tokens[:, 6:]):
            found.append(model(part[:, :0], attention_mask=nothing, cache=cache))
            found.append(model(part, cache=cache))
    torch.testing.assert_close(torch.cat(found, 1), expected)


# --- Function transforms, copies, saving and export ---


OTHER_TENSORS = {"learned", "rope, qk-norm", "t5", "shaw", "transformer-xl", "tupe", "latent, query latent", "experts"}
OTHER_TENSORS |= {"trained activation", "tied, one norm", "deberta"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param(n, "decoder", marks=[pytest.mark.slow] * (n not in OTHER_TENSORS)) for n in VARIETIES | SCHEMES]
    + [("t5", "encoder-decoder")],
)
def test_function_transforms_leave_the_model_as_it_was(name, kind, tmp_path):
    """Every tensor of the model, buffers included, is borrowed for a gradient, a Jacobian and a vectorized call."""
    model, tokens = any_model(name, kind=kind), ids(tokens=4, batch=2)
    more = {"source": ids(2, tokens=3, batch=2)} if kind == "encoder-decoder" else {}
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    expected = model(tokens, **more)

    def loss(given):
        return torch.func.functional_call(model, given, (tokens,), more).square().mean()

    floats = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    grads = torch.func.grad(loss)(floats)
    own = torch.autograd.grad(loss({}), list(model.parameters()), allow_unused=True, materialize_grads=True)
    for (parameter, _), grad in zip(model.named_parameters(), own, strict=True):
        torch.testing.assert_close(grads[parameter], grad)
    if name != "experts":  # which tokens an expert receives depends on the data
        both = {name: torch.stack((tensor, tensor)) for name, tensor in floats.items()}
        with sdpa_kernel(SDPBackend.MATH):  # PyTorch vectorizes no other kernel with a bias that has a gradient
            torch.func.jacrev(loss)(floats)
            torch.func.vmap(loss)(both)
    torch.func.functional_call(model, model.state_dict(), (tokens,), more)

    found = dict(model.named_parameters()) | dict(model.named_buffers())
    assert list(found) == list(tensors) and all(found[name] is tensor for name, tensor in tensors.items())
    safetensors.torch.save_file(model.state_dict(), tmp_path / "model.safetensors")
    torch.save(model, tmp_path / "model.pt")
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    copies += [torch.load(tmp_path / "model.pt", weights_only=False), any_model(name, kind=kind)]
    copies[-1].load_state_dict(safetensors.torch.load_file(tmp_path / "model.safetensors"))
    for other in copies:
        torch.testing.assert_close(other(tokens, **more), expected)
        assert len(list(other.parameters())) == len(list(model.parameters()))


@pytest.mark.parametrize("position", ["t5", "tupe", "deberta"])
def test_a_state_dict_with_a_second_name_for_a_shared_tensor_is_loaded(position):
    """As earlier versions wrote them: each layer repeated the shared table, and the output the tied embedding."""
    options = {"deberta": {"clipping.max_distance": 3}, "tupe": {"n_ctx": 40}}.get(position, {})
    config = ModelConfig.of(SIZES | dict(position=position, tie_embeddings=True) | options)
    model, other = Transformer(config), Transformer(config)
    state = model.state_dict()
    assert "unembedding.embedding.weight" not in state
    repeated = {"unembedding.embedding.weight": state["embedding.weight"]}
    first, second = "stack.blocks.0.attention.position.", "stack.blocks.1.attention.position."
    shared = [key for key in state if key.startswith(first) and (position != "deberta" or "table" in key)]
    repeated |= {key.replace(first, second): state[key] for key in shared}
    assert len(state | repeated) > len(state) + 1
    other.load_state_dict(state | repeated)
    torch.testing.assert_close(other(ids()), model(ids()))
    with pytest.raises(RuntimeError, match=r"Unexpected key.*stack.blocks.1.attention.position.elsewhere"):
        other.load_state_dict(state | {"stack.blocks.1.attention.position.elsewhere": torch.zeros(1)})
    for key, tensor in repeated.items():
        with pytest.raises(RuntimeError, match=f"{key} differs from the tensor of which it is the second name"):
            other.load_state_dict(state | {key: tensor + 1})


WINDOWS = {
    "all layers": {},
    "every second layer": dict(layer_types=("sliding_attention", "full_attention")),
    "both sides": dict(kind="encoder"),
    "softcapping": dict(attn_logit_softcapping=2.0),
    "shared heads": dict(n_kv_heads=2),
    "latent": LATENT,
    "alibi": dict(position="alibi"),
}


@pytest.mark.parametrize(
    ("name", "n_tokens"),
    [
        pytest.param(name, n, marks=pytest.mark.slow) for name in WINDOWS for n in (3, 7)
    ]  # less than the window, and more
    + [("every second layer", 6)],
)
def test_windows_are_exported_for_all_lengths(name, n_tokens, run_without_shape_checks):
    config = SIZES | dict(position="rope", window=4) | WINDOWS[name]
    code = (
        "import torch\nfrom llm_anatomy.config import ModelConfig\n"
        "from llm_anatomy.models.transformer import Transformer\n"
        f"model = Transformer(ModelConfig.of({config!r}))\n"
        "shapes = {'ids': {0: torch.export.Dim('batch'), 1: torch.export.Dim('tokens')}}\n"
        f"ids = torch.randint(0, {VOCAB}, (2, {n_tokens}))\n"
        "exported = torch.export.export(model, (ids,), dynamic_shapes=shapes).module()\n"
        "for shape in ((2, 3), (3, 4), (5, 5), (3, 9), (2, 40)):\n"
        f"    ids = torch.randint(0, {VOCAB}, shape)\n"
        "    torch.testing.assert_close(exported(ids), model(ids))\n"
    )
    run_without_shape_checks(code)


@pytest.mark.syllabus("UCL-31", "IITD-42", "IITD-45")
def test_a_decoder_block_is_that_of_pytorch():
    """Post-norm, with masked self-attention, cross-attention to a longer source, and biases, as in the paper."""
    config = ModelConfig(
        kind="encoder-decoder", d_model=24, n_layers=1, n_heads=3, d_ff=37, n_vocab=7, norm_placement="post",
        feedforward="relu", attention_bias=True, output_bias=True, ff_bias=True,
    )  # fmt: skip
    block = Transformer(config).double().stack.blocks[0]
    theirs = nn.TransformerDecoderLayer(24, 3, dim_feedforward=37, dropout=0.0, batch_first=True).double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
        for ours, name in {block.attention: "self_attn", block.cross_attention: "multihead_attn"}.items():
            attention = getattr(theirs, name)
            projections = ours.w_query, ours.w_key, ours.w_value
            for linear, weight, bias in zip(
                projections, attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True
            ):
                linear.weight.copy_(weight)
                linear.bias.copy_(bias)
            ours.w_output.load_state_dict(attention.out_proj.state_dict())
        block.feedforward.w_up.load_state_dict(theirs.linear1.state_dict())
        block.feedforward.w_down.load_state_dict(theirs.linear2.state_dict())
        residuals = block.attention_residual, block.cross_attention_residual, block.feedforward_residual
        for residual, norm in zip(residuals, (theirs.norm1, theirs.norm2, theirs.norm3), strict=True):
            residual.norm.load_state_dict(norm.state_dict())
    x, source = torch.randn(2, 5, 24).double(), EncoderOutput(torch.randn(2, 8, 24).double())
    context = PositionContext(torch.arange(5)[None], source.key_positions)
    found, record = block(
        x, mask=CausalMask(), encoder_output=source, cross_position_context=context, return_weights=True
    )
    hidden = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    torch.testing.assert_close(found, theirs(x, source.hidden_states, tgt_mask=hidden, tgt_is_causal=True))
    assert record.cross_attention_weights.shape == (2, 3, 5, 8)
