import torch


def _rises(proximity):
    return (proximity[:, 1:] > proximity[:, :-1]).triu()


def _distances(rises, first=1):
    key = rises.int().argmax(-1) + first
    return torch.where(rises.any(-1), key - torch.arange(len(rises)), -1)


def one_too_near(proximity):
    """Each rise lies one position too near. Which key does column 0 of your comparison belong to?"""
    return _distances(_rises(proximity), 0)


def position_not_distance(proximity):
    """You return the position of the key. Asked is how far it stands from its query."""
    rises = _rises(proximity)
    return torch.where(rises.any(-1), rises.int().argmax(-1) + 1, -1)


def whole_row(proximity):
    """You search the whole row, also the keys before the query. Begin at the query, which moves from row to row."""
    return _distances(proximity[:, 1:] > proximity[:, :-1])


def keys_before_the_query(proximity):
    """You look at the keys before the query. Later keys are asked: look at which corner you clear."""
    return _distances((proximity[:, 1:] > proximity[:, :-1]).tril(-1))


def queries_in_columns(proximity):
    """You walk down the columns. A query has a row, and its keys the columns."""
    return _distances(_rises(proximity.T))


def equal_is_a_rise(proximity):
    """You count equal neighbours as a rise. It should be strictly nearer."""
    return _distances((proximity[:, 1:] >= proximity[:, :-1]).triu())


def falls_not_rises(proximity):
    """You find the first fall. Look at which side of your comparison is the key further away."""
    return _distances((proximity[:, 1:] < proximity[:, :-1]).triu())


def nearer_than_itself(proximity):
    """You compare every key with the query's own position. Compare it with the key one step before."""
    return _distances((proximity[:, 1:] > proximity.diagonal()[:, None]).triu())


def last_rise(proximity):
    """You find the last rise of each row. The first is asked."""
    rises = _rises(proximity)
    key = proximity.shape[1] - 1 - rises.flip(-1).int().argmax(-1)
    return torch.where(rises.any(-1), key - torch.arange(len(proximity)), -1)


def number_of_rises(proximity):
    """You count the rises of each row. Asked is where the first is."""
    rises = _rises(proximity)
    return torch.where(rises.any(-1), rises.sum(-1), -1)


def never_not_marked(proximity):
    """Where there is no rise you return what argmax makes of a row without True. Return −1 there."""
    return _rises(proximity).int().argmax(-1) + 1 - torch.arange(len(proximity))


def zero_for_never(proximity):
    """Rises are right. Where there is none you return 0; asked is −1."""
    return _distances(_rises(proximity)).clamp(min=0)


def first_query_for_all(proximity):
    """You return what holds for the first query alone. Each query has a row of its own."""
    return _distances(_rises(proximity))[:1].expand(len(proximity))
