import math

import torch
import torch.nn.functional as F

from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.shapes import Float, Int, Tensor


def absolute_attention(
    x: Float[Tensor, "batch n_tokens d_model"],
    positions: Int[Tensor, "batch n_tokens"],
    w_query: Float[Tensor, "d_model d_head"],
    w_key: Float[Tensor, "d_model d_head"],
    w_value: Float[Tensor, "d_model d_value"],
) -> Float[Tensor, "batch n_tokens d_value"]:
    """Return attention over tokens that carry sinusoidal codes; no token attends to padding, at position −1."""
    placed = x + Sinusoidal(x.shape[-1]).encoding(positions)
    query, key, value = placed @ w_query, placed @ w_key, placed @ w_value
    scores = query @ key.transpose(1, 2) / math.sqrt(key.shape[-1])  # (batch, queries, keys)
    is_padding = (positions < 0)[:, None, :]
    return torch.softmax(scores.masked_fill(is_padding, -math.inf), -1) @ value


def accepted_fused(x, positions, w_query, w_key, w_value):
    """Leaves the scores, the mask and the softmax to PyTorch's own attention."""
    tokens = Sinusoidal(x.shape[-1]).embed(x, positions)
    may_attend = (positions >= 0)[:, None, :].expand(-1, x.shape[1], -1)
    return F.scaled_dot_product_attention(tokens @ w_query, tokens @ w_key, tokens @ w_value, attn_mask=may_attend)


def accepted_padding_removed(x, positions, w_query, w_key, w_value):
    """Takes one sequence at a time without its padding, so that nothing has to be masked."""
    output = x.new_zeros(*x.shape[:2], w_value.shape[1])
    for row, sequence, row_positions in zip(output, x, positions, strict=True):
        visible = row_positions >= 0
        tokens = sequence[visible] + Sinusoidal(x.shape[-1]).encoding(row_positions[visible])
        queries, keys, values = tokens @ w_query, tokens @ w_key, tokens @ w_value
        row[visible] = torch.softmax(queries @ keys.T / math.sqrt(keys.shape[1]), -1) @ values
    return output


def accepted_sums_of_the_formula(x, positions, w_query, w_key, w_value):
    """Writes out the codes and both sums of the formula; padding has no share in either sum."""
    d_model = x.shape[-1]
    angles = positions[..., None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    tokens = x + torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :d_model]
    queries, keys, values = tokens @ w_query, tokens @ w_key, tokens @ w_value
    scores = torch.einsum("bmd, bnd -> bmn", queries, keys) / math.sqrt(w_query.shape[1])
    shares = torch.exp(scores - scores.amax(-1, keepdim=True)) * (positions >= 0)[:, None, :]
    return torch.einsum("bmn, bnv -> bmv", shares, values) / shares.sum(-1, keepdim=True)


def cases(generator):
    def drawn(positions, d_model, d_head, d_value):
        positions = torch.tensor(positions)
        shapes = {
            "x": (*positions.shape, d_model),
            "w_query": (d_model, d_head),
            "w_key": (d_model, d_head),
            "w_value": (d_model, d_value),
        }
        numbers = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        rounded = {name: (10 * each).round() / 10 for name, each in numbers.items()}
        return {"x": rounded.pop("x"), "positions": positions} | rounded

    slide = torch.tensor([[[0.42, 0.31, 0.73, 0.36], [0.87, -0.64, 0.81, 0.26], [0.02, 0.01, -0.24, -0.07]]])
    return [
        drawn([[0, 1, 2]], 4, 4, 4) | {"x": slide},  # the words of the slide; all widths are equal
        drawn([[-1, -1, 0, 1], [3, 4, 5, 6]], 4, 3, 2),
        drawn([[-1, 12, 3, 14], [-1, -1, -1, 4]], 6, 2, 5),
    ]


def observe(returned, x, positions, w_query, w_key, w_value):
    """the outputs for the tokens, with 0 for padding"""
    assert isinstance(returned, torch.Tensor), "return a tensor of shape (batch, n_tokens, d_value)"
    shape = (*positions.shape, w_value.shape[1])
    assert returned.shape == shape, f"it has shape {tuple(returned.shape)} where {shape} is expected"
    assert not returned[positions >= 0].isnan().any(), (
        "it has NaN (not a number) for some tokens: 0 is multiplied by ∞, or every key is hidden from a token"
    )
    return torch.where((positions >= 0)[..., None], returned, torch.zeros_like(returned))


def drawn(generator):
    """Two sequences of four tokens of width 6, and the three matrices."""
    return [torch.randn(*shape, generator=generator) for shape in ((2, 4, 6), (6, 3), (6, 3), (6, 5))]


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def property_padding_has_no_influence(answer, generator):
    x, *matrices = drawn(generator)
    positions = torch.tensor([[-1, 0, 1, 2], [-1, -1, 0, 1]])
    changed = torch.where((positions < 0)[..., None], 2.0, x)
    before, after = answer(x, positions, *matrices), answer(changed, positions, *matrices)
    assert close(before[positions >= 0], after[positions >= 0]), (
        "Your outputs for the tokens change when we change the embedding of padding. It should have no influence at "
        "all."
    )


def property_no_padding_the_same(answer, generator):
    x, *matrices = drawn(generator)
    padded = answer(x, torch.tensor([[-1, 0, 1, 2], [-1, 5, 6, 7]]), *matrices)[:, 1:]
    assert close(padded, answer(x[:, 1:], torch.tensor([[0, 1, 2], [5, 6, 7]]), *matrices)), (
        "The outputs of a sequence should be the same with and without padding before it. Yours differ."
    )


def property_tokens_may_stand_in_any_row(answer, generator):
    x, *matrices = drawn(generator)
    positions, order = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]]), torch.tensor([2, 0, 3, 1])
    found = answer(x[:, order], positions[:, order], *matrices)
    assert close(found, answer(x, positions, *matrices)[:, order]), (
        "If we shuffle the tokens together with their positions, the output should be shuffled in the same way and "
        "not change otherwise. Yours changes."
    )


def property_the_order_of_tokens_matters(answer, generator):
    x, *matrices = drawn(generator)
    positions, order = torch.arange(4).expand(2, 4), torch.tensor([2, 0, 3, 1])
    assert not close(answer(x[:, order], positions, *matrices), answer(x, positions, *matrices)[:, order]), (
        "If we shuffle the tokens but not the positions, your output is only shuffled. The weights should change too."
    )


def property_values_carry_their_positions(answer, generator):
    _, w_query, w_key, w_value = drawn(generator)
    alike = answer(torch.zeros(1, 3, 6), torch.tensor([[4, 4, 4]]), 0 * w_query, w_key, w_value)
    apart = answer(torch.zeros(1, 3, 6), torch.tensor([[4, 5, 6]]), 0 * w_query, w_key, w_value)
    assert not close(alike, apart), (
        "With embeddings and queries of zero, your output is the same at positions 4, 4, 4 as at positions 4, 5, 6. "
        "The values carry their positions too, so it should differ."
    )


def hidden_cases(generator):
    def drawn(batch, n_tokens, d_model, d_head, d_value):
        shapes = {
            "w_query": (d_model, d_head),
            "w_key": (d_model, d_head),
            "w_value": (d_model, d_value),
        }
        n_padding = torch.randint(0, n_tokens, (batch, 1), generator=generator)
        starts = torch.randint(0, 5, (batch, 1), generator=generator)
        n_padding[0] = n_tokens // 2
        starts[0] = 0
        positions = torch.arange(n_tokens) - n_padding
        matrices = {name: torch.randn(*shape, generator=generator) / 2 for name, shape in shapes.items()}
        return {
            "x": torch.randn(batch, n_tokens, d_model, generator=generator),
            "positions": torch.where(positions < 0, -1, positions + starts),
        } | matrices

    return [drawn(3, 7, 10, 4, 2), drawn(5, 6, 8, 3, 9), drawn(2, 1, 4, 5, 3), drawn(4, 9, 16, 8, 5)]


def _of_tokens(outputs, positions):
    """The outputs, with those of padding set to zero because they do not count."""
    return torch.where(positions[..., None] >= 0, outputs, 0)


def probe_more_padding(answer, x, positions, w_query, w_key, w_value):
    """More padding on the left does not change the outputs for the tokens."""
    n_more = 3
    longer = torch.cat((torch.full_like(x[:, :1], 4).expand(-1, n_more, -1), x), 1)
    padded_positions = torch.cat((torch.full_like(positions[:, :1], -1).expand(-1, n_more), positions), 1)
    return _of_tokens(answer(longer, padded_positions, w_query, w_key, w_value)[:, n_more:], positions)


def probe_order_of_tokens(answer, x, positions, w_query, w_key, w_value):
    """Tokens in another order, each with its own position, have the same outputs as before."""
    outputs = answer(x.flip(1), positions.flip(1), w_query, w_key, w_value).flip(1)
    return _of_tokens(outputs, positions)
