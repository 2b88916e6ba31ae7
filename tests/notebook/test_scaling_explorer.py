"""The scaling explorer as an object: its numbers, its words, and what it refuses."""

import math

import pytest
import torch

from llm_anatomy.notebook import ScalingExplorer

SCORES = {d: math.sqrt(d) * torch.randn(30, 5, generator=torch.Generator().manual_seed(d)) for d in (1, 4, 64)}


def shown(width, scaled, scores=SCORES):
    widget = ScalingExplorer(scores)
    widget.width, widget.scaled = width, scaled
    return widget.outputs()


@pytest.mark.syllabus("UCL-19")
@pytest.mark.parametrize("width", SCORES)
@pytest.mark.parametrize("scaled", [False, True])
def test_numbers_are_means_of_torchs_softmax_and_its_jacobian(width, scaled):
    found, scores = shown(width, scaled), SCORES[width] / (math.sqrt(width) if scaled else 1)
    jacobians = [torch.autograd.functional.jacobian(lambda s: s.softmax(0), row).abs().max() for row in scores]
    assert found["gradient"] == pytest.approx(torch.stack(jacobians).mean().item(), abs=6e-5)
    assert (
        found["here"][scaled]
        == found["gradient"]
        == found["repaired" if scaled else "plain"][list(SCORES).index(width)]
    )
    assert math.isnan(found["here"][not scaled])
    assert found["deviation"] == pytest.approx(scores.std().item(), abs=6e-5)
    assert found["weights"] == sorted(found["weights"], reverse=True)
    assert sum(found["weights"]) == pytest.approx(1, abs=3e-4)
    assert found["weights"][0] == found["largest"] == pytest.approx(scores.softmax(-1).amax(-1).mean().item(), abs=6e-5)


def test_words_are_complete():
    assert repr(ScalingExplorer({1: [[0.0, 0.0]], 4: [[2.0, -2.0]]})) == (
        "A head 4 wide, scores as they are: their standard deviation is 2.83, the largest of 2 weights is 0.9820, "
        "and the gradient α(1 − α) there is 0.0177, on average."
    )


def test_last_digits_of_a_machine_change_nothing():
    noisy = {d: s.double() * (1 + 1e-6) for d, s in SCORES.items()}
    assert torch.equal(ScalingExplorer(noisy).table, ScalingExplorer(SCORES).table)


@pytest.mark.parametrize(
    "scores, sentence",
    [
        (torch.ones(3, 2), r"scores must give scores of shape \(queries, keys\) for at least two widths"),
        ({4: [[1, 2]]}, r"scores must give scores of shape \(queries, keys\) for at least two widths"),
        ({0: [[1, 2]], 4: [[1, 2]]}, "width=0; it must be a positive number"),
        ({4: [[1.0, math.nan]], 8: [[1, 2]]}, r"scores\[4\] must be finite numbers of shape \(queries, keys\)"),
        ({4: [1.0, 2.0], 8: [[1, 2]]}, r"scores\[4\] must be finite numbers of shape \(queries, keys\)"),
        ({4: [[1, 2, 3]], 8: [[1, 2]]}, "the numbers of keys differ; they must be the same for all widths"),
    ],
)
def test_scaling_explorer_refuses(scores, sentence):
    with pytest.raises(ValueError, match=sentence):
        ScalingExplorer(scores)
