import torch


def _planes(x):
    return torch.view_as_complex(x.reshape(-1, 2))


def _turns(x, offsets, base, exponents=None):
    n_pairs = len(x) // 2
    exponents = torch.arange(n_pairs) / n_pairs if exponents is None else exponents
    angles = (offsets[:, None] * base**-exponents).to(x.dtype)
    return torch.polar(torch.ones_like(angles), angles)


def _products(query, key):
    return _planes(query).conj() * _planes(key)


def _largest_step(products):
    return torch.cat((products, torch.zeros_like(products[:1]))).diff().abs().max()


def _score(products, turns):
    return (products * turns).sum(-1).real


def _bound(products, turns):
    return _largest_step(products) * turns.cumsum(-1).abs().sum(-1)


def _both(products, turns):
    return _score(products, turns), _bound(products, turns)


def query_minus_key(query, key, offsets, base):
    """You give a key before the query the score of a key after it. Either your offset has the wrong sign, or you take
    the conjugate of the key, not of the query."""
    return _both(_products(query, key), _turns(query, -offsets, base))


def no_conjugate(query, key, offsets, base):
    """You multiply query and key without a conjugate, which adds their angles. A dot product depends on the difference
    of the angles."""
    return _both(_planes(query) * _planes(key), _turns(query, offsets, base))


def imaginary_part(query, key, offsets, base):
    """You return imaginary parts as scores. Test it: at offset 0 the score should be the plain dot product."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return (products * turns).sum(-1).imag, _bound(products, turns)


def length_of_the_sum(query, key, offsets, base):
    """You return absolute values of complex sums as scores. A score can be negative: which part of the sum is it?"""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return (products * turns).sum(-1).abs(), _bound(products, turns)


def cosines_only(query, key, offsets, base):
    """In your scores you multiply the plain products by cosines only. A rotation mixes the two entries of a plane, so
    the sines are missing."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return turns.real @ products.real, _bound(products, turns)


def as_if_aligned(query, key, offsets, base):
    """You compute the scores as if query and key were parallel in each plane, as in CMU's picture. In general there is
    already an angle between them."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return turns.real @ products.abs(), _bound(products, turns)


def scaled(query, key, offsets, base):
    """You divide your scores by the root of the width. Return them before the scaling."""
    scores, bounds = _both(_products(query, key), _turns(query, offsets, base))
    return scores / len(query) ** 0.5, bounds


def paired_across_halves(query, key, offsets, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbouring entries form a plane."""
    halves = [torch.complex(*x.chunk(2)) for x in (query, key)]
    return _both(halves[0].conj() * halves[1], _turns(query, offsets, base))


def two_forgotten(query, key, offsets, base):
    """Your slower planes rotate too fast. There are d/2 planes, so what should you divide by in the exponent?"""
    return _both(_products(query, key), _turns(query, offsets, base, torch.arange(len(query) // 2) / len(query)))


def counted_from_one(query, key, offsets, base):
    """Your first plane is already too slow. The index j begins at 1 in the formula, so the exponent contains j − 1."""
    exponents = torch.arange(1, len(query) // 2 + 1) * 2 / len(query)
    return _both(_products(query, key), _turns(query, offsets, base, exponents))


def last_step_forgotten(query, key, offsets, base):
    """In your bound the last difference is missing, the one between the last product and 0. For vectors of ones all
    other differences are 0."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    largest = torch.cat((products[:1], products)).diff().abs().max()
    return _score(products, turns), largest * turns.cumsum(-1).abs().sum(-1)


def steps_added(query, key, offsets, base):
    """In your bound you add the differences between neighbouring products. Take the largest one."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).diff().abs()
    return _score(products, turns), steps.sum() * turns.cumsum(-1).abs().sum(-1)


def largest_product(query, key, offsets, base):
    """Your bound contains the largest product. It should contain the largest difference between neighbouring
    products."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), products.abs().max() * turns.cumsum(-1).abs().sum(-1)


def mean_not_sum(query, key, offsets, base):
    """Your bound contains the mean of the absolute partial sums, as in the paper's figure. The bound has their sum."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(-1).abs().mean(-1)


def full_sum_only(query, key, offsets, base):
    """Your bound contains only the full sum of the rotations. It should add the absolute values of all partial sums."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.sum(-1).abs()


def lengths_before_sums(query, key, offsets, base):
    """Your bound is the same at all offsets, because you take absolute values before you sum, and each rotation has
    length one."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.abs().cumsum(-1).sum(-1)


def sums_over_offsets(query, key, offsets, base):
    """In your bound the partial sums run over the offsets, so one offset affects another. They should run along the
    planes."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(0).abs().sum(-1)


def products_in_the_sums(query, key, offsets, base):
    """In your bound the partial sums contain the products. They should be sums of the rotations only."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * (products * turns).cumsum(-1).abs().sum(-1)


def exchanged(query, key, offsets, base):
    """Both results are right, but they are in the wrong order: the scores come first."""
    return _both(_products(query, key), _turns(query, offsets, base))[::-1]


def length_of_the_total(query, key, offsets, base):
    """In your bound you add the partial sums and take the absolute value of the total. Take the absolute value of each
    partial sum first, then add."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(-1).sum(-1).abs()


def steps_between_lengths(query, key, offsets, base):
    """In your bound you subtract the absolute values of the products. Subtract the complex numbers first, then take the
    absolute value."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).abs().diff().abs()
    return _score(products, turns), steps.max() * turns.cumsum(-1).abs().sum(-1)


def scores_still_complex(query, key, offsets, base):
    """Your scores are complex numbers. A score is the real part of its sum."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return (products * turns).sum(-1), _bound(products, turns)


def scores_only(query, key, offsets, base):
    """You return only the scores. Return two things: the scores and the bounds."""
    return _score(_products(query, key), _turns(query, offsets, base))


def no_conjugate_in_the_bound(query, key, offsets, base):
    """Your scores are right, but your bound uses other products than they do: the conjugate is missing."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _bound(_planes(query) * _planes(key), turns)


def zero_before_the_first(query, key, offsets, base):
    """In your bound the 0 comes before the first product. It should come after the last one."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((torch.zeros_like(products[:1]), products)).diff().abs()
    return _score(products, turns), steps.max() * turns.cumsum(-1).abs().sum(-1)


def steps_of_real_parts(query, key, offsets, base):
    """In your bound you subtract only the real parts of the products. Take the absolute value of the complex
    difference."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products.real) * turns.cumsum(-1).abs().sum(-1)


def bounds_scaled(query, key, offsets, base):
    """You divide scores and bounds by the root of the width. Return both without any scaling."""
    return tuple(x / len(query) ** 0.5 for x in _both(_products(query, key), _turns(query, offsets, base)))


def steps_paired_with_sums(query, key, offsets, base):
    """In your bound each difference is multiplied by its own partial sum. The largest difference should multiply all of
    them."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).diff().abs()
    return _score(products, turns), (steps * turns.cumsum(-1).abs()).sum(-1)


def longest_sum_only(query, key, offsets, base):
    """Your bound contains only the largest of the absolute partial sums. It should add all of them."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(-1).abs().amax(-1)
