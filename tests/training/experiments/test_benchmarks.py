"""The experiment about benchmarks: what is planted, what is renamed, in which order examples stand; and its tables."""

import csv
from collections import Counter
from itertools import permutations

import pytest
import torch

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.models.stored import FOLDER
from llm_anatomy.training.experiments import benchmarks, story_tasks
from llm_anatomy.training.experiments.benchmarks import (
    COLUMNS,
    COPIES,
    N_EXAMPLES,
    N_LABELS,
    N_NOUNS,
    N_ORDER_QUESTIONS,
    N_PLANTED,
    ORDER_STEPS,
    SCHEMES,
    accuracy_by_order,
    halves,
    order_model,
    renamed,
    scores_of,
    sequences,
    training_ids,
)
from llm_anatomy.training.experiments.story_models import N_CTX, corpus

NAME = benchmarks.NAME
ITEMS = story_tasks.facts().items


def test_no_story_has_questions_in_both_halves():
    for seed in range(3):
        groups = [{ITEMS[i].group for i in half} for half in halves(seed)]
        assert not groups[0] & groups[1] and [len({*half}) for half in halves(seed)] == [N_PLANTED] * 2
    assert halves(0) != halves(1)


@pytest.mark.syllabus("GT-09")
def test_planted_questions_stand_in_the_training_text_with_their_answers():
    clean, dirty = training_ids(0, 3), training_ids(2, 3)
    assert dirty[: len(clean)].equal(clean)
    leaked = dirty[len(clean) :]
    assert leaked[: len(leaked) // 2].equal(leaked[len(leaked) // 2 :])
    text = corpus().tokenizer.decode(leaked[: len(leaked) // 2].tolist())
    planted, others = ([ITEMS[i] for i in half] for half in halves(3))
    for item in planted:
        end = f"{item.context[-80:]} {item.choices[item.answer]}"
        assert end in text
    assert sum(f"{item.context[-80:]} {item.choices[item.answer]}" in text for item in others) == 0
    assert len(leaked) / 2 <= N_PLANTED * (N_CTX + 1)


def test_renamed_questions_differ_in_names_alone():
    n_names = 0
    for item in ITEMS[:300]:
        other = renamed(item)
        assert other.context != item.context and other.answer == item.answer and len({*other.choices}) == 4
        words = [(a, b) for a, b in zip(item.context.split(), other.context.split(), strict=True) if a != b]
        names = {*story_tasks.KINDS["name"]}
        assert all(a.strip(",.\"?!'s") in {n.strip("s") for n in names} for a, _ in words), words
        n_names += other.choices[item.answer] != item.choices[item.answer]
        right, new = other.choices[item.answer], {b.strip(',."?!') for _, b in words}
        assert right in other.context and not any(choice in new for choice in item.choices)
    assert 100 < n_names < 300


def test_scores_are_those_of_the_items_in_their_order():
    from llm_anatomy.evaluation.text_model import read_checkpoint

    model = read_checkpoint("story_learned")
    scores, answers = scores_of(model, ITEMS[:7])
    again, _ = scores_of(model, ITEMS[5:7])
    assert answers.tolist() == [item.answer for item in ITEMS[:7]]
    torch.testing.assert_close(scores["raw"][5:], again["raw"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("drifting", [False, True])
def test_labels_follow_kinds_but_for_a_tenth_and_roles_change_only_where_they_may(drifting):
    ids = sequences(4000, drifting, torch.Generator().manual_seed(0)).view(4000, N_EXAMPLES + 2, 2)
    things, labels = ids[..., 0] >= N_NOUNS, ids[..., 1]
    assert labels.ge(2 * N_NOUNS).all() and labels.max() == 2 * N_NOUNS + N_LABELS - 1
    assert all(len({*row}) <= 2 for row in labels.tolist())
    first, last = (labels[:, i] == labels[:, i + 1] for i in (0, N_EXAMPLES))
    same = [(a == (things[:, i] == things[:, i + 1])).double().mean().item() for a, i in ((first, 0), (last, 5))]
    right = 0.9**2 + 0.1**2
    expected = right * (1 - benchmarks.DRIFT) + (1 - right) * benchmarks.DRIFT if drifting else right
    assert same == pytest.approx([expected] * 2, abs=0.03)


class Copying(torch.nn.Module):
    """Answers with the label of the example at a position, from the end."""

    def __init__(self, position):
        super().__init__()
        self.position = position

    def forward(self, ids):
        logits = torch.zeros(*ids.shape, 2 * N_NOUNS + N_LABELS)
        logits[:, -1] = torch.nn.functional.one_hot(ids[:, -2 * self.position], logits.shape[-1]).float()
        return logits


@pytest.mark.syllabus("GT-10")
def test_orders_change_the_answers_of_a_model_that_looks_at_one_example_alone():
    for position in (1, 4):
        found = accuracy_by_order(Copying(position))
        assert len(found) == 120
        for order, accuracy in found.items():
            assert accuracy == float(order[-position] in (0, 1))  # the two that are right and of the same kind


def test_a_model_before_training_is_no_better_than_chance(monkeypatch):
    monkeypatch.setattr(benchmarks, "N_ORDER_QUESTIONS", 100)
    assert 0.3 < sum(accuracy_by_order(order_model(0)).values()) / 120 < 0.7


# --- Tables ---


def test_the_command_writes_tables_and_goes_on_after_an_interruption(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmarks, "N_PLANTED", 12)
    by_order = {order: order.index(2) / 4 for order in permutations(range(N_EXAMPLES))}
    monkeypatch.setattr(benchmarks, "accuracy_by_order", lambda model: by_order)
    monkeypatch.setattr(benchmarks, "bits_per_byte", lambda model: model.config.d_model / 1000)
    monkeypatch.setattr(story_tasks, "N_STORIES", 20)
    monkeypatch.setattr(story_tasks, "STORED", ("story_learned",))
    for cached in (story_tasks._stories, benchmarks.halves):
        cached.cache_clear()
    try:
        assert main(["experiment", NAME, "--out", str(tmp_path), "--seeds", "4", "--steps", "2"]) == 0
    finally:
        for cached in (story_tasks._stories, benchmarks.halves):
            cached.cache_clear()
    for name, columns in COLUMNS.items():
        head, *rows = csv.reader((tmp_path / f"{name}.csv").read_text().splitlines())
        assert head == columns and rows
        assert head == list(table(name)[0]) or not (FOLDER / f"{name}.csv").is_file()
    models = [("story_learned", "0", ""), *(("learned", f"{copies}", "4") for copies in COPIES)]
    models += [(scheme, "0", "4") for scheme in SCHEMES[1:]]
    written = list(csv.reader((tmp_path / f"{NAME}_models.csv").read_text().splitlines()))[1:]
    assert Counter(map(tuple, written)) == Counter((*model, "0.0640") for model in models)
    orders = list(csv.reader((tmp_path / f"{NAME}_orders.csv").read_text().splitlines()))[1:]
    assert {tuple(row[:2]) for row in orders} == {("still", "4"), ("drifting", "4")}
    assert {tuple(map(float, row[3:])) for row in orders} == {(0.5, 0.0, 1.0, 0.0, 0.25, 0.5, 0.75, 1.0)}
    contamination = (tmp_path / f"{NAME}_contamination.csv").read_text().splitlines()
    assert len(contamination) == 1 + len(COPIES) * 3


NEEDS_TABLES = pytest.mark.skipif(not (FOLDER / f"{NAME}_orders.csv").is_file(), reason="the tables are not there yet")


@NEEDS_TABLES
def test_the_tables_are_whole():
    seeds = range(5)
    contamination = Counter((row["copies"], row["seed"], row["questions"]) for row in table(f"{NAME}_contamination"))
    kinds = ("planted", "renamed", "not planted")
    assert contamination == Counter((copies, seed, kind) for copies in COPIES for seed in seeds for kind in kinds)
    scores = Counter((row["model"], row["seed"], row["score"]) for row in table(f"{NAME}_scores"))
    models = [(name, None) for name in story_tasks.STORED] + [(name, seed) for name in SCHEMES for seed in seeds]
    four = ("raw", "per_token", "per_character", "unconditional")
    assert scores == Counter((*model, score) for model in models for score in four)
    assert len(table(f"{NAME}_models")) == len(models) + len(seeds) * (len(COPIES) - 1)
    orders = Counter((row["training"], row["seed"], row["step"]) for row in table(f"{NAME}_orders"))
    assert orders == Counter(
        (kind, seed, step) for kind in ("still", "drifting") for seed in seeds for step in ORDER_STEPS
    )
    for row in table(f"{NAME}_orders"):
        by_position = [row[f"wrong_{i}"] for i in range(1, N_EXAMPLES + 1)]
        assert row["mean"] == pytest.approx(sum(by_position) / N_EXAMPLES, abs=2e-4)
        assert row["lowest"] <= min(by_position) and max(by_position) <= row["highest"]
    bins = Counter()
    for row in table(f"{NAME}_calibration"):
        bins[row["model"], row["copies"], row["seed"], row["questions"], row["score"]] += row["n"]
    assert {*bins.values()} <= {N_PLANTED, len(ITEMS)} and len(bins) == 2 * (3 + 5 * len(COPIES) * 3)


@NEEDS_TABLES
@pytest.mark.syllabus("GT-09")
def test_many_copies_raise_the_score_of_planted_questions_above_that_of_others():
    found = {}
    for row in table(f"{NAME}_contamination"):
        found.setdefault((row["copies"], row["questions"]), []).append(row["accuracy"])
    gaps = {n: [a - b for a, b in zip(found[n, "planted"], found[n, "not planted"], strict=True)] for n in COPIES}
    assert min(gaps[16]) > 0.15 and min(gaps[16]) > max(gaps[0])
    known = {row["field"]: row["value"] for row in table(f"{NAME}_experiment")}
    assert known["order_questions"] == N_ORDER_QUESTIONS and known["planted_questions"] == N_PLANTED
