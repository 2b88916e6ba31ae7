"""Generation: cached is uncached, a batch is its rows, searches find what slow loops find."""

import itertools
import math

import pytest
import torch
import transformers

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.kv_cache import RollingKVCache
from llm_anatomy.models import generation
from llm_anatomy.models.before_transformers import MambaLM
from llm_anatomy.models.generation import (
    _CachedModel,
    beam_search,
    generate,
    next_logits,
    stream,
)
from llm_anatomy.models.sampling import RepetitionPenalty, Sampler, Temperature, TopK
from llm_anatomy.models.transformer import Transformer

N_VOCAB, N_CTX, N_NEW = 23, 16, 7
SIZES = dict(d_model=24, n_layers=2, n_heads=6, d_ff=19, n_vocab=N_VOCAB)
MODELS = {
    "no positions": {},
    "sinusoidal": dict(position="sinusoidal"),
    "learned": {"position": "learned", "n_ctx": N_CTX, "learned.offset": 2},
    "rope": dict(position="rope", n_kv_heads=2, norm="rmsnorm", qk_norm="per_head"),
    "alibi": dict(position="alibi", parallel_block=True),
    "t5": {"position": "t5", "buckets.n_buckets": 6, "buckets.max_distance": 9},
    "shaw": {"position": "shaw", "clipping.max_distance": 3},
    "transformer_xl": dict(position="transformer_xl"),
    "deberta": {"position": "deberta", "clipping.max_distance": 4},
    "deberta_v2": {"position": "deberta_v2", "buckets.n_buckets": 8, "buckets.max_distance": 9},
    "tupe": dict(position="tupe", n_ctx=N_CTX),
    "latent": {"position": "rope", "attention": "latent", "latent.d_latent": 10, "latent.d_rotary": 6, "d_head": 4},
    "window": dict(
        position="rope", window=3, n_layers=3, layer_types=("sliding_attention", "sliding_attention", "full_attention")
    ),
    "soft-capped": dict(position="alibi", window=4, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
}
PROMPTS = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3, 5, 8, 9, 7]]


def randomize(module, seed=0, scale=0.3):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=g, dtype=torch.float64)
            parameter.copy_(noise * scale + ("norm" in name and "weight" in name))
    return module.double().eval()


def model_of(seed=0, scale=0.3, **parts):
    return randomize(Transformer(ModelConfig.of(SIZES | parts)), seed, scale)


def encoder_decoder(seed=0, **parts):
    has_encoder = {"kind": "encoder-decoder", "n_encoder_layers": 1, "position": "t5", "buckets.n_buckets": 6}
    return model_of(seed, **has_encoder, **parts)


@torch.no_grad()
def written_slowly(model, prompt, max_new_tokens, source=None):
    """No cache, no batch: the whole text is read anew for each token."""
    text, log_probs = list(prompt), []
    given = {} if source is None else dict(source=torch.tensor([source]))
    for _ in range(max_new_tokens):
        scores = model(torch.tensor([text]), **given)[0, -1].log_softmax(-1)
        text.append(scores.argmax().item())
        log_probs.append(scores.max().item())
    return text[len(prompt) :], log_probs


# --- Reading: cache, batch, padding ---


@pytest.mark.syllabus("CMU-10", "UCL-10")
@pytest.mark.parametrize("name", MODELS)
def test_a_batch_with_a_cache_equals_each_text_alone_without(name):
    model = model_of(**MODELS[name])
    written = generate(model, PROMPTS, max_new_tokens=N_NEW, log_probs=True)
    for row, prompt in enumerate(PROMPTS):
        ids, log_probs = written_slowly(model, prompt, N_NEW)
        assert written.ids[row] == ids
        torch.testing.assert_close(written.log_probs[row], log_probs, rtol=1e-5, atol=1e-5)
    assert written.finish_reason == ["length"] * 3
    assert generate(model, PROMPTS[:1], max_new_tokens=N_NEW).ids == written.ids[:1]


@pytest.mark.syllabus("UCL-31", "UCL-10")
def test_an_encoder_decoder_reads_sources_of_unequal_lengths():
    model, sources = encoder_decoder(), [[7, 7, 1], [2, 9, 9, 4, 4], [5]]
    written = generate(model, PROMPTS, max_new_tokens=N_NEW, sources=sources)
    expected = [
        written_slowly(model, prompt, N_NEW, source)[0] for prompt, source in zip(PROMPTS, sources, strict=True)
    ]
    assert written.ids == expected
    assert expected != [written_slowly(model, prompt, N_NEW, [7])[0] for prompt in PROMPTS]


@pytest.mark.syllabus("CMU-10")
def test_layers_with_a_window_keep_the_window_alone():
    """And write the same, beyond the window, as the model without a cache: see the first test."""
    cache = model_of(**MODELS["window"]).new_cache(batch=1, n_slots=12)
    assert [type(c) is RollingKVCache for c in cache.blocks] == [True, True, False]
    assert [c.n_slots for c in cache.blocks] == [3, 3, 12]


@pytest.mark.parametrize("name", ["rope", "latent"])
def test_bfloat16_writes_probable_texts(name):
    """What it writes is, by the model in float64, nearly as probable as what that writes."""
    model = model_of(**MODELS[name])
    ids = generate(model_of(**MODELS[name]).bfloat16(), PROMPTS, max_new_tokens=N_NEW).ids
    with torch.no_grad():
        for prompt, new in zip(PROMPTS, ids, strict=True):
            scores = model(torch.tensor([prompt + new]))[0, len(prompt) - 1 : -1].log_softmax(-1)
            assert (scores.max(-1)[0] - scores[range(N_NEW), new]).max() < 0.3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    model = model_of(**MODELS["rope"])
    expected = generate(model, PROMPTS, max_new_tokens=N_NEW).ids
    assert generate(model.cuda(), PROMPTS, max_new_tokens=N_NEW).ids == expected
    sampler = Sampler(TopP(0.9), generator=torch.Generator("cuda").manual_seed(0))
    assert len(generate(model, PROMPTS, max_new_tokens=N_NEW, sampler=sampler).ids[0]) == N_NEW


# --- Overflow ---


def slid_slowly(model, prompt, max_new_tokens):
    """As the docstring says it: a row that is full keeps its newest half."""
    text, new = list(prompt), []
    for _ in range(max_new_tokens):
        text = text if len(text) <= N_CTX else text[-(N_CTX // 2) :]
        new += written_slowly(model, text, 1)[0]
        text.append(new[-1])
    return new


@pytest.mark.parametrize("name", ["learned", "tupe"])
def test_sliding_equals_rows_that_slide_alone_without_a_cache(name):
    model, max_new_tokens, long = model_of(**MODELS[name]), 2 * N_CTX, [2, 11] * N_CTX
    prompts = [*PROMPTS, long, long[:N_CTX]]
    written = generate(model, prompts, max_new_tokens=max_new_tokens, overflow="slide")
    assert written.ids == [slid_slowly(model, prompt, max_new_tokens) for prompt in prompts]
    for stop in (written.ids[0][1], written.ids[-1][0]):  # rows that have stopped, one of them when it was full
        finish_reason = generate(
            model, prompts, max_new_tokens=max_new_tokens, overflow="slide", stop_token_ids={stop}
        ).ids
        assert finish_reason == [ids[: ids.index(stop) + 1] if stop in ids else ids for ids in written.ids]


def test_overflow_is_refused_before_anything_is_read():
    model = model_of(**MODELS["learned"])
    assert len(generate(model, [[1] * 10], max_new_tokens=N_CTX - 9).ids[0]) == N_CTX - 9  # the last one is not read
    with pytest.raises(ValueError, match=r"max_new_tokens=8 after a prompt of 10 tokens takes 17 p.*n_ctx=16.*slide"):
        stream(model, [[1] * 10], max_new_tokens=N_CTX - 8)


@pytest.mark.parametrize("name", ["learned", "tupe"])
def test_stopping_ends_each_row_where_its_own_context_is_full(name):
    model, prompts = model_of(**MODELS[name]), [*PROMPTS, [2, 11] * (N_CTX // 2)]
    written = generate(model, prompts, max_new_tokens=2 * N_CTX, overflow="stop")
    assert written.ids == [written_slowly(model, prompt, N_CTX - len(prompt) + 1)[0] for prompt in prompts]
    assert written.finish_reason == ["length"] * 4
    short = generate(model, prompts, max_new_tokens=3, overflow="stop")
    assert short.ids == [ids[:3] for ids in written.ids]
    with pytest.raises(ValueError, match="a prompt of 17 tokens is longer than n_ctx=16; overflow='slide'"):
        stream(model, [[1] * (N_CTX + 1)], max_new_tokens=3, overflow="stop")
    unlimited = model_of(position="alibi")
    assert generate(unlimited, PROMPTS, max_new_tokens=3, overflow="stop") == generate(
        unlimited, PROMPTS, max_new_tokens=3
    )


# --- Stopping and streaming ---


def test_stop_tokens_end_their_row_alone():
    model = model_of(**MODELS["rope"])
    free = generate(model, PROMPTS, max_new_tokens=N_NEW, log_probs=True)
    stop = {free.ids[0][2], free.ids[1][4]}
    written = generate(model, PROMPTS, max_new_tokens=N_NEW, stop_token_ids=stop, log_probs=True)
    for row, ids in enumerate(free.ids):
        ends = [position + 1 for position, i in enumerate(ids) if i in stop]
        assert written.ids[row] == ids[: min(ends, default=N_NEW)]
        assert written.finish_reason[row] == ("stop_token" if ends else "length")
        torch.testing.assert_close(written.log_probs[row], free.log_probs[row][: len(written.ids[row])])
    assert "stop_token" in written.finish_reason


def test_stop_strings_may_span_tokens_and_do_not_look_at_prompts():
    model = model_of(**MODELS["rope"])

    def decode(ids):
        return "".join(chr(ord("a") + i) for i in ids)

    free = generate(model, PROMPTS, max_new_tokens=N_NEW).ids
    string = decode(free[0][2:4])
    written = generate(model, PROMPTS, max_new_tokens=N_NEW, stop_strings=[string, "zzz"], decode=decode)
    for row, ids in enumerate(free):
        end = decode(ids).find(string)
        assert written.ids[row] == (ids[: end + 2] if end >= 0 else ids)
        assert written.finish_reason[row] == ("stop_string" if end >= 0 and end + 2 <= N_NEW else "length")
    assert written.finish_reason[0] == "stop_string"
    across = decode([PROMPTS[0][-1], free[0][0]])  # begins in the prompt
    if across not in decode(free[0]):
        assert generate(model, PROMPTS[:1], max_new_tokens=2, stop_strings=[across], decode=decode).finish_reason == [
            "length"
        ]


def test_a_stream_comes_step_by_step_and_can_be_left():
    model, calls = model_of(**MODELS["rope"]), []

    def counted(*given):
        calls.append(given[1].shape)
        return next_logits(*given)

    steps = stream(model, PROMPTS, max_new_tokens=N_NEW, step=counted)
    assert calls == []
    first, second, third = next(steps), next(steps), next(steps)
    assert calls == [(3, 1)] * 2  # the prompts took one pass of their own
    whole = generate(model, PROMPTS, max_new_tokens=N_NEW).ids
    assert [first.ids, second.ids, third.ids] == [list(column) for column in zip(*whole, strict=True)][:3]
    assert first.log_probs is None and third.finish_reason == [None] * 3
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()  # between the steps all is as it was
    stop = whole[1][0]
    assert [step.ids[1] for step in stream(model, PROMPTS, max_new_tokens=4, stop_token_ids=[stop])][:2] == [stop, None]


# --- Sampling ---


def test_seeds_reproduce_and_chance_differs():
    model = model_of(**MODELS["rope"])

    def written(seed):
        sampler = Sampler(Temperature(1.3), generator=torch.Generator().manual_seed(seed))
        return generate(model, PROMPTS, max_new_tokens=N_NEW, sampler=sampler).ids

    assert written(1) == written(1) != written(2)
    nothing_left_to_chance = Sampler(Temperature(0.0), TopK(1))
    assert generate(model, PROMPTS, max_new_tokens=N_NEW, sampler=nothing_left_to_chance) == generate(
        model, PROMPTS, max_new_tokens=N_NEW
    )


def test_the_penalty_sees_prompt_and_text_of_its_own_row():
    model, prompts = model_of(**MODELS["rope"]), [[3, 1, 4, 1, 5], [9, 2]]
    sampler = Sampler(RepetitionPenalty(1e9), Temperature(0.0))
    with torch.no_grad():
        model.unembedding.embedding.weight.mul_(0.1)
    written = generate(model, prompts, max_new_tokens=9, sampler=sampler).ids
    for prompt, ids in zip(prompts, written, strict=True):
        assert len(set(prompt) | set(ids)) == len(set(prompt)) + 9  # nothing twice, whatever the other row holds
    free = [set(prompt) | set(ids) for prompt, ids in zip(prompts, written, strict=True)]
    assert free[0] & free[1]
    for row, prompt in enumerate(prompts):
        assert generate(model, [prompt], max_new_tokens=9, sampler=sampler).ids == written[row : row + 1]


# --- Beam search ---


@torch.no_grad()
def all_texts(model, prompt, max_new_tokens, stop_token_ids, length_penalty, source=None):
    """Every text there is, with its score, the best first."""
    every = list(itertools.product(range(model.config.n_vocab), repeat=max_new_tokens))
    given, found = {} if source is None else dict(source=torch.tensor([source] * len(every))), {}
    scores = model(torch.tensor([[*prompt, *ids] for ids in every]), **given).log_softmax(-1)
    for row, ids in zip(scores[:, len(prompt) - 1 : -1].tolist(), every, strict=True):
        end = next((position + 1 for position, i in enumerate(ids) if i in stop_token_ids), max_new_tokens)
        total = sum(row[position][i] for position, i in enumerate(ids[:end]))
        found[ids[:end]] = total / end**length_penalty
    return sorted(found.items(), key=lambda item: -item[1])


@pytest.mark.syllabus("UCL-30", "UCL-31")
@pytest.mark.parametrize("kind, length_penalty", [("decoder", 0.0), ("decoder", 2.0), ("encoder-decoder", 0.7)])
def test_wide_beams_find_the_best_of_all_texts(kind, length_penalty):
    prompts, sources = [[1, 3], [2]], None if kind == "decoder" else [[0, 2, 1], [3]]
    model = model_of(3, n_vocab=4, position="rope") if kind == "decoder" else encoder_decoder(3, n_vocab=4)
    found = beam_search(
        model,
        prompts,
        max_new_tokens=3,
        n_beams=27,
        stop_token_ids=[1],
        length_penalty=length_penalty,
        early_stopping=False,
        sources=sources,
    )
    for row, prompt in enumerate(prompts):
        source = None if sources is None else sources[row]
        expected = all_texts(model, prompt, 3, {1}, length_penalty, source)[:27]
        assert [tuple(text.ids) for text in found[row]] == [ids for ids, _ in expected]
        torch.testing.assert_close([text.score for text in found[row]], [s for _, s in expected], rtol=1e-5, atol=1e-5)
        for text in found[row]:
            assert text.finish_reason == ("stop_token" if text.ids[-1] == 1 else "length")
            assert math.isclose(text.log_prob, text.score * len(text.ids) ** length_penalty, rel_tol=1e-6)


def test_greedy_misses_what_a_beam_finds():
    """Else the tests above would show nothing."""
    models = [model_of(seed, n_vocab=4, position="rope") for seed in range(8)]
    narrow, wide = (
        [beam_search(model, [[1, 3]], max_new_tokens=3, n_beams=n)[0][0].score for model in models] for n in (1, 16)
    )
    assert all(w >= n - 1e-6 for n, w in zip(narrow, wide, strict=True))
    assert any(w > n + 1e-3 for n, w in zip(narrow, wide, strict=True))


def test_ending_when_nothing_open_can_become_better_misses_nothing(monkeypatch):
    def found():
        settings = dict(max_new_tokens=9, n_beams=2, stop_token_ids=[0], length_penalty=1.5, early_stopping=False)
        return [beam_search(model, [[1, 3]], **settings) for model in models]

    models = [model_of(seed, n_vocab=4, position="rope") for seed in range(6)]
    ended = found()
    # every search goes on to the end
    monkeypatch.setattr(generation._BeamSearch, "_highest_attainable_score", lambda self: math.inf)
    assert found() == ended


@pytest.mark.syllabus("UCL-31")
@pytest.mark.parametrize("name", ["rope", "window", "t5", "encoder-decoder"])
def test_one_beam_is_greedy(name):
    sources = [[7, 7, 1], [2, 9, 9, 4, 4], [5]] if name == "encoder-decoder" else None
    model = encoder_decoder() if sources else model_of(**MODELS[name])
    free = generate(model, PROMPTS, max_new_tokens=N_NEW, sources=sources).ids
    for stop_token_ids in ([], [free[0][3]], [free[1][5], free[2][1]]):
        given = dict(max_new_tokens=N_NEW, stop_token_ids=stop_token_ids, sources=sources)
        greedy, beams = (
            generate(model, PROMPTS, log_probs=True, **given),
            beam_search(model, PROMPTS, n_beams=1, **given),
        )
        assert [[text.ids for text in row] for row in beams] == [[ids] for ids in greedy.ids]
        assert [row[0].finish_reason for row in beams] == greedy.finish_reason
        torch.testing.assert_close([row[0].log_prob for row in beams], [sum(row) for row in greedy.log_probs])


# --- Hugging Face, with our weights ---


@pytest.fixture(scope="module")
def both_llamas():
    """The same weights in both, in float64."""
    config = dict(hidden_size=24, intermediate_size=19, num_hidden_layers=2, num_attention_heads=6, vocab_size=N_VOCAB)
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**config, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    )
    randomize(theirs, seed=5)
    ours = Transformer(
        ModelConfig(
            **SIZES, n_kv_heads=2, position="rope", norm="rmsnorm", norm_eps=1e-6, feedforward="swiglu", n_ctx=2048
        )
    ).double()
    names = {
        "embedding.weight": "model.embed_tokens.weight",
        "stack.norm.weight": "model.norm.weight",
        "unembedding.embedding.weight": "lm_head.weight",
    }
    weights = theirs.state_dict()
    state = {name: weights[theirs_name] for name, theirs_name in names.items()}
    for i in range(2):
        for part, its in {
            "attention.w_query": "self_attn.q_proj",
            "attention.w_key": "self_attn.k_proj",
            "attention.w_value": "self_attn.v_proj",
            "attention.w_output": "self_attn.o_proj",
            "attention_residual.norm": "input_layernorm",
            "feedforward_residual.norm": "post_attention_layernorm",
            "feedforward.w_down": "mlp.down_proj",
        }.items():
            state[f"stack.blocks.{i}.{part}.weight"] = weights[f"model.layers.{i}.{its}.weight"]
        gate, up = (weights[f"model.layers.{i}.mlp.{name}_proj.weight"] for name in ("gate", "up"))
        state[f"stack.blocks.{i}.feedforward.w_gate_up.weight"] = torch.cat([gate, up])
    ours.load_state_dict(state)
    return ours, theirs


def padded(prompts):
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    return dict(input_ids=ids, attention_mask=torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts]))


def without_padding(row, eos):
    return row[: row.index(eos) + 1] if eos in row else row


def test_greedy_equals_hugging_face(both_llamas):
    ours, theirs = both_llamas
    max_new_tokens, longest = 12, max(map(len, PROMPTS))
    eos = generate(ours, PROMPTS, max_new_tokens=max_new_tokens).ids[2][3]
    for settings, sampler in (({}, generation.greedy), ({"repetition_penalty": 1.4}, None)):
        sampler = sampler or Sampler(RepetitionPenalty(1.4), Temperature(0.0))
        expected = theirs.generate(
            **padded(PROMPTS),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=eos,
            pad_token_id=0,
            **settings,
        )[:, longest:]
        found = generate(ours, PROMPTS, max_new_tokens=max_new_tokens, stop_token_ids=[eos], sampler=sampler).ids
        if not settings:  # their penalty takes padding for a token of the text
            assert found == [without_padding(row, eos) for row in expected.tolist()]
    for prompt in PROMPTS:
        expected = theirs.generate(
            **padded([prompt]), max_new_tokens=max_new_tokens, do_sample=False, repetition_penalty=1.4, eos_token_id=eos
        )
        found = generate(ours, [prompt], max_new_tokens=max_new_tokens, stop_token_ids=[eos], sampler=sampler).ids[0]
        assert found == expected[0, len(prompt) :].tolist()


@pytest.mark.parametrize("early_stopping, length_penalty", [(True, 1.0), (False, 0.5)])
def test_beams_equal_hugging_face(both_llamas, early_stopping, length_penalty):
    ours, theirs = both_llamas
    eos, longest = 8, max(map(len, PROMPTS))
    expected = theirs.generate(
        **padded(PROMPTS),
        max_new_tokens=8,
        do_sample=False,
        num_beams=4,
        num_return_sequences=4,
        early_stopping=early_stopping or "never",
        length_penalty=length_penalty,
        eos_token_id=eos,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    found = beam_search(
        ours,
        PROMPTS,
        max_new_tokens=8,
        n_beams=4,
        stop_token_ids=[eos],
        length_penalty=length_penalty,
        early_stopping=early_stopping,
    )
    rows = [without_padding(row, eos) for row in expected.sequences[:, longest:].tolist()]
    assert [text.ids for row in found for text in row] == rows
    assert any(row[-1] == eos for row in rows)
    scores = torch.tensor([text.score for row in found for text in row])
    torch.testing.assert_close(scores, expected.sequences_scores.float(), rtol=1e-4, atol=1e-4)


# --- Compilation ---


def test_a_step_compiles_once_and_again_only_when_a_cache_is_full(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.generation import generate, next_logits
from llm_anatomy.models.transformer import Transformer

def counting(graph, example):
    graphs.append(graph)
    return graph.forward

in_order = dict(n_layers=1, position="learned", n_ctx=20), [[3, 1, 4], [1, 5, 9]], 2
left_padded_and_rolling = dict(n_layers=1, position="rope", n_kv_heads=2, window=5), [[3, 1], [1]], 3
for parts, prompts, at_most in in_order, left_padded_and_rolling:
    graphs = []
    torch._dynamo.reset()
    model = Transformer(ModelConfig(d_model=24, n_heads=6, d_ff=19, n_vocab=23, **parts)).double()
    step = torch.compile(next_logits, dynamic=True, fullgraph=True, backend=counting)
    assert generate(model, prompts, max_new_tokens=14, step=step) == generate(model, prompts, max_new_tokens=14)
    assert 1 <= len(graphs) <= at_most, (parts, len(graphs))
""")


# --- Forms of prompts ---


def test_prompts_may_be_tensors():
    model = model_of(**MODELS["rope"])
    expected = generate(model, PROMPTS, max_new_tokens=N_NEW).ids
    as_tensors = [torch.tensor(prompt, dtype=torch.int32) for prompt in PROMPTS]
    assert generate(model, as_tensors, max_new_tokens=N_NEW).ids == expected
    assert generate(model, (as_tensors[0], *PROMPTS[1:]), max_new_tokens=N_NEW).ids == expected
    for row, prompt in enumerate(as_tensors):
        assert generate(model, prompt, max_new_tokens=N_NEW).ids == expected[row : row + 1]
    two = torch.tensor([PROMPTS[0], PROMPTS[0][::-1]])
    assert generate(model, two, max_new_tokens=N_NEW) == generate(model, two.tolist(), max_new_tokens=N_NEW)
    assert beam_search(model, two, max_new_tokens=3, n_beams=2) == beam_search(
        model, two.tolist(), max_new_tokens=3, n_beams=2
    )
    model = encoder_decoder()
    assert generate(model, two, sources=two, max_new_tokens=3) == generate(
        model, two.tolist(), sources=two.tolist(), max_new_tokens=3
    )


# --- Autocast ---


@pytest.mark.parametrize(
    "name, dtype",
    [
        *((name, torch.bfloat16) for name in (*MODELS, "encoder-decoder", "mamba")),
        *((name, torch.float16) for name in ("rope", "latent", "t5")),
    ],
)
def test_under_autocast_a_cache_equals_no_cache(name, dtype):
    """The weights are float32; keys and values arrive in another dtype, in which they are cached."""
    if name == "mamba":
        model = randomize(MambaLM(N_VOCAB, 24, 2))
    else:
        model = encoder_decoder() if name == "encoder-decoder" else model_of(**MODELS[name])
    model, ids = model.float(), torch.randint(N_VOCAB, (3, 9), generator=torch.Generator().manual_seed(1))
    sources = ids[:, :4].tolist() if name == "encoder-decoder" else None
    with torch.autocast("cpu", dtype=dtype), torch.inference_mode():
        whole = model(ids, **({"source": ids[:, :4]} if sources else {}))
        cached = _CachedModel(model, sources)
        pieces = [cached.prefill(ids[:, :5].tolist(), 4), *(cached.step(ids[:, i]) for i in range(5, 9))]
        generated = generate(model, ids, max_new_tokens=3, sources=sources)
    rounding = torch.finfo(dtype).eps * whole.abs().max()  # up to 1.8 of these were seen, which depends on the kernels
    atol = 4 * rounding.item()
    torch.testing.assert_close(torch.stack(pieces, 1).float(), whole[:, 4:].float(), rtol=0, atol=atol)
    assert [len(new) for new in generated.ids] == [3, 3, 3]
    if name != "mamba":
        tensors = [tensor for cache in cached.cache.blocks for tensor in cache.read()[:-1]]
        assert {tensor.dtype for tensor in tensors} == {dtype}


# --- Bad input ---


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(prompts=[]), "prompts holds 0 texts"),
        (dict(prompts=[[1], []]), r"prompts\[1\] is empty"),
        (dict(prompts=[[True]]), r"prompts\[0\] holds True; ids must be integers from 0 to n_vocab - 1 = 22"),
        (dict(prompts=[[1], [4, 23]]), r"prompts\[1\] holds 23; ids must be integers from 0 to n_vocab - 1 = 22"),
        (dict(prompts=[[-1]]), r"prompts\[0\] holds -1"),
        (dict(prompts=[[1.5]]), r"prompts\[0\] holds 1.5"),
        (dict(max_new_tokens=0), "max_new_tokens=0 must be at least 1"),
        (dict(stop_token_ids=[23]), "stop_token_ids holds 23"),
        (dict(stop_strings=["x"]), "decode=None must be given"),
        (dict(stop_strings=[""], decode=str), "empty string"),
        (dict(prompts=[1, 2]), r"prompts\[0\] is 1; it must be a list of ids"),
        (dict(prompts="ab"), "prompts='ab' must be lists of ids"),
        (dict(prompts=["ab"]), r"prompts\[0\] is 'ab'"),
        (dict(prompts=None), "prompts=None must be lists of ids"),
        (dict(prompts=torch.tensor(3)), r"prompts=tensor\(3\) must be lists of ids"),
        (dict(prompts=torch.ones(1, 2, 3)), "prompts=tensor"),
        (dict(prompts=torch.ones(2, 3)), r"prompts\[0\] is torch.float32 \(3,\); a tensor of ids must be integers"),
        (dict(prompts=[torch.ones(3, dtype=torch.bool)]), r"prompts\[0\] is torch.bool"),
        (dict(prompts=[[1], torch.ones(1, 3).long()]), r"prompts\[1\] is torch.int64 \(1, 3\)"),
        (dict(prompts=torch.zeros(0, 3).long()), "prompts holds 0 texts"),
        (dict(prompts=torch.zeros(2, 0).long()), r"prompts\[0\] is empty"),
        (dict(prompts=torch.zeros(0).long()), r"prompts\[0\] is empty"),
        (dict(prompts=torch.tensor([[1, 23]])), r"prompts\[0\] holds 23"),
        (dict(overflow="drop"), "overflow='drop' must be 'refuse', 'stop' or 'slide'"),
        (dict(sources=[[1]]), "sources must be given for an encoder-decoder, and only then"),
    ],
)
def test_bad_input_is_refused_before_the_first_step(settings, message):
    given = dict(prompts=PROMPTS, max_new_tokens=3) | settings
    unchecked = getattr(stream, "__wrapped__", stream)  # the hook of the shapes would refuse a float first
    with pytest.raises(ValueError, match=message):
        unchecked(model_of(**MODELS["rope"]), **given)


def test_bad_input_of_encoder_decoders_encoders_and_beams():
    model = encoder_decoder(n_ctx=4)
    for sources, message in (
        (None, "sources must be given"),
        ([[1]], "sources holds 1 texts"),
        ([[1], [], [2]], r"sources\[1\] is empty"),
        ([[1] * 5, [1], [1]], "sources hold a text of 5 tokens, more than n_ctx=4"),
    ):
        with pytest.raises(ValueError, match=message):
            stream(model, [[1]] * 3, max_new_tokens=2, sources=sources)
    with pytest.raises(ValueError, match="kind='encoder'"):
        stream(model_of(kind="encoder"), PROMPTS, max_new_tokens=2)
    decoder = model_of(n_ctx=9, position="learned")
    for settings, message in (
        (dict(n_beams=0), "n_beams=0 must be at least 1"),
        (dict(length_penalty=-1.0), "length_penalty=-1.0"),
        (dict(stop_token_ids=range(N_VOCAB)), "stop_token_ids must leave"),
        (dict(max_new_tokens=4), "max_new_tokens=4 after a prompt of 7 tokens takes 10 positions"),
        (dict(max_new_tokens=0), "max_new_tokens=0"),
    ):
        with pytest.raises(ValueError, match=message):
            beam_search(decoder, PROMPTS, **dict(max_new_tokens=2, n_beams=2) | settings)
