import math

import torch
import torch.nn.functional as F
from einops import rearrange

from llm_anatomy.shapes import Bool, Float, Tensor


def multi_head_attention(
    x: Float[Tensor, "n_tokens d_model"],
    w_query: Float[Tensor, "d_model n_heads·d_head"],
    w_key: Float[Tensor, "d_model n_heads·d_head"],
    w_value: Float[Tensor, "d_model n_heads·d_value"],
    w_output: Float[Tensor, "n_heads·d_value d_model"],
    n_heads: int,
    mask: Bool[Tensor, "n_tokens n_tokens"],
) -> Float[Tensor, "n_tokens d_model"]:
    """Return self-attention with several heads; token i may attend to token j where mask[i, j] is True."""
    queries, keys, values = (
        rearrange(x @ w, "n_tokens (n_heads width) -> n_heads n_tokens width", n_heads=n_heads)
        for w in (w_query, w_key, w_value)
    )
    scores = queries @ keys.transpose(1, 2) / math.sqrt(keys.shape[-1])  # (n_heads, n_tokens, n_tokens)
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)
    return rearrange(weights @ values, "n_heads n_tokens d_value -> n_tokens (n_heads d_value)") @ w_output


def accepted_fused(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Splits with einops and leaves the scores, the mask and the softmax to PyTorch's own attention."""
    queries, keys, values = (
        rearrange(x @ w, "tokens (heads d) -> heads tokens d", heads=n_heads) for w in (w_query, w_key, w_value)
    )
    heads = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return rearrange(heads, "heads tokens d -> tokens (heads d)") @ w_output


def accepted_sum_over_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Loops over the heads and adds up what each contributes through its own rows of w_output, without a join."""
    projections = (w.chunk(n_heads, dim=1) for w in (w_query, w_key, w_value))
    output = torch.zeros_like(x)
    for query_block, key_block, value_block, output_block in zip(*projections, w_output.chunk(n_heads), strict=True):
        queries, keys = x @ query_block, x @ key_block
        scores = (queries @ keys.T / math.sqrt(queries.shape[1])).masked_fill(~mask, -math.inf)
        output = output + torch.softmax(scores, -1) @ (x @ value_block) @ output_block
    return output


def accepted_merged_matrices(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Merges two matrices of each head into one, for scores and for outputs, and never computes a query or a value."""
    query_blocks, key_blocks, value_blocks = (w.unflatten(1, (n_heads, -1)) for w in (w_query, w_key, w_value))
    output_blocks = w_output.unflatten(0, (n_heads, -1))
    compare = torch.einsum("ahd, bhd -> hab", query_blocks, key_blocks) / math.sqrt(query_blocks.shape[-1])
    hand_over = torch.einsum("ahv, hvb -> hab", value_blocks, output_blocks)
    weights = torch.where(mask, x @ compare @ x.T, -math.inf).softmax(-1)
    return (weights @ x @ hand_over).sum(0)


def shapes_of(n_tokens, d_model, n_heads, d_head, d_value):
    return {
        "x": (n_tokens, d_model),
        "w_query": (d_model, n_heads * d_head),
        "w_key": (d_model, n_heads * d_head),
        "w_value": (d_model, n_heads * d_value),
        "w_output": (n_heads * d_value, d_model),
    }


def cases(generator):
    def drawn(mask, d_model, n_heads, d_head, d_value):
        shapes = shapes_of(len(mask), d_model, n_heads, d_head, d_value)
        tenths = {name: (10 * torch.randn(*shape, generator=generator)).round() / 10 for name, shape in shapes.items()}
        return tenths | {"n_heads": n_heads, "mask": mask}

    def causal(n_tokens):
        return torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()

    padded = causal(4)
    padded[1:, 0] = False  # the first token is padding, which only it may attend to
    numbers = {"x": [[1.0], [2.0]], "w_query": [[1.0]], "w_key": [[0.5]], "w_value": [[3.0]], "w_output": [[2.0]]}
    one_head = {name: torch.tensor(rows) for name, rows in numbers.items()} | {"n_heads": 1, "mask": causal(2)}
    return [
        drawn(causal(5), d_model=4, n_heads=3, d_head=2, d_value=1),  # the chapter's sizes, except for the values
        one_head,
        drawn(padded, d_model=6, n_heads=2, d_head=3, d_value=3),  # a head has its share of d_model
        drawn(causal(3), d_model=5, n_heads=3, d_head=2, d_value=2),  # as many heads as tokens
    ]


def drawn(generator, n_heads=3, d_head=2, d_value=3):
    """Five tokens of width 4, and the four matrices."""
    shapes = (5, 4), (4, n_heads * d_head), (4, n_heads * d_head), (4, n_heads * d_value), (n_heads * d_value, 4)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()


ALL = torch.ones(5, 5, dtype=torch.bool)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def property_no_looking_ahead(answer, generator):
    x, *matrices = drawn(generator)
    changed = x.clone()
    changed[4] += 1
    assert close(answer(x, *matrices, 3, CAUSAL)[:4], answer(changed, *matrices, 3, CAUSAL)[:4]), (
        "Under the causal mask, your output for an earlier token changes when we change the last token. It should not."
    )


def property_large_numbers(answer, generator):
    x, *matrices = drawn(generator)
    output, changed = (answer(20 * torch.cat((x[:4], last)), *matrices, 3, CAUSAL)[:4] for last in (x[4:], -x[4:]))
    assert output.isfinite().all(), (
        "With large numbers in x, your output is not finite. Let torch.softmax take the exponentials."
    )
    assert close(output, changed), (
        "With large numbers in x, hidden tokens get weight: the score that you give them is not low enough."
    )


def property_one_head_alone(answer, generator):
    x, w_query, w_key, w_value, w_output = drawn(generator, n_heads=1)
    weights = torch.softmax(((x @ w_query) @ (x @ w_key).T / 2**0.5).masked_fill(~CAUSAL, -torch.inf), -1)
    assert close(answer(x, w_query, w_key, w_value, w_output, 1, CAUSAL), weights @ x @ w_value @ w_output), (
        "Your result is already wrong for a single head. With one head, the output should be masked attention times "
        "W^O."
    )


def property_heads_side_by_side(answer, generator):
    x, w_query, w_key, w_value, w_output = drawn(generator)
    heads = zip(w_query.split(2, 1), w_key.split(2, 1), w_value.split(3, 1), w_output.split(3), strict=True)
    each = sum(answer(x, *head, 1, CAUSAL) for head in heads)
    assert close(answer(x, w_query, w_key, w_value, w_output, 3, CAUSAL), each), (
        "If we call your function for each of three heads alone, with its own blocks of the four matrices, the three "
        "outputs should add up to the output for all three heads. They do not. Are the heads mixed up in the split "
        "or in the join, or does something else depend on the number of heads?"
    )


def property_one_head_merged(answer, generator):
    x, w_query, w_key, w_value, w_output = drawn(generator, n_heads=1)
    merged = answer(x, w_query, w_key, w_value @ w_output, torch.eye(4), 1, ALL)
    assert close(answer(x, w_query, w_key, w_value, w_output, 1, ALL), merged), (
        "With one head, we can merge W^O into the matrix of the values and get the same output. Your output changes."
    )


def property_order_of_tokens(answer, generator):
    x, *matrices = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    assert close(answer(x, *matrices, 3, ALL)[order], answer(x[order], *matrices, 3, ALL)), (
        "When nothing is hidden and we shuffle the tokens, the output should be shuffled in the same way and not "
        "change otherwise. Yours changes."
    )


def property_gradient(answer, generator):
    x, *matrices = drawn(generator)
    x.requires_grad_()
    total = answer(x, *matrices, 3, CAUSAL).sum()
    assert total.requires_grad and torch.autograd.grad(total, x, allow_unused=True)[0] is not None, (
        "PyTorch cannot follow your output back to x, so nothing could be learned. Do you use it only in an argmax "
        "or not at all, or is there an .item(), .tolist(), .numpy() or .detach() on the way?"
    )


def hidden_cases(generator):
    def drawn(mask, d_model, n_heads, d_head, d_value):
        shapes = shapes_of(len(mask), d_model, n_heads, d_head, d_value)
        drawn = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        return drawn | {"n_heads": n_heads, "mask": mask}

    some = torch.rand(9, 9, generator=generator) < 0.4
    some.fill_diagonal_(True)
    return [
        drawn(some, d_model=10, n_heads=5, d_head=3, d_value=2),
        drawn(some[:4, :4], d_model=7, n_heads=2, d_head=6, d_value=5),
        drawn(torch.ones(8, 8, dtype=torch.bool), d_model=5, n_heads=4, d_head=1, d_value=3),
        drawn(some[:6, :6], d_model=3, n_heads=1, d_head=5, d_value=4),
        drawn(some[2:, 2:], d_model=12, n_heads=3, d_head=4, d_value=6),
    ]


def probe_causality(answer, x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Under a causal mask, a change of a later token does not change the outputs before it."""
    half = len(x) // 2
    changed = torch.cat((x[:half], 2 - x[half:]))
    return answer(changed, w_query, w_key, w_value, w_output, n_heads, torch.ones_like(mask).tril())[:half]


def probe_order_of_tokens(answer, x, w_query, w_key, w_value, w_output, n_heads, mask):
    """When nothing is hidden, tokens in another order give the same outputs in that order."""
    return answer(x.flip(0), w_query, w_key, w_value, w_output, n_heads, torch.ones_like(mask)).flip(0)
