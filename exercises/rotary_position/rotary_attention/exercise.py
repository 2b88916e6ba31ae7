import math

import torch
import torch.nn.functional as F

from llm_anatomy.layers.positions.rotary import InterleavedRotary
from llm_anatomy.shapes import Bool, Float, Int, Tensor


def turn(x: Tensor, positions: Tensor, base: int) -> Tensor:
    frequencies = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = positions[:, None, :, None] * frequencies  # (batch, 1, tokens, pairs)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()
    return torch.stack(turned, -1).flatten(-2)


def rotary_attention(
    queries: Float[Tensor, "batch n_heads n_queries d_head"],
    keys: Float[Tensor, "batch n_heads n_keys d_head"],
    values: Float[Tensor, "batch n_heads n_keys d_value"],
    query_positions: Int[Tensor, "batch n_queries"],
    key_positions: Int[Tensor, "batch n_keys"],
    mask: Bool[Tensor, "batch n_queries n_keys"],
    base: int,
) -> Float[Tensor, "batch n_heads n_queries d_value"]:
    """Scaled dot-product attention with queries and keys that are rotated by their positions."""
    queries, keys = turn(queries, query_positions, base), turn(keys, key_positions, base)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def _frequencies(d_head, base):
    return base ** (-torch.arange(0, d_head, 2) / d_head)


def accepted_turned_pairs(queries, keys, values, query_positions, key_positions, mask, base):
    """Rotates queries and keys as pairs of real numbers, then attends as in chapter 3."""

    def turn(x, positions):
        angles = positions[:, None, :, None] * _frequencies(x.shape[-1], base)
        first, second = x[..., 0::2], x[..., 1::2]
        turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.stack(turned, dim=-1).flatten(-2)

    scores = turn(queries, query_positions) @ turn(keys, key_positions).mT / math.sqrt(queries.shape[-1])
    return scores.masked_fill(~mask[:, None], -math.inf).softmax(-1) @ values


def accepted_turned_by_offsets(queries, keys, values, query_positions, key_positions, mask, base):
    """Rotates neither queries nor keys: uses a complex number for each plane and offset, and takes the real part."""
    queries_as_complex, keys_as_complex = (torch.complex(x[..., 0::2], x[..., 1::2]) for x in (queries, keys))
    offsets = key_positions[:, None, :] - query_positions[:, :, None]
    angles = offsets[..., None] * _frequencies(queries.shape[-1], base)
    rotors = torch.polar(torch.ones_like(angles), angles)
    products = torch.einsum("bhqp, bhkp, bqkp -> bhqk", queries_as_complex.conj(), keys_as_complex, rotors)
    scores = torch.where(mask[:, None], products.real / math.sqrt(queries.shape[-1]), -math.inf)
    return torch.einsum("bhqk, bhkv -> bhqv", scores.softmax(-1), values)


def accepted_planes_laid_apart(queries, keys, values, query_positions, key_positions, mask, base):
    """Puts the rotated first entries before the rotated second ones in queries and keys, which changes no dot
    product."""

    def turn(x, positions):
        angles = positions[:, None, :, None] * _frequencies(x.shape[-1], base)
        first, second = x[..., 0::2], x[..., 1::2]
        turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.cat(turned, dim=-1)

    scores = turn(queries, query_positions) @ turn(keys, key_positions).mT / queries.shape[-1] ** 0.5
    return torch.where(mask.unsqueeze(1), scores, -math.inf).softmax(-1) @ values


def accepted_package_and_fused(queries, keys, values, query_positions, key_positions, mask, base):
    """Rotates with the package and calls PyTorch's own attention."""
    rotary = InterleavedRotary(queries.shape[-1], float(base))
    turned_queries, turned_keys = rotary.rotate(queries, query_positions), rotary.rotate(keys, key_positions)
    return F.scaled_dot_product_attention(turned_queries, turned_keys, values, attn_mask=mask[:, None])


def case(generator, n_heads, d_head, d_value, key_positions, mask, base):
    """The queries are the newest tokens, as many as the mask has rows."""
    batch, n_queries, n_keys = mask.shape
    shapes = (n_queries, d_head), (n_keys, d_head), (n_keys, d_value)
    queries, keys, values = (torch.randn(batch, n_heads, *s, generator=generator) for s in shapes)
    return {
        "queries": queries,
        "keys": keys,
        "values": values,
        "query_positions": key_positions[:, n_keys - n_queries :],
        "key_positions": key_positions,
        "mask": mask,
        "base": base,
    }


def cases(generator):
    we, know = [1.0, 0.5, -0.4, 0.8], [0.25, 2.0, 1.0, 0.3]
    words = torch.tensor([[we, know]] * 2).unsqueeze(1)  # in "of course we know" and in "we know that"
    lecture = {
        "queries": words[:, :, 1:],
        "keys": words,
        "values": torch.tensor([[[1.0, 0.0], [0.0, 1.0]]] * 2).unsqueeze(1),
        "query_positions": torch.tensor([[3], [1]]),
        "key_positions": torch.tensor([[2, 3], [0, 1]]),
        "mask": torch.ones(2, 1, 2, dtype=torch.bool),
        "base": 10000,
    }

    def drawn(n_heads, n_queries, d_head, d_value, key_positions, visible, base):
        """The mask is causal, and padding may attend only to itself."""
        n_keys = key_positions.shape[1]
        mask = torch.ones(n_keys, n_keys, dtype=torch.bool).tril() & visible[:, None, :]
        mask = (mask | torch.eye(n_keys, dtype=torch.bool))[:, n_keys - n_queries :]
        return case(generator, n_heads, d_head, d_value, key_positions, mask, base)

    padded = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])  # the first sequence is two tokens shorter
    visible = torch.ones(2, 5, dtype=torch.bool)
    visible[0, :2] = False
    whole = drawn(2, 5, 4, 2, padded, visible, base=1000)  # two heads and two sequences, so that mixing gives numbers
    gaps = torch.tensor([[5, 6, 9, 40], [90, 91, 92, 95]])
    cached = drawn(3, 2, 6, 4, gaps, torch.ones(2, 4, dtype=torch.bool), base=50)
    cached["query_positions"] = torch.tensor([[9, 43], [95, 93]])  # not those of the last keys
    return [lecture, whole, cached]


def drawn(generator):
    """Two sequences, three heads of width 4; the queries are the last two of five tokens. No key is masked."""
    tensors = [torch.randn(2, 3, *shape, generator=generator) for shape in ((2, 4), (5, 4), (5, 6))]
    positions = torch.tensor([[0, 1, 2, 3, 4], [10, 11, 13, 14, 20]])
    return *tensors, positions[:, 3:], positions, torch.ones(2, 2, 5, dtype=torch.bool)


def property_only_the_offsets_matter(answer, generator):
    *tensors, query_positions, key_positions, mask = drawn(generator)
    moved = answer(*tensors, query_positions + 57, key_positions + 57, mask, 100)
    assert torch.allclose(answer(*tensors, query_positions, key_positions, mask, 100), moved, atol=1e-4), (
        "When the whole sequence moves by 57 positions, your output changes. The offsets stay the same, so the output "
        "should too."
    )


def property_same_position_is_plain_attention(answer, generator):
    queries, keys, values, query_positions, key_positions, mask = drawn(generator)
    plain = torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
    same = answer(queries, keys, values, 0 * query_positions + 6, 0 * key_positions + 6, mask, 100).float()
    assert torch.allclose(same, plain, atol=1e-4), (
        "If all tokens are at the same position, RoPE should change nothing, and the result should be plain attention."
    )


def property_values_pass_unturned(answer, generator):
    queries, keys, values, *rest = drawn(generator)
    assert torch.allclose(
        answer(queries, keys, torch.ones_like(values), *rest, 100).float(), torch.ones(2, 3, 2, 6), atol=1e-4
    ), (
        "If all values are one, the output should be one. Either your weights do not sum to one, or you rotate the "
        "values."
    )


def property_sequences_apart(answer, generator):
    arguments = drawn(generator)
    alone = answer(*(x[1:] for x in arguments), 100)
    assert torch.allclose(answer(*arguments, 100)[1:], alone, atol=1e-4), (
        "The second sequence gives a different output alone than together with the first. Each sequence has its own "
        "positions."
    )


def property_hidden_keys_have_no_influence(answer, generator):
    queries, keys, values, query_positions, key_positions, mask = drawn(generator)
    mask[..., 1] = False
    changed = keys.clone()
    changed[:, :, 1] += 3
    before = answer(queries, keys, values, query_positions, key_positions, mask, 100)
    after = answer(queries, changed, values, query_positions, key_positions, mask, 100)
    assert torch.allclose(before, after, atol=1e-4), (
        "Your output changes when a key changes that is masked for every query. It should not."
    )


def property_order_of_entries(answer, generator):
    queries, keys, values, query_positions, key_positions, mask = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    before = answer(queries, keys, values, query_positions, key_positions, mask, 100)
    after = answer(queries, keys[:, :, order], values[:, :, order], query_positions, key_positions[:, order], mask, 100)
    assert torch.allclose(before, after, atol=1e-4), (
        "When the keys are listed in another order, together with their values and positions, your output changes. It "
        "should not."
    )


def property_positions_matter(answer, generator):
    *tensors, query_positions, key_positions, mask = drawn(generator)
    here = answer(*tensors, query_positions, key_positions, mask, 100)
    assert not torch.allclose(here, answer(*tensors, query_positions + 1, key_positions, mask, 100), atol=1e-3), (
        "When only the queries move by one position, every offset changes, but your output stays the same."
    )


def hidden_cases(generator):
    def drawn(batch, n_heads, n_queries, n_keys, d_head, d_value, base):
        positions = torch.randint(-30, 200, (batch, n_keys), generator=generator).sort(-1).values
        mask = torch.rand(batch, n_queries, n_keys, generator=generator) < 0.5
        mask[:, :, 0] = True
        found = case(generator, n_heads, d_head, d_value, positions, mask, base)
        return found | {"query_positions": found["query_positions"] + 3}

    return [
        drawn(2, 3, 4, 7, 10, 8, 500),
        drawn(1, 2, 6, 6, 4, 2, 10000),
        drawn(5, 1, 1, 3, 2, 4, 10000),
        drawn(3, 4, 2, 5, 6, 10, 20),
    ]


def probe_moved_text(answer, queries, keys, values, query_positions, key_positions, mask, base):
    """When all queries and keys of a sequence move by the same number of positions, no output changes: only the offsets
    matter."""
    return answer(queries, keys, values, query_positions + 23, key_positions + 23, mask, base)


def probe_one_query_at_a_time(answer, queries, keys, values, query_positions, key_positions, mask, base):
    """Queries that are processed one at a time, with the keys in a cache, get the same outputs as all queries
    together."""
    outputs = [
        answer(queries[:, :, i : i + 1], keys, values, query_positions[:, i : i + 1], key_positions, row, base)
        for i, row in enumerate(mask.split(1, dim=1))
    ]
    return torch.cat(outputs, 2)
