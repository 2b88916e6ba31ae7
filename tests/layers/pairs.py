"""Arguments of a test that has three, of which any two may interact."""

from itertools import product

import pytest


def each_pair(first, second, third):
    """All triples as parameters. Each pair of values occurs in those of the fast round: with each pair of the first two
    arguments, one value of the third, which must have the fewest values. The others are in the slow round."""
    return [
        pytest.param(*values, marks=[pytest.mark.slow] * (sum(indices) % len(third) > 0))
        for numbered in product(enumerate(first), enumerate(second), enumerate(third))
        for indices, values in [zip(*numbered, strict=True)]
    ]
