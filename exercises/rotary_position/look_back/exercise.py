import math

import torch

from llm_anatomy.layers.positions.rotary import InterleavedRotary
from llm_anatomy.shapes import Float, Tensor


def look_back(n_back: int, d_head: int, base: int) -> tuple[Float[Tensor, "d_head"], Float[Tensor, "d_head"]]:
    """The query and the key, the same for all tokens, of a head that attends n_back positions back."""
    angles = -n_back * base ** (-torch.arange(0, d_head, 2) / d_head)
    turned_back = torch.stack((angles.cos(), angles.sin()), -1).flatten()  # (1, 0) in each plane, turned
    key = torch.tensor([1.0, 0.0]).repeat(d_head // 2)
    return 1000 * d_head * turned_back, key


def accepted_query_turned_back(n_back, d_head, base):
    """The key is all ones. The query is the key, rotated back by the package and scaled up."""
    key = torch.ones(d_head)
    query = InterleavedRotary(d_head, float(base)).rotate(key.view(1, 1, 1, -1), torch.tensor([[-n_back]])).flatten()
    return 1000 * math.sqrt(d_head) * query, key


def accepted_key_turned_forward(n_back, d_head, base):
    """The query points along the first axis of every plane; the key is ahead by the angles of n_back positions."""
    angles = n_back * base ** (-torch.arange(0, d_head, 2) / d_head)
    key = torch.stack((angles.cos(), angles.sin()), dim=1).flatten()
    query = torch.tensor([1.0, 0.0]).repeat(d_head // 2)
    return 1000 * math.sqrt(d_head) * query, key


def accepted_direction_by_trial(n_back, d_head, base):
    """Draws a random key, tries both directions of rotation, and keeps the query whose best offset is the right one."""
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)
    directions = 2 * math.pi * torch.rand(d_head // 2, generator=torch.Generator().manual_seed(0))
    offsets = torch.arange(-199, 200)
    key = torch.polar(torch.ones(d_head // 2), directions)
    turned_keys = key * torch.exp(1j * offsets[:, None] * frequencies)
    for angles in (n_back * frequencies, -n_back * frequencies):
        query = 1000 * math.sqrt(d_head) * key * torch.exp(1j * angles)
        scores = (turned_keys @ query.conj()).real
        if offsets[scores.argmax()] == -n_back:
            return torch.view_as_real(query).flatten(), torch.view_as_real(key).flatten()


def cases(generator):
    sizes = (50, 128, 10000), (3, 8, 10000), (7, 16, 500)
    return [{"n_back": n_back, "d_head": d_head, "base": base} for n_back, d_head, base in sizes]


ENOUGH = 0.9895  # 0.99 with a margin for rounding
POSITIONS = 200


def planes_of(returned, d_head):
    """Query and key as complex numbers, one for each plane."""
    assert isinstance(returned, tuple | list) and len(returned) == 2, "you should return two vectors, a query and a key"
    for name, x in zip(("query", "key"), returned, strict=True):
        assert isinstance(x, torch.Tensor) and x.is_floating_point(), f"the {name} must be a tensor of floats"
        assert tuple(x.shape) == (d_head,), f"the {name} has shape {tuple(x.shape)}, not ({d_head},)"
        assert x.isfinite().all(), f"the {name} contains numbers that are not finite"
    return [torch.view_as_complex(x.detach().double().reshape(-1, 2)) for x in returned]


def scores_of(query, key, base):
    """The scores of the keys from 0 to 199 positions back, and then of those from 1 to 199 positions ahead."""
    back = torch.cat((torch.arange(POSITIONS), torch.arange(-1, -POSITIONS, -1)))
    d_head = 2 * len(query)
    angles = -back[:, None] * base ** -(torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)
    scores = (torch.polar(torch.ones_like(angles), angles) * (query.conj() * key)).sum(-1).real / d_head**0.5
    return back, scores


def share(query, key, n_back, base):
    """The weight that the last token, which sees all the others, puts on the right one."""
    return torch.softmax(scores_of(query, key, base)[1][:POSITIONS], -1)[n_back].item()


def across_halves(x):
    """The planes of a vector in which entries i and i + d/2 were meant to form a plane."""
    return torch.complex(*torch.view_as_real(x).flatten().chunk(2))


def observe(returned, n_back, d_head, base):
    """which token gets most of the attention weight, under the causal mask"""
    if isinstance(returned, tuple | list) and any(getattr(x, "ndim", 1) == 2 for x in returned):
        return "vectors for each of several tokens"
    query, key = planes_of(returned, d_head)
    if share(query, key, n_back, base) >= ENOUGH:
        return "the right token gets enough weight"
    if share(across_halves(query), across_halves(key), n_back, base) >= ENOUGH:
        return "the right token would get enough weight if halves were paired"
    back, scores = scores_of(query, key, base)
    weights = torch.softmax(scores[:POSITIONS], -1)
    position, most = int(weights.argmax()), weights.max()
    if weights.min() > most * (1 - 1e-6):
        return "all tokens get the same weight"
    if (weights > most * 0.95).sum() > 1:
        return "several tokens share the largest weight about equally"
    if position == n_back:
        return "the right token gets more weight than the others, but not enough"
    if back[scores.argmax()] < 0:
        ahead = -int(back[scores.argmax()])
        return f"the highest score is {'as far ahead as it should be back' if ahead == n_back else 'at a token ahead'}"
    where = {
        0: "the token itself",
        n_back + 1: "the token one position too far back",
        n_back - 1: "the token one position too near",
        2 * n_back: "the token twice as far back",
    }
    return f"most weight goes to {where.get(position, f'the token {position} positions back')}"


def property_weight_so_many_positions_back(answer, generator):
    for n_back, d_head, base in ((5, 8, 10000), (3, 10, 300), (199, 64, 10000), (120, 32, 10000)):
        weight = share(*planes_of(answer(n_back, d_head, base), d_head), n_back, base)
        assert weight >= ENOUGH, (
            f"For {n_back} positions back, width {d_head} and base {base}, the last of 200 tokens puts {weight:.3f} of "
            "its weight on the right token. It should put at least 0.99 there."
        )


def hidden_cases(generator):
    sizes = (2, 8, 10000), (30, 64, 500000), (11, 12, 200), (199, 16, 10000), (1, 128, 10000)
    return [{"n_back": n_back, "d_head": d_head, "base": base} for n_back, d_head, base in sizes]
