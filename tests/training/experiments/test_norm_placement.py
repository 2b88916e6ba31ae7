"""The experiment on the placement of norms: measures, copies and optimizer are right, and its tables are whole."""

import csv
import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments import norm_placement
from llm_anatomy.training.experiments.norm_placement import (
    ARMS,
    DEPTHS,
    N_STEPS,
    WIDTHS,
    Adam,
    Run,
    corpus,
    entropy_of_bytes,
    groups,
    measures,
    model_of,
    probe,
    rates_of,
    run,
)
from llm_anatomy.training.schedules import warmup_then_cosine


def loss_of(model, windows):
    return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def test_the_bytes_are_those_of_the_stories_and_the_entropy_is_theirs():
    training, test = corpus()
    counts = Counter(training.tolist())
    assert len(counts) == max(counts) + 1 == norm_placement.N_VOCAB and int(test.max()) < len(counts)
    assert not torch.equal(training[: len(test)], test)
    by_hand = -sum(n / len(training) * math.log(n / len(training)) for n in counts.values())
    assert entropy_of_bytes() == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.syllabus("GT-13")
@pytest.mark.parametrize("arm", ARMS)
def test_arms_start_from_the_same_matrices_and_differ_in_their_residual_connections(arm):
    plain, model = (dict(model_of(a, 3, n_layers=2).named_parameters()) for a in ("none", arm))
    for name, weight in plain.items():
        factor = 1.0
        if arm == "fixup":  # two layers in each of four branches
            factor = (
                0.0 if "w_output" in name or "w_down" in name else 0.5 if "w_value" in name or "w_up" in name else 1.0
            )
        torch.testing.assert_close(model[name], factor * weight)
        d_in = 32 if "embedding" in name else weight.shape[1]
        assert weight.var().item() * d_in == pytest.approx(1, rel=0.15)
    n_norms = {"post": 4, "pre": 5, "sandwich": 9, "post_sublayer": 5, "rezero": 0, "fixup": 0, "none": 0}
    found = sum(name.endswith("norm.weight") or "norm_in.w" in name or "norm_out.w" in name for name in model)
    assert found == n_norms[arm.removesuffix("+qk_norm")] + 4 * arm.endswith("qk_norm")


@pytest.mark.syllabus("GT-14")
@pytest.mark.parametrize("arm", ["post", "pre"])
def test_the_measures_are_those_of_a_model_written_out(arm):
    """The blocks are computed by hand from the weights of the model, with their norms where the arm has them."""
    model, windows = model_of(arm, 1, n_layers=3), probe(1)[:5]
    x = model._embed(windows[:, :-1], norm_placement_context(windows))
    streams, causal = [], torch.ones(64, 64).tril().bool()
    for block in model.stack.blocks:
        a, f = block.attention, block.feedforward
        for sublayer in ("attention", "feedforward"):
            h = F.layer_norm(x, (32,)) if arm == "pre" else x
            if sublayer == "attention":
                q, k, v = (
                    F.linear(h, w.weight).unflatten(-1, (2, 16)).transpose(1, 2)
                    for w in (a.w_query, a.w_key, a.w_value)
                )
                weights = (q @ k.mT / 4).masked_fill(~causal, -math.inf).softmax(-1)
                y = F.linear((weights @ v).transpose(1, 2).flatten(-2), a.w_output.weight)
            else:
                y = F.linear(F.linear(h, f.w_up.weight).relu(), f.w_down.weight)
            x = x + y
            x = F.layer_norm(x, (32,)) if arm == "post" else x
        streams.append(x)
    x = F.layer_norm(x, (32,)) if arm == "pre" else x
    logits = F.linear(x, model.unembedding.embedding.weight)
    loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="sum")
    matrices = [block.feedforward.w_down.weight for block in model.stack.blocks]
    gradients = torch.autograd.grad(loss, matrices + streams)
    for found, matrix, state, stream in zip(
        measures(model, windows), gradients[:3], gradients[3:], streams, strict=True
    ):
        assert found.gradient == pytest.approx(matrix.norm().item() / (5 * 64), rel=1e-3)
        assert found.state_gradient == pytest.approx(state.norm(dim=-1).square().mean().sqrt().item(), rel=1e-3)
        assert found.stream == pytest.approx(stream.square().mean().sqrt().item(), rel=1e-4)


def norm_placement_context(windows):
    from llm_anatomy.layers.kv_cache import context_of_new_tokens

    return context_of_new_tokens(windows.shape[1] - 1)


@pytest.mark.syllabus("GT-14")
def test_a_norm_that_is_passed_by_leaves_the_gradient_to_the_identity():
    """For a seed of its own: what the table says of each placement."""
    found = {arm: measures(model_of(arm, 7, n_layers=16), probe(7)) for arm in ARMS}
    assert all(row.stream == pytest.approx(1, abs=0.01) for row in found["post"])
    for arm in ("pre", "sandwich", "post_sublayer"):
        assert found[arm][-1].stream > 1.5 * found[arm][3].stream
        assert found[arm][-1].gradient < found["post"][-1].gradient / 2
    for arm in ("rezero", "fixup"):
        assert {round(row.state_gradient, 3) for row in found[arm]} == {round(found[arm][0].state_gradient, 3)}
    assert all(row.gradient == 0 for row in found["rezero"]) and all(row.gradient > 0 for row in found["fixup"])
    grown = {arm: rows[0].state_gradient / rows[-1].state_gradient for arm, rows in found.items()}
    assert grown["post_sublayer"] > 5 * grown["post_sublayer+qk_norm"] and grown["none"] > 1e5


def test_adam_is_that_of_pytorch_for_each_copy():
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(3, *shape, generator=generator) for shape in ((4, 5), (6,), ())]
    ours, lrs = [p.clone() for p in start], torch.tensor([0.1, 0.01, 0.5])
    theirs = [[nn.Parameter(p[i].clone()) for p in start] for i in range(3)]
    adam = Adam(ours)
    reference = [torch.optim.Adam(theirs[i], lr=lrs[i].item()) for i in range(3)]
    for step in range(5):
        gradients = [torch.randn(p.shape, generator=generator) * 10**step for p in start]
        adam.step(gradients, lrs * 0.9**step)
        for i, optimizer in enumerate(reference):
            optimizer.param_groups[0]["lr"] = lrs[i].item() * 0.9**step
            for p, g in zip(theirs[i], gradients, strict=True):
                p.grad = g[i].clone()
            optimizer.step()
    for i in range(3):
        for our, their in zip(ours, theirs[i], strict=True):
            torch.testing.assert_close(our[i], their.detach())


@pytest.mark.syllabus("GT-15")
@pytest.mark.parametrize("arm", ["post", "post_sublayer+qk_norm", "fixup"])
def test_copies_are_trained_as_one_model_alone_is(arm):
    """With the modules, PyTorch's optimizer and gradients of one model, for each learning rate."""
    rates, n_steps = [(0.02, 0.0), (0.005, 0.5)], 6
    for (lr, warmup), result in zip(rates, run(arm, 4, rates, n_layers=2, n_steps=n_steps), strict=True):
        model, losses, norms = model_of(arm, 4, n_layers=2), [], []
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        batches = random_windows(corpus()[0], 64, 8, torch.Generator().manual_seed(1004))
        for step in range(1, n_steps + 1):
            optimizer.param_groups[0]["lr"] = lr * warmup_then_cosine(step, n_steps, int(warmup * n_steps))
            loss = loss_of(model, next(batches))
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.item())
            norms.append(math.fsum(p.grad.square().sum().item() for p in model.parameters()) ** 0.5)
            optimizer.step()
        assert result.losses == pytest.approx(losses, rel=1e-3)
        assert result.gradient_norms == pytest.approx(norms, rel=1e-2)
        test = next(random_windows(corpus()[1], 64, 64, torch.Generator().manual_seed(3000)))
        assert result.test_loss == pytest.approx(loss_of(model, test).item(), rel=1e-3)


def test_a_copy_that_overflows_leaves_the_others_alone():
    alone = run("none", 0, [(0.001, 0.0)], n_layers=2, n_steps=4)[0]
    beside, broken = run("none", 0, [(0.001, 0.0), (1e30, 0.0)], n_layers=2, n_steps=4)
    assert beside.losses == pytest.approx(alone.losses, rel=1e-4) and math.isfinite(beside.final_loss)
    assert broken.failed and broken.final_loss == math.inf


@pytest.mark.syllabus("GT-15")
def test_a_run_has_failed_if_it_knows_no_more_than_the_frequencies():
    entropy = entropy_of_bytes()
    for loss, failed in ((entropy, True), (entropy - 0.049, True), (entropy - 0.051, False), (math.nan, True)):
        assert Run([9.0] * 8 + [loss] * 2, [1.0] * 10, loss).failed is failed
    assert Run([math.inf] + [1.0] * 9, [1.0] * 10, 1.0).failed
    assert Run([9.0] * 8 + [1.0, 2.0], [1.0] * 10, 1.0).final_loss == 1.5


@pytest.mark.syllabus("GT-13")
def test_widths_scale_the_unembedding_alone():
    rows = {
        kind: norm_placement._widths(("pre", kind, 32, 5))["norm_placement_widths"][0] for kind in ("unit", "scaled")
    }
    model = model_of("pre", 5)
    assert float(rows["scaled"][-1]) == pytest.approx(measures(model, probe(5))[-1].gradient, rel=1e-3)
    with torch.no_grad():
        model.unembedding.embedding.weight.mul_(32**0.5)
    assert model.unembedding.embedding.weight.var().item() == pytest.approx(1, rel=0.1)
    assert model.embedding.weight.var().item() == pytest.approx(1 / 32, rel=0.1)
    assert float(rows["unit"][-1]) == pytest.approx(measures(model, probe(5))[-1].gradient, rel=1e-3)


def test_a_command_writes_the_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(norm_placement, "DEPTHS", (1, 2))
    monkeypatch.setattr(norm_placement, "WIDTHS", (8,))
    monkeypatch.setattr(norm_placement, "N_LAYERS", 1)
    monkeypatch.setattr(norm_placement, "OTHER_WIDTH", 8)
    monkeypatch.setattr(norm_placement, "MAX_LRS", (0.004, 0.005))
    monkeypatch.setattr(norm_placement, "LONGER_LAYERS", 2)
    monkeypatch.setattr(norm_placement, "TRAINED_DEPTHS", {"post": (1, 2), "pre": (1,), "sandwich": (1,)})
    numbers = {}

    def told(arm, seed, rates, n_layers=None, d_model=32, n_steps=None):
        """Instead of training: the losses and norms are numbers of what would be trained."""
        asked = [(arm, seed, rate, n_layers, d_model, n_steps) for rate in rates]
        found = [10.0 * numbers.setdefault(each, len(numbers)) for each in asked]
        return [Run([n + i / 4 for i in range(n_steps)], [n + i for i in range(n_steps)], n / 10) for n in found]

    monkeypatch.setattr(norm_placement, "run", told)
    out = tmp_path / "new"
    assert main(["experiment", "norm_placement", "--seeds", "0", "1", "--steps", "10", "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    tables = {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}
    assert set(tables) == {*norm_placement.COLUMNS, "norm_placement_experiment"} == {p.stem for p in out.iterdir()}
    assert all(list(rows[0]) == list(table(name)[0]) for name, rows in tables.items())
    assert (
        len(tables["norm_placement_start"]) == len(ARMS) * 3 * 2 and len(tables["norm_placement_widths"]) == 2 * 2 * 2
    )
    assert len(tables["norm_placement_runs"]) == 4 * 2 * 2 * 2 + 2 * 3 * 2 * 2
    assert len(tables["norm_placement_traces"]) == 2 * 2 * 2 * 2  # one rate is traced
    longer = tables["norm_placement_longer"]
    assert len(longer) == 2 * 2 * 2 and {(row["n_layers"], row["n_steps"]) for row in longer} == {("2", "40")}
    keys = ("placement", "seed", "max_lr", "warmup", "n_layers", "d_model", "n_steps")

    def number(row, **known):
        arm, seed, lr, warmup, *sizes = ({**row, **known}[key] for key in keys)
        return numbers[arm, int(seed), (float(lr), float(warmup)), *map(int, sizes)]

    for row in tables["norm_placement_runs"]:
        assert float(row["test_loss"]) == number(row, n_steps=10)
    for row in longer:
        assert float(row["test_loss"]) == number(row, d_model=32)
    for row in tables["norm_placement_traces"]:
        first = 10 * number(row, n_layers=1, d_model=32, n_steps=10)
        last = {"5": 4, "10": 9}[row["step"]]
        assert float(row["gradient_norm"]) == pytest.approx(first + last, rel=1e-3)
        assert float(row["loss"]) == pytest.approx(first + (last - 2) / 4, rel=1e-3)


def test_the_stored_tables_are_those_of_the_defaults():
    stored = {row["field"]: row["value"] for row in table("norm_placement_experiment")}
    fields = ("d_model", "n_layers", "n_heads", "n_tokens", "n_stories", "n_probe", "n_steps", "batch_size", "margin")
    assert all(stored[field] == getattr(norm_placement, field.upper()) for field in (*fields, "other_width"))
    assert stored["entropy_of_bytes"] == pytest.approx(entropy_of_bytes(), abs=1e-4)
    runs = table("norm_placement_runs")
    assert Counter(tuple(row.values())[:6] for row in runs) == {
        (arm, n, d, warmup, lr, seed): 1 for arm, n, d in groups() for lr, warmup in rates_of(d) for seed in range(3)
    }
    assert all(row["failed"] == (row["loss"] > stored["entropy_of_bytes"] - 0.05) for row in runs)
    longer = table("norm_placement_longer")
    assert Counter((row["n_layers"], row["n_steps"], row["warmup"], row["max_lr"]) for row in longer) == {
        (12, 1000, warmup, lr): 3 for warmup in (0, 0.25) for lr in norm_placement.LONGER_LRS
    }
    assert all(row["failed"] == (row["loss"] > stored["entropy_of_bytes"] - 0.05) for row in longer)
    measured = Counter((row["placement"], row["n_layers"], row["seed"]) for row in table("norm_placement_start"))
    assert measured == {(arm, n, seed): n for arm in ARMS for n in DEPTHS for seed in range(3)}
    assert len(table("norm_placement_widths")) == 2 * 2 * len(WIDTHS) * 3
    traced = Counter((row["placement"], row["warmup"], row["max_lr"]) for row in table("norm_placement_traces"))
    assert traced == {
        (arm, w, lr): 3 * N_STEPS // 5 for arm in ("post", "pre") for lr in norm_placement.TRACED_LRS for w in (0, 0.25)
    }


@pytest.mark.syllabus("GT-14")
def test_the_stored_measures_are_computed_again():
    known = {"placement": "pre", "n_layers": 12, "seed": 2}
    rows = [row for row in table("norm_placement_start") if known.items() <= row.items()]
    for row, found in zip(rows, measures(model_of("pre", 2, n_layers=12), probe(2)), strict=True):
        assert [row[name] for name in vars(found)] == pytest.approx(list(vars(found).values()), rel=0.01)


@pytest.mark.syllabus("GT-15")
def test_the_first_steps_of_a_stored_run_are_computed_again(monkeypatch):
    known = {"placement": "post", "warmup": 0.25, "max_lr": 0.004, "seed": 1}
    rows = [row for row in table("norm_placement_traces") if known.items() <= row.items()][:2]
    of_all = lambda step, *_: warmup_then_cosine(step, N_STEPS, N_STEPS // 4)  # noqa: E731
    monkeypatch.setattr(norm_placement, "warmup_then_cosine", of_all)
    [result] = run("post", 1, [(0.004, 0.25)], n_steps=10)
    for row, first in zip(rows, (0, 5), strict=True):
        assert row["step"] == first + 5
        assert sum(result.losses[first : first + 5]) / 5 == pytest.approx(row["loss"], rel=0.01)
        assert max(result.gradient_norms[first : first + 5]) == pytest.approx(row["gradient_norm"], rel=0.02)


@pytest.mark.slow
@pytest.mark.syllabus("GT-15")
def test_a_stored_run_is_computed_again():
    """On another processor, rounding grows with each step."""
    known = {"placement": "pre", "n_layers": 2, "d_model": 32, "warmup": 0, "max_lr": 0.002, "seed": 1}
    [row] = [row for row in table("norm_placement_runs") if known.items() <= row.items()]
    [result] = run("pre", 1, [(0.002, 0.0)], n_layers=2)
    assert result.final_loss == pytest.approx(row["loss"], abs=0.003)
    assert result.test_loss == pytest.approx(row["test_loss"], abs=0.003)
