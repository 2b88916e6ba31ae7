import torch


def _index(is_word):
    return ((is_word.cumsum(-1) - 1) * is_word).float()


def _last(is_word):
    return (is_word.sum(-1) - 1).clamp(min=1)


def _step(is_word):
    return (is_word.sum(-1) > 1) / _last(is_word)


def divided_by_the_length(is_word):
    """You divide by the length, so the last word does not reach 1. How many steps are there between n words?"""
    index, n = _index(is_word), is_word.sum(-1)
    return index, index / n[:, None], (n > 1) / n


def divided_by_the_length_throughout(is_word):
    """You divide by the length, so the last word does not reach 1, and a sentence of one word has a step. How many
    steps are there between n words?"""
    index, n = _index(is_word), is_word.sum(-1)
    return index, index / n[:, None], 1 / n


def step_from_the_length(is_word):
    """Both options are right, but the step is not. Subtract two neighbouring words in your second result."""
    n = is_word.sum(-1)
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], (n > 1) / n


def step_from_the_length_throughout(is_word):
    """Both options are right, but the step is not. Subtract two neighbouring words in your second result, and do not
    forget sentences of one word."""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], 1 / is_word.sum(-1)


def step_of_option_1(is_word):
    """You return the step of option 1. Return the difference between neighbouring words after scaling."""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], (is_word.sum(-1) > 1).float()


def number_of_steps(is_word):
    """Your third result is the number of steps in a sentence. All steps together add up to 1: how large is one of
    them?"""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], is_word.sum(-1) - 1


def step_between_first_columns(is_word):
    """Your step is the difference between the first two columns, which may be padding. The words are on the right."""
    scaled = _index(is_word) / _last(is_word)[:, None]
    return _index(is_word), scaled, scaled[:, 1] - scaled[:, 0]


def step_backwards(is_word):
    """Your step is negative, because you subtract a word from the word before it. By how much does the scaled index
    grow?"""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], -_step(is_word)


def step_for_each_position(is_word):
    """You return a step for each position. Return one number for each sentence."""
    scaled = _index(is_word) / _last(is_word)[:, None]
    return _index(is_word), scaled, _step(is_word)[:, None].expand_as(scaled)


def step_keeps_its_axis(is_word):
    """Your steps are right, but they have the shape (batch, 1). Return one number for each sentence, with shape
    (batch,)."""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], _step(is_word)[:, None]


def counted_from_one(is_word):
    """You count words from 1. The first word of a sentence has index 0."""
    index = is_word.cumsum(-1).float() * is_word
    return index, index / _last(is_word)[:, None], _step(is_word)


def counted_from_one_up_to_the_length(is_word):
    """You count words from 1 and divide by their number. In both options the first word should get 0."""
    index, n = is_word.cumsum(-1).float() * is_word, is_word.sum(-1)
    return index, index / n[:, None], 1 / n


def counted_down_the_batch(is_word):
    """You count down the columns, from sentence to sentence. The words of a sentence are in one row."""
    index = ((is_word.cumsum(0) - 1) * is_word).float()
    return index, index / _last(is_word)[:, None], _step(is_word)


def words_at_the_left(is_word):
    """You number each row from its left end, as if the padding came after the words. It comes before them."""
    columns = torch.arange(is_word.shape[1])
    index = torch.where(columns < is_word.sum(-1)[:, None], columns, 0).float()
    return index, index / _last(is_word)[:, None], _step(is_word)


def padding_counted(is_word):
    """You count padding as if it were words. The first word has index 0, wherever the sentence begins in its row."""
    index = torch.arange(is_word.shape[1]).float() * is_word
    return index, index / _last(is_word)[:, None], _step(is_word)


def padding_below_zero(is_word):
    """The words are right, but padding has −1 before scaling. Padding should get 0 in both options."""
    index = (is_word.cumsum(-1) - 1).float()
    return index, index / _last(is_word)[:, None], _step(is_word)


def padding_below_zero_in_option_2(is_word):
    """Option 1 is right, but in option 2 padding has numbers below 0. Padding should get 0 in both options."""
    index = (is_word.cumsum(-1) - 1).float()
    return _index(is_word), index / _last(is_word)[:, None], _step(is_word)


def all_positions_numbered(is_word):
    """You number all positions of a row, including padding. The first word has index 0, wherever the sentence
    begins."""
    index = torch.arange(is_word.shape[1]).float().expand(is_word.shape)
    return index, index / _last(is_word)[:, None], _step(is_word)


def scaled_by_the_row(is_word):
    """You scale all sentences by the width of the batch, including padding. Each sentence has its own length."""
    index, last = _index(is_word), is_word.shape[1] - 1
    return index, index / last, (is_word.sum(-1) > 1) / last


def scaled_by_the_longest(is_word):
    """You scale all sentences by the longest sentence of the batch. Each has its own length: look at the axis."""
    index, last = _index(is_word), _last(is_word).max()
    return index, index / last, (is_word.sum(-1) > 1) / last


def nought_by_nought(is_word):
    """For a sentence of one word you divide by 0. The word should get 0, and so should the step."""
    index, last = _index(is_word), is_word.sum(-1) - 1
    return index, index / last[:, None], 1 / last


def nought_by_nought_step_mended(is_word):
    """For a sentence of one word you divide 0 by 0 in option 2. The word should get 0."""
    last = is_word.sum(-1) - 1
    return _index(is_word), _index(is_word) / last[:, None], _step(is_word)


def nought_by_nought_at_the_word(is_word):
    """For a sentence of one word you divide by 0. Hiding the padding does not help the word itself. The word should get
    0, and so should the step."""
    last = is_word.sum(-1) - 1
    return _index(is_word), torch.where(is_word, _index(is_word) / last[:, None], 0.0), 1 / last


def step_infinite(is_word):
    """For a sentence of one word your step is 1 divided by 0. The word has no neighbours, so return 0."""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], 1 / (is_word.sum(-1) - 1)


def step_without_neighbours(is_word):
    """For a sentence of one word your step is 1. The word has no neighbours, so return 0."""
    return _index(is_word), _index(is_word) / _last(is_word)[:, None], 1 / _last(is_word)


def options_exchanged(is_word):
    """You return the two options in the wrong order. Option 1 is the index itself."""
    return _index(is_word) / _last(is_word)[:, None], _index(is_word), _step(is_word)


def turned_round(is_word):
    """You count backwards from the last word. Index 0 belongs to the first word."""
    index = (is_word.flip(-1).cumsum(-1).flip(-1) - 1).float() * is_word
    return index, index / _last(is_word)[:, None], _step(is_word)


def padding_counted_backwards(is_word):
    """The words are right, but padding has numbers below 0. Padding should get 0 in both options."""
    index = (torch.arange(is_word.shape[1]) - (~is_word).sum(-1, keepdim=True)).float()
    return index, index / _last(is_word)[:, None], _step(is_word)


def lengths_without_an_axis(is_word):
    """Your code works for one sentence and raises an error for several. You divide by one number for each sentence, and
    these numbers need a second axis."""
    return _index(is_word), _index(is_word) / _last(is_word), _step(is_word)
