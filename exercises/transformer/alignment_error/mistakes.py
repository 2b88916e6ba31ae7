import torch
import torch.nn.functional as F


def _found(weights):
    return F.one_hot(weights.argmax(1), weights.shape[1]).bool()


def _rate(found, sure, possible):
    return 1 - ((found & sure).sum() + (found & possible).sum()).item() / (found.sum() + sure.sum()).item()


def best_target_for_each_source(weights, sure, possible):
    """You choose a target word for each source word. The model's alignment has one pair for each target word, which is
    a row."""
    return _rate(F.one_hot(weights.argmax(0), len(weights)).bool().T, sure, possible)


def accuracy(weights, sure, possible):
    """You return how much is right. The error rate is 1 minus that."""
    return 1 - _rate(_found(weights), sure, possible)


def sure_alone(weights, sure, possible):
    """Your numerator counts the sure pairs twice. Its second term counts the pairs that are possible."""
    return _rate(_found(weights), sure, sure)


def possible_alone(weights, sure, possible):
    """Your numerator counts the possible pairs twice. Its first term counts the pairs that are sure."""
    found = _found(weights)
    return 1 - 2 * (found & possible).sum().item() / (found.sum() + sure.sum()).item()


def possible_in_the_denominator(weights, sure, possible):
    """Your denominator counts the possible pairs. A model should not be punished for leaving them out: only the sure
    ones count there. Or have you exchanged the two tables?"""
    found = _found(weights)
    return 1 - ((found & sure).sum() + (found & possible).sum()).item() / (found.sum() + possible.sum()).item()


def sure_pairs_counted_once(weights, sure, possible):
    """You count each pair once. A sure pair that the model finds is in S and in P, so it counts twice."""
    found = _found(weights)
    return 1 - (found & (sure | possible)).sum().item() / (found.sum() + sure.sum()).item()


def share_of_the_sure_pairs(weights, sure, possible):
    """You compute which share of the sure pairs is missing. The formula has the possible pairs as well."""
    return 1 - (_found(weights) & sure).sum().item() / max(sure.sum().item(), 1)


def share_of_the_found_pairs(weights, sure, possible):
    """You compute which share of the model's pairs is not even possible. The formula has the sure pairs as well."""
    return 1 - (_found(weights) & possible).sum().item() / len(weights)


def largest_of_all(weights, sure, possible):
    """Your alignment has only the largest weight of the whole table. Take the largest one of each row."""
    return _rate(weights == weights.max(), sure, possible)


def all_above_the_average(weights, sure, possible):
    """Your alignment takes every weight above the average of its row. Take the largest one alone."""
    return _rate(weights > weights.mean(1, keepdim=True), sure, possible)


def all_above_a_half(weights, sure, possible):
    """Your alignment takes the weights above one half. Each target word has a pair, also where its largest weight is
    small."""
    return _rate(weights > 0.5, sure, possible)


def smallest_weight(weights, sure, possible):
    """You take the smallest weight of each row. The model's pair is that with the largest."""
    return _rate(_found(-weights), sure, possible)


def percent(weights, sure, possible):
    """You return percent. Return a number between 0 and 1."""
    return 100 * _rate(_found(weights), sure, possible)


def pairs_of_each_word(weights, sure, possible):
    """You average over the target words. The formula counts all pairs of the sentence together."""
    found = _found(weights)
    hits = (found & sure).sum(1) + (found & possible).sum(1)
    return (1 - hits / (1 + sure.sum(1))).mean()


def divided_by_the_found_pairs(weights, sure, possible):
    """You divide by the number of the model's pairs alone. The sure pairs count in the denominator, too."""
    found = _found(weights)
    return 1 - ((found & sure).sum() + (found & possible).sum()) / torch.tensor(len(weights))


def words_without_a_partner_left_out(weights, sure, possible):
    """Your alignment leaves out the target words that have no possible partner. It has one pair for each target word,
    so such a pair counts in the denominator."""
    return _rate(_found(weights) & possible.any(1, keepdim=True), sure, possible)


def words_without_a_sure_partner_left_out(weights, sure, possible):
    """Your alignment leaves out the target words that have no sure partner. It has one pair for each target word,
    so such a pair counts, too."""
    return _rate(_found(weights) & sure.any(1, keepdim=True), sure, possible)


def weights_added_up(weights, sure, possible):
    """You add up weights where pairs should be counted. The model's alignment takes one source word for each target
    word, and each of these pairs counts as 1."""
    hits = (weights * sure).sum() + (weights * possible).sum()
    return 1 - (hits / (weights.sum() + sure.sum())).item()


def mean_of_two_shares(weights, sure, possible):
    """You divide each count by its own total and take the mean. The formula first adds up the two counts, then the two
    totals, and divides once."""
    found = _found(weights)
    of_sure = (found & sure).sum().item() / max(sure.sum().item(), 1)
    return 1 - (of_sure + (found & possible).sum().item() / len(weights)) / 2
