"""What experiments share: tables that grow job by job, the best learning rates, and reading results again."""

import csv
import functools
import math
from pathlib import Path

import pytest
import torch

from llm_anatomy.training.experiments import runs
from llm_anatomy.training.experiments.runs import Tables, best_max_lrs, results, rows_of


def rows_for(job):
    return {"losses": [[job, f"{job / 4:.2f}"]]}


@pytest.mark.parametrize("n_workers", [1, 2])
def test_rows_are_collected_in_the_order_of_the_jobs_and_written_after_each(tmp_path, n_workers):
    tables, seen, n_threads = (
        Tables(tmp_path / "new", {"losses": ["seed", "loss"]}, n_workers),
        [],
        torch.get_num_threads(),
    )
    write = tables.write
    tables.write = lambda name, head, rows: (seen.append(len(rows)), write(name, head, rows))
    with tables.collecting() as collect:
        collect(rows_for, [3, 1, 2], "jobs")
    assert seen == [1, 2, 3] and torch.get_num_threads() == n_threads
    with (tmp_path / "new/losses.csv").open(newline="") as lines:
        assert list(csv.reader(lines)) == [["seed", "loss"], ["3", "0.75"], ["1", "0.25"], ["2", "0.50"]]


def counted_rows(job):
    """Fails at the third job until there is a file, and writes down which jobs it was given."""
    folder, number = job
    with open(f"{folder}/given", "a") as given:
        given.write(f"{number}\n")
    if number == 3 and not Path(f"{folder}/go").exists():
        raise KeyboardInterrupt
    return {"losses": [[number, math.inf, "0.50"]]}


@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_experiment_that_was_stopped_goes_on_with_the_jobs_that_are_left(tmp_path, n_workers):
    columns, jobs = {"losses": ["seed", "rate", "loss"]}, [(str(tmp_path), number) for number in (1, 2, 3, 4)]

    def collect_all(n_workers=1):
        tables = Tables(tmp_path / "out", columns, n_workers)
        with tables.collecting() as collect:
            collect(counted_rows, jobs, "jobs")
        return tables

    with pytest.raises(KeyboardInterrupt):
        collect_all(n_workers)
    journal = tmp_path / "out/finished.jsonl"
    with journal.open("a") as lines:
        lines.write('["a line that was being wri')
    (tmp_path / "go").touch()
    (tmp_path / "given").unlink()
    tables = collect_all()
    assert sorted((tmp_path / "given").read_text().split()) == ["3", "4"]
    assert tables.rows["losses"] == [[number, math.inf, "0.50"] for number in (1, 2, 3, 4)]
    assert (tmp_path / "out/losses.csv").read_text().splitlines()[1:] == [f"{n},inf,0.50" for n in (1, 2, 3, 4)]
    tables.write_settings("settings", [], [0], 0.0)
    assert not journal.exists()


def test_finished_jobs_of_other_code_are_not_taken(tmp_path, monkeypatch):
    for version, expected in ((b"one", 1), (b"one", 0), (b"two", 1)):
        monkeypatch.setattr(runs.Path, "read_bytes", lambda _, version=version: version)
        tables, given = Tables(tmp_path, {"losses": ["seed", "loss"]}), []
        work = functools.wraps(rows_for)(lambda job, given=given: given.append(job) or rows_for(job))
        with tables.collecting() as collect:
            collect(work, [5], "jobs")
        assert len(given) == expected and tables.rows["losses"] == [[5, "1.25"]]


def test_the_minutes_are_those_of_all_parts(tmp_path):
    (tmp_path / "finished.jsonl").write_text('["a", {}, 60.5]\n["b", {}, 120.0]\n')
    Tables(tmp_path, {}).write_settings("settings", [], [0], 60.0)
    assert (tmp_path / "settings.csv").read_text().splitlines()[-1] == "minutes,4"


def test_the_settings_end_with_seeds_versions_and_minutes(tmp_path):
    Tables(tmp_path, {}).write_settings("settings", [["width", 3]], [0, 1], 150.0)
    lines = (tmp_path / "settings.csv").read_text().splitlines()
    assert lines[:3] == ["field,value", "width,3", "seeds,0 1"] and lines[-1] == "minutes,2"


def test_the_best_learning_rate_has_the_smallest_loss_and_is_the_smaller_one_on_a_tie():
    tuning = [
        ["a", 0.1, "2.0"],
        ["a", 0.2, "1.5"],
        ["b", 0.1, "inf"],
        ["b", 0.2, "3.0"],
        ["c", 0.1, "1"],
        ["c", 0.2, "1"],
    ]
    assert best_max_lrs(tuning) == {"a": 0.2, "b": 0.2, "c": 0.1}


def test_a_tensor_becomes_one_row_for_each_entry():
    assert rows_of(["x"], torch.tensor([[1.0, 0.0], [-0.5, 2.0]]), 1) == [
        ["x", 0, 0, "1.0"], ["x", 0, 1, "0.0"], ["x", 1, 0, "-0.5"], ["x", 1, 1, "2.0"],
    ]  # fmt: skip


def test_a_column_other_than_the_loss_can_be_read():
    assert results("position_curves", "step", scheme="rope", seed=0)[:2].tolist() == [50, 100]
    with pytest.raises(ValueError, match="no row of position_losses has {'scheme': 'rotary'}"):
        results("position_losses", scheme="rotary")
