"""Span corruption: what is taken out can be put back, spans are as T5's, and the ids are sorted by frequency."""

from collections import Counter

import pytest
import torch

from llm_anatomy.training.data.span_corruption import (
    END,
    FIRST_SENTINEL,
    PAD,
    corrupt_spans,
    corrupted_batches,
    n_noise_and_spans,
    noise_mask,
    story_words,
)
from llm_anatomy.training.data.stories import stories

pytestmark = pytest.mark.syllabus("GT-19")


def put_back(source, targets, n_spans):
    """The window again, token by token: after each sentinel of the source comes what follows it in the target."""
    spans, sentinels = {}, range(FIRST_SENTINEL, FIRST_SENTINEL + n_spans)
    assert source[-1] == targets[-1] == END
    for token in targets[:-1]:
        if token in sentinels:
            spans[token] = []
        else:
            spans[max(spans)].append(token)
    assert list(spans) == list(sentinels)
    return [x for token in source[:-1] for x in spans.get(token, [token])]


@pytest.mark.parametrize(("n_tokens", "noise_density", "mean_span"), [(64, 0.15, 3.0), (37, 0.5, 2.0), (9, 0.3, 1.0)])
def test_what_is_taken_out_can_be_put_back(n_tokens, noise_density, mean_span):
    generator = torch.Generator().manual_seed(0)
    windows = torch.randint(50, 800, (40, n_tokens), generator=generator)
    n_noise, n_spans = n_noise_and_spans(n_tokens, noise_density, mean_span)
    mask = noise_mask(40, n_tokens, generator, noise_density, mean_span)
    source, ids, targets = corrupt_spans(windows, mask)
    assert source.shape == (40, n_tokens - n_noise + n_spans + 1) and targets.shape == (40, n_noise + n_spans + 1)
    assert [put_back(*row, n_spans) for row in zip(source.tolist(), targets.tolist(), strict=True)] == windows.tolist()
    assert (ids[:, 0] == PAD).all() and torch.equal(ids[:, 1:], targets[:, :-1])


def test_the_example_of_t5s_paper():
    """Figure 2: Thank you <X> me to your party <Y> week."""
    text = ["thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week"]
    mask = torch.tensor([[word in ("for", "inviting", "last") for word in text]])
    source, ids, targets = corrupt_spans(torch.arange(10, 20)[None], mask)
    x, y = FIRST_SENTINEL, FIRST_SENTINEL + 1
    assert source.tolist() == [[10, 11, x, 14, 15, 16, 17, y, 19, END]]
    assert targets.tolist() == [[x, 12, 13, y, 18, END]] and ids.tolist() == [[PAD, x, 12, 13, y, 18]]


def test_spans_have_the_numbers_of_t5():
    """512 tokens for the encoder and 114 for the decoder come from windows of 568, as in the authors' code."""
    n_noise, n_spans = n_noise_and_spans(568)
    assert (568 - n_noise + n_spans + 1, n_noise + n_spans + 1) == (512, 114)
    mask = noise_mask(500, 100, torch.Generator().manual_seed(1))
    begins = (mask & ~mask.roll(1, 1)).sum(1)
    assert (mask.sum(1) == 15).all() and (begins == 5).all() and not mask[:, 0].any() and mask[:, -1].all()


def test_each_division_into_spans_is_equally_likely():
    """Of 6 tokens, 3 in two spans: (1, 2) or (2, 1), and the same for what is kept."""
    masks = noise_mask(4000, 6, torch.Generator().manual_seed(2), 0.5, 1.5)
    counts = Counter(tuple(row) for row in masks.int().tolist())
    assert set(counts) == {(0, 1, 0, 0, 1, 1), (0, 1, 1, 0, 0, 1), (0, 0, 1, 0, 1, 1), (0, 0, 1, 1, 0, 1)}
    assert all(count == pytest.approx(1000, abs=120) for count in counts.values())


def test_rows_with_different_spans_are_refused():
    windows = torch.arange(8).view(2, 4)
    with pytest.raises(ValueError, match="different numbers of tokens or spans"):
        corrupt_spans(windows, torch.tensor([[0, 1, 1, 0], [0, 1, 0, 1]]) == 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1,), "n_tokens=1 must be at least 2"),
        ((9, 1.0), "noise_density=1.0 must be between 0 and 1"),
        ((9, 0.5, 0.5), "mean_span=0.5 must be at least 1"),
    ],
)
def test_what_cannot_be_corrupted_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        n_noise_and_spans(*arguments)


def test_ids_are_sorted_by_frequency_and_give_the_stories_back():
    words = story_words(4)
    assert words.vocabulary[:6] == ["<pad>", "</s>", "<0>", "<1>", "<2>", "<3>"]
    counts = words.ids.bincount(minlength=words.n_vocab)[6:]
    assert len(words.vocabulary) == len(set(words.vocabulary)) == len(counts) + 6
    assert (counts.diff() <= 0).all() and counts[-1] > 0
    first = next(stories(0))
    written = "".join(words.vocabulary[i] for i in words.ids[:400])
    assert written.startswith("".join(first.split()))
    assert len(story_words(4, seed=1, n_stories=20).ids) > 2500  # the vocabulary has the words of other stories too


def test_batches_are_repeated_and_come_from_the_corpus():
    ids = torch.arange(100, 400)
    first, again, other = (
        next(corrupted_batches(ids, 40, 6, torch.Generator().manual_seed(seed))) for seed in (0, 0, 1)
    )
    assert torch.equal(first.source, again.source) and not torch.equal(first.source, other.source)
    _, n_spans = n_noise_and_spans(40)
    for source, targets in zip(first.source.tolist(), first.targets.tolist(), strict=True):
        window = put_back(source, targets, n_spans)
        assert window == list(range(window[0], window[0] + 40))
