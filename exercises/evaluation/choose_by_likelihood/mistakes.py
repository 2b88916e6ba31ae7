import torch


def _scores(choices, n_tokens, log_probs, alone):
    lengths = torch.tensor([len(choice) for choice in choices])
    scores = {"raw": log_probs, "per_token": log_probs / n_tokens, "per_character": log_probs / lengths}
    return scores | {"unconditional": log_probs - alone}


def _chosen(scores):
    return {name: int(score.argmax()) for name, score in scores.items()}


def smallest(choices, n_tokens, log_probs, alone):
    """You take the smallest score. The most likely choice has the largest one, closest to zero."""
    return {name: int(score.argmin()) for name, score in _scores(choices, n_tokens, log_probs, alone).items()}


def smallest_but_the_difference(choices, n_tokens, log_probs, alone):
    """You take the smallest score, as if it were a loss, for all but the unconditional one. The most likely choice has
    the largest log-probability."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    found = {name: int(score.argmin()) for name, score in scores.items()}
    return found | {"unconditional": int(scores["unconditional"].argmax())}


def raw_everywhere(choices, n_tokens, log_probs, alone):
    """All your answers are those of the raw score."""
    return dict.fromkeys(_scores(choices, n_tokens, log_probs, alone), int(log_probs.argmax()))


def multiplied(choices, n_tokens, log_probs, alone):
    """You multiply by the lengths. That punishes long choices even more; divide."""
    lengths = torch.tensor([len(choice) for choice in choices])
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"per_token": log_probs * n_tokens, "per_character": log_probs * lengths})


def turned_round(choices, n_tokens, log_probs, alone):
    """Only your unconditional answer is wrong: you subtract the wrong way round."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"unconditional": alone - log_probs})


def ratio_of_logarithms(choices, n_tokens, log_probs, alone):
    """Only your unconditional answer is wrong: you divide the sums. Probabilities are divided, so their logarithms are
    subtracted."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"unconditional": log_probs / alone})


def added(choices, n_tokens, log_probs, alone):
    """Only your unconditional answer is wrong: you add the two sums. Subtract the second one."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"unconditional": log_probs + alone})


def nothing_subtracted(choices, n_tokens, log_probs, alone):
    """Your unconditional answer is the raw one. Subtract the sums in `alone` before you compare."""
    return _chosen(_scores(choices, n_tokens, log_probs, alone) | {"unconditional": log_probs})


def alone_only(choices, n_tokens, log_probs, alone):
    """Only your unconditional answer is wrong: you take the choice that is most likely without the question."""
    return _chosen(_scores(choices, n_tokens, log_probs, alone) | {"unconditional": alone})


def tokens_and_characters_exchanged(choices, n_tokens, log_probs, alone):
    """Your answers per token and per character are exchanged."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"per_token": scores["per_character"], "per_character": scores["per_token"]})


def per_token_twice(choices, n_tokens, log_probs, alone):
    """Your answer per character is that per token. Divide by the length of the string instead."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"per_character": scores["per_token"]})


def per_character_twice(choices, n_tokens, log_probs, alone):
    """Your answer per token is that per character. Divide by `n_tokens` instead."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"per_token": scores["per_character"]})


def counted_from_one(choices, n_tokens, log_probs, alone):
    """Your indices are too large by one: they are counted from 0."""
    return {name: i + 1 for name, i in _chosen(_scores(choices, n_tokens, log_probs, alone)).items()}


def characters_of_words(choices, n_tokens, log_probs, alone):
    """Only your answer per character is wrong: you divide by a number of words. Count characters."""
    words = torch.tensor([len(choice.split()) for choice in choices])
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"per_character": log_probs / words})


def difference_per_token(choices, n_tokens, log_probs, alone):
    """Only your unconditional answer is wrong: you divide the difference by the number of tokens. Leave it as it is."""
    scores = _scores(choices, n_tokens, log_probs, alone)
    return _chosen(scores | {"unconditional": (log_probs - alone) / n_tokens})


def _per_character(choices, n_tokens, log_probs, alone, length):
    lengths = torch.tensor([length(choice) for choice in choices])
    return _chosen(_scores(choices, n_tokens, log_probs, alone) | {"per_character": log_probs / lengths})


def characters_without_spaces(choices, n_tokens, log_probs, alone):
    """Only your answer per character is wrong: you do not count the spaces. They belong to the string."""
    return _per_character(choices, n_tokens, log_probs, alone, lambda choice: len(choice.replace(" ", "")))


def characters_without_outer_spaces(choices, n_tokens, log_probs, alone):
    """Only your answer per character is wrong: you do not count the spaces at the ends. They belong to the string."""
    return _per_character(choices, n_tokens, log_probs, alone, lambda choice: len(choice.strip()))


def bytes_for_characters(choices, n_tokens, log_probs, alone):
    """Only your answer per character is wrong: you divide by a number of bytes. Count characters."""
    return _per_character(choices, n_tokens, log_probs, alone, lambda choice: len(choice.encode()))


def one_character_more(choices, n_tokens, log_probs, alone):
    """Only your answer per character is wrong: you count one more character than the string has."""
    return _per_character(choices, n_tokens, log_probs, alone, lambda choice: len(choice) + 1)
