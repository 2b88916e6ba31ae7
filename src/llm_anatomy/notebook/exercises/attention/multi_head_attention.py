import torch


def cases(generator):
    def drawn(mask, d_model, n_heads, d_head, d_value, dtype=torch.float32):
        shapes = {
            "x": (len(mask), d_model),
            "w_query": (d_model, n_heads * d_head),
            "w_key": (d_model, n_heads * d_head),
            "w_value": (d_model, n_heads * d_value),
            "w_output": (n_heads * d_value, d_model),
        }
        drawn = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        return drawn | {"n_heads": n_heads, "mask": mask}

    def causal(n_tokens):
        return torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()

    padded = causal(7)
    padded[1:, 0] = False  # the first token is padding, which only it may attend to
    return [
        drawn(causal(5), d_model=4, n_heads=3, d_head=2, d_value=1),  # the chapter's sizes, but for the values
        drawn(padded, d_model=6, n_heads=2, d_head=5, d_value=3),  # the joined heads are as wide as a token
        drawn(causal(3), d_model=5, n_heads=3, d_head=4, d_value=2),  # as many heads as tokens
        drawn(padded[:6, :6], d_model=8, n_heads=4, d_head=3, d_value=5, dtype=torch.float64),
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
        "Under the causal mask, changing the last token changes the output of an earlier one. It should not."
    )


def property_one_head_alone(answer, generator):
    x, w_query, w_key, w_value, w_output = drawn(generator, n_heads=1)
    weights = torch.softmax(((x @ w_query) @ (x @ w_key).T / 2**0.5).masked_fill(~CAUSAL, -torch.inf), -1)
    assert close(answer(x, w_query, w_key, w_value, w_output, 1, CAUSAL), weights @ x @ w_value @ w_output), (
        "A single head already goes wrong: for one head the output should be masked attention, times W^O."
    )


def property_heads_side_by_side(answer, generator):
    x, w_query, w_key, w_value, w_output = drawn(generator)
    heads = zip(w_query.split(2, 1), w_key.split(2, 1), w_value.split(3, 1), w_output.split(3), strict=True)
    each = sum(answer(x, *head, 1, CAUSAL) for head in heads)
    assert close(answer(x, w_query, w_key, w_value, w_output, 3, CAUSAL), each), (
        "Three heads at once should give the sum of what your function gives for each head with its own blocks of the "
        "four matrices. So the heads get mixed up in the split, in the join or in between."
    )


def property_one_head_merged(answer, generator):
    x, w_query, w_key, w_value, w_output = drawn(generator, n_heads=1)
    merged = answer(x, w_query, w_key, w_value @ w_output, torch.eye(4), 1, ALL)
    assert close(answer(x, w_query, w_key, w_value, w_output, 1, ALL), merged), (
        "With one head, W^O can be merged into the matrix of the values. Your function then gives a different result."
    )


def property_order_of_tokens(answer, generator):
    x, *matrices = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    assert close(answer(x, *matrices, 3, ALL)[order], answer(x[order], *matrices, 3, ALL)), (
        "With nothing hidden, shuffling the tokens should shuffle the output likewise and change nothing else."
    )


def property_gradient(answer, generator):
    x, *matrices = drawn(generator)
    x.requires_grad_()
    assert answer(x, *matrices, 3, CAUSAL).requires_grad, (
        "PyTorch cannot follow your output back to x, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
