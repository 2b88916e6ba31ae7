"""The optimization experiment: settings train as they say, spikes have their causes, and the tables are whole."""

import csv
import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.models.stored import FOLDER
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments import optimization
from llm_anatomy.training.experiments.optimization import (
    BATCH_LRS,
    BATCH_SIZES,
    CAUSES,
    COLUMNS,
    DECAYS,
    FEW,
    FIXED,
    MANY,
    MAX_LRS,
    N_STEPS,
    SCHEDULE_LRS,
    TOO_HIGH,
    Measured,
    Setting,
    SpikingRun,
    Trained,
    grid,
    is_shown,
    rewinds,
    skips,
    small_model,
    train_together,
    training_ids,
    warmed_schedules,
)
from llm_anatomy.training.experiments.story_models import corpus
from llm_anatomy.training.optimizers import Adam, AdamW
from llm_anatomy.training.schedules import SCHEDULES

NAME = optimization.NAME


@pytest.mark.syllabus("GT-37", "GT-39")
def test_models_that_are_trained_together_are_those_that_are_trained_alone():
    """With the lesson's optimizers, and the decay of the paper; the losses are computed without vmap."""
    settings = [
        Setting(0.01, "adam_l2", 0.05),
        Setting(0.02, "adamw", 0.01, "linear", 0.4),
        Setting(0.04, schedule="warmup_stable_decay"),
    ]
    n_steps, ids = 5, training_ids(3)
    together = train_together(settings, 3, ids, n_steps, batch_size=4)
    for setting, trained in zip(settings, together, strict=True):
        model = small_model(3)
        matrices = [p for p in model.parameters() if p.ndim == 2]
        vectors = [p for p in model.parameters() if p.ndim == 1]
        if setting.method == "adam_l2":
            groups = [{"params": matrices, "l2": setting.weight_decay}, {"params": vectors}]
            optimizer = Adam(groups, lr=setting.max_lr)
        else:
            groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
            optimizer = AdamW(groups, lr=setting.max_lr, weight_decay=setting.weight_decay, convention="paper")
        batches = random_windows(ids, 32, 4, torch.Generator().manual_seed(3))
        for step in range(1, n_steps + 1):
            for group in optimizer.param_groups:
                factor = SCHEDULES[setting.schedule](step, n_steps, int(setting.warmup * n_steps))
                group["lr"] = setting.max_lr * factor
            windows = next(batches)
            loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert trained.training_loss == pytest.approx(loss.item(), abs=1e-3)
        for (name, ours), theirs in zip(trained.model.named_parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=1e-2, msg=name)


def test_the_losses_are_those_of_training_validation_and_test(monkeypatch):
    windows = {True: torch.arange(66).view(2, 33), False: torch.arange(100, 166).view(2, 33)}
    monkeypatch.setattr(optimization, "held_out_windows", lambda validation=False: windows[validation])
    model = small_model(0)
    expected = [1.25, *(next_token_loss(model, windows[which]) for which in (True, False))]
    assert Trained(model, 1.25).losses() == [f"{loss:.4f}" for loss in expected]
    assert Trained(model, math.nan).losses()[0] == "inf"


def test_the_settings_of_the_grid_differ_from_each_other():
    settings = [Setting(0.01, "adam_l2", 0.3), Setting(0.01, "adamw", 0.3), Setting(0.01), Setting(0.005)]
    models = [trained.model for trained in train_together(settings, 0, training_ids(3), 3, batch_size=4)]
    norms = [model.embedding.weight.norm().item() for model in models]
    assert norms[1] < norms[0] - 1 and norms[1] < norms[2] - 1 and len({round(norm, 4) for norm in norms}) == 4


# --- Spikes ---


def with_steps(run, n):
    return [run.step() for _ in range(n)]


@pytest.mark.syllabus("GT-03")
def test_a_run_goes_wrong_in_its_middle_and_for_its_own_cause():
    plain = SpikingRun("none", 0, 24).finish()
    for cause in CAUSES:
        found = SpikingRun(cause, 0, 24).finish()
        assert [row.step for row in found] == list(range(1, 25))
        assert [row.loss for row in found[:12]] == pytest.approx([row.loss for row in plain[:12]], rel=2e-3)
        if cause == "rate":
            assert found[12].loss == plain[12].loss
            assert found[12].update_ratio == pytest.approx(TOO_HIGH * plain[12].update_ratio, rel=0.02)
        elif cause == "data":
            assert found[12].gradient_norm > 3 * plain[12].gradient_norm
            assert found[12].update_ratio < 3 * plain[12].update_ratio


def test_the_measurements_are_those_of_a_step_written_out():
    run = SpikingRun("none", 0, 24)
    before = [p.detach().clone() for p in run.model.parameters()]
    windows, found = run.batches[0], run.step()
    model, streams = small_model(0), []
    for block in model.stack.blocks:
        block.register_forward_hook(lambda _, __, output: streams.append(output[0]))
    loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    assert found.step == 1 and found.loss == pytest.approx(loss.item(), rel=1e-5)
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    assert found.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert found.activation_maximum == pytest.approx(max(x.abs().max().item() for x in streams), rel=1e-5)
    change = sum((p - b).square().sum().item() for p, b in zip(run.model.parameters(), before, strict=True))
    whole = sum(b.square().sum().item() for b in before)
    assert found.update_ratio == pytest.approx(math.sqrt(change / whole), rel=1e-3)


def test_the_bad_batches_repeat_the_most_frequent_token():
    bad, plain = SpikingRun("data", 0, 48), SpikingRun("none", 0, 48)
    changed = [i for i in range(48) if not torch.equal(bad.batches[i], plain.batches[i])]
    assert changed == [24, 25]
    (token,) = bad.batches[24].unique().tolist()
    assert (corpus().training == token).sum() == corpus().training.bincount().max()


@pytest.mark.syllabus("GT-03")
def test_a_fork_goes_on_from_the_checkpoint_and_skips_batches():
    run = SpikingRun("none", 0, 24)
    with_steps(run, 10)
    forks = [run.fork("none", skipped) for skipped in (0, 2)]
    rest = with_steps(run, 4)
    assert with_steps(forks[0], 4) == rest  # to the digit, and the forks leave the run alone
    run.batches = [*run.batches[:10], *run.batches[12:]]
    again = SpikingRun("none", 0, 24)
    again.batches = run.batches
    with_steps(again, 10)
    assert with_steps(forks[1], 4) == with_steps(again, 4) != rest


def test_a_loss_scale_that_nobody_checks_overflows_and_a_checked_one_is_halved():
    wrong, right = (SpikingRun(cause, 0, 24) for cause in ("fp16", "fp16 repaired"))
    for run in (wrong, right):
        run.scale = 2.0**23
    before = right.model.embedding.weight.detach().clone()
    assert right.step().gradient_norm == math.inf and right.scale == 2.0**22
    assert torch.equal(right.model.embedding.weight, before)
    assert wrong.step().gradient_norm == math.inf and wrong.model.embedding.weight.isnan().any()
    found = wrong.finish()
    assert [row.step for row in found] == list(range(2, 25)) and all(math.isnan(row.loss) for row in found)
    assert wrong.test_loss() == math.inf
    while (row := right.step()).gradient_norm == math.inf:
        pass
    assert right.scale < 2.0**22 and not torch.equal(right.model.embedding.weight, before) and math.isfinite(row.loss)


def test_gradients_are_clipped_in_one_cause_alone():
    ratios = []
    for cause in ("data", "data clipped"):
        run = SpikingRun(cause, 0, 24)
        run.batches[0] = run.batches[12]
        first, *_ = with_steps(run, 1)
        moments = [state["exp_avg"] for state in run.optimizer.state.values()]
        ratios.append(math.sqrt(sum(m.square().sum().item() for m in moments)) / (0.1 * first.gradient_norm))
        assert first.gradient_norm > 2
    assert ratios[0] == pytest.approx(1, rel=1e-3)
    assert ratios[1] * first.gradient_norm == pytest.approx(1, rel=1e-3)


# --- Tables ---


def test_a_small_experiment_writes_all_tables(tmp_path, monkeypatch):
    """Nothing is trained: the losses are numbers of what would be trained, so that each row must have its own."""
    numbers, model = {}, small_model(0)

    def number(*asked):
        return numbers.setdefault(asked, len(numbers))

    def train(settings, seed, ids, n_steps, batch_size=optimization.BATCH_SIZE):
        return [Trained(model, number(setting, seed, len(ids), n_steps, batch_size)) for setting in settings]

    class Run(SpikingRun):
        def __init__(self, cause, seed, n_steps):
            self.cause, self.n_steps, self.n_done, self.n_skipped, self.seed = cause, n_steps, 0, 0, seed
            self.history = []

        def step(self):
            self.n_done += 1
            self.history.append((self.cause, self.n_skipped))
            return Measured(self.n_done, number(self.cause, self.n_skipped), 0.5, 0.25, 0.125)

        def test_loss(self):
            return number(self.seed, *self.history)

    monkeypatch.setattr(optimization, "train_together", train)
    monkeypatch.setattr(optimization, "SpikingRun", Run)
    monkeypatch.setattr(optimization, "held_out_windows", lambda validation=False: torch.arange(66).view(2, 33))
    monkeypatch.setattr(optimization, "CAUSES", ("data", "rate"))
    monkeypatch.setattr(optimization, "DECAYS", {"adam_l2": (0.001,), "adamw": (0.008,)})
    monkeypatch.setattr(optimization, "BATCH_SIZES", (4, 8))
    for name in ("MAX_LRS", "BATCH_LRS", "SCHEDULE_LRS"):
        monkeypatch.setattr(optimization, name, (0.01, 0.02))
    arguments = ["experiment", "optimization", "--seeds", "0", "1", "--steps", "12", "--out", str(tmp_path)]
    assert main(arguments) == 0
    tables = {}
    for name, columns in COLUMNS.items():
        with (tmp_path / f"{name}.csv").open() as lines:
            head, *tables[name.removeprefix(f"{NAME}_")] = csv.reader(lines)
        assert head == columns
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv" for name in [*COLUMNS, f"{NAME}_experiment"]}
    seeds, rates, n_many = (0, 1), (0.01, 0.02), len(corpus().training)
    losses = Trained(model, 0).losses()[1:]

    def rows_of(wanted):
        """The rows with these first columns, each with the number of its setting and the losses of the model."""
        return Counter((*map(str, first), f"{numbers[asked]:.4f}", *losses) for first, asked in wanted.items())

    cells = [(n, *cell) for n in (16, 3000) for cell in (("none", 0.0), ("adam_l2", 0.001), ("adamw", 0.008))]
    wanted = {
        (n, method, lr, decay, seed): (
            Setting(lr, "adam_l2" if method == "adam_l2" else "adamw", decay), seed, {16: 4821, 3000: n_many}[n], 12, 8
        )
        for n, method, decay in cells for lr in rates for seed in seeds
    }  # fmt: skip
    assert Counter(map(tuple, tables["grid"])) == rows_of(wanted)
    wanted = {
        (size, n, lr, seed): (Setting(lr), seed, n_many, n, size)
        for size, n in ((4, 24), (8, 12)) for lr in rates for seed in seeds
    }  # fmt: skip
    assert Counter(map(tuple, tables["batch"])) == rows_of(wanted)
    wanted = {
        (name, warmup, lr, seed): (Setting(lr, schedule=name, warmup=warmup), seed, n_many, 12, 8)
        for name, warmup in warmed_schedules() for lr in rates for seed in seeds
    }  # fmt: skip
    assert Counter(map(tuple, tables["schedules"])) == rows_of(wanted)
    runs = {
        (cause, "", "", seed): [(cause, 0)] * 12 for cause in ("none", "data clipped", "data", "rate") for seed in seeds
    }
    for seed, rewound in ((0, 5), (0, 6), (0, 7), (1, 6)):
        for cause in ("data", "rate"):
            for skipped in (0, 1, 2):
                history = [(cause, 0)] * rewound + [(cause, skipped)] * (12 - rewound)
                runs[cause, rewound, skipped, seed] = history
        runs["rate repaired", rewound, 0, seed] = [("rate", 0)] * rewound + [("rate repaired", 0)] * (12 - rewound)
    assert Counter(map(tuple, tables["recoveries"])) == Counter(
        (*map(str, run), f"{numbers[run[3], *history]:.4f}") for run, history in runs.items()
    )
    assert Counter(map(tuple, tables["spikes"])) == Counter(  # of the first seed, the steps after the rewind
        (*map(str, run[:3]), str(step), f"{numbers[history[step - 1]]:.4g}", "0.5", "0.25", "0.125")
        for run, history in runs.items() if run[3] == 0 for step in range((run[1] or 0) + 1, 13)
    )  # fmt: skip
    with pytest.raises(ValueError, match="n_workers=0 must be at least 1"):
        optimization.experiment(tmp_path, n_workers=0)


def test_the_stored_tables_are_whole():
    settings = {row["field"]: row["value"] for row in table(f"{NAME}_experiment")}
    assert settings["n_steps"] == N_STEPS and settings["seeds"] == "0 1 2 3 4"
    assert settings["few_tokens"] == len(training_ids(FEW)) and settings["many_tokens"] == len(corpus().training)
    for name, columns in COLUMNS.items():
        assert all(list(row) == columns for row in table(name))
    found = Counter((row["stories"], row["method"], row["weight_decay"]) for row in table(f"{NAME}_grid"))
    wanted = {(FEW, *cell): len(MAX_LRS) * 5 for cell in grid(FEW)}
    assert found == wanted | {(MANY, *cell): len(MAX_LRS) * 3 for cell in grid(MANY)}
    found = Counter((row["batch_size"], row["batch_size"] * row["n_steps"]) for row in table(f"{NAME}_batch"))
    assert found == {(size, 8 * N_STEPS): len(BATCH_LRS) * 3 for size in BATCH_SIZES}
    found = Counter((row["schedule"], row["warmup"]) for row in table(f"{NAME}_schedules"))
    assert found == dict.fromkeys(warmed_schedules(), len(SCHEDULE_LRS) * 3)
    assert sum(path.stat().st_size for path in FOLDER.glob(f"{NAME}_*.csv")) <= 200_000


def test_the_stored_spikes_are_whole():
    runs = {}
    for row in table(f"{NAME}_spikes"):
        runs.setdefault((row["cause"], row["rewound"], row["skipped"]), []).append(row["step"])
    shown = [step for step in range(1, N_STEPS + 1) if is_shown(step, N_STEPS)]
    rewound = [(cause, at, skipped) for cause in CAUSES for at in rewinds(N_STEPS) for skipped in skips(N_STEPS)]
    rewound += [(cause, at, 0) for cause in FIXED for at in rewinds(N_STEPS)]
    wanted = {(cause, None, None): shown for cause in ("none", "data clipped", *CAUSES)}
    wanted |= {(cause, at, n): [step for step in shown if step > at] for cause, at, n in rewound}
    assert runs == wanted
    recoveries = [row for row in table(f"{NAME}_recoveries") if row["seed"] == 0]
    assert [(row["cause"], row["rewound"], row["skipped"]) for row in recoveries] == list(runs)


@pytest.mark.slow
@pytest.mark.syllabus("GT-37")
def test_stored_losses_of_the_grid_are_computed_again():
    """To the digit on the same kind of processor, with plain kernels too; on others, rounding grows with each step."""
    method, weight_decay = "adamw", DECAYS["adamw"][3]
    wanted = {"stories": FEW, "method": method, "weight_decay": weight_decay, "seed": 1}
    stored = [row for row in table(f"{NAME}_grid") if wanted.items() <= row.items()]
    again = optimization._grid((FEW, method, weight_decay, 1, N_STEPS))[f"{NAME}_grid"]
    assert [row[2] for row in again] == [row["max_lr"] for row in stored] == list(MAX_LRS)
    assert [float(row[-1]) for row in again] == pytest.approx([row["test_loss"] for row in stored], abs=0.03)


def test_the_first_steps_of_a_stored_run_are_computed_again():
    stored = [row for row in table(f"{NAME}_spikes") if row["cause"] == "none"][:6]
    run = SpikingRun("none", 0, N_STEPS)
    found = {row.step: row for row in with_steps(run, stored[-1]["step"])}
    for row in stored:
        again = found[row["step"]]
        assert [again.loss, again.gradient_norm, again.update_ratio, again.activation_maximum] == pytest.approx(
            [row["loss"], row["gradient_norm"], row["update_ratio"], row["activation_maximum"]], rel=0.02
        )
