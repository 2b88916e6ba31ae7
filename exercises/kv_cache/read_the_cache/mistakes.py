RIGHT = {"multi-head": "C", "grouped": "E", "multi-query": "D", "latent": "A", "window": "B"}
RIGHT |= {"key-value heads": 8, "length": 4096}


def _exchanged(first, second):
    return RIGHT | {first: RIGHT[second], second: RIGHT[first]}


def latent_and_multi_query_exchanged():
    """You have exchanged the latent and multi-query attention. How many numbers are a key and a value of one head of
    width 128, and is that more or less than 576?"""
    return _exchanged("latent", "multi-query")


def window_and_grouped_exchanged():
    """You have exchanged the sliding window and grouped-query attention. Which of the two caches stops growing?"""
    return _exchanged("window", "grouped")


def multi_head_and_grouped_exchanged():
    """You have exchanged multi-head and grouped-query attention. Which has more key-value heads?"""
    return _exchanged("multi-head", "grouped")


def multi_head_and_multi_query_exchanged():
    """You have exchanged multi-head and multi-query attention. In which of them does every query head have keys of its
    own?"""
    return _exchanged("multi-head", "multi-query")


def latent_and_grouped_exchanged():
    """You have exchanged the latent and grouped-query attention. The window's model has as many key-value heads as the
    grouped one: which curve does it follow at first?"""
    return _exchanged("latent", "grouped")


def window_and_multi_query_exchanged():
    """You have exchanged the sliding window and multi-query attention. Which of the two caches stops growing?"""
    return _exchanged("window", "multi-query")


def four_heads():
    """Your number of key-value heads is too small. By which factor is the grouped curve lower than the highest one, and
    is this factor the number that is asked for?"""
    return RIGHT | {"key-value heads": 4}


def sixteen_heads():
    """Your number of key-value heads is too large. By which factor is the grouped curve lower than the highest one? It
    is more than 2."""
    return RIGHT | {"key-value heads": 16}


def two_heads():
    """Your number of key-value heads is too small. By which factor is the grouped curve lower than the highest one? It
    is less than 16."""
    return RIGHT | {"key-value heads": 2}


def all_heads():
    """Your number of key-value heads is that of multi-head attention."""
    return RIGHT | {"key-value heads": 32}


def too_long():
    """Your window is too long. At how many tokens does the curve bend?"""
    return RIGHT | {"length": 8192}


def too_short():
    """Your window is too short. At how many tokens does the curve bend?"""
    return RIGHT | {"length": 2048}
