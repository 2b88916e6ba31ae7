"""Sampling: logits processors do what slow loops and Hugging Face do, and draws follow the probabilities left."""

import math

import pytest
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from llm_anatomy.models.sampling import MinP, RepetitionPenalty, Sampler, Temperature, TopK, TopP


def logits_and_seen(seed=0, batch=5, n_vocab=17):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n_vocab, generator=g) * 2, torch.rand(batch, n_vocab, generator=g) < 0.4


def by_loop(name, value, logits, seen):
    """One row, floats: from the formulas of the papers."""
    total = sum(math.exp(z) for z in logits)
    probabilities = [math.exp(z) / total for z in logits]
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    if name == "penalty":
        return [(z / value if z > 0 else z * value) if s else z for z, s in zip(logits, seen, strict=True)]
    if name == "temperature":
        return [z / value for z in logits]
    if name == "k":
        kept = order[:value]
    elif name == "top p":
        kept, so_far = [], 0.0
        for i in order:
            kept.append(i)
            so_far += probabilities[i]
            if so_far >= value:
                break
    else:
        kept = [i for i, p in enumerate(probabilities) if p >= value * max(probabilities)]
    return [z if i in kept else -math.inf for i, z in enumerate(logits)]


PROCESSORS = {
    "penalty": (RepetitionPenalty, RepetitionPenaltyLogitsProcessor, [0.7, 1.0, 1.3]),
    "temperature": (Temperature, TemperatureLogitsWarper, [0.3, 1.0, 2.5]),
    "k": (TopK, TopKLogitsWarper, [1, 4, 17, 40]),
    "top p": (TopP, TopPLogitsWarper, [0.01, 0.6, 0.93, 1.0]),
    "min p": (MinP, MinPLogitsWarper, [0.01, 0.3, 1.0]),
}


@pytest.mark.syllabus("UCL-10")
@pytest.mark.parametrize("name, value", [(name, v) for name, (_, _, values) in PROCESSORS.items() for v in values])
def test_logits_processors_against_a_loop_and_hugging_face(name, value):
    ours, theirs, _ = PROCESSORS[name]
    logits, seen = logits_and_seen()
    found = ours(value)(logits, seen)
    expected = [by_loop(name, value, row, s) for row, s in zip(logits.tolist(), seen.tolist(), strict=True)]
    torch.testing.assert_close(found, torch.tensor(expected))
    for row in range(len(logits)):  # theirs is given the ids of the text
        text = seen[row].nonzero()[:, 0].repeat(2)[None]
        torch.testing.assert_close(found[row : row + 1], theirs(value)(text, logits[row : row + 1].clone()))
    changed = ours(value)(logits.bfloat16(), seen)
    assert changed.dtype == torch.bfloat16


def test_logits_processors_at_their_edges():
    equal = torch.zeros(1, 4)
    assert TopK(2)(equal).isfinite().all()  # as likely as the last of them
    assert TopP(0.5)(equal).isfinite().sum() == 2 and MinP(1.0)(equal).isfinite().all()
    certain = torch.tensor([[0.0, -math.inf, -math.inf]])
    for change in (Temperature(0.0), Temperature(2.0), TopK(2), TopP(0.5), TopP(1.0), MinP(0.1)):
        assert change(certain).softmax(-1).tolist() == [[1.0, 0.0, 0.0]]
    logits, _ = logits_and_seen()
    assert (Temperature(0.0)(logits).softmax(-1).max(-1)[1] == logits.argmax(-1)).all()
    assert (Temperature(0.0)(logits).isfinite().sum(-1) == 1).all()


@pytest.mark.syllabus("UCL-10")
def test_logits_processors_apply_in_the_order_given_and_frequencies_are_the_probabilities():
    """Chi-square of 30 000 draws; 18.5 is passed once in 1000 seeds with 4 degrees of freedom."""
    n_draws, logits = 30_000, torch.tensor([[2.0, 1.5, 1.0, 0.2, -0.5, -1.0, -4.0]])
    seen = torch.zeros(1, 7, dtype=torch.bool)
    seen[0, 0] = True
    processors = RepetitionPenalty(1.6), Temperature(1.7), TopK(6), TopP(0.9)
    expected = logits
    for change in processors:
        expected = change(expected, seen)
    expected = expected.softmax(-1)[0]
    assert (expected > 0).sum() == 5
    sampler = Sampler(*processors, generator=torch.Generator().manual_seed(0))
    drawn = sampler(logits.expand(n_draws, -1), seen.expand(n_draws, -1)).bincount(minlength=7)
    assert drawn[expected == 0].sum() == 0
    alive = expected > 0
    assert ((drawn[alive] - n_draws * expected[alive]) ** 2 / (n_draws * expected[alive])).sum() < 18.5
    other_order = logits
    for change in reversed(processors):
        other_order = change(other_order, seen)
    other_order = other_order.softmax(-1)[0, alive]
    assert ((drawn[alive] - n_draws * other_order) ** 2 / (n_draws * other_order)).sum() > 100


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Temperature(-0.1), "temperature=-0.1 must be at least 0"),
        (lambda: Temperature(math.nan), "temperature=nan"),
        (lambda: TopK(0), "k=0 must be at least 1"),
        (lambda: TopP(0.0), "p=0.0 must be above 0 and at most 1"),
        (lambda: TopP(1.1), "p=1.1 must be above 0 and at most 1"),
        (lambda: MinP(0.0), "p=0.0"),
        (lambda: MinP(2.0), "p=2.0"),
        (lambda: RepetitionPenalty(0.0), "penalty=0.0 must be above 0"),
    ],
)
def test_logits_processors_refuse_values_without_meaning(make, message):
    with pytest.raises(ValueError, match=message):
        make()
