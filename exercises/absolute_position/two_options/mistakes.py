import torch


def _index(is_word):
    return ((is_word.cumsum(-1) - 1) * is_word).float()


def _last(is_word):
    return (is_word.sum(-1) - 1).clamp(min=1)


def _step(is_word):
    return (is_word.sum(-1) > 1) / _last(is_word)


def divided_by_the_length(is_word):
    """You divide by the length, so the last word falls short of 1. How many steps are there between n words?"""
    index, n = _index(is_word), is_word.sum(-1)
    return index, index / n[:, None], (n > 1) / n


def step_from_the_length(is_word):
    """Your codes are right, but not your step. Subtract two neighbours in your second result."""
    n = is_word.sum(-1)
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], (n > 1) / n


def step_of_option_1(is_word):
    """Your step is that of option 1. Return by how much neighbours differ after the index is scaled."""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], (is_word.sum(-1) > 1).float()


def counted_from_one(is_word):
    """You count words from 1. The first word of a sentence has index 0."""
    index = is_word.cumsum(-1).float() * is_word
    return index, index / _last(is_word)[:, None], _step(is_word)


def padding_counted(is_word):
    """You count padding as if it were words. The first word has index 0 wherever in its row the sentence begins."""
    index = torch.arange(is_word.shape[1]).float() * is_word
    return index, index / _last(is_word)[:, None], _step(is_word)


def padding_below_zero(is_word):
    """The words are right, but padding has −1 before it is scaled. It should get 0 in both options."""
    index = (is_word.cumsum(-1) - 1).float()
    return index, index / _last(is_word)[:, None], _step(is_word)


def scaled_by_the_row(is_word):
    """You scale all sentences by the width of the batch, padding included. Each has a length of its own."""
    index, last = _index(is_word), is_word.shape[1] - 1
    return index, index / last, (is_word.sum(-1) > 1) / last


def scaled_by_the_longest(is_word):
    """You scale all sentences by the longest of the batch. Each has a length of its own: look at the axis."""
    index, last = _index(is_word), _last(is_word).max()
    return index, index / last, (is_word.sum(-1) > 1) / last


def nought_by_nought(is_word):
    """For a sentence of one word you divide by 0. Its word should get 0, and so should its step."""
    index, last = _index(is_word), is_word.sum(-1) - 1
    return index, index / last[:, None], 1 / last


def step_without_neighbours(is_word):
    """Your step for a sentence of one word is 1. It has no neighbours: return 0 there."""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], 1 / _last(is_word)


def options_exchanged(is_word):
    """You return the two options in the wrong order. Option 1 is the index itself."""
    return _index(is_word) / _last(is_word)[:, None], _index(is_word), _step(is_word)


def turned_round(is_word):
    """You count from the last word back. Index 0 belongs to the first word."""
    index = (is_word.flip(-1).cumsum(-1).flip(-1) - 1).float() * is_word
    return index, index / _last(is_word)[:, None], _step(is_word)
