"""The normalization experiment: arms differ in the norm alone, the measures are right, its tables are whole."""

import copy
import csv
import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.training.experiments import normalization
from llm_anatomy.training.experiments.normalization import (
    ARMS,
    CONTROLS,
    SETTINGS,
    DeepNetwork,
    Setting,
    examples,
    final_loss,
    gradient_shift,
    input_shift,
    run,
    shifting_noise,
    smoothness,
)

SMALL = Setting(n_layers=3, width=7, lrs=(0.03, 0.1))


def batch_of(n, task="teacher", seed=0):
    return examples(task, n, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("task", ["teacher", "spirals"])
def test_a_task_is_the_same_for_all_and_each_batch_is_new(task):
    generator = torch.Generator().manual_seed(0)
    x, classes = examples(task, 2000, generator)
    again, _ = batch_of(2000, task)
    new, _ = examples(task, 2000, generator)
    assert torch.equal(x, again) and not torch.equal(x, new)
    shares = classes.bincount(minlength=10) / 2000
    assert x.shape[1] == Setting(task=task).d_input and shares.min() > 0.02 and shares.max() < 0.25


def test_spirals_turn_with_the_radius():
    x, classes = batch_of(500, "spirals")
    radius = x.norm(dim=1) / 2
    turned = torch.atan2(x[:, 1], x[:, 0]) - 2 * math.pi * classes / 10 - 4 * radius
    assert (turned.cos()[radius > 0.3] > 0.95).all()


@pytest.mark.syllabus("IITD-36")
def test_noise_moves_the_mean_and_scale_of_each_unit_with_each_draw():
    torch.manual_seed(0)
    x = torch.randn(20_000, 40)
    first, second = shifting_noise(x, 1), shifting_noise(x, 2)
    assert torch.equal(first, shifting_noise(x, 1))
    means, stds = first.mean(0), first.std(0)
    assert -0.55 < means.min() < -0.3 and 0.3 < means.max() < 0.55
    assert 0.98 < stds.min() < 1.1 and 1.15 < stds.max() < 1.3
    assert (second.mean(0) - means).abs().mean() > 0.2 and (second.std(0) - stds).abs().mean() > 0.05
    assert (shifting_noise(x, 1, layer=1).mean(0) - means).abs().mean() > 0.2  # each layer has its own
    torch.testing.assert_close(shifting_noise(x, 1, strength=4.0) - x, 4 * (first - x))


@pytest.mark.parametrize("arm", [*ARMS, *CONTROLS])
def test_arms_start_from_the_same_weights_and_differ_in_the_norm_alone(arm):
    plain, network = DeepNetwork("none", SMALL, seed=3), DeepNetwork(arm, SMALL, seed=3)
    for old, new in zip(plain.layers[:-1], network.layers[:-1], strict=True):
        assert torch.equal(old[0].weight, new[0].weight)
    x, _ = batch_of(50)
    h = x
    for i, layer in enumerate(network.layers[:-1]):
        z = F.linear(h, layer[0].weight)
        if arm == "layer":
            z = F.layer_norm(z, (7,))
        elif arm != "none":
            z = F.batch_norm(z, None, None, training=True)
        if network.noise:
            z = shifting_noise(z, 5, i, network.noise)
        h = z.relu()
    torch.testing.assert_close(network(x, 5), network.layers[-1](h))
    assert bool(network.noise) == (arm in ("noisy", *CONTROLS))


def test_the_test_loss_is_read_without_noise_and_with_the_statistics_of_the_test():
    rows = {}
    for arm in ("batch", "noisy"):
        rows[arm] = normalization._trained(("main", arm, 0, 0.1, 1))["normalization_losses"][0]
    trained = run(SETTINGS["main"], "batch", 0, 0.1, n_steps=1)[0]
    x, classes = examples("teacher", normalization.N_TEST, torch.Generator().manual_seed(3000))
    assert float(rows["batch"][-1]) == pytest.approx(F.cross_entropy(trained(x), classes).item(), abs=1e-4)
    trained = run(SETTINGS["main"], "noisy", 0, 0.1, n_steps=1)[0]
    noisy, trained.noise = F.cross_entropy(trained(x), classes).item(), 0.0
    assert float(rows["noisy"][-1]) == pytest.approx(F.cross_entropy(trained(x), classes).item(), abs=1e-4)
    assert abs(float(rows["noisy"][-1]) - noisy) > 0.01


def test_there_is_no_noise_in_evaluation():
    network = DeepNetwork("noisy", SMALL, seed=0).eval()
    x, _ = batch_of(5)
    assert torch.equal(network(x, 1), network(x, 2))


def test_weights_have_the_variance_of_their_setting():
    for setting in (SETTINGS["main"], Setting(weight_variance=1 / 3), SETTINGS["tanh"]):
        weight = DeepNetwork("none", setting, seed=0).layers[3][0].weight
        assert weight.var().item() * 64 == pytest.approx(setting.weight_variance, rel=0.1)


@pytest.mark.syllabus("IITD-36")
def test_the_shift_of_the_inputs_is_that_of_their_means_and_deviations():
    before = DeepNetwork("none", Setting(n_layers=1, width=7), seed=0)
    after = copy.deepcopy(before)
    x, _ = batch_of(200)
    with torch.no_grad():
        after.layers[0][0].weight *= 2  # doubles the activations of the only layer
    h = before.inputs(x)[1]
    deviation = h.std(0, correction=0)
    size = deviation.square().mean().sqrt()
    mean, std = input_shift(before, after, x)
    assert mean == pytest.approx((h.mean(0).square().mean().sqrt() / size).item(), rel=1e-5)
    assert std == pytest.approx(1, rel=1e-5)
    noisy = DeepNetwork("noisy", SMALL, seed=0)
    assert min(input_shift(noisy, noisy, x)) > 0.05  # the noise alone is a shift
    norm = DeepNetwork("batch", SMALL, seed=0)
    input_shift(norm, norm, x)
    assert norm.layers[0][1].running_mean.eq(0).all()  # measuring leaves the running statistics alone


@pytest.mark.syllabus("IITD-36")
def test_the_shift_of_a_gradient_is_due_to_the_layers_below_alone():
    batch = batch_of(50)
    before = DeepNetwork("batch", SMALL, seed=0)
    above, below = copy.deepcopy(before), copy.deepcopy(before)
    with torch.no_grad():
        above.layers[-1].weight += 1
        below.layers[0][0].weight += 0.5 * torch.randn(7, 16, generator=torch.Generator().manual_seed(1))
    assert gradient_shift(before, above, batch)[0] == 0
    distance, cosine = gradient_shift(before, below, batch)
    # by hand, for a network of two layers
    two, moved = (DeepNetwork("none", Setting(n_layers=1, width=7), seed=s) for s in (0, 1))
    moved.layers[1].load_state_dict(two.layers[1].state_dict())
    old, new = (
        torch.cat(
            [
                g.flatten()
                for g in torch.autograd.grad(F.cross_entropy(n(batch[0]), batch[1]), [*n.layers[1].parameters()])
            ]
        )
        for n in (two, moved)
    )
    assert distance > 0.05 and cosine < 0.999
    by_hand = ((new - old).norm() / old.norm()).item(), F.cosine_similarity(new, old, dim=0).item()
    assert gradient_shift(two, moved, batch) == pytest.approx(by_hand, rel=1e-5)


class Bowl(DeepNetwork):
    """A network whose loss is that of two classes with one logit, w x."""

    def __init__(self):
        nn.Module.__init__(self)
        self.w = nn.Parameter(torch.tensor(0.0))

    def forward(self, x, draw=0):
        return torch.stack((self.w * x[:, 0], torch.zeros(len(x))), 1)


def test_smoothness_is_right_where_it_can_be_computed_by_hand():
    """The loss is log(1 + exp(-w)), with gradient -1/(1 + exp(w)), from w = 0 on."""
    batch = torch.ones(4, 1), torch.zeros(4, dtype=torch.long)
    found = smoothness(Bowl(), batch, lr=1.0)
    at = [0.0, *(0.5 * factor for factor in normalization.FACTORS)]
    losses = [math.log(1 + math.exp(-w)) for w in at]
    gradients = [-1 / (1 + math.exp(w)) for w in at]
    assert found.loss_range == pytest.approx(losses[0] - losses[-1], rel=1e-4)
    assert found.gradient_distance == pytest.approx(gradients[-1] - gradients[0], rel=1e-4)
    assert found.gradient_change == pytest.approx((gradients[-1] - gradients[0]) / 0.5, rel=1e-4)
    assert found.beta == pytest.approx(
        max((g - gradients[0]) / w for g, w in zip(gradients[1:], at[1:], strict=True)), rel=1e-4
    )
    assert found.loss_error == pytest.approx(1 - (losses[0] - losses[-1]) / (at[-1] * 0.5), rel=1e-4)


def test_smoothness_leaves_the_network_as_it_is():
    network = DeepNetwork("batch", SMALL, seed=0)
    before = copy.deepcopy(network.state_dict())
    smoothness(network, batch_of(20), lr=0.1)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_measurement_changes_nothing_and_sees_the_step():
    network, losses, shifts, smooth = run(SMALL, "noisy", 0, 0.1, n_steps=6, measured=[1, 4])
    again, same, *_ = run(SMALL, "noisy", 0, 0.1, n_steps=6)
    assert losses == same and [row[0] for row in shifts] == [1, 4] and [row[0] for row in smooth] == [1, 1, 4, 4]
    for name, value in again.state_dict().items():  # the running statistics, too
        assert torch.equal(value, network.state_dict()[name])
    assert all(value > 0 for row in run(SMALL, "none", 0, 0.1, n_steps=2, measured=[1])[2] for value in row)


def test_a_loss_that_is_not_finite_ends_a_run():
    with pytest.raises(FloatingPointError, match="step"):
        run(SETTINGS["main"], "none", 0, 1e9, n_steps=5)
    assert normalization._tuning(("main", "none", 1e9, 5))["normalization_tuning"][0][-1] == "inf"
    assert final_loss([9.0] * 8 + [1.0, 2.0]) == 1.5


def test_a_command_writes_the_tables(tmp_path, monkeypatch, capsys):
    spirals = Setting(n_layers=2, task="spirals", lrs=(0.1, 0.3))
    monkeypatch.setattr(normalization, "SETTINGS", {"main": SMALL, "spirals": spirals})
    monkeypatch.setattr(normalization, "MEASURED", (0.2, 0.5))
    out = tmp_path / "new"
    assert main(["experiment", "normalization", "--seeds", "0", "1", "--steps", "10", "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    tables = {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}
    assert set(tables) == {*normalization.COLUMNS, "normalization_experiment"} and len(list(out.iterdir())) == len(
        tables
    )
    for name, rows in tables.items():
        assert list(rows[0]) == list(table(name)[0])
    assert len(tables["normalization_losses"]) == 2 * (5 + 4)
    assert len(tables["normalization_shift"]) == 18 * 2 and len(tables["normalization_smoothness"]) == 18 * 4
    assert {row["step"] for row in tables["normalization_shift"]} == {"2", "5"}
    settings = {row["field"]: row["value"] for row in tables["normalization_experiment"]}
    assert settings["n_steps"] == "10" and settings["seeds"] == "0 1"


def test_the_stored_tables_are_those_of_the_defaults():
    stored = {row["field"]: row["value"] for row in table("normalization_experiment")}
    for field in ("n_steps", "batch_size", "n_probe", "n_test", "common_lr", "one_rate", "tuning_seed"):
        assert stored[field] == getattr(normalization, field.upper())
    arms = [(name, arm) for name in SETTINGS for arm in normalization._arms(name)]
    tried = Counter((row["setting"], row["arm"]) for row in table("normalization_tuning"))
    assert tried == {(name, arm): len(SETTINGS[name].lrs) for name, arm in arms}
    for name, rows_of_a_run in {"losses": 1, "shift": 5, "smoothness": 10}.items():
        rows = Counter((row["setting"], row["arm"]) for row in table(f"normalization_{name}"))
        assert rows == dict.fromkeys(arms, 5 * rows_of_a_run)


@pytest.mark.syllabus("IITD-36")
def test_the_stored_losses_are_computed_again():
    """The first steps of a stored run; on another processor, rounding grows with each step."""
    row = next(row for row in table("normalization_shift") if row["arm"] == "batch" and row["seed"] == 0)
    lrs = [(r["loss"], r["lr"]) for r in table("normalization_tuning") if (r["setting"], r["arm"]) == ("main", "batch")]
    _, _, shifts, _ = run(SETTINGS["main"], "batch", 0, min(lrs)[1], n_steps=row["step"] + 1, measured=[row["step"]])
    for value, column in zip(shifts[0], ("step", "mean", "std", "gradient", "cosine"), strict=True):
        assert value == pytest.approx(row[column], abs=0.01)
