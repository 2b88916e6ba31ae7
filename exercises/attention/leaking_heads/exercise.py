import math

import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def broken(
    queries: Float[Tensor, "n_heads n_tokens d_head"],
    keys: Float[Tensor, "n_heads n_tokens d_head"],
    values: Float[Tensor, "n_heads n_tokens d_value"],
) -> Float[Tensor, "n_heads n_tokens d_value"]:
    """Return the output of each head; each token attends to itself and to the tokens before it."""
    n_tokens, d_head = queries.shape[-2:]
    future = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
    scores = queries @ keys.mT / math.sqrt(d_head)
    shares = torch.softmax(scores.masked_fill(future, -math.inf), dim=1)
    return shares @ values


def leaking_heads(
    queries: Float[Tensor, "n_heads n_tokens d_head"],
    keys: Float[Tensor, "n_heads n_tokens d_head"],
    values: Float[Tensor, "n_heads n_tokens d_value"],
) -> Float[Tensor, "n_heads n_tokens d_value"]:
    """Return the output of each head; each token attends to itself and to the tokens before it."""
    n_tokens, d_head = queries.shape[-2:]
    future = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
    scores = queries @ keys.mT / math.sqrt(d_head)
    shares = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return shares @ values


def accepted_one_head_at_a_time(queries, keys, values):
    """Leaves the old code as it was and calls it once for each head."""
    outputs = []
    for q, k, v in zip(queries, keys, values, strict=True):
        future = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)
        weights = torch.softmax((q @ k.T / math.sqrt(q.shape[1])).masked_fill(future, -math.inf), dim=1)
        outputs.append(weights @ v)
    return torch.stack(outputs)


def accepted_transposed(queries, keys, values):
    """Keeps the axis and turns everything else, so that keys are on axis 1."""
    n_tokens, d_head = queries.shape[-2:]
    past = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu()
    scores = keys @ queries.mT / math.sqrt(d_head)
    return torch.softmax(scores.masked_fill(~past, -math.inf), dim=1).mT @ values


def accepted_fused(queries, keys, values):
    """Leaves everything to PyTorch."""
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)


def cases(generator):
    small = {
        "queries": torch.tensor([[[1.0], [2.0]]]),
        "keys": torch.tensor([[[0.0], [1.0]]]),
        "values": torch.tensor([[[2.0], [4.0]]]),
    }

    def drawn(n_heads, n_tokens, d_head, d_value):
        def tenths(*shape):
            return (10 * torch.randn(*shape, generator=generator)).round() / 10

        queries, keys = tenths(n_heads, n_tokens, d_head), tenths(n_heads, n_tokens, d_head)
        return {"queries": queries, "keys": keys, "values": tenths(n_heads, n_tokens, d_value)}

    return [small, drawn(2, 4, 3, 1), drawn(3, 3, 2, 2)]


def property_the_past_does_not_know_the_future(answer, generator):
    queries, keys, values = (torch.randn(2, 4, width, generator=generator) for width in (3, 3, 2))
    changed = queries.clone()
    changed[:, 3] += 1
    assert torch.allclose(answer(queries, keys, values)[:, :3], answer(changed, keys, values)[:, :3], atol=1e-5), (
        "The future still leaks: when we change the query of the last token, the outputs of earlier tokens change too."
    )


def hidden_cases(generator):
    def drawn(n_heads, n_tokens, d_head, d_value):
        shapes = {"queries": d_head, "keys": d_head, "values": d_value}
        return {name: torch.randn(n_heads, n_tokens, width, generator=generator) for name, width in shapes.items()}

    return [drawn(3, 5, 2, 4), drawn(1, 7, 4, 3), drawn(4, 4, 6, 2)]
