"""The feed-forward experiment: variants differ in one layer, units and experts are counted, its tables are whole."""

import csv
from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.evaluation.paired import paired_difference
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.layers.feedforward import ACTIVATIONS, GATES
from llm_anatomy.models.stored import FOLDER
from llm_anatomy.training.experiments import feedforward
from llm_anatomy.training.experiments.feedforward import (
    BALANCES,
    CHECKED,
    CHECKS,
    COLLAPSE,
    DEAD_CHECKS,
    MAX_LRS,
    N_EXPERTS,
    TUNING_SEEDS,
    VARIANTS,
    count_dead,
    expert_config,
    fit,
    held_out_windows,
    loss_within_capacity,
    small_config,
    small_model,
    train_experts,
    unit_states,
)
from llm_anatomy.training.experiments.runs import results
from llm_anatomy.training.experiments.story_models import corpus

NAME = feedforward.NAME


@pytest.mark.syllabus("CMU-06", "CMU-07")
@pytest.mark.parametrize("d_model", [24, 48])
def test_variants_have_equal_parameters_and_start_alike_but_for_the_feed_forward_layer(d_model):
    models = {variant: small_model(small_config(variant, d_model), seed=3) for variant in VARIANTS}
    plain = dict(models["relu"].named_parameters())
    for variant, model in models.items():
        own = dict(model.named_parameters())
        assert sum(p.numel() for p in own.values()) == sum(p.numel() for p in plain.values())
        shared = [name for name in plain if "w_up" not in name and "w_down" not in name]
        assert all(torch.equal(own[name], plain[name]) for name in shared)
        wanted = type(ACTIVATIONS[GATES.get(variant, variant)]())
        assert all(type(block.feedforward.activation) is wanted for block in model.stack.blocks)


def test_an_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="variant='elu' must be one of relu, gelu"):
        small_config("elu")


def test_validation_and_test_share_no_target():
    validation, test = held_out_windows(validation=True), held_out_windows()
    targets = torch.cat((validation, test))[:, 1:].flatten()
    assert torch.equal(targets, corpus().held_out[:, 1:].flatten())


def test_training_lowers_the_loss_and_can_be_repeated():
    losses = [fit(small_model(small_config("geglu", 12), 1), seed, 0.02, n_steps=12) for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2] and losses[0][-1] < losses[0][0] - 0.3


def inputs_of_units(model, layer, windows):
    """What the units of a feed-forward layer read."""
    seen = []
    hook = layer.w_up.register_forward_hook(lambda _, x, z: seen.append(z.detach().flatten(0, 1)))
    model(windows[:, :-1])
    hook.remove()
    return seen[0]


@pytest.mark.syllabus("GT-22")
def test_a_unit_is_dead_if_no_token_makes_it_positive_and_silent_if_no_gradient_passes():
    windows = held_out_windows()[:70]  # more than one part
    for activation in ("relu", "gelu"):
        model = small_model(small_config(activation, 24, ff_bias=True), seed=0)
        first, last = (block.feedforward for block in model.stack.blocks)
        with torch.no_grad():
            for layer in (first, last):
                layer.w_up.bias.zero_()
            last.w_up.bias[:3] = torch.tensor([-100.0, -1.0, 100.0])
            last.w_up.weight[:3] = 0.0
        dead, silent = unit_states(model, windows)
        z = inputs_of_units(model, last, windows)
        assert torch.equal(dead[96:], (z <= 0).all(0)) and dead[96:99].tolist() == [True, True, False]
        assert silent[:96].sum() <= dead[:96].sum() < 10  # the first layer is another one
        assert silent[96:99].tolist() == [True, activation == "relu", False]


def test_dead_units_are_counted_without_a_change_of_the_training():
    config = small_config("relu", 12)
    counts = count_dead(config, seed=0, max_lr=0.5, n_steps=20)
    assert [step for step, *_ in counts] == [0, 1, 2, 4, 8, 14, 20]
    model = small_model(config, seed=0)
    fit(model, 0, 0.5, n_steps=20)
    dead, silent = unit_states(model, held_out_windows())
    assert counts[-1][1:3] == (dead.float().mean().item(), silent.float().mean().item())
    shares = [dead for _, dead, *_ in counts]
    assert max(shares) > 0 and counts[0][3] == 0
    for (_, before, *_), (_, after, _, revived) in zip(counts, counts[1:], strict=False):
        assert max(0, before - after) - 1e-6 <= revived <= before + 1e-6


@pytest.mark.syllabus("GT-19")
def test_the_balance_loss_has_its_weight_and_shares_are_those_of_the_batches():
    """The first losses differ by the weight times the balance loss, computed here by hand."""
    model = small_model(expert_config(), seed=0)
    window = next(feedforward.random_windows(corpus().training, 32, 16, torch.Generator().manual_seed(0)))
    x, records = model.hidden_states(window[:, :-1])
    assert records[0].routing is None
    record = records[1].routing
    share = record.experts.flatten().bincount(minlength=N_EXPERTS) / 512
    extra = N_EXPERTS * (share * record.logits.softmax(-1).mean(0)).sum()
    plain = F.cross_entropy(model.logits(x).flatten(0, 1), window[:, 1:].flatten())
    first = []
    original = feedforward.train

    def watched(model, batches, **options):
        found = original(model, batches, **options)
        first.append(found[0])
        return found

    feedforward.train = watched
    try:
        shares = [train_experts(balance, 0, 0.02, n_steps=1)[1] for balance in (0.0, 0.5)]
    finally:
        feedforward.train = original
    assert first == pytest.approx([plain.item(), (plain + 0.5 * extra).item()], rel=1e-5)
    for loads in shares:
        torch.testing.assert_close(loads, share[None])


def test_a_strong_balance_loss_evens_the_shares_out():
    spread = {}
    for balance in (0.0, 1.0):
        _, shares = train_experts(balance, 0, 0.02, n_steps=15)
        spread[balance] = shares[-3:].mean(0).max().item()
    assert spread[1.0] < spread[0.0] - 0.1


def test_tokens_above_the_capacity_are_dropped_and_the_bound_is_lifted_again():
    model, windows = small_model(expert_config(), seed=0), held_out_windows()[:32]
    mixture = model.stack.blocks[1].feedforward
    before = next_token_loss(model, windows)
    loss, dropped = loss_within_capacity(model, windows)
    _, records = model.hidden_states(windows[:, :-1])
    counts = records[1].routing.tokens_per_expert
    assert dropped == pytest.approx((counts - 160).clamp(min=0).sum().item() / 1024)  # 1.25 * 1024 / 8
    assert loss != before and mixture.capacity_factor is None and next_token_loss(model, windows) == before


def test_the_rows_of_a_collapse_are_those_of_its_shares(monkeypatch):
    shares = torch.tensor([[0.1, 0.1, 0.1, 0.7], [0.5, 0.3, 0.2, 0.0]])
    model = small_model(small_config("relu", 12))
    monkeypatch.setattr(feedforward, "train_experts", lambda *_, **__: (model, shares))
    (row,) = feedforward._collapse(("main", 0.0, 3, 0.02, 2))[f"{NAME}_collapse"]
    assert row[:7] == ["main", 0.0, 3, 4, "0.5000", 1, "2.800"]


@pytest.mark.syllabus("CMU-07", "GT-26")
def test_the_command_writes_the_tables(tmp_path, monkeypatch, capsys):
    few = held_out_windows()[:32]
    monkeypatch.setattr(feedforward, "held_out_windows", lambda *, validation=False: few)
    monkeypatch.setattr(feedforward, "D_MODEL", 12)
    monkeypatch.setattr(feedforward, "MAX_LRS", (0.01,))
    monkeypatch.setattr(feedforward, "DEAD_CHECKS", {"biases": (0.1, {"ff_bias": True})})
    monkeypatch.setattr(
        feedforward, "CHECKS", {"width 24": (24, 1, 0), "800 steps": (12, 2, 0), "other seeds": (12, 1, 10)}
    )
    monkeypatch.setattr(feedforward, "COLLAPSE", {"main": {}, "4 experts": {"n_experts": 4}})
    out = tmp_path / "new"
    assert main(["experiment", "feedforward", "--seeds", "0", "1", "--steps", "2", "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    tables = {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}
    assert set(tables) == {*feedforward.COLUMNS, f"{NAME}_experiment"} and len(list(out.iterdir())) == len(tables)
    for name, columns in feedforward.COLUMNS.items():
        assert list(tables[name][0]) == columns
    assert len(tables[f"{NAME}_models"]) == 16 and len(tables[f"{NAME}_differences"]) == 9
    assert len(tables[f"{NAME}_checks"]) == 24 and len(tables[f"{NAME}_check_differences"]) == 12
    assert [row["seed"] for row in tables[f"{NAME}_checks"]][::4] == ["0", "1", "0", "1", "10", "11"]
    steps = {row["setting"]: row for row in tables[f"{NAME}_checks"]}
    assert steps["width 24"]["d_ff"] in ("64", "96") and steps["800 steps"]["d_ff"] in ("32", "48")
    assert len(tables[f"{NAME}_experts"]) == 2 * 2 * 3 * 8 and len(tables[f"{NAME}_collapse"]) == 2 * 2 * 2
    settings = {row["field"]: row["value"] for row in tables[f"{NAME}_experiment"]}
    assert settings["n_steps"] == "2" and settings["seeds"] == "0 1" and settings["test_tokens"] == "1024"


def test_the_stored_tables_are_those_of_the_defaults():
    stored = {row["field"]: row["value"] for row in table(f"{NAME}_experiment")}
    for field in ("d_model", "n_layers", "n_steps", "batch_size", "warmup_steps", "n_experts", "capacity_factor"):
        assert stored[field] == getattr(feedforward, field.upper())
    tried = [(row["variant"], row["max_lr"], row["seed"]) for row in table(f"{NAME}_tuning")]
    assert Counter(tried) == Counter((v, lr, seed) for v in VARIANTS for lr in MAX_LRS for seed in TUNING_SEEDS)
    assert Counter(row["variant"] for row in table(f"{NAME}_models")) == dict.fromkeys(VARIANTS, 5)
    assert len({row["parameters"] for row in table(f"{NAME}_models")}) == 1
    checked = Counter(row["setting"] for row in table(f"{NAME}_checks"))
    assert checked == dict.fromkeys(CHECKS, 5 * (len(CHECKED) + 1))
    assert len(table(f"{NAME}_dead")) == 2 * 2 * 3 * 8
    assert len(table(f"{NAME}_dead_checks")) == len(DEAD_CHECKS) * 2 * 3 * 8
    assert len(table(f"{NAME}_experts")) == len(BALANCES) * 3 * 21 * N_EXPERTS
    assert Counter(row["setting"] for row in table(f"{NAME}_collapse")) == dict.fromkeys(COLLAPSE, 2 * 3)
    assert sum(path.stat().st_size for path in FOLDER.glob(f"{NAME}_*.csv")) <= 200_000


def test_the_stored_differences_follow_from_the_stored_losses():
    for row in table(f"{NAME}_differences"):
        pair = [results(f"{NAME}_models", "test_loss", variant=row[name]) for name in ("variant", "baseline")]
        found = paired_difference(*pair)
        assert [row["difference"], row["low"], row["high"]] == pytest.approx(
            [found.mean, found.low, found.high], abs=1e-4
        )
    for row in table(f"{NAME}_check_differences"):
        names = row["variant"], row["baseline"]
        pair = [results(f"{NAME}_checks", "test_loss", variant=name, setting=row["setting"]) for name in names]
        assert row["difference"] == pytest.approx(paired_difference(*pair).mean, abs=1e-4)


def test_the_row_of_a_check_is_that_of_its_model(monkeypatch):
    few = held_out_windows()[:64]
    monkeypatch.setattr(feedforward, "held_out_windows", lambda: few)
    for setting, d_model, seed, n_steps in (
        ("width 24", 24, 1, 3),
        ("800 steps", feedforward.D_MODEL, 1, 6),
        ("other seeds", feedforward.D_MODEL, 11, 3),
    ):
        model = small_model(small_config("bilinear", d_model), seed)
        fit(model, seed, 0.02, n_steps)
        (row,) = feedforward._checked((setting, "bilinear", 0.02, 1, 3))[f"{NAME}_checks"]
        n_parameters = sum(p.numel() for p in model.parameters())
        assert row[:-1] == [setting, "bilinear", model.config.d_ff, n_parameters, 0.02, seed]
        assert float(row[-1]) == pytest.approx(next_token_loss(model, few), abs=1e-3)


@pytest.mark.slow
@pytest.mark.syllabus("CMU-07", "GT-26")
def test_a_stored_loss_is_computed_again():
    """To the digit on the same kind of processor, with plain kernels too; on others, rounding grows with each step."""
    row = next(row for row in table(f"{NAME}_checks") if (row["variant"], row["setting"]) == ("bilinear", "width 24"))
    job = ("width 24", "bilinear", row["max_lr"], row["seed"], feedforward.N_STEPS)
    (again,) = feedforward._checked(job)[f"{NAME}_checks"]
    assert [again[2], again[3]] == [row["d_ff"], row["parameters"]]
    assert float(again[-1]) == pytest.approx(row["test_loss"], abs=0.02)


def test_stored_counts_of_dead_units_are_computed_again():
    """The first steps of a stored run."""
    rows = [row for row in table(f"{NAME}_dead") if (row["activation"], row["max_lr"], row["seed"]) == ("relu", 0.1, 0)]
    model = small_model(small_config("relu"), seed=0)
    found = {}

    class Enough(Exception):
        pass

    def count(step):
        if step in (5, 10):
            found[step] = unit_states(model, held_out_windows())[0].float().mean().item()
        if step == 10:
            raise Enough

    with pytest.raises(Enough):
        fit(model, 0, 0.1, 200, after_step=count)
    stored = {row["step"]: row["dead"] for row in rows}
    assert found == pytest.approx({step: stored[step] for step in (5, 10)}, abs=0.02)
