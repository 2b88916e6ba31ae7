import torch


def cases(generator):
    return [
        {"n_back": 50, "d_head": 128, "base": 10000},
        {"n_back": 1, "d_head": 8, "base": 10000},
        {"n_back": 7, "d_head": 16, "base": 500},
        {"n_back": 120, "d_head": 32, "base": 10000},
    ]


def scores_of(returned, d_head, base):
    """Of a key so many positions before the query, from 199 to -199."""
    assert isinstance(returned, tuple | list) and len(returned) == 2, "two vectors are asked, a query and a key"
    for name, x in zip(("query", "key"), returned, strict=True):
        assert isinstance(x, torch.Tensor) and x.is_floating_point(), f"the {name} must be a tensor of floats"
        assert tuple(x.shape) == (d_head,), f"the {name} has shape {tuple(x.shape)}, not ({d_head},)"
        assert x.isfinite().all(), f"the {name} holds numbers that are not finite"
    query, key = (torch.view_as_complex(x.detach().double().reshape(-1, 2)) for x in returned)
    back = torch.arange(199, -200, -1)
    angles = -back[:, None] * base ** -(torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)
    return back, (torch.polar(torch.ones_like(angles), angles) * (query.conj() * key)).sum(-1).real / d_head**0.5


def observe(returned, n_back, d_head, base):
    """how many positions back most weight goes (−1 if it is shared), and whether all give 0.99 to the right word"""
    back, scores = scores_of(returned, d_head, base)
    weights = torch.softmax(scores[back >= 0], -1)  # of the last word, which has most to choose from
    most = weights.max()
    position = int(back[weights.argmax()]) if (weights > most * (1 - 1e-6)).sum() == 1 else -1
    right = position == n_back and bool(most >= 0.99)
    return (position, right) if right else (position, right, int(back[scores.argmax()]))


def property_weight_so_many_positions_back(answer, generator):
    for n_back, d_head, base in ((5, 8, 10000), (3, 10, 300), (199, 64, 10000)):
        back, scores = scores_of(answer(n_back, d_head, base), d_head, base)
        share = torch.softmax(scores[back >= 0], -1)[back[back >= 0] == n_back].item()
        assert share >= 0.99, (
            f"For {n_back} positions back, width {d_head} and base {base}, the last of 200 words puts {share:.3f} of "
            "its "
            "weight on the right word. It should be at least 0.99."
        )
