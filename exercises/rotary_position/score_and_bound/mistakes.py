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
    """A key before the query gets the score of one after it in your answer. Either the offset has the wrong sign, or
    the conjugate is taken of the key."""
    return _both(_products(query, key), _turns(query, -offsets, base))


def no_conjugate(query, key, offsets, base):
    """You multiply query and key as they are, which adds their angles. A scalar product compares them."""
    return _both(_planes(query) * _planes(key), _turns(query, offsets, base))


def imaginary_part(query, key, offsets, base):
    """Your scores are imaginary parts. At offset 0 the score is the plain scalar product: try it."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return (products * turns).sum(-1).imag, _bound(products, turns)


def length_of_the_sum(query, key, offsets, base):
    """Your scores are lengths of complex sums. Scores can be negative: which part of the sum is the score?"""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return (products * turns).sum(-1).abs(), _bound(products, turns)


def cosines_only(query, key, offsets, base):
    """In your scores plain products are weighed by cosines. A turn mixes two entries: the sines are missing."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return turns.real @ products.real, _bound(products, turns)


def as_if_aligned(query, key, offsets, base):
    """In your scores query and key are parallel in each plane, as in CMU's picture. They are at an angle already."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return turns.real @ products.abs(), _bound(products, turns)


def scaled(query, key, offsets, base):
    """You divide your scores by the root of the width. Return them before they are scaled."""
    scores, bounds = _both(_products(query, key), _turns(query, offsets, base))
    return scores / len(query) ** 0.5, bounds


def paired_across_halves(query, key, offsets, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbours form a plane."""
    halves = [torch.complex(*x.chunk(2)) for x in (query, key)]
    return _both(halves[0].conj() * halves[1], _turns(query, offsets, base))


def two_forgotten(query, key, offsets, base):
    """Your slower planes turn too fast. There are d/2 of them: by what does the exponent divide?"""
    return _both(_products(query, key), _turns(query, offsets, base, torch.arange(len(query) // 2) / len(query)))


def counted_from_one(query, key, offsets, base):
    """Your first plane is slowed down already. Counted from 1, as in the formula, the exponent has j − 1."""
    exponents = torch.arange(1, len(query) // 2 + 1) * 2 / len(query)
    return _both(_products(query, key), _turns(query, offsets, base, exponents))


def last_step_forgotten(query, key, offsets, base):
    """In your bound a step is missing, the one from the last product down to 0. For vectors of ones there is no
    other."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    largest = torch.cat((products[:1], products)).diff().abs().max()
    return _score(products, turns), largest * turns.cumsum(-1).abs().sum(-1)


def steps_added(query, key, offsets, base):
    """In your bound the steps between the products are added up. The largest of them counts."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).diff().abs()
    return _score(products, turns), steps.sum() * turns.cumsum(-1).abs().sum(-1)


def largest_product(query, key, offsets, base):
    """Your bound takes the largest product. It is the largest step from one product to the next that counts."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), products.abs().max() * turns.cumsum(-1).abs().sum(-1)


def mean_not_sum(query, key, offsets, base):
    """Your bound takes the mean of the partial sums' lengths. The figure shows the mean; the bound has their sum."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(-1).abs().mean(-1)


def full_sum_only(query, key, offsets, base):
    """Your bound takes the full sum of the turns alone. All partial sums count, each by its length."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.sum(-1).abs()


def lengths_before_sums(query, key, offsets, base):
    """Your bound is the same at all offsets: each turn has length one, and you take lengths before you add."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.abs().cumsum(-1).sum(-1)


def sums_over_offsets(query, key, offsets, base):
    """In your bound the partial sums run over the offsets, so that one depends on the others. Run along the planes."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(0).abs().sum(-1)


def products_in_the_sums(query, key, offsets, base):
    """In your bound the partial sums hold the products. They are sums of turns alone."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * (products * turns).cumsum(-1).abs().sum(-1)


def exchanged(query, key, offsets, base):
    """Both are right, but in the wrong order: scores come first."""
    return _both(_products(query, key), _turns(query, offsets, base))[::-1]


def length_of_the_total(query, key, offsets, base):
    """Your bound adds up the partial sums and takes the length of the total. Take the length of each partial sum first,
    then add."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(-1).sum(-1).abs()


def steps_between_lengths(query, key, offsets, base):
    """Your bound compares the lengths of the products. Subtract the complex numbers first, then take the length."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).abs().diff().abs()
    return _score(products, turns), steps.max() * turns.cumsum(-1).abs().sum(-1)


def scores_still_complex(query, key, offsets, base):
    """Your scores are complex numbers. A score is the real part of its sum."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return (products * turns).sum(-1), _bound(products, turns)


def scores_only(query, key, offsets, base):
    """You return the scores alone. Return two things: the scores and the bounds."""
    return _score(_products(query, key), _turns(query, offsets, base))


def no_conjugate_in_the_bound(query, key, offsets, base):
    """Your scores are right, but the products in your bound are not those of the scores: the conjugate is missing."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _bound(_planes(query) * _planes(key), turns)


def zero_before_the_first(query, key, offsets, base):
    """In your bound the 0 stands before the first product. It comes after the last one."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((torch.zeros_like(products[:1]), products)).diff().abs()
    return _score(products, turns), steps.max() * turns.cumsum(-1).abs().sum(-1)


def steps_of_real_parts(query, key, offsets, base):
    """Your bound compares the real parts of the products only. The length of the complex difference counts."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products.real) * turns.cumsum(-1).abs().sum(-1)


def bounds_scaled(query, key, offsets, base):
    """You divide scores and bounds by the root of the width. Return both before any scaling."""
    return tuple(x / len(query) ** 0.5 for x in _both(_products(query, key), _turns(query, offsets, base)))


def steps_paired_with_sums(query, key, offsets, base):
    """In your bound each step is multiplied with its own partial sum. The largest step is taken for all of them."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).diff().abs()
    return _score(products, turns), (steps * turns.cumsum(-1).abs()).sum(-1)


def longest_sum_only(query, key, offsets, base):
    """Your bound takes the longest partial sum. All partial sums count: their lengths are added."""
    products, turns = _products(query, key), _turns(query, offsets, base)
    return _score(products, turns), _largest_step(products) * turns.cumsum(-1).abs().amax(-1)
