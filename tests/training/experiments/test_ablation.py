"""The ablation lab: runs are files that outlast a stop, the plan is kept, and the tables say what the files say."""

import csv
import functools
import math
import os
import statistics
import subprocess
from pathlib import Path

import pytest
import torch

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.evaluation.significance import holm, paired_t_test
from llm_anatomy.files import write_atomically
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import target_log_probs
from llm_anatomy.training.experiments import ablation
from llm_anatomy.training.experiments.ablation import (
    COLUMNS,
    NAME,
    SIZES,
    TUNING_SEED,
    Job,
    Plan,
    best_max_lr,
    experiment,
    held_out,
    held_out_loss,
    loss_at,
    results_rows,
    train,
    training,
    write_json,
)

pytestmark = pytest.mark.syllabus("GT-19", "GT-51")

ROWS = ["geglu"]  # and the baseline


def read(out, name):
    with (out / f"{name}.csv").open() as lines:
        head, *rows = csv.reader(lines)
    assert head == COLUMNS.get(name, head)
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_a_command_that_is_stopped_goes_on_and_gives_the_same_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(SIZES, "small", SIZES["small"]._replace(batch_size=2, n_test=16))
    monkeypatch.setattr(ablation, "SPEED_ROUNDS", 1)
    monkeypatch.setattr(ablation, "SPEED_STEPS", 1)
    for name in ("train", "measure_speed"):  # a run that is repeated gives the same, which is tested for one of them
        monkeypatch.setattr(ablation, name, functools.cache(getattr(ablation, name)))
    held_out.cache_clear()
    words = ["experiment", "ablation", "--rows", *ROWS, "--seeds", "0", "--steps", "4"]
    words += ["--out", str(tmp_path / "stopped")]

    def write(path, text):
        if len(list(tmp_path.glob("stopped/runs/*.json"))) == 4:
            raise SystemExit
        write_atomically(path, text)

    with monkeypatch.context() as stopping, pytest.raises(SystemExit):
        stopping.setattr(ablation, "write_atomically", write)
        main(words)
    capsys.readouterr()
    first = {path: path.stat().st_mtime_ns for path in tmp_path.glob("stopped/runs/*.json")}
    assert len(first) == 4
    assert main(words) == 0
    printed, said = capsys.readouterr()
    assert f"The tables are in {tmp_path / 'stopped'}." in printed and "speed 2/2: geglu" in said and "left" in said
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("stopped/runs/*.json")}
    assert first.items() <= times.items()
    assert len(times) == 3 + 2 + 3 + 1 and not list(tmp_path.glob("stopped/runs/.*"))
    experiment(tmp_path / "whole", [0], 4, rows=ROWS)
    for name in COLUMNS:
        if name != f"{NAME}_speed":
            rows = read(tmp_path / "stopped", name)
            timeless = [column for column in COLUMNS[name] if "time" not in column]
            assert rows and [[row[c] for c in timeless] for row in rows] == [
                [row[c] for c in timeless] for row in read(tmp_path / "whole", name)
            ]
    words = ["experiment", "ablation", "--tables", "--seeds", "0", "--steps", "4", "--out", str(tmp_path / "stopped")]
    assert main(words) == 0
    assert times == {path: path.stat().st_mtime_ns for path in times}  # nothing was run again
    losses = read(tmp_path / "stopped", f"{NAME}_losses")
    assert [(row["name"], row["seed"]) for row in losses] == [("baseline", "0"), ("baseline", "1"), ("geglu", "0")]
    again = train("geglu", 0, float(losses[2]["max_lr"]), 4, 1)
    assert losses[2]["loss"] == f"{again.loss:.4f}"
    speeds = {row["name"]: row for row in read(tmp_path / "stopped", f"{NAME}_speed")}
    n = sum(p.numel() for p in MODIFICATIONS["geglu"].build(SIZES["small"].config()).parameters())
    assert speeds["geglu"]["parameters"] == str(n) and float(speeds["baseline"]["flops_ratio"]) == 1.0
    held_out.cache_clear()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--steps", "7"], "plan.json has n_steps=6, not 7; take another folder, or what its plan says"),
        (["--seeds", "1"], "plan.json has seeds=0, not 1"),
        (["--rows", "gegul"], "'gegul' is no row; the rows are baseline, gelu"),
        (["--task", "3/2"], "task=3/2 must be one of 1/2 to 2/2"),
        (["--task", "3"], "'3' must be I/N, such as 2/13"),
        (["--workers", "0"], "n_workers=0 must be at least 1"),
        (["--device", "gpu"], "device='gpu' is not there"),
        (["--seeds", "1", "1"], "seeds=(1, 1) different"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(tmp_path, capsys, words, sentence):
    ablation.check_plan(tmp_path, Plan("small", 6, (0,)))
    words = [*(["--steps", "6"] if "--steps" not in words else []), *words]
    words = [*(["--seeds", "0"] if "--seeds" not in words else []), *words]
    try:
        code = main(["experiment", "ablation", "--out", str(tmp_path), *words])
    except SystemExit as leaving:
        code = leaving.code
    assert code == 2 and sentence in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.glob("runs/*"))


def test_a_device_that_is_not_there_leaves_no_plan(tmp_path):
    """A plan names its device, so that the folder would be of no use for another one."""
    with pytest.raises(ValueError, match="device='gpu' is not there"):
        experiment(tmp_path / "out", device="gpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
@pytest.mark.parametrize("name", ["plan", "runs/baseline-100-0.003-2", "speed/baseline"])
def test_a_damaged_file_is_named_with_the_remedy_and_stays(tmp_path, capsys, name, content):
    plan, damaged = Plan("small", 6, (0,)), tmp_path / f"{name}.json"
    ablation.check_plan(tmp_path, plan)
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_text(content)
    (tmp_path / "runs").mkdir(exist_ok=True)
    words = ["--tables", "--seeds", "0", "--steps", "6", "--out", str(tmp_path)]
    assert main(["experiment", "ablation", *words]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    is_another_plan = name == "plan" and content == "{}"
    assert said.startswith(damaged.name)
    assert ("take another folder" if is_another_plan else f"remove {damaged}, and the same command") in said
    assert damaged.read_text() == content


def test_the_plan_says_how_all_is_run_and_judged():
    fields = Plan("small", 200, (0, 1, 2, 3, 4)).fields()
    assert fields["baseline_seeds"] == "0 1 2 3 4 5 6 7 8 9" and fields["tuning_steps"] == 66
    assert fields["test_tokens"] >= 8192 and "4 times" in fields["unstable"] and "Holm" in fields["correction"]
    assert Plan("small", 4, (3, 1)).baseline_seeds == (3, 1, 0, 2)


def test_tasks_share_the_rows(tmp_path, monkeypatch):
    shared = []
    monkeypatch.setattr(ablation, "_run_all", lambda out, plan, names, n_workers: shared.append(list(names)))
    for i in range(1, 6):
        experiment(tmp_path, [0], 6, task=(i, 5))
    assert sorted(sum(shared, [])) == sorted(MODIFICATIONS) and max(map(len, shared)) - min(map(len, shared)) <= 1
    assert not list(tmp_path.glob("*.csv"))


# --- A run ---


def test_the_training_is_that_of_t5_written_out():
    """Adam with a rate that rises and then falls with the inverse square root, and gradients with norm 1 at most."""
    steps, setting = training("geglu", 2, 0.02), SIZES["small"]
    model = MODIFICATIONS["geglu"].build(setting.config(), 2)
    moments = {key: (torch.zeros_like(p), torch.zeros_like(p)) for key, p in model.named_parameters()}
    ids = ablation.story_words(setting.n_spans).ids
    batches = ablation.corrupted_batches(ids, setting.n_tokens, setting.batch_size, torch.Generator().manual_seed(2))
    for step in range(1, 4):
        trained, said = next(steps)
        loss = -target_log_probs(model, *next(batches)).mean()
        assert said == pytest.approx(loss.item(), rel=1e-4)
        gradients = dict(zip(moments, torch.autograd.grad(loss, list(model.parameters())), strict=True))
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients.values()))
        for key, parameter in model.named_parameters():
            g, (m, v) = gradients[key] / max(1.0, norm), moments[key]
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.98).add_(0.02 * g * g)
            lr = 0.02 * step / setting.warmup_steps * (ablation.TABLE_RATE if key == "embedding.weight" else 1)
            update = lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.98**step)).sqrt() + 1e-8)
            with torch.no_grad():
                parameter -= update
    for key, parameter in trained.named_parameters():
        torch.testing.assert_close(parameter, model.get_parameter(key), atol=2e-3, rtol=1e-3, msg=key)


def test_the_data_of_a_seed_are_the_same_for_all_rows(monkeypatch):
    seen = {}
    plain = ablation.target_log_probs
    monkeypatch.setattr(
        ablation, "target_log_probs", lambda model, *batch: seen.setdefault(key, batch) and plain(model, *batch)
    )
    for key in [("baseline", 0), ("depth_24", 0), ("baseline", 1)]:
        next(training(*key, 0.01))
    assert all(torch.equal(a, b) for a, b in zip(seen["baseline", 0], seen["depth_24", 0], strict=True))
    assert not torch.equal(seen["baseline", 0][0], seen["baseline", 1][0])


def test_the_held_out_loss_is_the_mean_over_all_target_tokens():
    held = held_out("test", "small")
    few = type(held)(*(x[:170] for x in held))  # more than one piece
    model = MODIFICATIONS["baseline"].build(SIZES["small"].config())
    with torch.no_grad():
        expected = -target_log_probs(model, *few).mean().item()
    assert held_out_loss(model, few) == pytest.approx(expected, rel=1e-5)
    validation = held_out("validation", "small")
    assert held.targets.shape == validation.targets.shape and not torch.equal(held.targets, validation.targets)


def test_a_run_that_is_not_finite_is_written_down_as_diverged(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(ablation, "training", lambda *_: iter([(None, 5.0), (None, math.nan)]))
    job = Job(tmp_path, "geglu", 0, 0.01, 3, 3)
    job.run()
    found = job.read()
    assert found["diverged"] and found["loss"] is None and found["curve"] == []
    assert loss_at(found, 2) == math.inf


# --- Judging ---


def made(loss, slope=0.0, n_steps=100, diverged=False):
    """A run whose curve falls by so much per step."""
    curve = [[step, loss + 0.1 + slope * (n_steps - step)] for step in range(20, n_steps + 1, 20)]
    return {"loss": None if diverged else loss, "curve": curve, "diverged": diverged, "max_lr": 0.01}


def test_the_loss_at_a_step_is_read_from_the_curve_that_ends_at_the_loss():
    run = made(2.0, slope=0.01)
    assert [loss_at(run, step) for step in (20, 50, 90, 100, 200)] == pytest.approx([2.8, 2.5, 2.1, 2.0, 2.0])
    assert loss_at(run, 3) == pytest.approx(2.8)


def test_verdicts_come_from_the_corrected_paired_test_and_from_the_spread():
    noise = [0.00, 0.02, -0.01, 0.015, -0.02]
    jitter = [0.001, -0.002, 0.0005, -0.001, 0.0015]
    base = {s: made(2.0 + x) for s, x in enumerate([*noise, *(-x for x in noise)])}
    runs = {
        "baseline": base,
        "gelu": {s: made(1.9 + noise[s] + jitter[s]) for s in range(5)},
        "elu": {s: made(2.1 + noise[s] + jitter[s]) for s in range(5)},
        "swish": {s: made(2.0 + noise[s] + jitter[s]) for s in range(5)},
        "selu": {s: made(2.0 + 20 * noise[s]) for s in range(5)},
        "glu": {s: made(1.5 + noise[s], diverged=s == 3) for s in range(5)},
    }
    rows = {row[1]: dict(zip(COLUMNS[f"{NAME}_results"], row, strict=True)) for row in results_rows(
        runs, dict.fromkeys(runs, (1.0, 1.0)), Plan("small", 100, (0, 1, 2, 3, 4)))}  # fmt: skip
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts == {"baseline": "baseline", "gelu": "better", "elu": "worse", "swish": "within noise",
                        "selu": "unstable", "glu": "unstable"}  # fmt: skip
    tests = {name: paired_t_test([runs[name][s]["loss"] for s in range(5)], [base[s]["loss"] for s in range(5)])
             for name in ("gelu", "elu", "swish", "selu")}  # fmt: skip
    corrected = holm([*(test.p for test in tests.values()), 1.0])
    for (name, test), p in zip(tests.items(), corrected, strict=False):
        row = rows[name]
        assert [float(row[c]) for c in ("difference", "low", "high")] == pytest.approx(
            [test.mean, test.low, test.high], abs=1e-4
        )
        assert [float(row["p"]), float(row["p_holm"])] == pytest.approx([test.p, p], rel=1e-2)
    assert rows["glu"]["rank"] == 6 and rows["gelu"]["rank"] == 1 and rows["glu"]["loss"] == "inf"
    paper = {row["row"]: row["final_loss"] for row in table("narang2021")}
    of_ours = {name: paper[MODIFICATIONS[name].row] for name in runs}
    assert all(rows[n]["paper_rank"] == 1 + sum(x < of_ours[n] for x in of_ours.values()) for n in runs)


def test_a_slower_row_is_read_earlier_and_for_a_faster_one_the_baseline_is():
    base = {s: made(2.0 + 0.01 * s, slope=0.01) for s in range(10)}
    slow = {s: made(1.8 + 0.01 * s + 0.001 * (s == 1), slope=0.02) for s in range(5)}
    fast = {s: made(2.1 + 0.01 * s + 0.001 * (s == 1), slope=0.03) for s in range(5)}
    runs, costs = (
        {"baseline": base, "gelu": slow, "elu": fast},
        {"baseline": (1, 1), "gelu": (2.0, 1.0), "elu": (0.5, 1.0)},
    )
    rows = {row[1]: dict(zip(COLUMNS[f"{NAME}_results"], row, strict=True))
            for row in results_rows(runs, costs, Plan("small", 100, (0, 1, 2, 3, 4)))}  # fmt: skip
    assert float(rows["gelu"]["difference"]) == float(rows["gelu"]["flops_difference"]) == pytest.approx(-0.2, abs=1e-3)
    assert float(rows["gelu"]["time_difference"]) == pytest.approx(1.8 + 50 * 0.02 - 2.0, abs=1e-3)
    assert float(rows["elu"]["time_difference"]) == pytest.approx(2.1 - (2.0 + 50 * 0.01), abs=1e-3)


def test_the_rate_with_the_smallest_loss_is_chosen_and_a_divergence_never(tmp_path):
    (tmp_path / "runs").mkdir()
    jobs = Plan("small", 6, (0,)).tuning_jobs(tmp_path, "geglu")
    assert [job.n_steps for job in jobs] == [2, 2, 2] and {job.seed for job in jobs} == {TUNING_SEED}
    for job, loss in zip(jobs, (3.0, 2.0, None), strict=True):
        write_json(job.path, {"loss": loss})
    assert best_max_lr(jobs) == jobs[1].max_lr


# --- The stored tables ---


def stored():
    return {row["field"]: row["value"] for row in table(f"{NAME}_experiment")}


def test_the_stored_tables_are_whole():
    settings, seeds = stored(), range(5)
    assert settings["n_steps"] == SIZES["small"].n_steps
    plan = Plan("small", settings["n_steps"], tuple(seeds))
    assert {key: str(value) for key, value in plan.fields().items()}.items() <= {
        k: str(v) for k, v in settings.items()
    }.items()
    for name, columns in COLUMNS.items():
        assert all(list(row) == columns for row in table(name))
    names = list(MODIFICATIONS)
    assert [row["name"] for row in table(f"{NAME}_results")] == names == [row["name"] for row in table(f"{NAME}_speed")]
    wanted = [(name, seed) for name in names for seed in (range(10) if name == "baseline" else seeds)]
    assert [(row["name"], row["seed"]) for row in table(f"{NAME}_losses")] == wanted
    assert [(row["name"], row["max_lr"]) for row in table(f"{NAME}_tuning")] == [
        (name, lr) for name in names for lr in SIZES["small"].max_lrs
    ]


def test_the_stored_losses_give_the_stored_differences():
    losses = {}
    for row in table(f"{NAME}_losses"):
        losses.setdefault(row["name"], {})[row["seed"]] = row["loss"]
    floor = statistics.stdev(losses["baseline"].values())
    for row in table(f"{NAME}_results"):
        own = losses[row["name"]]
        differences = [own[s] - losses["baseline"][s] for s in own]
        if all(map(math.isfinite, differences)):
            assert row["difference"] == pytest.approx(statistics.fmean(differences), abs=2e-4)
            is_unstable = statistics.stdev(own.values()) > ablation.UNSTABLE * floor
            assert (row["verdict"] == "unstable") == is_unstable


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("baseline", 3), ("geglu", 1), ("depth_6", 0), ("switch_transformer", 2)])
def test_stored_losses_are_computed_again(name, seed):
    """To the digit on the same kind of processor; on others, rounding grows with each step."""
    (row,) = (row for row in table(f"{NAME}_losses") if (row["name"], row["seed"]) == (name, seed))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    again = train(name, seed, row["max_lr"], row["steps"], row["steps"])
    torch.set_num_threads(n_threads)
    assert again.loss == pytest.approx(row["loss"], abs=0.05)


DEPLOY = Path(__file__).parents[3] / "deploy/train/ablation_slurm.sh"


def test_the_slurm_script_runs_its_share_of_the_rows(tmp_path):
    """Where python and srun are programs that only write down what they were given."""
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@" >> calls.txt\n')
    (tmp_path / "python").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    task = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "13", "SLURM_CPUS_PER_TASK": "4"}
    done = subprocess.run(["bash", DEPLOY, "--out", "runs of mine"], cwd=tmp_path, env=environment | task)
    assert done.returncode == 0
    assert (tmp_path / "calls.txt").read_text() == (
        "-m llm_anatomy experiment ablation --task 3/13 --workers 4 --out runs of mine\n"
    )


def test_the_shipped_losses_are_of_the_seeds_that_the_experiment_names():
    seeds = {name: set() for name in MODIFICATIONS}
    for row in table("ablation_losses"):
        seeds[row["name"]].add(row["seed"])
    assert set.intersection(*seeds.values()) == set(ablation.SEEDS)
