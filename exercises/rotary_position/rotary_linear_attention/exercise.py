import torch
import torch.nn.functional as F
from torch.nn.functional import elu

from llm_anatomy.shapes import Float, Int, Tensor


def turn(x: Tensor, positions: Tensor, base: int) -> Tensor:
    angles = positions[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    first, second = x[..., 0::2], x[..., 1::2]
    turned = first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()
    return torch.stack(turned, -1).flatten(-2)


def rotary_linear_attention(
    queries: Float[Tensor, "n_heads n_tokens d_head"],
    keys: Float[Tensor, "n_heads n_tokens d_head"],
    values: Float[Tensor, "n_heads n_tokens d_value"],
    positions: Int[Tensor, "n_tokens"],
    base: int,
) -> Float[Tensor, "n_heads n_tokens d_value"]:
    """Causal linear attention with features elu + 1, which are rotated only in the numerator."""
    queries, keys = elu(queries) + 1, elu(keys) + 1
    below = (queries * keys.cumsum(1)).sum(-1, keepdim=True)
    state = torch.einsum("htd,htv->htdv", turn(keys, positions, base), values).cumsum(1)
    return torch.einsum("htd,htdv->htv", turn(queries, positions, base), state) / below


def _turn(x, positions, base):
    angles = positions[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    pairs = torch.complex(x[..., 0::2], x[..., 1::2]) * torch.exp(1j * angles)
    return torch.view_as_real(pairs).flatten(-2)


def accepted_table_of_weights(queries, keys, values, positions, base):
    """Two matrices of products, set to zero above the diagonal; the row sums of the second are the denominators."""
    queries, keys = F.elu(queries) + 1, F.elu(keys) + 1
    weights = (_turn(queries, positions, base) @ _turn(keys, positions, base).mT).tril()
    normalizer = (queries @ keys.mT).tril().sum(-1, keepdim=True)
    return weights / normalizer @ values


def accepted_running_sums(queries, keys, values, positions, base):
    """Cumulative sums over the tokens, one of matrices and one of keys, each read once by every query."""
    queries, keys = F.elu(queries) + 1, F.elu(keys) + 1
    turned_queries, turned_keys = _turn(queries, positions, base), _turn(keys, positions, base)
    states = torch.einsum("htd, htv -> htdv", turned_keys, values).cumsum(1)
    numerator = torch.einsum("htd, htdv -> htv", turned_queries, states)
    denominator = (queries * keys.cumsum(1)).sum(-1, keepdim=True)
    return numerator / denominator


def accepted_recurrence(queries, keys, values, positions, base):
    """Reads the text token by token and carries a state, like a recurrent network."""
    queries, keys = F.elu(queries) + 1, F.elu(keys) + 1
    turned_queries, turned_keys = _turn(queries, positions, base), _turn(keys, positions, base)
    state, total = 0, 0
    outputs = []
    for t in range(len(positions)):
        state = state + turned_keys[:, t, :, None] * values[:, t, None, :]
        total = total + keys[:, t]
        numerator = (turned_queries[:, t, None, :] @ state).squeeze(1)
        outputs.append(numerator / (queries[:, t] * total).sum(-1, keepdim=True))
    return torch.stack(outputs, dim=1)


def cases(generator):
    def drawn(n_heads, positions, d_head, d_value, base):
        widths = d_head, d_head, d_value
        tensors = [torch.randn(n_heads, len(positions), w, generator=generator) for w in widths]
        return dict(zip(("queries", "keys", "values"), tensors, strict=True)) | {
            "positions": torch.tensor(positions),
            "base": base,
        }

    return [
        drawn(1, [0, 1, 2], 4, 2, 10000),
        drawn(3, [5, 6, 9, 30], 6, 2, 100),
        drawn(2, [90, 92, 95], 4, 6, 1000),
    ]


def drawn(generator):
    """Two heads of width 6, five tokens with values of width 4."""
    return [torch.randn(2, 5, width, generator=generator) for width in (6, 6, 4)]


POSITIONS = torch.tensor([2, 3, 4, 7, 8])


def property_only_the_offsets_matter(answer, generator):
    tensors = drawn(generator)
    assert torch.allclose(answer(*tensors, POSITIONS, 100), answer(*tensors, POSITIONS + 40, 100), atol=1e-4), (
        "When the whole sequence moves by 40 positions, your output changes. The offsets stay the same, so the output "
        "should too."
    )


def property_first_token(answer, generator):
    queries, keys, values = drawn(generator)
    assert torch.allclose(answer(queries, keys, values, POSITIONS, 100)[:, 0].float(), values[:, 0], atol=1e-4), (
        "The first token attends only to itself, at offset 0. There numerator and denominator contain the same "
        "weight, so its output should be its own value."
    )


def property_same_position(answer, generator):
    queries, keys, values = drawn(generator)
    ones = answer(queries, keys, torch.ones_like(values), torch.full((5,), 7), 100).float()
    assert torch.allclose(ones, torch.ones(2, 5, 4), atol=1e-4), (
        "If all tokens are at the same position, the rotation has no effect, and the weights should sum to one. Yours "
        "do not."
    )


def property_no_looking_ahead(answer, generator):
    tensors = drawn(generator)
    changed = [x.clone() for x in tensors]
    for x in changed:
        x[:, 4] += 1
    before, after = answer(*tensors, POSITIONS, 100), answer(*changed, POSITIONS, 100)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-4), (
        "Changing the last token changes the output of an earlier one. It should not."
    )


def property_no_division_by_zero(answer, generator):
    queries, keys = torch.tensor([[[1.0, 1.0], [1.0, 1.0]]]), torch.tensor([[[-1.0, 0.0], [4.0, -9.0]]])
    output = answer(queries, keys, torch.ones(1, 2, 2), torch.tensor([0, 300]), 10000)
    assert output.isfinite().all(), "Your output is not finite. Is your denominator always positive?"


def hidden_cases(generator):
    def drawn(n_heads, n_tokens, d_head, d_value, base):
        widths = d_head, d_head, d_value
        tensors = [torch.randn(n_heads, n_tokens, w, generator=generator) for w in widths]
        positions = torch.randint(-20, 150, (n_tokens,), generator=generator).sort().values
        return dict(zip(("queries", "keys", "values"), tensors, strict=True)) | {"positions": positions, "base": base}

    return [
        drawn(2, 6, 10, 4, 500),
        drawn(4, 1, 2, 6, 10000),
        drawn(1, 9, 4, 8, 10000),
        drawn(3, 5, 8, 2, 50),
    ]


def probe_causality(answer, queries, keys, values, positions, base):
    """Changing a later token does not change the outputs of the tokens before it."""
    half = positions.shape[0] // 2
    queries, keys, values = (torch.cat((x[:, :half], 2 - x[:, half:]), 1) for x in (queries, keys, values))
    return answer(queries, keys, values, positions, base)[:, :half]
