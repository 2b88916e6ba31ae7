import torch

KINDS = "only equal pairs fall"


def _scores(seed, distances, equal, exponents=None, base=10000):
    generator = torch.Generator().manual_seed(seed)
    queries, keys = torch.randn(2, 1000, 64, dtype=torch.complex64, generator=generator) * 2**0.5
    frequencies = base ** -(torch.arange(64) / 64 if exponents is None else exponents)
    turns = torch.exp(1j * distances[:, None] * frequencies)
    return torch.einsum("np,np,rp->nr", queries.conj(), queries if equal else keys, turns).real


def _table(seed, size, **options):
    sets = torch.arange(1, 11), torch.arange(201, 211)
    return torch.tensor([[float(size(_scores(seed, r, equal, **options))) for r in sets] for equal in (False, True)])


def _size(scores):
    return scores.square().mean().sqrt()


def conclusion_of_the_slides(seed):
    """Your four sizes are right, but your conclusion does not follow from them. In each row of the table, is the second
    number smaller by at least a quarter?"""
    return _table(seed, _size), "both kinds fall"


def mean_of_the_scores(seed):
    """Your sizes for equal pairs are right, but those for independent pairs are too small. Scores can be positive or
    negative: do you take the root of the mean of their squares?"""
    return _table(seed, torch.mean), KINDS


def root_forgotten(seed):
    """All four of your numbers are too large. Do you take the root of the mean square, and do all entries come from the
    standard normal distribution?"""
    return _table(seed, lambda scores: scores.square().mean()), "both kinds fall"


def scaled(seed):
    """All four of your numbers are too small. Scores are not scaled here, and the vectors have 128 entries."""
    return _table(seed, lambda scores: _size(scores) / 128**0.5), KINDS


def not_turned(seed):
    """Your equal pairs have scores that are too large, near and far, as if nothing were rotated. Do you rotate query
    and key by different positions?"""
    return _table(seed, _size, exponents=torch.full((64,), 9.0)), "neither falls"


def planes_too_slow(seed):
    """The scores of your equal pairs do not fall enough: they are too large at the far distances. Are your frequencies
    those of base 10000, and are the far distances right?"""
    return _table(seed, _size, base=10**6), KINDS


def equal_pairs_too_small(seed):
    """The scores of your equal pairs are too small, near as well as far. Is the key equal to the query before the
    rotation, and are the frequencies right?"""
    sizes = _table(seed, _size)
    return sizes[:1].expand(2, 2), "neither falls"


def distances_in_the_rows(seed):
    """Your table is transposed. Its rows are the two kinds of pairs, and its columns are near and far."""
    return _table(seed, _size).T, KINDS


def equal_pairs_first(seed):
    """The rows of your table are exchanged: independent pairs come first."""
    return _table(seed, _size).flip(0), KINDS


def far_before_near(seed):
    """The columns of your table are exchanged: near comes first."""
    return _table(seed, _size).flip(1), KINDS
