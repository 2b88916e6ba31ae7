import math

import torch

from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.shapes import Float, Tensor


def look_by_offset(
    offset: int, d_model: int
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, "d_model d_head"]]:
    """Return w_query and w_key of a head in which each token attends to the one `offset` positions after it."""
    angles = offset / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    sine, cosine = angles.sin(), angles.cos()
    on_rows = torch.block_diag(*torch.stack((cosine, -sine, sine, cosine), -1).reshape(-1, 2, 2))
    return 1000 * on_rows, torch.eye(d_model)


def accepted_queries_moved(offset, d_model):
    """Moves the queries with blocks along a diagonal; the keys are the codes themselves."""
    w_query = torch.zeros(d_model, d_model)
    for pair in range(d_model // 2):
        angle = offset * 10000 ** (-2 * pair / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        block = slice(2 * pair, 2 * pair + 2)
        w_query[block, block] = torch.tensor([[cos, -sin], [sin, cos]])
    return 1000 * w_query, torch.eye(d_model)


def accepted_narrow_head_keys_moved(offset, d_model):
    """Reads only four pairs, from fast to slow, and moves the keys back instead of the queries forward."""
    pairs = torch.linspace(0, d_model // 2 - 1, 4).round().long()
    angles = offset * 10000.0 ** (-2 * pairs / d_model)
    sines, cosines = torch.eye(d_model)[:, 2 * pairs], torch.eye(d_model)[:, 2 * pairs + 1]
    moved_sines = sines * angles.cos() - cosines * angles.sin()
    moved_cosines = cosines * angles.cos() + sines * angles.sin()
    return 3000 * torch.cat((sines, cosines), 1), torch.cat((moved_sines, moved_cosines), 1)


def accepted_least_squares(offset, d_model):
    """Fits the matrix that takes the code of each of many positions to the code `offset` further on."""
    positions = torch.arange(2000)
    codes = Sinusoidal(d_model).encoding(positions, torch.float64)
    targets = Sinusoidal(d_model).encoding(positions + offset, torch.float64)
    w_query = torch.linalg.lstsq(codes, targets, driver="gelsd").solution
    return 1000 * w_query.float(), torch.eye(d_model)


def cases(generator):
    pairs = [(-1, 8), (3, 16), (-6, 10), (12, 24)]
    return [{"offset": offset, "d_model": d_model} for offset, d_model in pairs]


ENOUGH = 0.9899  # 0.99 of the weight, with a margin for rounding


def weights_of(returned, d_model, start=0, n_tokens=100):
    assert isinstance(returned, tuple | list) and len(returned) == 2, "return two matrices, w_query and w_key"
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
    """the offset at which each of the tokens 40 to 43 puts most weight and, if that is right, whether all of them put
    at least 0.99 there"""
    most, position = weights_of(returned, d_model)[40:44].max(-1)
    found = position - torch.arange(40, 44)
    return found, bool((found != offset).any() or (most >= ENOUGH).all())


def property_from_any_position(answer, generator):
    for offset, start in ((-3, 0), (5, 40)):
        weights = weights_of(answer(offset, 12), 12, start)
        share, token = weights.diagonal(offset).min(0)
        position = start + max(-offset, 0) + token.item()
        assert share >= ENOUGH, (
            f"With offset {offset} and width 12, the token at position {position} puts {share:.3f} of its weight on "
            f"the one at position {position + offset}. It should put at least 0.99 there."
        )


def property_the_head_does_not_grow(answer, generator):
    shares = weights_of(answer(1, 8), 8, n_tokens=100).diagonal(1)
    assert shares.min() >= ENOUGH, (
        "At width 8, with offset 1 and a hundred tokens, at least one token puts less than 0.99 of its weight on the "
        "token after it."
    )


def hidden_cases(generator):
    pairs = [(2, 8), (-9, 14), (25, 32), (-2, 20), (-30, 64), (0, 12)]
    return [{"offset": offset, "d_model": d_model} for offset, d_model in pairs]
