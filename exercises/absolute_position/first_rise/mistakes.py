import torch


def _rises(proximity):
    return (proximity[:, 1:] > proximity[:, :-1]).triu()


def _distances(rises, first=1):
    key = rises.int().argmax(-1) + first
    return torch.where(rises.any(-1), key - torch.arange(len(rises)), -1)


def one_too_near(proximity):
    """Each of your rises is one position too near. To which key does column 0 of your comparison belong?"""
    return _distances(_rises(proximity), 0)


def one_too_far(proximity):
    """Each of your rises is one position too far away. Count from the query, which is at distance 0."""
    return _distances(_rises(proximity), 2)


def distance_one_left_out(proximity):
    """You leave out the key right after the query. A rise at distance 1 counts too."""
    return _distances(_rises(proximity).triu(1))


def position_not_distance(proximity):
    """You return the position of the key. Return its distance from the query."""
    rises = _rises(proximity)
    return torch.where(rises.any(-1), rises.int().argmax(-1) + 1, -1)


def whole_row(proximity):
    """You search the whole row, including the keys before the query. Start at the query, whose column changes from row
    to row."""
    return _distances(proximity[:, 1:] > proximity[:, :-1])


def keys_before_the_query(proximity):
    """You search the keys before the query. Only later keys count: look at which corner you clear."""
    return _distances((proximity[:, 1:] > proximity[:, :-1]).tril(-1))


def keys_before_and_one_after(proximity):
    """You search the keys before the query and one key after it. Only later keys count: look at which corner you
    clear."""
    return _distances((proximity[:, 1:] > proximity[:, :-1]).tril())


def towards_the_start(proximity):
    """You walk from the query towards the start of the text. Walk towards its end, since only later keys count."""
    return _distances(_rises(proximity.flip(0, 1))).flip(0)


def cleared_before_comparing(proximity):
    """You clear the corner before you compare, so the step from a cleared 0 to the query itself may count as a rise.
    Clear the result of the comparison instead."""
    cleared = proximity.triu()
    return _distances(cleared[:, 1:] > cleared[:, :-1])


def queries_in_columns(proximity):
    """You walk down the columns. Each query has a row, and each key has a column."""
    return _distances(_rises(proximity.T))


def equal_is_a_rise(proximity):
    """You count two equal neighbours as a rise. Proximity has to grow."""
    return _distances((proximity[:, 1:] >= proximity[:, :-1]).triu())


def falls_not_rises(proximity):
    """You find the first fall. Look at which side of your comparison has the key that is further away."""
    return _distances((proximity[:, 1:] < proximity[:, :-1]).triu())


def nearer_than_itself(proximity):
    """You compare every key with the query's own position. Compare it with the key one step before it."""
    return _distances((proximity[:, 1:] > proximity.diagonal()[:, None]).triu())


def last_rise(proximity):
    """You find the last rise in each row. Return the first."""
    rises = _rises(proximity)
    key = proximity.shape[1] - 1 - rises.flip(-1).int().argmax(-1)
    return torch.where(rises.any(-1), key - torch.arange(len(proximity)), -1)


def steepest_rise(proximity):
    """You return where proximity rises most. Return where it rises first."""
    steps = proximity.diff().triu().masked_fill(~_rises(proximity), 0)
    return torch.where(_rises(proximity).any(-1), steps.argmax(-1) + 1 - torch.arange(len(proximity)), -1)


def where_it_is_lowest(proximity):
    """You return where proximity is lowest. It may rise long before that and fall again."""
    n = len(proximity)
    later = proximity.masked_fill(torch.ones(n, n, dtype=torch.bool).tril(-1), torch.inf)
    lowest = later.argmin(-1) - torch.arange(n)
    return torch.where(_rises(proximity).any(-1), lowest, -1)


def number_of_rises(proximity):
    """You count the rises in each row. Return the distance of the first one."""
    rises = _rises(proximity)
    return torch.where(rises.any(-1), rises.sum(-1), -1)


def never_not_marked(proximity):
    """Where there is no rise, you return what argmax gives for a row without True. Return −1 there."""
    return _rises(proximity).int().argmax(-1) + 1 - torch.arange(len(proximity))


def zero_for_never(proximity):
    """Your rises are right. Where there is none, return −1 instead of 0."""
    return _distances(_rises(proximity)).clamp(min=0)


def length_for_never(proximity):
    """Your rises are right. Where there is none, return −1 instead of the number of positions."""
    found = _distances(_rises(proximity))
    return torch.where(found < 0, len(proximity), found)


def the_last_query_left_out(proximity):
    """You leave out the last query. It has no later key, but it still has an answer: −1."""
    return _distances(_rises(proximity))[:-1]


def first_query_for_all(proximity):
    """You return the answer of the first query for all queries. Each query has its own row."""
    return _distances(_rises(proximity))[:1].expand(len(proximity))


def last_key_left_out(proximity):
    """You never look at the last key. Proximity may rise there for the first time: look at where your search ends."""
    return _distances(_rises(proximity)[:, :-1])


def begins_at_distance_zero(proximity):
    """You start at distance 0, where the query is compared with the key before it. Start at distance 1."""
    rises = (proximity > proximity.roll(1, 1)).triu()
    return torch.where(rises.any(-1), rises.int().argmax(-1) - torch.arange(len(rises)), -1)
