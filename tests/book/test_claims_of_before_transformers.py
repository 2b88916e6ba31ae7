"""What the text of chapter 2 states, tried with the chapter's own functions at other learning rates and seeds."""

import math
import re
from functools import cache

import pytest
from chapter_imports import imported

from bookbinder import ROOT, notebooks
from llm_anatomy.data import table
from llm_anatomy.evaluation.paired import paired_difference
from llm_anatomy.models.before_transformers import BigramNetwork, EmbeddedBigramNetwork


@cache
def page():
    [found] = [page for page in notebooks.pages(ROOT) if page.docname == "book/before_transformers/before_transformers"]
    return found


def cell(opening):
    """The source of the chapter's cell that contains this line."""
    return next(cell.source for cell in page().code if opening in cell.source)


def functions(opening):
    """The part of the chapter's cell that defines functions, without what it runs afterwards."""
    return re.split(r"\n\n\n(?!def )", cell(opening))[0]


def text():
    """The words of the chapter, with one space between any two."""
    return " ".join(" ".join(cell.source for cell in page().cells if cell.cell_type == "markdown").split())


# --- Embeddings ---


@cache
def trained(seed):
    """The chapter's ``fit`` with other starting weights: bits per byte on new text, by model and learning rate."""
    names = imported("before_transformers/before_transformers")
    exec("\n".join(re.findall(r"^def count_pairs.*?^    return.*?$", cell("def count_pairs("), re.S | re.M)), names)
    exec(functions("def bits("), names)
    exec(cell("small = training.ids").split("print(")[0], names)
    exec(cell("def fit(").replace("manual_seed(0)", f"manual_seed({seed})"), names)
    n_vocab = names["n_vocab"]
    models = {
        "none": lambda: BigramNetwork(n_vocab, 128),
        "untied": lambda: EmbeddedBigramNetwork(n_vocab, 32, 128),
        "tied": lambda: EmbeddedBigramNetwork(n_vocab, 32, 128, tie_embeddings=True),
    }
    runs = [("none", 0.05), ("untied", 0.05), ("tied", 0.05), ("none", 0.02), ("untied", 0.02), ("untied", 0.03)]
    return {(name, max_lr): names["fit"](models[name](), max_lr=max_lr)[1] for name, max_lr in runs}


@pytest.mark.slow
@pytest.mark.syllabus("UCL-10", "UCL-11")
@pytest.mark.parametrize("seed", range(1, 4))
def test_the_learning_rate_decides_whether_an_embedding_helps_on_new_text(seed):
    new = trained(seed)
    assert new["untied", 0.05] < new["none", 0.05] - 0.01
    assert new["none", 0.02] < new["untied", 0.02] - 0.005
    assert new["none", 0.02] < min(new["untied", max_lr] for max_lr in (0.02, 0.03, 0.05)) - 0.005
    assert new["tied", 0.05] < new["untied", 0.05] - 0.005
    assert abs(new["tied", 0.05] - new["none", 0.02]) < 0.015


@pytest.mark.syllabus("UCL-10", "UCL-11")
def test_the_text_gives_no_reason_that_the_learning_rate_turns_around():
    assert "learn single pairs by heart" not in text() and "best loss on new text so far" not in text()
    assert "max_lr=0.02" in cell("losses = {")


@pytest.mark.syllabus("UCL-10")
def test_on_all_stories_the_model_without_an_embedding_is_slightly_better_at_its_own_rate():
    losses = {}
    for row in table("before_transformers_losses"):
        losses.setdefault(row["model"], []).append(row["loss"])
    difference = paired_difference(losses["embedded bigram"], losses["bigram network"])
    assert difference.is_clear and 0 < difference.mean < 0.01


# --- Clipping ---


@pytest.mark.slow
@pytest.mark.syllabus("UCL-15")
def test_at_a_tenth_of_the_rate_most_runs_learn_without_clipping_and_not_all():
    names = imported("before_transformers/before_transformers")
    source = functions("def five_runs(").replace("range(5)", "range(12)")
    exec(source.replace("return sum(share > 0.9 for share in shares)", "return shares"), names)
    slower, without = names["five_runs"](math.inf, 0.1), names["five_runs"](math.inf, 1.0)
    assert 8 <= sum(share > 0.9 for share in slower) < 12
    assert sum(share > 0.9 for share in slower[:5]) in (3, 4)
    assert sum(share > 0.9 for share in without) < 5


@pytest.mark.syllabus("UCL-15")
def test_the_cell_on_clipping_runs_the_lower_rate_that_the_text_speaks_of():
    assert "five_runs(math.inf, 0.1)" in cell("def five_runs(")
    assert "saved these runs" not in text() and "though not all" in text()
