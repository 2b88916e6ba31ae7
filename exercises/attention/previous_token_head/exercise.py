import math

import torch

from llm_anatomy.shapes import Float, Tensor


def previous_token_head(n_tokens: int) -> tuple[Float[Tensor, "n_tokens d_head"], Float[Tensor, "n_tokens d_head"]]:
    """Return w_query and w_key of a head in which each token attends to the token before it."""
    w_key = torch.eye(n_tokens)
    score = math.log(100 * n_tokens)  # 0.99 against n_tokens - 2 others with score 0, and some to spare
    w_query = math.sqrt(n_tokens) * score * w_key.roll(1, dims=0)  # the query of token i is the key of token i - 1
    return w_query, w_key


def accepted_one_hot_keys(n_tokens):
    """Gives each key a dimension of its own; the query is a large multiple of the key of the previous token."""
    w_key = torch.eye(n_tokens)
    w_query = torch.zeros(n_tokens, n_tokens)
    w_query[1:] = 20 * math.sqrt(n_tokens) * w_key[:-1]
    return w_query, w_key


def accepted_points_on_a_circle(n_tokens):
    """Two columns: the keys lie on a circle, and each query points at the key of the previous token."""
    step = 2 * math.pi / n_tokens
    angles = step * torch.arange(-1, n_tokens, dtype=torch.float64)  # from the token before the first
    points = torch.stack((angles.cos(), angles.sin()), 1)
    nearest_lead = 1 - math.cos(min(step, math.pi))
    strength = math.sqrt(2) * 20 / nearest_lead
    return (strength * points[:-1]).float(), points[1:].float()


def accepted_alternating_sign(n_tokens):
    """One column: the keys grow and alternate in sign, so of all visible keys that of the previous token is extreme."""
    signs = (-1.0) ** torch.arange(n_tokens)
    keys = signs * torch.arange(1, n_tokens + 1)
    return -20 * signs[:, None], keys[:, None]


def cases(generator):
    return [{"n_tokens": n_tokens} for n_tokens in (5, 6, 2, 200)]


ENOUGH = 0.9899  # 0.99, with a margin for rounding


def weights_of(returned, n_tokens):
    assert isinstance(returned, tuple | list) and len(returned) == 2, "return two matrices, w_query and w_key"
    for name, w in zip(("w_query", "w_key"), returned, strict=True):
        assert isinstance(w, torch.Tensor) and w.is_floating_point(), f"{name} must be a tensor of floats"
        assert w.ndim == 2 and len(w) == n_tokens, f"{name} has shape {tuple(w.shape)}, not ({n_tokens}, d_head)"
        assert w.isfinite().all(), f"{name} holds numbers that are not finite; large finite numbers are enough"
    w_query, w_key = (w.detach().double() for w in returned)
    assert w_query.shape == w_key.shape, (
        f"w_query is {w_query.shape[1]} wide and w_key {w_key.shape[1]}; queries and keys must be equally wide"
    )
    hidden = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
    return torch.softmax((w_query @ w_key.T / w_key.shape[1] ** 0.5).masked_fill(hidden, -torch.inf), -1)


def observe(returned, n_tokens):
    """the token on which each token puts most weight (or minus the number of tokens, if several share it), and whether
    this weight is always at least 0.99"""
    if isinstance(returned, torch.Tensor):
        return "one tensor"
    if all(isinstance(w, torch.Tensor) for w in returned) and not all(w.isfinite().all() for w in returned):
        return "not finite"
    weights = weights_of(returned, n_tokens)
    most, position = weights.max(-1)
    sharing = (weights > most[:, None] * (1 - 1e-6)).sum(-1)
    return torch.where(sharing == 1, position, -sharing), bool((most >= ENOUGH).all())


def property_weight_on_the_token_before(answer, generator):
    for n_tokens in (2, 8, 1000):
        weights = weights_of(answer(n_tokens), n_tokens)
        share, token = weights.diagonal(-1).min(0)
        assert share >= ENOUGH, (
            f"With {n_tokens} tokens, token {token + 1} puts {share:.3f} of its weight on token {token}. It should "
            "put at least 0.99 there."
        )


def hidden_cases(generator):
    return [{"n_tokens": n_tokens} for n_tokens in (4, 2, 3, 9, 40, 1000)]
