"""The scaling explorer as an object: its numbers, its words, and its form with a kernel."""

import gzip
import math

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.notebook import ScalingExplorer

SCORES = [round(score, 4) for score in torch.randn(16, generator=torch.Generator().manual_seed(0)).tolist()]


def test_scores_are_the_same_on_every_machine():
    last_digits = [score + 3e-7 for score in SCORES]
    assert ScalingExplorer(last_digits).html() == ScalingExplorer(SCORES).html()


@pytest.mark.syllabus("UCL-19")
@pytest.mark.parametrize("width", [1, 4, 512, 0.5])
@pytest.mark.parametrize("scaled", [False, True])
def test_numbers_are_those_of_torch(width, scaled):
    weights, deviation, slope = ScalingExplorer(SCORES).soften(width, scaled)
    scores = torch.tensor(SCORES, dtype=torch.float64) * (1 if scaled else math.sqrt(width))
    assert weights == pytest.approx(scores.softmax(0).tolist(), abs=1e-6)
    assert deviation == pytest.approx(torch.std(scores).item(), abs=1e-6)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), scores)
    assert slope == pytest.approx(jacobian.abs().max().item(), abs=1e-6)
    assert slope == pytest.approx(max(weights) * (1 - max(weights)), abs=1e-6)


@pytest.mark.syllabus("UCL-19")
def test_scaled_weights_do_not_depend_on_the_width():
    widget = ScalingExplorer(SCORES)
    assert widget.soften(512, True)[0] == pytest.approx(widget.soften(1, True)[0])
    assert max(widget.soften(512, False)[0]) > 2 * max(widget.soften(1, False)[0])


def test_words_are_rounded_and_complete():
    assert repr(ScalingExplorer(torch.tensor([1.0, -1.0]), widths=(1, 4, 9))) == (
        "A head 4 wide, scores as they are: their standard deviation is 2.83, the largest of 2 weights is 0.9820, "
        "and the gradient α(1 − α) there is 0.0177."
    )


def test_markup_is_light():
    assert len(gzip.compress(ScalingExplorer(SCORES, caption="Look.").html().encode())) < 5_600


def test_live_control_takes_any_width_and_scores():
    width, scaled, scores, image, words, caption = ScalingExplorer(SCORES, caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    width.value = 12345.0
    assert words.value.startswith("A head 12345 wide, scores as they are")
    scaled.value = True
    assert words.value == ScalingExplorer(SCORES)._sentence(12345, True)
    assert bytes(image.value) != before
    scores.value = "[2, 2, -1]"
    assert "the largest of 3 weights is 0.4879" in words.value
    scores.value = "[2, 2"
    assert "it must be written like [0.3, -1.2]" in words.value
    scores.value = "[2, 1]"
    width.value = -1.0
    assert words.value == "width=-1.0; it must be a positive number"
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"scores": [1.0]}, r"scores=\[1.0\]; it must be a list of at least two numbers"),
        ({"scores": 3}, "scores=3; it must be a list of at least two numbers"),
        ({"scores": [1.0, float("nan")]}, r"scores\[1\]=nan; it must be a finite number"),
        ({"widths": [4]}, r"widths=\[4\]; it must be a list of at least two numbers"),
        ({"widths": (0, 4)}, "width=0.0; it must be a positive number"),
        ({"widths": (4, 4)}, r"widths=\[4, 4\]; each must be larger than the one before"),
    ],
)
def test_scaling_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        ScalingExplorer(**{"scores": SCORES} | changes)
