"""What the text of chapter 8 states about shifting noise and LayerNorm, computed from the stored runs."""

import re
from types import SimpleNamespace

import pytest
import torch
from chapter_imports import imported

from bookbinder import ROOT, notebooks
from llm_anatomy.data import table
from llm_anatomy.training.experiments import normalization

[PAGE] = [page for page in notebooks.pages(ROOT) if page.docname == "book/normalization/normalization"]
ARMS = ("none", "batch", "layer", "noisy")


def cell(opening):
    """The source of the chapter's cell that contains this line."""
    return next(cell.source for cell in PAGE.code if opening in cell.source)


def names_of_the_section():
    """What the section's first cell defines, and the arguments of its prediction."""
    asked = {}
    names = imported("normalization/normalization")
    names["nb"] = SimpleNamespace(Prediction=lambda question, **given: asked.update(given, question=question))
    exec(cell("def per_run("), names)
    return names, asked


def losses(setting, column):
    """The five losses of each arm, straight from the table."""
    rows = [row for row in table("normalization_losses") if row["setting"] == setting]
    return {arm: [row[column] for row in rows if row["arm"] == arm] for arm in ARMS}


def percent_taken(setting, column):
    """By the noise, of what BatchNorm gains over no norm."""
    of = {arm: sum(values) for arm, values in losses(setting, column).items()}
    return 100 * (of["noisy"] - of["batch"]) / (of["none"] - of["batch"])


@pytest.mark.syllabus("IITD-36")
def test_the_prediction_on_noise_gives_the_share_for_both_measures():
    _, asked = names_of_the_section()
    numbers = {round(percent_taken("main", column)) for column in ("test_loss", "loss")}
    assert {int(n) for n in re.findall(r"(\d+) %", asked["explanation"])} == numbers == {17, 43}
    assert "noise is off" in asked["explanation"] and "noise on" in asked["explanation"]
    of = {arm: sum(values) for arm, values in losses("main", "test_loss").items()}
    assert asked["answer"] == 1 and of["batch"] < of["noisy"] < of["none"]


@pytest.mark.syllabus("IITD-36")
def test_at_both_rates_the_noise_leaves_four_fifths_of_the_gain_in_test_loss_and_half_of_that_in_batch_loss():
    for setting in ("main", "one rate"):
        assert 75 < 100 - percent_taken(setting, "test_loss") < 85
        assert 43 < 100 - percent_taken(setting, "loss") < 58
    prose = " ".join(" ".join(c.source for c in PAGE.cells if c.cell_type == "markdown").split())
    assert "four fifths of the gain in test loss, and about half of that in batch loss" in prose
    assert "keeps most of the gain" not in prose


@pytest.mark.syllabus("IITD-36")
def test_the_settings_are_compared_for_layer_norm_too(capsys):
    names, _ = names_of_the_section()
    exec(cell('[("batch", "none"), ("layer", "none")'), names)
    printed = capsys.readouterr().out.splitlines()
    for setting in normalization.SETTINGS:
        of = losses(setting, "test_loss")
        differences = [a - b for a, b in zip(of["layer"], of["none"], strict=True)]
        [line] = [line for line in printed if line.startswith(setting.ljust(10))]
        shown, mark = re.findall(r"([+-]\d\.\d\d)(\??)", line)[1]
        assert float(shown) == pytest.approx(sum(differences) / 5, abs=0.0051)
        assert (mark == "") == (min(differences) > 0 or max(differences) < 0)
        assert (max(differences) < 0) == (setting == "one rate") and (min(differences) > 0) == (setting == "spirals")
    spirals = losses("spirals", "loss")
    assert (
        sum(a > b for a, b in zip(spirals["layer"], spirals["none"], strict=True)) == 1
    )  # by the batch loss, one seed


@pytest.mark.syllabus("IITD-36")
def test_the_ranges_for_relu_are_those_of_the_stored_runs(capsys):
    names, _ = names_of_the_section()
    exec(cell("of BatchNorm's gain the noise takes"), names)
    said = [[int(n) for n in re.findall(r"\d+", line)] for line in capsys.readouterr().out.splitlines()[-2:]]
    relu = [name for name, setting in normalization.SETTINGS.items() if setting.activation == "relu"]
    for column, bounds in zip(("test_loss", "loss"), said, strict=True):
        shares = [percent_taken(name, column) for name in relu]
        assert bounds == [round(min(shares)), round(max(shares))]
    assert said[0][1] < 50 and said[1][0] > 40 and said[1][1] < 60


@pytest.mark.syllabus("IITD-36")
def test_the_batch_loss_is_the_mean_of_the_last_sixty_batches():
    losses = torch.rand(normalization.N_STEPS, generator=torch.Generator().manual_seed(0)).tolist()
    assert normalization.final_loss(losses) == pytest.approx(sum(losses[-60:]) / 60)
