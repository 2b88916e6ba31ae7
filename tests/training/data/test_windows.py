"""Windows: as long as asked for, from the corpus, the same for the same seed; and those that end at the same words."""

import pytest
import torch

from llm_anatomy.training.data.windows import random_windows, windows_ending_at

CORPUS = torch.arange(1000, 1100)


def test_windows_are_runs_of_the_corpus_from_all_over_it():
    windows = random_windows(CORPUS, 7, 5, torch.Generator().manual_seed(0))
    drawn = torch.cat([next(windows) for _ in range(200)])
    assert drawn.shape == (1000, 8) and (drawn.diff() == 1).all()
    assert set(drawn[:, 0].tolist()) == set(range(1000, 1093))  # the first and the last window too


def test_the_seed_gives_the_batches():
    first, again, other = (random_windows(CORPUS, 7, 5, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    for _ in range(2):
        batch = next(first)
        assert torch.equal(batch, next(again)) and not torch.equal(batch, next(other))


@pytest.mark.syllabus("IITD-17")
def test_windows_of_every_length_end_at_the_same_words():
    short, long = (windows_ending_at(CORPUS, [20, 41, 99], n) for n in (4, 19))
    assert long.shape == (3, 20) and torch.equal(short, long[:, -5:])
    assert long[:, -1].tolist() == [1020, 1041, 1099]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: random_windows(CORPUS, 0, 5, torch.Generator()), "n_tokens=0 must be at least 1"),
        (lambda: random_windows(CORPUS, 5, 0, torch.Generator()), "batch_size=0 must be at least 1"),
        (
            lambda: random_windows(CORPUS, 100, 5, torch.Generator()),
            "ids has 100 tokens; with n_tokens=100 there must be at least 101",
        ),
        (lambda: windows_ending_at(CORPUS, [50, 6], 7), "ends contain 6; each must be from n_tokens=7 to 99"),
        (lambda: windows_ending_at(CORPUS, [100], 7), "ends contain 100"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
