"""The experiment of chapter 11: conversions and further training, a task over distances, and a cache that is cut."""

import csv
import dataclasses

import pytest
import torch

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.layers.masks import CausalMask, SlidingWindowMask
from llm_anatomy.models.stored import FOLDER, stored
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.experiments import kv_cache
from llm_anatomy.training.experiments.kv_cache import (
    DEPTHS,
    DISTANCE,
    EXTRA_LRS,
    KV_HEADS,
    LONGER,
    LONGER_KV_HEADS,
    N_COLOURS,
    N_NOISE,
    N_VALUES,
    SHARES,
    STARTS,
    TUNING_SEEDS,
    WINDOWS,
    CutCacheMask,
    begin,
    convert,
    cut_cache,
    examples,
    extra_steps,
    fit,
    fit_on,
    held_out_windows,
    policies,
    recall,
    shares_of_first_token,
    small_config,
    small_model,
    with_first_token,
)
from llm_anatomy.training.experiments.runs import results
from llm_anatomy.training.experiments.story_models import corpus

NAME = kv_cache.NAME


def reader():
    """The stored model, without the bound of its context."""
    model, _ = stored("story_rope")
    model.config = dataclasses.replace(model.config, n_ctx=None)
    return model


@pytest.mark.syllabus("CMU-11", "CMU-12", "CMU-15")
@pytest.mark.parametrize("n_kv_heads", KV_HEADS)
def test_a_model_whose_heads_are_equal_in_each_group_loses_nothing(n_kv_heads):
    few = small_model(small_config(n_kv_heads), seed=1)
    many = Transformer(small_config())
    repeated = {
        name: heads.unflatten(0, (n_kv_heads, -1)).repeat_interleave(8 // n_kv_heads, 0).flatten(0, 1)
        for name, heads in few.state_dict().items()
        if name.endswith(("w_key.weight", "w_value.weight"))
    }
    assert len(repeated) == 4
    many.load_state_dict(few.state_dict() | repeated)
    ids = torch.arange(12)[None]
    for start in ("mean", "first"):
        torch.testing.assert_close(convert(many, n_kv_heads, start)(ids), few(ids), atol=1e-4, rtol=1e-4)
    converted = convert(many, n_kv_heads, "random")
    assert not torch.allclose(converted(ids), few(ids), atol=0.1)
    assert converted.config == few.config and many.config.n_kv_heads == 8
    assert {k: v.shape for k, v in converted.state_dict().items()} == {k: v.shape for k, v in few.state_dict().items()}


@pytest.mark.syllabus("CMU-15")
def test_what_the_extra_steps_begin_with():
    trained = small_model(small_config(), seed=1)
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    copy = begin(trained, "multi-head", 2, seed=3)
    fresh = begin(trained, "extra steps alone", 2, seed=3)
    assert copy.config.n_kv_heads == 8 and fresh.config.n_kv_heads == 2
    assert all(torch.equal(a, b) for a, b in zip(copy.parameters(), trained.parameters(), strict=True))
    assert not torch.equal(fresh.embedding.weight, trained.embedding.weight)
    draws = [begin(trained, "random", 1, seed).stack.blocks[0].attention.w_key.weight for seed in (3, 3, 4)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    fit_on(copy, 0, 0.1, 0.01, n_steps=20)
    assert all(torch.equal(before[name], value) for name, value in trained.state_dict().items())
    with pytest.raises(ValueError, match="start='median' must be one of mean, first, random"):
        begin(trained, "median", 2, seed=0)


def test_extra_steps_lower_the_loss_on_other_batches(monkeypatch):
    seen = []
    original = kv_cache.random_windows

    def watched(ids, n_tokens, batch_size, generator):
        seen.append(generator.initial_seed())
        return original(ids, n_tokens, batch_size, generator)

    monkeypatch.setattr(kv_cache, "random_windows", watched)
    model, windows = convert(reader(), 1, "mean"), held_out_windows()[:32]
    before = next_token_loss(model, windows)
    fit_on(model, 7, 0.05, 0.01, n_steps=200)
    assert next_token_loss(model, windows) < before - 0.5
    fit(model, 7, n_steps=1)
    assert len(set(seen)) == 2 and extra_steps(0.05, 200) == 10 and extra_steps(0.02, 2) == 1


def test_windows_hold_each_held_out_token_once():
    ids = corpus().held_out
    for n in (64, 256):
        windows = held_out_windows(n)
        targets = windows[:, 1:].flatten()
        assert torch.equal(targets, torch.cat((ids[:1, 1:].flatten(), ids[1:, 1:].flatten()))[: len(targets)])
        assert ids.numel() - len(ids) - n < len(targets)


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize("n_items", [1, 2, 4])
def test_the_symbol_that_is_asked_for_is_at_its_distance_and_the_only_one_of_its_colour(n_items):
    generator = torch.Generator().manual_seed(0)
    for distance in (None, 1, 20, DISTANCE):
        ids, answers = examples(500, n_items, generator, distance)
        symbols = ids < N_COLOURS * N_VALUES
        assert (symbols.sum(1) == n_items).all() and not symbols[:, -1].any()
        asked = ids[:, -1:] - N_COLOURS * N_VALUES - N_NOISE
        found = symbols & (ids // N_VALUES == asked)
        assert (found.sum(1) == 1).all() and ((asked >= 0) & (asked < n_items)).all()
        rows, columns = found.nonzero(as_tuple=True)
        assert torch.equal(ids[rows, columns] % N_VALUES, answers)
        others = (ids % N_VALUES == answers[:, None])[symbols & ~found]  # they say nothing about the answer
        assert n_items == 1 or others.float().mean().item() == pytest.approx(1 / N_VALUES, abs=0.05)
        distances = (DISTANCE - columns).unique().tolist()
        assert distances == ([distance] if distance else list(range(1, DISTANCE + 1)))


@pytest.mark.syllabus("CMU-10")
def test_no_change_beyond_the_reach_of_a_stack_of_windows_is_seen():
    """A proof for any weights: the gradient is zero beyond n(w - 1), and not within it."""
    for window, n_layers in ((4, 1), (4, 2), (3, 4)):
        model = small_model(small_config(d_model=16, n_layers=n_layers, n_heads=4, n_kv_heads=4, window=window), 0)
        x = model.embedding(torch.arange(20)[None]).detach().requires_grad_()
        model.stack(x)[0][0, -1].sum().backward()
        reached = (x.grad[0].abs().sum(-1) > 0).nonzero().flatten()
        assert 19 - reached.min() == n_layers * (window - 1) and len(reached) == n_layers * (window - 1) + 1


@pytest.mark.syllabus("CMU-10")
def test_a_cut_cache_is_a_rolling_cache():
    """Token by token with the package's rolling cache, the losses are those of the mask."""
    model, ids = reader(), held_out_windows()[:2, :40]
    cut = cut_cache(model, 6)
    rolling = Transformer(dataclasses.replace(model.config, window=6)).eval()
    rolling.load_state_dict(model.state_dict())
    with torch.inference_mode():
        cache = rolling.new_cache(2, 40)
        steps = torch.cat([rolling(ids[:, t : t + 1], cache=cache) for t in range(40)], 1)
        torch.testing.assert_close(cut(ids), steps, atol=1e-4, rtol=1e-4)
        assert cache.blocks[0].n_slots == 6 and not torch.allclose(model(ids), steps, atol=0.1)
    assert model.stack.masks == [CausalMask(), CausalMask()]


@pytest.mark.syllabus("CMU-10")
def test_a_cache_with_sinks_has_the_first_tokens_and_the_last_at_the_positions_of_its_slots():
    """Token by token, with a cache that is cut by hand and whose keys are rotated when they are read."""
    torch.manual_seed(0)
    model, n = small_model(small_config(d_model=24, n_heads=2, n_kv_heads=2)), 14
    for first in (0, 2):
        cut = cut_cache(model, 6, 2, first)
        attention, rope = cut.stack.blocks[0].attention, model.stack.blocks[0].attention.position
        x = torch.randn(1, n, 24)
        query, key, value = (
            linear(x).unflatten(-1, (2, 12)).transpose(1, 2)
            for linear in (attention.w_query, attention.w_key, attention.w_value)
        )
        expected = []
        for t in range(n):
            kept = [i for i in range(t + 1) if first <= i < first + 2 or i > t - 4]
            slots = torch.tensor(kept)[None]
            if t >= 6 + first:  # the kept tokens and the last four follow each other
                slots = torch.arange(6)[None]
            scores = rope.rotate(query[:, :, t : t + 1], slots[:, -1:]) @ rope.rotate(key[:, :, kept], slots).mT
            mixed = (scores / 12**0.5).softmax(-1) @ value[:, :, kept]
            expected.append(attention.w_output(mixed.transpose(1, 2).flatten(2)))
        output = attention(x, cut.stack.masks[0])
        torch.testing.assert_close(output, torch.cat(expected, 1), atol=1e-5, rtol=1e-4)


def test_all_cut_caches_are_of_equal_size_when_they_are_full():
    model = small_model(small_config())
    for policy, n_slots, n_sinks, cut in policies(model):
        for mask in cut.stack.masks:
            row = mask.as_tensor(60)[-1]
            assert row.sum() == (n_slots or 60) and row[0] == (policy == "full" or policy.startswith("window+sinks"))
            assert policy != "window+next tokens" or row[n_sinks : 2 * n_sinks].all()
    window = CausalMask() & SlidingWindowMask(16)
    assert torch.equal(CutCacheMask(16).as_tensor(40), window.as_tensor(40))


def test_the_share_of_the_first_token_is_that_of_the_weights():
    model, windows = small_model(small_config()), with_first_token(held_out_windows()[:3])
    for block in model.stack.blocks:
        torch.nn.init.zeros_(block.attention.w_query.weight)
    uniform = (1 / torch.arange(33, 65)).mean()
    torch.testing.assert_close(shares_of_first_token(model, windows), uniform.expand(2, 8))
    assert (windows[:, 0] == kv_cache.FIRST_ID).all() and kv_cache.FIRST_ID not in corpus().training
    assert torch.equal(windows[:, 1:], held_out_windows()[:3, 1:])


@pytest.mark.syllabus("CMU-14", "CMU-15")
def test_the_command_writes_the_tables(tmp_path, monkeypatch, capsys):
    few, n_validation = held_out_windows()[:12], 8
    monkeypatch.setattr(kv_cache, "held_out_windows", lambda n_tokens=64: few)
    monkeypatch.setattr(kv_cache, "BUCKET", 16)
    monkeypatch.setattr(kv_cache, "D_MODEL", 16)
    monkeypatch.setattr(kv_cache, "EXTRA_LRS", (0.01,))
    monkeypatch.setattr(kv_cache, "KV_HEADS", (2,))
    monkeypatch.setattr(kv_cache, "N_VALIDATION", n_validation)
    asked = []
    monkeypatch.setattr(kv_cache, "recall", lambda *job, **rate: asked.append((job, rate)) or [0.5] * DISTANCE)
    monkeypatch.setattr(kv_cache, "DEPTHS", (1,))
    monkeypatch.setattr(kv_cache, "WINDOWS", {1: (4, None), 4: (8,)})
    out = tmp_path / "new"
    assert main(["experiment", "kv_cache", "--seeds", "0", "1", "--steps", "2", "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    tables = {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}
    assert set(tables) == {*kv_cache.COLUMNS, f"{NAME}_experiment"} and len(list(out.iterdir())) == len(tables)
    for name, columns in kv_cache.COLUMNS.items():
        assert list(tables[name][0]) == columns
    assert len(tables[f"{NAME}_tuning"]) == 2 * 5 and len(tables[f"{NAME}_uptraining"]) == 2 * (5 * 4 - 1 + 2 + 4)
    assert len(tables[f"{NAME}_distance"]) == 2 * 3 * DISTANCE
    assert len(tables[f"{NAME}_relay"]) == 2 * DISTANCE
    wanted = [
        ((w, 1, n, seed, kv_cache._task_steps(n, 2)), {}) for n, w in ((1, 4), (1, None), (4, 8)) for seed in (0, 1)
    ]
    n_items, window, n_layers = kv_cache.RELAY
    n_long = 2 * kv_cache.RELAY_STEPS // kv_cache.N_STEPS
    rate = {"max_lr": kv_cache.RELAY_LR}
    assert asked == wanted + [((window, n_layers, n_items, seed, n_long), rate) for seed in (0, 1)]
    assert len(tables[f"{NAME}_sinks"]) == 2 * 2 * 11 * 4 and len(tables[f"{NAME}_first_token"]) == 2 * 2 * 2 * 8
    settings = {row["field"]: row["value"] for row in tables[f"{NAME}_experiment"]}
    assert settings["n_steps"] == "2" and settings["seeds"] == "0 1" and settings["test_tokens"] == "256"


def test_the_stored_tables_are_those_of_the_defaults():
    known = {row["field"]: row["value"] for row in table(f"{NAME}_experiment")}
    for field in ("d_model", "n_layers", "n_heads", "d_ff", "n_steps", "batch_size", "max_lr", "task_lr"):
        assert known[field] == getattr(kv_cache, field.upper())
    seeds = [int(seed) for seed in str(known["seeds"]).split()]
    tried = {(row["start"], row["max_lr"], row["seed"]) for row in table(f"{NAME}_tuning")}
    assert tried == {(start, lr, seed) for start in STARTS for lr in EXTRA_LRS for seed in TUNING_SEEDS}
    rows = {(row["n_kv_heads"], row["start"], row["share"], row["seed"]) for row in table(f"{NAME}_uptraining")}
    wanted = {(8, "multi-head", share) for share in (0, *SHARES)}
    wanted |= {(n, start, share) for n in KV_HEADS for start in STARTS[1:4] for share in (0, *SHARES)}
    wanted |= {(n, STARTS[4], share) for n in KV_HEADS for share in SHARES}
    wanted |= {(n, "scratch", SHARES[-1]) for n in (8, *KV_HEADS)}
    longer = {(n, "mean", share, seed) for n in LONGER_KV_HEADS for share in LONGER for seed in seeds[:3]}
    assert rows == {(*row, seed) for row in wanted for seed in seeds} | longer
    assert len(table(f"{NAME}_uptraining")) == len(rows)
    shapes = [(n, w, depth) for n in WINDOWS for w in WINDOWS[n] for depth in DEPTHS]
    assert len(table(f"{NAME}_distance")) == len(shapes) * 3 * DISTANCE
    assert {(row["n_items"], row["window"], row["n_layers"]) for row in table(f"{NAME}_distance")} == set(shapes)
    relayed = {(row["n_items"], row["window"], row["n_layers"], row["n_steps"]) for row in table(f"{NAME}_relay")}
    assert relayed == {(*kv_cache.RELAY, kv_cache.RELAY_STEPS)} and len(table(f"{NAME}_relay")) == 3 * DISTANCE
    assert len(table(f"{NAME}_sinks")) == 2 * 11 * 8 * len(seeds)
    assert len(table(f"{NAME}_first_token")) == 2 * 2 * 8 * len(seeds)
    assert sum(path.stat().st_size for path in FOLDER.glob(f"{NAME}_*.csv")) <= 100_000


@pytest.mark.syllabus("CMU-10")
def test_no_stored_accuracy_is_above_chance_beyond_the_reach():
    beyond = [
        row["accuracy"]
        for row in table(f"{NAME}_distance")
        if row["window"] and row["distance"] > row["n_layers"] * (row["window"] - 1)
    ]
    assert len(beyond) > 500 and sum(beyond) / len(beyond) == pytest.approx(1 / N_VALUES, abs=0.01)


@pytest.mark.syllabus("CMU-15")
def test_stored_losses_of_a_conversion_are_computed_again():
    """The shortest of the stored trainings: to the digit on the same processor; elsewhere, rounding grows."""
    (best,) = {
        lr
        for start, lr in kv_cache.best_max_lrs(kv_cache.means_over_seeds(_stored_tuning())).items()
        if start == STARTS[4]
    }
    model = begin(small_model(small_config()), STARTS[4], 1, seed=0)
    fit_on(model, 0, SHARES[0], best)
    (row,) = results(f"{NAME}_uptraining", "test_loss", n_kv_heads=1, start=STARTS[4], share=SHARES[0], seed=0)
    assert float(kv_cache._test_loss(model)) == pytest.approx(float(row), abs=0.05)


def _stored_tuning():
    return [[row["start"], row["max_lr"], row["seed"], row["validation_loss"]] for row in table(f"{NAME}_tuning")]


def test_a_token_recalls_what_is_in_its_window():
    accuracies = recall(4, 1, 1, 0, kv_cache.N_TASK_STEPS // 2)
    assert min(accuracies[:3]) > 0.9 and max(accuracies[3:]) < 0.3


@pytest.mark.slow
def test_stored_accuracies_are_computed_again():
    accuracies = recall(4, 1, 1, 0)
    rows = results(f"{NAME}_distance", "accuracy", n_items=1, window=4, n_layers=1, seed=0)
    torch.testing.assert_close(torch.tensor(accuracies), rows, atol=0.05, rtol=0)
