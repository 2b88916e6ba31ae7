"""What the text of chapter 9 states about its control, and the condition under which post-norm fails."""

import re
from functools import cache

import pytest
import torch
from chapter_imports import imported

from bookbinder import ROOT, notebooks
from llm_anatomy.layers.normalization import LayerNorm
from llm_anatomy.layers.residual import PostNorm
from llm_anatomy.training.experiments import norm_placement
from llm_anatomy.training.experiments.runs import results

[PAGE] = [page for page in notebooks.pages(ROOT) if page.docname == "book/norm_placement/norm_placement"]
READ_THE_TRACE = ROOT / "exercises/norm_placement/read_the_trace/exercise.md"


def cell(opening):
    """The source of the chapter's cell that contains this line."""
    return next(cell.source for cell in PAGE.code if opening in cell.source)


@cache
def chapter():
    """The chapter's functions that build, measure and train its decoders."""
    names = imported("norm_placement/norm_placement")
    for opening in ("def decoder(", "def identity_share(", "def fit(", "def variant("):
        source = cell(opening)
        exec(source[: re.search(r"\n(print\(|shares = |shares_of_bytes|fits = )|$", source).start()], names)
    names["PostNorm"] = PostNorm
    share = names["text"].bincount() / len(names["text"])
    names["entropy"] = torch.special.entr(share).sum().item()
    return names


def trains(residual, scale, seed):
    names = chapter()
    losses, _, _ = names["fit"](names["variant"](names[residual], scale, seed))
    return sum(losses[-20:]) / 20 < names["entropy"] - 0.05


# --- The control ---


@pytest.mark.syllabus("GT-15", "GT-14")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_three_times_the_stream_is_a_third_of_the_branch(seed):
    names = chapter()
    with torch.no_grad():
        pairs = [(("StrongerPath", 1), ("PostNorm", 1 / 3)), (("StrongerPath", 3), ("PostNorm", 1))]
        for pair in pairs:
            first, second = (names["variant"](names[r], scale, seed)(names["windows"][:, :-1]) for r, scale in pair)
            torch.testing.assert_close(first, second, atol=1e-3, rtol=0)


@pytest.mark.syllabus("GT-15")
def test_a_step_of_adam_changes_the_branches_of_the_control_a_third_as_much():
    names, moved = chapter(), {}
    x, target = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    for residual, start in ((names["StrongerPath"], 1), (PostNorm, 1 / 3)):
        matrix = torch.nn.Linear(7, 7, bias=False)
        with torch.no_grad():
            matrix.weight.copy_(start * torch.eye(7))
        (residual(LayerNorm(7))(x, matrix) - target).square().sum().backward()
        before = matrix.weight.detach().clone()
        torch.optim.Adam(matrix.parameters(), lr=0.004).step()
        moved[residual] = (matrix.weight - before).detach() / (1 if residual is PostNorm else 3)
    torch.testing.assert_close(3 * moved[names["StrongerPath"]], moved[PostNorm], rtol=1e-3, atol=1e-6)


@pytest.mark.slow
@pytest.mark.syllabus("GT-15", "CMU-18")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_control_needs_smaller_branches_and_smaller_steps(seed):
    assert trains("StrongerPath", 1, seed)
    assert not trains("PostNorm", 1 / 3, seed) and not trains("StrongerPath", 3, seed)
    assert not trains("PostNorm", 1, seed)  # the model of the opening


@pytest.mark.syllabus("GT-15", "CMU-18")
def test_the_page_says_what_the_control_shows():
    [stored] = [cell for cell in PAGE.stored().cells if 'print("sum     scale' in cell.source]
    assert re.findall("True|False", stored.outputs[0].text) == ["True", "False", "False", "True"]
    prose = " ".join(" ".join(c.source for c in PAGE.cells if c.cell_type == "markdown").split())
    assert "a stronger path helps" not in prose
    assert "a path of this strength is not enough by itself" in prose


# --- The initialization ---


@pytest.mark.slow
@pytest.mark.syllabus("GT-15", "CMU-18")
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_post_norm_trains_if_its_branches_start_at_a_tenth(seed):
    assert trains("PostNorm", 1 / 10, seed)


@pytest.mark.slow
@pytest.mark.syllabus("GT-15", "CMU-18")
def test_the_runs_of_the_experiment_fail_because_of_the_initialization_too(monkeypatch):
    def smaller(*sizes, original=norm_placement.model_of):
        model = original(*sizes)
        for block in model.stack.blocks:
            block.attention.w_output.weight.data /= 10
            block.feedforward.w_down.weight.data /= 10
        return model

    stored = results("norm_placement_runs", "failed", placement="post", n_layers=12, max_lr=0.004, warmup=0.0)
    assert stored.all()
    monkeypatch.setattr(norm_placement, "model_of", smaller)
    [result] = norm_placement.run("post", 0, [(0.004, 0.0)], n_layers=12)
    assert not result.failed


@pytest.mark.syllabus("GT-14")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_identity_is_lost_behind_twelve_blocks_with_our_initialization_only(seed, monkeypatch):
    names, ours = chapter(), chapter()["decoder"]
    assert names["identity_share"]("post", 12, seed) < 0.05

    def smaller(placement, n_layers, seed):
        model = ours(placement, n_layers, seed)
        for block in model.stack.blocks:
            block.attention.w_output.weight.data /= 3
            block.feedforward.w_down.weight.data /= 3
        return model

    monkeypatch.setitem(names, "decoder", smaller)
    assert names["identity_share"]("post", 12, seed) > 0.35


def sentences():
    """Those of the chapter, of its predictions, titles and captions, and of the exercise on its runs."""
    code = [" ".join(re.findall(r'f?"([^"\n]+)"', cell.source)) for cell in PAGE.code]
    markdown = [cell.source for cell in PAGE.cells if cell.cell_type == "markdown"]
    text = " ".join("\n\n".join([*markdown, *code, READ_THE_TRACE.read_text()]).split())
    return re.split(r"(?<=[.?:])\s+(?=[A-Z“*])", text)


LIMITED = "need(s|ed) a small|post-norm can take|trains at none|trains in all three seeds up|identity is lost"


@pytest.mark.syllabus("GT-15", "CMU-18", "CMU-19")
def test_what_post_norm_needs_is_said_of_our_initialization_only():
    found = [s for s in sentences() if re.search(LIMITED, s)]
    assert len(found) >= 6
    for sentence in found:
        assert "nitialization" in sentence, sentence


@pytest.mark.syllabus("GT-15", "CMU-18", "CMU-19")
@pytest.mark.parametrize(
    "place",
    [
        "How much of a push on the embeddings",
        "at which learning rates does each placement train?",
        "where does the region in which post-norm trains end",
        "In our runs of four and six layers",
        "Read our rates as those of",
        "The experiment has trained decoders of 2 to 12 layers",
        "it shrinks in post-norm from block to block",
        "has not got beyond the frequency of each byte",
    ],
)
def test_the_condition_stands_beside_each_claim_on_post_norm(place):
    around = " ".join(sentences())
    at = around.index(place)
    assert "nitialization" in around[max(0, at - 160) : at + 160]


@pytest.mark.syllabus("GT-15", "CMU-18")
def test_the_exercise_on_the_runs_names_the_initialization():
    assert "This is one learning rate and one initialization" in " ".join(READ_THE_TRACE.read_text().split())
