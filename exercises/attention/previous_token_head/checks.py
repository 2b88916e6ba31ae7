import torch


def cases(generator):
    return [{"n_tokens": 5}, {"n_tokens": 6}, {"n_tokens": 200}, {"n_tokens": 1}]


def weights_of(returned, n_tokens):
    assert isinstance(returned, tuple | list) and len(returned) == 2, "two matrices are asked, w_query and w_key"
    for name, w in zip(("w_query", "w_key"), returned, strict=True):
        assert isinstance(w, torch.Tensor) and w.is_floating_point(), f"{name} must be a tensor of floats"
        assert w.ndim == 2 and len(w) == n_tokens, f"{name} has shape {tuple(w.shape)}, not ({n_tokens}, d_head)"
        assert w.isfinite().all(), f"{name} holds numbers that are not finite"
    w_query, w_key = (w.detach().double() for w in returned)
    assert w_query.shape == w_key.shape, (
        f"w_query is {w_query.shape[1]} wide and w_key {w_key.shape[1]}; queries and keys must be equally wide"
    )
    hidden = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
    return torch.softmax((w_query @ w_key.T / w_key.shape[1] ** 0.5).masked_fill(hidden, -torch.inf), -1)


def observe(returned, n_tokens):
    """where each token puts most weight (shared by several: minus their number), and whether all put 0.99 there"""
    weights = weights_of(returned, n_tokens)
    most, position = weights.max(-1)
    sharing = (weights > most[:, None] * (1 - 1e-6)).sum(-1)
    return torch.where(sharing == 1, position, -sharing), bool((most >= 0.99).all())


def property_weight_on_the_token_before(answer, generator):
    for n_tokens in (2, 8, 1000):
        weights = weights_of(answer(n_tokens), n_tokens)
        share, token = weights.diagonal(-1).min(0)
        assert share >= 0.99, (
            f"With {n_tokens} tokens, token {token + 1} puts {share:.3f} of its weight on token {token}. "
            "It should be at least 0.99."
        )
