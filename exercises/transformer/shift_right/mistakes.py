import torch
import torch.nn.functional as F


def _inputs(sentences, start):
    return F.pad(sentences, (1, 0), value=start)


def _targets(sentences, end, pad):
    lengths = (sentences != pad).sum(1, keepdim=True)
    return F.pad(sentences, (0, 1), value=pad).scatter(1, lengths, end)


def end_in_the_last_column(sentences, start, end, pad):
    """Your end token is in the last column of every row. It belongs right after the last word, before the padding."""
    return _inputs(sentences, start), F.pad(sentences, (0, 1), value=end)


def no_end(sentences, start, end, pad):
    """Your targets have no end token, so the model never learns when a sentence is over."""
    return _inputs(sentences, start), F.pad(sentences, (0, 1), value=pad)


def every_padding_an_end(sentences, start, end, pad):
    """In your targets all the padding has become end tokens. Only the first one after the words is an end token."""
    targets = F.pad(sentences, (0, 1), value=pad)
    return _inputs(sentences, start), targets.masked_fill(targets == pad, end)


def end_over_the_last_word(sentences, start, end, pad):
    """Your end token has replaced the last word. It comes after it."""
    lengths = (sentences != pad).sum(1)
    targets = F.pad(sentences, (0, 1), value=pad)
    targets[torch.arange(len(sentences)), lengths - 1] = end
    return _inputs(sentences, start), targets


def exchanged(sentences, start, end, pad):
    """Your two results are exchanged: the inputs come first, then the targets."""
    return _targets(sentences, end, pad), _inputs(sentences, start)


def inputs_with_the_end(sentences, start, end, pad):
    """Your inputs contain the end token as well. The decoder has nothing to predict after it, so it is never an
    input, and the results have one column more than the sentences."""
    with_end = _targets(sentences, end, pad)
    return _inputs(with_end, start), F.pad(with_end, (0, 1), value=pad)


def not_shifted(sentences, start, end, pad):
    """Your inputs are not shifted: at each position the decoder reads the very token that it should predict."""
    targets = _targets(sentences, end, pad)
    return targets, targets


def shifted_in_a_circle(sentences, start, end, pad):
    """You shift within the same number of columns. One column more is needed, because the inputs gain the start token
    and the targets gain the end token."""
    inputs = sentences.roll(1, 1)
    inputs[:, 0] = start
    return inputs, sentences


def targets_unchanged(sentences, start, end, pad):
    """Your inputs are right, but your targets are the sentences as they are. They need one column more, and an end
    token after the last word."""
    return _inputs(sentences, start), sentences


def one_column_too_few(sentences, start, end, pad):
    """You cut a column off. Both results have one column more than the sentences, because the inputs gain the start
    token and the targets gain the end token."""
    return _inputs(sentences, start)[:, :-1], _targets(sentences, end, pad)[:, :-1]


def language_model_pairs(sentences, start, end, pad):
    """You put start and end around the sentences and then make pairs of neighbours, but one word is lost or appears
    too early. Write down inputs and targets for the first sentence, one below the other."""
    return _inputs(sentences, start)[:, :-1], _targets(sentences, end, pad)[:, 1:]


def padding_taken_for_zero(sentences, start, end, pad):
    """You count every token other than 0 as a word. Padding is the token `pad`, which need not be 0."""
    lengths = (sentences != 0).sum(1, keepdim=True)
    return _inputs(sentences, start), F.pad(sentences, (0, 1), value=pad).scatter(1, lengths, end)


def start_in_the_targets(sentences, start, end, pad):
    """Your targets begin with the start token. It is given to the decoder and never predicted."""
    inputs = _inputs(sentences, start)
    return inputs, inputs.clone()


def start_not_given(sentences, start, end, pad):
    """Your inputs begin with padding instead of the start token."""
    return _inputs(sentences, pad), _targets(sentences, end, pad)


def start_and_end_exchanged(sentences, start, end, pad):
    """Your start and end tokens are exchanged."""
    return _inputs(sentences, end), _targets(sentences, start, pad)


def padding_forced_to_zero(sentences, start, end, pad):
    """Your padding is 0, whatever `pad` says."""
    inputs, targets = _inputs(sentences, start), _targets(sentences, end, pad)
    return tuple(torch.where(each == pad, 0, each) for each in (inputs, targets))


def end_in_the_inputs(sentences, start, end, pad):
    """Your inputs contain the end token. The decoder predicts it but never reads it."""
    targets = _targets(sentences, end, pad)
    return _inputs(targets, start)[:, :-1], targets


def end_over_the_first_word(sentences, start, end, pad):
    """In a row without padding, your end token replaces the first word. Where does your code look for the first padding
    of such a row?"""
    targets = F.pad(sentences, (0, 1), value=pad)
    return _inputs(sentences, start), targets.scatter(1, (sentences == pad).int().argmax(1, keepdim=True), end)


def empty_sentence_without_end(sentences, start, end, pad):
    """Your targets are right except for an empty sentence, which has no end token. It is the only token to predict
    there."""
    targets = _targets(sentences, end, pad)
    return _inputs(sentences, start), targets.masked_fill((sentences == pad).all(1, keepdim=True), pad)
