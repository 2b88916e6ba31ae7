import math

import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Bool, Float, Tensor


def cross_attention(
    x: Float[Tensor, "batch n_target d_model"],
    source: Float[Tensor, "batch n_source d_source"],
    is_word: Bool[Tensor, "batch n_source"],
    w_query: Float[Tensor, "d_model d_head"],
    w_key: Float[Tensor, "d_source d_head"],
    w_value: Float[Tensor, "d_source d_value"],
) -> tuple[Float[Tensor, "batch n_target d_value"], Float[Tensor, "batch n_target n_source"]]:
    """Return the output for each target token, and the weights that it gives to the source tokens."""
    queries, keys, values = x @ w_query, source @ w_key, source @ w_value
    scores = queries @ keys.mT / math.sqrt(keys.shape[-1])  # (batch, n_target, n_source)
    shares = torch.softmax(scores.masked_fill(~is_word[:, None], -math.inf), dim=-1)
    return shares @ values, shares


def accepted_einsum(x, source, is_word, w_query, w_key, w_value):
    """Names the axes, and adds a very low number to the scores of the padding."""
    scores = torch.einsum("btd,dh,bse,eh->bts", x, w_query, source, w_key) / w_key.shape[1] ** 0.5
    weights = (scores + torch.where(is_word, 0.0, -1e9).unsqueeze(1)).softmax(-1)
    return torch.einsum("bts,bse,ev->btv", weights, source, w_value), weights


def accepted_without_padding(x, source, is_word, w_query, w_key, w_value):
    """Cuts the padding off, one sentence at a time, and needs no mask."""
    outputs, tables = [], []
    for target, states, words in zip(x, source, is_word, strict=True):
        keys, values = states[words] @ w_key, states[words] @ w_value
        weights = torch.softmax(target @ w_query @ keys.T / math.sqrt(w_query.shape[1]), dim=1)
        table = torch.zeros(len(target), len(states))
        table[:, words] = weights
        outputs.append(weights @ values)
        tables.append(table)
    return [torch.stack(outputs), torch.stack(tables)]


def accepted_fused(x, source, is_word, w_query, w_key, w_value):
    """Leaves attention to PyTorch; the weights come from values that are one-hot."""
    q, k, mask = x @ w_query, source @ w_key, is_word[:, None]
    one_hot = torch.eye(source.shape[1]).expand(len(x), -1, -1)
    outputs = F.scaled_dot_product_attention(q, k, source @ w_value, attn_mask=mask)
    return outputs, F.scaled_dot_product_attention(q, k, one_hot, attn_mask=mask)


def shapes_of(batch, n_target, n_source, d_model, d_source, d_head, d_value):
    return {
        "x": (batch, n_target, d_model),
        "source": (batch, n_source, d_source),
        "w_query": (d_model, d_head),
        "w_key": (d_source, d_head),
        "w_value": (d_source, d_value),
    }


def cases(generator):
    def drawn(lengths, n_target, **widths):
        shapes = shapes_of(len(lengths), n_target, max(lengths), **widths)
        tenths = {name: (10 * torch.randn(*s, generator=generator)).round() / 10 for name, s in shapes.items()}
        is_word = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        names = "x", "source", "is_word", "w_query", "w_key", "w_value"
        return {name: (tenths | {"is_word": is_word})[name] for name in names}

    small = {"x": [[[2.0]]], "source": [[[1.0], [0.0]]], "is_word": [[True, True]]}
    small |= {"w_query": [[1.0]], "w_key": [[1.0]], "w_value": [[4.0]]}
    return [
        drawn([5, 3], 2, d_model=4, d_source=6, d_head=3, d_value=2),
        {name: torch.tensor(value) for name, value in small.items()},
        drawn([3, 2, 1], 3, d_model=2, d_source=2, d_head=2, d_value=2),  # equal sizes
    ]


def of(generator):
    shapes = shapes_of(2, 3, 4, 5, 6, 2, 3)
    drawn = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
    return list(drawn.values())[:2], list(drawn.values())[2:]


IS_WORD = torch.tensor([[True, True, True, False], [True, False, False, False]])


def property_weights_sum_to_one(answer, generator):
    (x, source), matrices = of(generator)
    weights = answer(x, source, IS_WORD, *matrices)[1]
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3), atol=1e-4), (
        "The weights of each target token should add up to one over the source tokens. Yours do not."
    )


def property_padding_has_no_influence(answer, generator):
    (x, source), matrices = of(generator)
    changed = source.masked_fill(~IS_WORD[..., None], 7.0)
    first, second = (answer(x, each, IS_WORD, *matrices)[0] for each in (20 * source, 20 * changed))
    assert first.isfinite().all(), "With large numbers in the source, your output is not finite."
    assert torch.allclose(first, second, rtol=1e-3, atol=1e-3), (
        "When we write other numbers into the padding, your output changes. Padding must have no influence at all."
    )


def property_each_target_token_alone(answer, generator):
    (x, source), matrices = of(generator)
    together, alone = answer(x, source, IS_WORD, *matrices)[0], answer(x[:, 1:2], source, IS_WORD, *matrices)[0]
    assert torch.allclose(together[:, 1:2], alone, atol=1e-4), (
        "In cross-attention, target tokens do not look at each other: one of them alone should get the same output. "
        "Yours gets another one."
    )


def property_gradient(answer, generator):
    (x, source), matrices = of(generator)
    source.requires_grad_()
    total = answer(x, source, IS_WORD, *matrices)[0].sum()
    assert total.requires_grad and torch.autograd.grad(total, source, allow_unused=True)[0] is not None, (
        "PyTorch cannot follow your output back to the encoder, so the encoder could not learn."
    )


def hidden_cases(generator):
    def drawn(batch, n_target, n_source, *widths):
        shapes = shapes_of(batch, n_target, n_source, *widths)
        found = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        lengths = torch.randint(1, n_source, (batch, 1), generator=generator)
        found["is_word"] = torch.arange(n_source) < lengths
        return {name: found[name] for name in ("x", "source", "is_word", "w_query", "w_key", "w_value")}

    return [
        drawn(3, 4, 6, 5, 7, 2, 3),
        drawn(2, 5, 3, 4, 6, 5, 2),
        drawn(4, 2, 7, 3, 5, 4, 6),
        drawn(3, 3, 3, 3, 3, 3, 3),
    ]
