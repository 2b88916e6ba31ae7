"""The loss against the sum of logarithms of the probabilities, written out."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from llm_anatomy.evaluation.perplexity import bits_per_byte, next_token_loss, token_losses


class Bigrams(nn.Module):
    """The next token's scores depend on the token alone."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 5)

    def forward(self, ids):
        return self.table(ids)


@pytest.mark.syllabus("UCL-03")
@pytest.mark.parametrize("last", [None, 1, 2])
def test_the_loss_is_the_mean_of_the_negative_logarithms(last):
    torch.manual_seed(0)
    model, windows = Bigrams(), torch.randint(5, (7, 4))
    chances = model.table.weight.softmax(-1).tolist()
    logarithms = [
        -math.log(chances[window[t]][window[t + 1]]) for window in windows.tolist() for t in range(3 - (last or 3), 3)
    ]
    found = next_token_loss(model, windows, last=last, batch_size=3)  # the last batch is smaller
    assert found == pytest.approx(sum(logarithms) / len(logarithms), abs=1e-6)


def test_each_token_of_each_window_has_its_own_loss():
    torch.manual_seed(0)
    model, windows = Bigrams(), torch.randint(5, (7, 4))
    chances = model.table.weight.softmax(-1).tolist()
    found = token_losses(model, windows, batch_size=3)
    assert found.shape == (7, 3)
    for window, losses in zip(windows.tolist(), found.tolist(), strict=True):
        assert losses == pytest.approx([-math.log(chances[a][b]) for a, b in pairwise(window)], abs=1e-6)


def test_nothing_is_kept_for_a_gradient():
    seen = []
    model = Bigrams()
    model.register_forward_hook(lambda module, ids, logits: seen.append(logits.requires_grad))
    next_token_loss(model, torch.zeros(2, 3, dtype=torch.long))
    assert seen == [False]


@pytest.mark.parametrize("last", [0, 4])
def test_more_targets_than_there_are_are_refused(last):
    with pytest.raises(ValueError, match=f"last={last} must be from 1 to 3, the number of targets in a window"):
        next_token_loss(Bigrams(), torch.zeros(2, 4, dtype=torch.long), last=last)


def test_no_windows_are_refused():
    with pytest.raises(ValueError, match="windows is empty"):
        next_token_loss(Bigrams(), torch.zeros(0, 4, dtype=torch.long))


@pytest.mark.syllabus("UCL-03")
def test_bits_per_byte_do_not_depend_on_how_the_text_is_cut():
    text = "naïve café"
    n_bytes = len(text.encode())
    one_by_one, in_two = torch.full((n_bytes,), 2.0), [12.0, 2.0 * n_bytes - 12.0]
    for losses in (one_by_one, in_two, one_by_one.reshape(4, 3).numpy()):
        assert bits_per_byte(losses, n_bytes) == pytest.approx(2 / math.log(2))
    with pytest.raises(ValueError, match="n_bytes=0 must be positive"):
        bits_per_byte([1.0], 0)
