"""The table of architectures: what is sorted, filtered, compared and paid, against the presets and by hand."""

import itertools
import math

import pytest

from llm_anatomy.data import table
from llm_anatomy.models.presets import find
from llm_anatomy.notebook import ArchitectureTable
from llm_anatomy.notebook.widgets.architecture_table import DESIGNS, MODELS, ROWS, SORTS

NAMES = list(MODELS)
COUNTED = {row["preset"]: row for row in table("preset_costs")}
TOKENS = {row["preset"]: float(row["tokens"]) for row in table("training_tokens")}
CONFIGS = {name: find(name).config() for name in NAMES}
ABSOLUTE = ("sinusoidal", "learned")


@pytest.fixture(scope="module")
def made():
    return ArchitectureTable()


def shown(widget, **values):
    start = {"sort": "year", "norm_kind": "all", "position_kind": "all", "feedforward_kind": "all"}
    start |= {"attention_kind": "all", "first": 1, "second": 16, "hardware": "A100", "utilization": 40, "price": 2.0}
    for name, value in (start | values).items():
        setattr(widget, name, value)
    return widget.outputs()


def models_of(found):
    """The presets that are shown, from top to bottom."""
    return [NAMES[int(n) - 1] for n in found["shown"] if n == n]


def spent(name, peak=312e12, utilization=0.4, price=2.0):
    """Processor hours and dollars of a training, by hand."""
    hours = COUNTED[name]["flops_training"] * TOKENS.get(name, 0) / (peak * utilization) / 3600
    return hours, hours * price


MEASURES = {
    "year": lambda name: COUNTED[name]["n_parameters"] / 1e9,
    "parameters": lambda name: COUNTED[name]["n_parameters"] / 1e9,
    "cache": lambda name: 2 * COUNTED[name]["n_cached"] / 1e3,
    "FLOPs": lambda name: COUNTED[name]["flops"] / 1e9,
    "price": lambda name: spent(name)[1] / 1e6,
}


@pytest.mark.syllabus("GT-43", "GT-44")
@pytest.mark.parametrize("sort", SORTS)
def test_models_are_sorted_and_each_dot_is_its_models(made, sort):
    found = shown(made, sort=sort)
    order = models_of(found)
    values = [MEASURES[sort](name) for name in order]
    assert sorted(order) == sorted(NAMES) and found["n_shown"] == len(NAMES)
    for value, drawn in zip(values, found["values"], strict=True):
        assert drawn != drawn if value == 0 else drawn == pytest.approx(value, rel=1e-5)
        assert value == 0 or found["low"] < value < found["high"]
    if sort == "year":
        assert order == NAMES
    else:
        known = [value for value in values if value]
        assert known == sorted(known) and not any(values[len(known) :])  # what is unknown comes last
    ticks = [tick for tick in found["ticks"] if tick == tick]
    assert len(ticks) > 2 and all(found["low"] <= tick <= found["high"] for tick in ticks)


def test_years_are_those_of_the_first_release(made):
    years = [int(row["year"]) for row in made.rows]
    assert years == sorted(years)
    by_name = dict(zip(NAMES, years, strict=True))
    assert by_name["deepseek-67b"] == by_name["yi-34b"] == 2023  # E-70
    assert by_name["falcon-7b"] == 2023 and by_name["olmo-3-7b"] == years[-1] == 2025


FILTERS = {
    ("norm_kind", "LayerNorm"): lambda config: config.norm == "layernorm",
    ("norm_kind", "RMSNorm"): lambda config: config.norm in ("rmsnorm", "unit_offset_rmsnorm"),
    ("position_kind", "added"): lambda config: config.position in ABSOLUTE,
    ("position_kind", "RoPE"): lambda config: config.position == "rope",
    ("position_kind", "others"): lambda config: config.position not in (*ABSOLUTE, "rope"),
    ("feedforward_kind", "plain"): lambda config: "glu" not in config.feedforward,
    ("feedforward_kind", "gated"): lambda config: "glu" in config.feedforward,
    ("attention_kind", "multi-head"): lambda config: config.n_kv_heads == config.n_heads and not config.latent,
    ("attention_kind", "shared K, V"): lambda config: config.n_kv_heads < config.n_heads,
    ("attention_kind", "latent"): lambda config: config.latent is not None,
}


@pytest.mark.syllabus("GT-44")
@pytest.mark.parametrize(
    "chosen",
    [*((one,) for one in FILTERS), *(pair for pair in itertools.combinations(FILTERS, 2) if pair[0][0] != pair[1][0])],
    ids=lambda chosen: ", ".join(option for _, option in chosen),
)
def test_filters_keep_what_the_configs_say(made, chosen):
    found = shown(made, sort="parameters", **dict(chosen))
    kept = [name for name in NAMES if all(FILTERS[one](CONFIGS[name]) for one in chosen)]
    assert sorted(models_of(found)) == sorted(kept) and found["n_shown"] == len(kept)
    assert [value == value for value in found["values"]] == [i < len(kept) for i in range(len(NAMES))]


@pytest.mark.syllabus("GT-11")
@pytest.mark.parametrize(("first", "second"), [(1, 16), (6, 14), (16, 19), (29, 31), (5, 5), (38, 2)])
def test_designs_that_differ_are_coloured(made, first, second):
    found = shown(made, first=first, second=second)
    pair = [made.rows[n - 1] for n in (first, second)]
    expected = [name in DESIGNS and pair[0][name] != pair[1][name] for name in ROWS]
    assert found["first_hue"] == [float(one) for one in expected]
    assert found["second_hue"] == [2.0 * one for one in expected]
    assert found["n_differences"] == sum(expected)
    assert made.differences() == [(n, *(words[n] for words in pair)) for n in ROWS[1:] if pair[0][n] != pair[1][n]]


def test_the_chosen_two_are_marked_wherever_they_stand(made):
    found = shown(made, sort="cache", first=6, second=16)
    order = models_of(found)
    marks = {name: hue for name, hue in zip(order, found["chosen"], strict=True) if hue}
    assert marks == {NAMES[5]: 1, NAMES[15]: 2}
    assert shown(made, first=4, second=4)["chosen"][3] == 1


@pytest.mark.parametrize(("hardware", "peak"), [("A100", 312e12), ("H100", 989.4e12)])
def test_hours_and_dollars_follow_from_operations_and_tokens(made, hardware, peak):
    found = shown(made, first=1, second=16, hardware=hardware, utilization=50, price=3.0)
    hours, dollars = spent("llama-65b", peak, 0.5, 3.0)
    assert found["hours_second"] * 1000 ** found["hours_second_unit"] == pytest.approx(hours, rel=1e-4)
    assert found["dollars_second"] * 1000 ** found["dollars_second_unit"] == pytest.approx(dollars, rel=1e-4)
    assert (found["priced_first"], found["priced_second"]) == (0, 1) and "transformer-base" not in TOKENS


def test_llama_65b_takes_about_the_hours_that_its_paper_states(made):
    """Touvron et al. (2023), table 15: 1,022,362 hours of an A100 for 65B, some 49 % of its peak."""
    hours, _ = spent("llama-65b", utilization=0.49)
    assert math.isclose(hours, 1_022_362, rel_tol=0.05)


def test_words_are_complete(made):
    shown(made, sort="price", attention_kind="latent", first=16, second=NAMES.index("deepseek-v2") + 1)
    assert repr(made) == (
        "1 of 39 models, sorted by price: DeepSeek-V2 236B. LLaMA 65B beside DeepSeek-V2 236B: 2 of 8 choices of "
        "design differ. On A100 at 40 % of the peak and 2.0 dollars an hour, the training of LLaMA 65B takes 1.3 M "
        "hours and 2.5 M dollars, and the training of DeepSeek-V2 236B takes 2.8 M hours and 5.6 M dollars."
    )
    shown(made, norm_kind="LayerNorm", feedforward_kind="gated", attention_kind="latent")
    assert repr(made).startswith("0 of 39 models, sorted by year: . Transformer base beside")
    assert "the training of Transformer base has no price, since its tokens are unknown, and" in repr(made)


def test_the_comparison_says_what_the_presets_say(made):
    rows = dict(zip(NAMES, made.rows, strict=True))
    assert rows["gpt-3"] == dict(
        zip(
            ROWS,
            ("GPT-3 175B", "2020", "decoder", "LayerNorm", "pre", "learned", "GELU", "none", "serial", "multi-head",
             "175 B", "175 B", "4.7 MB", "359 G", "300 B"),
            strict=True,
        )
    )  # fmt: skip
    assert rows["llama-2-70b"]["attention"] == "grouped, 64:8" and rows["palm-540b"]["attention"] == "multi-query"
    assert rows["bert-base"]["cache of a token"] == "none" and rows["gpt-j"]["block"] == "parallel"
    assert rows["deepseek-v2"]["experts"] == "160"
    assert rows["mpt-7b"]["positions"] == "ALiBi" and rows["smollm3-3b"]["positions"] == "RoPE"
    assert rows["olmo-3-7b"]["norm placement"] == "post-sublayer" and rows["command-r"]["block"] == "parallel"
    assert rows["gpt-oss-20b"]["training tokens"] == "unknown"
    assert [rows["gpt-oss-20b"][n] for n in ("feed-forward", "attention")] == ["clamped SwiGLU", "grouped, 64:8"]


@pytest.mark.parametrize(("first", "second", "name"), [("gpt-4", "gpt", "first"), ("gpt", "llama", "second")])
def test_an_unknown_preset_is_refused(first, second, name):
    with pytest.raises(ValueError, match=f"{name}='.*'; it must be one of transformer-base, gpt"):
        ArchitectureTable(first, second)
