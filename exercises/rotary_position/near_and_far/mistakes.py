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
    """Your four sizes are right, but your conclusion says something else than they do. For each row of the table, is
    the second number smaller by a quarter?"""
    return _table(seed, _size), "both kinds fall"


def mean_of_the_scores(seed):
    """Your sizes of independent pairs are too small, though those of equal pairs are right. Scores have both signs: is
    yours the root of the mean of their squares?"""
    return _table(seed, torch.mean), KINDS


def root_forgotten(seed):
    """All four of your numbers are too large. Is the root of the mean square taken, and do all entries come from the
    standard normal distribution?"""
    return _table(seed, lambda scores: scores.square().mean()), "both kinds fall"


def scaled(seed):
    """All four of your numbers are too small. The scores are not scaled here, and all 128 entries count."""
    return _table(seed, lambda scores: _size(scores) / 128**0.5), KINDS


def not_turned(seed):
    """Your equal pairs have scores that are too large, near and far, as if nothing kept them apart. Are query and key
    turned by different positions?"""
    return _table(seed, _size, exponents=torch.full((64,), 9.0)), "neither falls"


def planes_too_slow(seed):
    """Your equal pairs fall too little: far apart, their scores are too large. Do your planes turn with the frequencies
    of base 10000, and is far as far as it should be?"""
    return _table(seed, _size, base=10**6), KINDS


def equal_pairs_too_small(seed):
    """The scores of your equal pairs are too small, near as well as far. Is the key the query itself before the turn,
    and do the planes turn with the right frequencies?"""
    sizes = _table(seed, _size)
    return sizes[:1].expand(2, 2), "neither falls"


def distances_in_the_rows(seed):
    """Your table is on its side. Its rows are the two kinds of pairs, its columns near and far."""
    return _table(seed, _size).T, KINDS


def equal_pairs_first(seed):
    """The rows of your table are exchanged: independent pairs come first."""
    return _table(seed, _size).flip(0), KINDS


def far_before_near(seed):
    """The columns of your table are exchanged: near comes first."""
    return _table(seed, _size).flip(1), KINDS
