"""The stored costs of the presets: each row is what ``costs()`` and the config say."""

import pytest
from models.preset_costs import TEXT, known, row

from llm_anatomy.data import table
from llm_anatomy.models.presets import find, preset

STORED = {stored["preset"]: stored for stored in table("preset_costs")}
QUICK = {"transformer-base", "gpt", "bert-base", "t5-small", "gpt-2", "olmo-1b", "deepseek-v2-lite", "gemma-2-2b"}


def test_every_preset_with_a_config_has_a_row_in_their_order():
    assert list(STORED) == [record.name for record in known()]


@pytest.mark.syllabus("GT-43", "GT-44")
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in STORED]
)
def test_a_row_is_what_is_counted_now(name):
    assert row(find(name)) == STORED[name]


@pytest.mark.syllabus("GT-06")
def test_counts_agree_with_formulas_on_paper():
    """LLaMA: per layer 4 d² + 3 d d_ff, and a cache of 2 d; a token meets 2,048 keys, masked or not."""
    for name, d, d_ff, n_layers in (("llama-7b", 4096, 11008, 32), ("llama-65b", 8192, 22016, 80)):
        stored, matrices = STORED[name], n_layers * (4 * d * d + 3 * d * d_ff)
        assert stored["n_parameters"] == matrices + 2 * 32000 * d + (2 * n_layers + 1) * d
        assert stored["n_cached"] == 2 * d * n_layers
        assert stored["flops"] == 2 * (matrices + 32000 * d) + 4 * TEXT * d * n_layers
        assert stored["flops_training"] == 3 * stored["flops"]


def test_training_tokens_are_of_presets_and_as_in_the_lectures_table():
    tokens = {stored["preset"]: float(stored["tokens"]) for stored in table("training_tokens")}
    assert tokens.keys() <= STORED.keys() and all(1e11 < n < 1e14 for n in tokens.values())
    for size in table("llama_sizes"):
        assert tokens[size["preset"]] == 1e12 * size["n_tokens_T"]
    for size in table("olmo_sizes"):
        if size["preset"] in tokens:
            assert tokens[size["preset"]] == pytest.approx(1e12 * float(size["tokens_trained"].rstrip("T")))


@pytest.mark.slow
def test_a_mixture_of_experts_uses_few_of_its_parameters():
    assert STORED["deepseek-v2"]["n_active"] < 0.1 * STORED["deepseek-v2"]["n_parameters"]
    assert preset("deepseek-v2").moe.n_experts == STORED["deepseek-v2"]["n_experts"]
