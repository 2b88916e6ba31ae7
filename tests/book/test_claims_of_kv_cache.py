"""What the text of chapter 11 states, computed again from formulas, tables and short runs."""

import re

import pytest

from bookbinder import ROOT
from llm_anatomy.data import table
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.models.costs import costs
from llm_anatomy.models.presets import preset
from llm_anatomy.training.experiments import kv_cache
from llm_anatomy.training.experiments.runs import results


def text():
    """The chapter's text, with a space for each end of a line."""
    return " ".join((ROOT / "book/kv_cache/kv_cache.nb.md").read_text("utf-8").split())


def uptrained(start, n_kv_heads, share):
    return results("kv_cache_uptraining", "test_loss", start=start, n_kv_heads=n_kv_heads, share=share)


# --- Latents ---


@pytest.mark.syllabus("CMU-13")
def test_operations_with_each_cached_byte_of_the_latent():
    """Scores read the latent and the rotated key, and mixing the latent alone, two operations for each number and head.
    The package mixes both parts."""
    heads, latent, rotated = 128, 512, 64
    needed = 2 * heads * ((latent + rotated) + latent) / (2 * (latent + rotated))
    step = costs(preset("deepseek-v2"), 1, n_cached=8191, bytes_per_number=2)
    executed = step["scores and mixing"].flops / step.cache_bytes
    multi_head = costs(preset("llama-2-7b"), 1, n_cached=4095, bytes_per_number=2)
    assert multi_head["scores and mixing"].flops == multi_head.cache_bytes
    stated = re.search(r"makes (\d+) operations with each cached byte.* Our code makes (\d+),", text())
    assert [int(n) for n in stated.groups()] == [round(needed), round(executed)] == [242, 256]


# --- Converted models ---


@pytest.fixture(scope="module")
def original():
    """The multi-head model of seed 0."""
    return kv_cache.original(0)


@pytest.mark.syllabus("CMU-14", "CMU-15")
def test_which_rates_lie_at_an_end_of_the_grid():
    """The page names each start whose best rate is the lowest or the highest one tried."""
    rows = table("kv_cache_tuning")
    rates = sorted({row["max_lr"] for row in rows})
    best = {}
    for start in kv_cache.STARTS:
        loss = {r: sum(x["validation_loss"] for x in rows if (x["start"], x["max_lr"]) == (start, r)) for r in rates}
        best[start] = min(loss, key=loss.get)
    at_the_end = {start: rate for start, rate in best.items() if rate in (rates[0], rates[-1])}
    assert at_the_end == {"multi-head": rates[0], "extra steps alone": rates[-1]} and rates[0] == 0.005
    assert "their best rate was the highest one tried, and that of the multi-head models the lowest" in text()
    assert best["mean"] == 0.01 and "at 0.02 instead of 0.01, the rate chosen for 40 steps," in text()


@pytest.mark.slow
@pytest.mark.syllabus("CMU-15")
def test_multi_head_models_lose_at_their_rate_and_gain_at_a_lower_one(original):
    assert "got a little worse at 0.005; at 0.001, which was not among the four rates, they improve" in text()
    windows, before = kv_cache.held_out_windows()[kv_cache.N_VALIDATION :], uptrained("multi-head", 8, 0.0)
    assert (uptrained("multi-head", 8, 0.1) > before).all() and 0.001 not in kv_cache.EXTRA_LRS
    found = {}
    for max_lr in (0.005, 0.001):
        model = kv_cache.begin(original, "multi-head", 8, 0)
        kv_cache.fit_on(model, 0, 0.1, max_lr)
        found[max_lr] = next_token_loss(model, windows) - next_token_loss(original, windows)
    assert found[0.005] > 0.005 and found[0.001] < -0.01


@pytest.mark.slow
@pytest.mark.syllabus("CMU-16")
def test_at_a_higher_rate_converted_models_end_as_high_as_models_from_scratch(original):
    """With one key-value head; at the rate of the table the gap is 0.04 in this seed."""
    windows = kv_cache.held_out_windows()[kv_cache.N_VALIDATION :]
    scratch, converted = uptrained("scratch", 1, 0.1)[0], uptrained("mean", 1, 0.5)[0]
    assert converted - scratch > 0.035
    model = kv_cache.begin(original, "mean", 1, 0)
    kv_cache.fit_on(model, 0, 0.5, 0.02)
    assert abs(next_token_loss(model, windows) - scratch) < 0.02


# --- Windows and sinks ---


@pytest.mark.syllabus("CMU-10")
def test_recall_of_four_symbols_hop_by_hop():
    """The description of the figure, for 2 and 4 layers with a window of 8; means over seven distances."""
    found = [results("kv_cache_distance", "accuracy", n_items=4, window=8, n_layers=n).view(3, 32) for n in (2, 4)]
    for accuracy in found:
        assert accuracy[:, :7].min() > 0.75 and accuracy[:, 7:14].min() >= 0.4 and accuracy[:, 7:14].max() < 0.75
        assert accuracy[:, 14:].mean() < accuracy[:, 7:14].mean()
    assert "recall is 0.8 to 1 up to 7, 0.4 to 0.7 up to 14, and lower beyond" in text().replace('" "', "")


@pytest.mark.syllabus("CMU-10")
def test_the_first_tokens_are_worth_no_more_than_those_after_them():
    """What a kept token costs is not only its slot: the next four tokens cost as much as the first four, and the text
    gives no other cause."""

    def loss(policy, n_sinks):
        found = results("kv_cache_sinks", policy=policy, n_slots=16, n_sinks=n_sinks, first_token="any")
        return found.view(4, 8)[:, 2:].mean(1)

    window, first, after = loss("window", 0), loss("window+sinks", 4), loss("window+next tokens", 4)
    assert (first - window > 0.03).all() and ((first - after).abs() < 0.015).all()
    assert "takes four slots" not in text()
    assert "keeping four of them in place of four recent ones costs a little" in text()
