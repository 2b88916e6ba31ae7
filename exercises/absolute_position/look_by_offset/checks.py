import torch


def cases(generator):
    pairs = [(-1, 8), (3, 16), (-6, 10), (12, 24), (0, 12)]
    return [{"offset": offset, "d_model": d_model} for offset, d_model in pairs]


def weights_of(returned, d_model, start=0, n_tokens=100):
    assert isinstance(returned, tuple | list) and len(returned) == 2, "two matrices are asked, w_query and w_key"
    for name, w in zip(("w_query", "w_key"), returned, strict=True):
        assert isinstance(w, torch.Tensor) and w.is_floating_point(), f"{name} must be a tensor of floats"
        assert w.ndim == 2 and len(w) == d_model, f"{name} has shape {tuple(w.shape)}, not ({d_model}, d_head)"
        assert w.isfinite().all(), f"{name} holds numbers that are not finite"
    w_query, w_key = (w.detach().double() for w in returned)
    assert w_query.shape == w_key.shape, (
        f"w_query is {w_query.shape[1]} wide and w_key {w_key.shape[1]}; queries and keys must be equally wide"
    )
    angles = torch.arange(start, start + n_tokens)[:, None] / 10000 ** (torch.arange(0, d_model, 2).double() / d_model)
    code = torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
    return torch.softmax((code @ w_query) @ (code @ w_key).T / w_key.shape[1] ** 0.5, -1)


def observe(returned, offset, d_model):
    """how far on each of the tokens 40 to 47 of 100 puts most weight, and whether all put 0.99 there"""
    most, position = weights_of(returned, d_model)[40:48].max(-1)
    return position - torch.arange(40, 48), bool((most >= 0.99).all())


def property_from_any_position(answer, generator):
    for offset, start in ((-3, 0), (5, 40)):
        weights = weights_of(answer(offset, 12), 12, start)
        share, token = weights.diagonal(offset).min(0)
        position = start + max(-offset, 0) + token.item()
        assert share >= 0.99, (
            f"With offset {offset} and width 12, the token at position {position} puts {share:.3f} of its weight on "
            "that at "
            f"position {position + offset}. It should be at least 0.99."
        )


def property_the_head_does_not_grow(answer, generator):
    shares = weights_of(answer(1, 8), 8, n_tokens=100).diagonal(1)
    assert shares.min() >= 0.99, (
        "At width 8, one token among a hundred gets less than 0.99 of the weight it should have."
    )
