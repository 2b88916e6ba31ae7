"""Paired comparison: what pairs share cancels, and the interval covers the median as often as it says."""

import pytest
import torch

from llm_anatomy.evaluation.paired import paired_difference

pytestmark = pytest.mark.syllabus("CMU-33")


def test_what_the_runs_of_a_pair_share_cancels():
    shared = [5.0, -3.0, 0.5, 40.0]
    gains = [0.25, 0.5, 0.125, 0.75]
    found = paired_difference([s - g for s, g in zip(shared, gains, strict=True)], shared)
    assert (found.mean, found.low, found.high) == (-0.40625, -0.75, -0.125) and found.is_clear
    assert str(found) == "-0.406 (-0.750 to -0.125)"


def test_tensors_are_compared_like_lists():
    first, second = torch.tensor([0.5, 0.25, 1.0]), torch.tensor([0.25, 0.5, 2.0])
    assert paired_difference(first, second) == paired_difference(first.tolist(), second.tolist())


def test_a_difference_is_clear_only_if_all_pairs_agree():
    assert not paired_difference([1.0, 2.0, 3.0], [0.0, 1.0, 3.5]).is_clear
    assert not paired_difference([1.0, 2.0], [1.0, 1.0]).is_clear  # one pair is equal
    assert paired_difference([1.0, 2.0], [0.5, 1.0]).is_clear


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_interval_covers_the_median_as_often_as_it_says(n):
    generator = torch.Generator().manual_seed(n)
    draws = torch.empty(4000, n).exponential_(generator=generator)  # skewed, its median is ln 2
    found = [paired_difference(row, [0.0] * n) for row in draws.tolist()]
    covered = sum(d.low <= 0.6931 <= d.high for d in found) / len(found)
    assert covered == pytest.approx(found[0].confidence, abs=0.03)


@pytest.mark.parametrize(
    "first, second, message",
    [([1.0, 2.0], [1.0], "first has 2 results and second has 1"), ([1.0], [2.0], "there is 1 pair; there must be at")],
)
def test_results_that_do_not_pair_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(first, second)
