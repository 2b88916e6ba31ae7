L = 2.88


def _read(first=L, second=None, third=None):
    return first, 2048 * first if second is None else second, first**2 if third is None else third


def not_squared():
    """Your third number is the ratio of the numbers of tokens. Attention compares pairs of tokens."""
    return _read(third=L)


def doubled():
    """For the third number you double the ratio of the numbers of tokens. If both sides of a square shrink, what
    happens to its area?"""
    return _read(third=2 * L)


def inverted():
    """Your third number is below 1: you say how much is left. Return how many times fewer pairs there are."""
    return _read(third=L**-2)


def divided():
    """For the second number you divide the context by the first. Each token holds several bytes, so more bytes than
    tokens fit."""
    return _read(second=2048 / L)


def vocabulary_for_context():
    """For the second number you multiply by the vocabulary. The context has 2048 tokens, whatever the vocabulary."""
    return _read(second=768 * L)


def value_at_512():
    """You read the curve at a vocabulary of 512. The dot is at 768."""
    return _read(2.294)


def value_at_1024():
    """You read the curve at a vocabulary of 1024. The dot is at 768."""
    return _read(3.36)


def bytes_for_tokens():
    """You read the curve where the vocabulary is 256. The dot is at 768."""
    return _read(1.0)


def tokens_per_byte():
    """Your first number is below 1: it says how many tokens there are for each byte. Read the curve as it is, in bytes
    per token."""
    return _read(1 / L, 2048 / L, L**-2)


def tokens_of_the_context():
    """Your second number is the number of tokens. How many bytes do they hold?"""
    return _read(second=2048)


def pairs_themselves():
    """Your third number counts pairs. Return a ratio: how many times fewer there are than with single bytes."""
    return _read(third=(2048 * L) ** 2)


def cubed():
    """For the third number you take the cube. Attention compares pairs."""
    return _read(third=L**3)


def read_too_low():
    """Your first number is too small. Find the dot, and read its height off the axis."""
    return _read(0.9 * L)


def read_too_high():
    """Your first number is too large. Find the dot, and read its height off the axis."""
    return _read(1.5 * L)
