"""The cache calculator: its numbers against ``costs()`` and against formulas, its words, and what it refuses."""

import dataclasses
import functools
import math

import pytest
import traitlets

from llm_anatomy.data import table
from llm_anatomy.models.costs import costs
from llm_anatomy.models.presets import find, preset, presets
from llm_anatomy.notebook import CacheCalculator
from llm_anatomy.notebook.widgets.cache_calculator import BATCHES, CONTEXTS, DecodingCounts

DECODERS = [name for name, record in presets().items() if record.known and record.config().kind == "decoder"]
MODELS = [row["model"] for row in table("decoding_counts")]
SHAPES = [(1, 128), (3, 500), (16, 4096), (40, 8192), (1024, 131072)]


def one_of_each_structure(names):
    """Mark as slow all but the first model of those that differ in numbers alone."""
    seen = set()
    for name in names:
        values = vars(preset(name)).values()
        structure = tuple(value if isinstance(value, (str, bool)) else value is None for value in values)
        yield pytest.param(name, marks=pytest.mark.slow if structure in seen else ())
        seen.add(structure)


@functools.cache
def counts_of(config):
    """Count for a decoder; latent attention absorbs its matrices from few keys on."""
    n_layers, few, more = config.n_layers, 64, 128  # both within every window
    counted, later = (costs(config, 1, n_cached=n - 1) for n in (few, more))
    step, experts = counted.total, [part for part in counted.parts if part.name == "experts"]
    n_selected = sum(part.n_active for part in experts)
    windows = [window for layer in range(n_layers) if (window := config.window_of(layer))]
    flops_per_key = (later.total.flops - step.flops) // ((more - few) * n_layers)
    return DecodingCounts(
        n_parameters=step.n_parameters,
        n_read=step.n_weights_read - config.d_model - n_selected,
        n_vocab=config.n_vocab,
        d_model=config.d_model,
        n_experts=sum(part.n_parameters for part in experts),
        n_selected=n_selected,
        n_cached=step.n_cached // (few * n_layers),
        n_layers=n_layers,
        n_windowed=len(windows),
        window=max(windows, default=0),
        flops=step.flops - few * n_layers * flops_per_key,
        flops_per_key=flops_per_key,
    )


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize("row", table("decoding_counts"), ids=lambda row: row["model"])
def test_the_table_has_the_counts_of_the_presets(row):
    config = preset(row["model"])
    expected = {"model": row["model"], "title": find(row["model"]).title, "n_ctx": config.n_ctx}
    assert row == expected | dataclasses.asdict(counts_of(config))


@pytest.fixture(scope="module")
def made():
    return CacheCalculator()


@pytest.fixture
def widget(made):
    start = made.values()
    yield made
    for name, value in start.items():
        setattr(made, name, value)


def shown(widget, **at):
    for name, value in at.items():
        setattr(widget, name, value)
    return widget.outputs()


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize("name", list(one_of_each_structure(DECODERS)))
def test_the_counts_are_those_of_costs(name):
    config = preset(name)
    if config.position not in ("learned", "sinusoidal"):  # those have no position beyond n_ctx
        config = dataclasses.replace(config, n_ctx=None)
    counts = counts_of(config)
    assert counts == counts_of(preset(name))
    for batch, context in SHAPES:
        context = min(context, config.n_ctx or context)
        counted = costs(config, 1, n_cached=context - 1, batch=batch)
        assert counts.n_parameters == counted.total.n_parameters
        assert counts.cached(batch, context) == counted.total.n_cached
        assert counts.read(batch) == counted.total.n_weights_read
        assert counts.step_flops(batch, context) == counted.total.flops
    assert counts.cached(1, 1) == costs(config, 1).total.n_cached


@pytest.mark.syllabus("CMU-10", "CMU-11", "CMU-13")
@pytest.mark.parametrize("context", CONTEXTS)
def test_caches_are_those_of_the_models_by_hand(context):
    by_hand = {
        "llama-65b": 2 * 80 * 8192 * context,
        "llama-2-70b": 2 * 80 * 8 * 128 * context,
        "llama-3-8b": 2 * 32 * 8 * 128 * context,
        "mistral-7b": 2 * 32 * 8 * 128 * min(context, 4096),
        "gemma-2-9b": 2 * 8 * 256 * (21 * context + 21 * min(context, 4096)),
        "deepseek-v2": 60 * (512 + 64) * context,
    }
    assert set(by_hand) == set(MODELS)
    for name, numbers in by_hand.items():
        assert counts_of(preset(name)).cached(7, context) == 7 * numbers


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize("model, expected", [("llama-65b", 2_621_440), ("llama-2-70b", 327_680)])
def test_bytes_of_a_token_are_those_of_the_syllabus(widget, model, expected):
    assert shown(widget, model=model)["bytes"] == expected
    assert shown(widget, number="float32")["bytes"] == 2 * expected


@functools.cache
def counted_at(name, batch, context, size):
    config = dataclasses.replace(preset(name), n_ctx=None)
    return costs(config, 1, n_cached=context - 1, batch=batch, bytes_per_number=size)


def by_loop(name, batch, context, size, processor):
    """Bytes and tokens per second from ``costs``."""
    counted = counted_at(name, batch, context, size)
    (row,) = (row for row in table("hardware") if row["name"] == processor)
    peak = float(row["flops_bfloat16" if size == 2 else "flops_float32"])
    reading, computing = counted.bytes_moved / float(row["bandwidth"]), counted.total.flops / peak
    return counted.cache_bytes, counted.weight_bytes, float(row["memory"]), reading, computing


@pytest.mark.syllabus("CMU-10", "CMU-13")
@pytest.mark.parametrize("processor", ["T4", "H200"])
@pytest.mark.parametrize("number, size", [("bfloat16", 2), ("float32", 4)])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_shown_is_what_costs_says(widget, name, number, size, processor):
    for batch, context in ((1, 128), (64, 2048), (1024, 16384)):
        found = shown(widget, model=name, batch=batch, context=context, number=number, hardware=processor)
        cache, weights, memory, reading, computing = by_loop(name, batch, context, size, processor)
        for what, expected in (("cache", cache), ("weights", weights)):
            assert found[what] * 1000 ** found[f"{what}_unit"] == pytest.approx(expected, rel=1e-5)
        assert (found["here"], found["fixed"]) == pytest.approx((cache / 1e9, weights / 1e9), rel=1e-5)
        assert found["memory"] == pytest.approx(memory / 1e9) and found["larger"] == (cache > weights)
        assert found["devices"] == math.ceil((cache + weights) / memory)
        assert found["speed"] == pytest.approx(batch / max(reading, computing), rel=1e-4)
        assert found["bound"] == (computing > reading)
        assert found["speed"] == pytest.approx(found["speeds"][BATCHES.index(batch)])
        assert found["here"] == pytest.approx(found["grown"][CONTEXTS.index(context)])


def test_bars_compare_the_models_at_one_sequence(widget):
    found = shown(widget, model="gemma-2-9b", context=65536, batch=32)
    for text, name in zip(found["texts"], MODELS, strict=True):
        expected = 2 * counts_of(preset(name)).cached(1, 65536)
        assert text * 1000 ** found["text_unit"] == pytest.approx(expected, rel=1e-5)
    assert [hue > 0 for hue in found["text_hue"]] == [name == "gemma-2-9b" for name in MODELS]


@pytest.mark.syllabus("CMU-10")
def test_a_batch_helps_less_where_the_cache_is_long(widget):
    gain = []
    for context in (128, 8192):
        speeds = shown(widget, context=context)["speeds"]
        assert speeds == sorted(speeds)
        gain.append(speeds[-1] / speeds[0])
    assert gain[0] > 3 * gain[1]


def test_all_that_is_drawn_lies_within_the_axes(widget):
    for model in MODELS:
        for batch in (1, 1024):
            for hardware in ("T4", "H200"):
                found = shown(widget, model=model, batch=batch, hardware=hardware, number="float32")
                drawn = [*found["grown"], found["fixed"], found["memory"]]
                assert found["low"] < min(drawn) and max(drawn) < found["high"]
                ticks = [tick for tick in found["gigabytes"] if tick == tick]
                assert len(ticks) > 1 and found["low"] <= ticks[0] and ticks[-1] <= found["high"]
                assert max(found["speeds"]) < found["speed_high"] and max(found["texts"]) < found["text_high"]


def test_words_are_complete(widget):
    shown(widget, model="mistral-7b", batch=1, context=8192, hardware="H100")
    assert repr(widget) == (
        "Mistral 7B in bfloat16: 131.1 kB of cache for each token. 1 sequence of 8192 tokens takes 536.9 MB of cache, "
        "and the weights take 14.5 GB: 1 H100 is needed. A step takes at least as long as reading weights and cache; "
        "each processor yields at most 227 tokens per second. The cache is smaller than the weights."
    )
    shown(widget, model="llama-65b", batch=1024, context=128, number="float32", hardware="A100")
    assert "at least as long as its operations;" in repr(widget)
    assert repr(widget).endswith("The cache is larger than the weights.")
    shown(widget, context=16384)
    assert repr(widget).endswith("The context is longer than the 2048 tokens of the model.")


@pytest.mark.parametrize(
    "at, sentence",
    [
        ({"model": "bert-base"}, "model='bert-base'; it must be one of llama-65b, llama-2-70b"),
        ({"batch": 3}, "batch=3; it must be one of 1, 2, 4, 8"),
        ({"context": 100}, "context=100; it must be a whole number from 128 to 131072"),
    ],
)
def test_other_values_are_refused(at, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        CacheCalculator(**at)
