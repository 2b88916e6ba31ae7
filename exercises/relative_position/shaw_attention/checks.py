import torch


def cases(generator):
    def drawn(n_heads, d_head, d_value, r_max, query_positions, key_positions, mask, dtype=torch.float32):
        batch = len(query_positions)
        shapes = {
            "query": (batch, n_heads, query_positions.shape[1], d_head),
            "key": (batch, n_heads, key_positions.shape[1], d_head),
            "value": (batch, n_heads, key_positions.shape[1], d_value),
            "key_vectors": (2 * r_max + 1, d_head),
            "value_vectors": (2 * r_max + 1, d_value),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions, "mask": mask}

    def causal(query_positions, key_positions):
        return key_positions.unsqueeze(1) <= query_positions.unsqueeze(2)

    five = torch.arange(5)[None]  # the dog chased the pig: nothing hidden, nothing far
    newest = torch.tensor([[10, 11, 12], [28, 30, 31]])
    cached = torch.tensor([[6, 7, 8, 9, 10, 11, 12], [22, 23, 24, 27, 28, 30, 31]])  # 25, 26, 29 are dropped
    padded = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 0, 1]])  # by 0, 2 and 4 on the left
    seen = torch.ones(3, 6, 6, dtype=torch.bool).tril()
    for row, n_padded in enumerate((0, 2, 4)):
        seen[row, :, :n_padded] = False
        seen[row, :n_padded, :n_padded] = torch.eye(n_padded, dtype=torch.bool)  # padding sees itself alone
    return [
        drawn(2, 3, 4, 4, five, five.clone(), torch.ones(1, 5, 5, dtype=torch.bool)),
        drawn(1, 4, 4, 2, newest, cached, causal(newest, cached)),  # values as wide as keys
        drawn(2, 5, 4, 3, padded, padded.clone(), seen),
        drawn(4, 3, 1, 2, padded[:2] + 9, padded[:2] + 9, seen[:2], torch.float64),
    ]


def drawn(generator):
    """Two sequences of five tokens, three heads of width 4, values of width 2, vectors for offsets from -2 to 2."""
    shapes = (2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 2), (5, 4), (5, 2)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


PLACES = torch.arange(5).expand(2, -1)
CAUSAL = torch.ones(2, 5, 5, dtype=torch.bool).tril()
ALL = torch.ones(2, 5, 5, dtype=torch.bool)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def property_moving_all(answer, generator):
    parts, moved = drawn(generator), PLACES + torch.tensor([[3], [70]])
    assert close(answer(*parts, PLACES, PLACES, CAUSAL), answer(*parts, moved, moved, CAUSAL)), (
        "When all tokens of a sequence move by the same number of positions, your output changes. It should not."
    )


def property_no_looking_ahead(answer, generator):
    query, key, value, *vectors = drawn(generator)
    other_key, other_value = key.clone(), value.clone()
    other_key[:, :, 4] += 1
    other_value[:, :, 4] += 1
    before = answer(query, key, value, *vectors, PLACES, PLACES, CAUSAL)[:, :, :4]
    assert close(before, answer(query, other_key, other_value, *vectors, PLACES, PLACES, CAUSAL)[:, :, :4]), (
        "Under the causal mask, changing the last token changes the output of an earlier one. It should not."
    )


def property_vectors_of_zero(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    nothing = torch.zeros_like(key_vectors), torch.zeros_like(value_vectors)
    assert close(answer(query, key, value, *nothing, PLACES, PLACES, ALL), plain), (
        "When all vectors are zero, plain scaled dot-product attention should be left."
    )


def property_row_of_an_offset(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    key_vectors, value_vectors = torch.zeros_like(key_vectors), torch.zeros_like(value_vectors)
    key_vectors[1] = 100.0  # of offsets -2, -1, 0, 1, 2
    found = answer(torch.ones_like(query), key, value, key_vectors, value_vectors, PLACES + 6, PLACES + 6, ALL)
    assert close(found[:, :, 1:], value[:, :, :-1]), (
        "When the key vector of offset -1 alone fits the queries, and fits them very well, every token should get the "
        "value of the token before it."
    )


def property_same_value_vector_everywhere(answer, generator):
    *parts, value_vectors = drawn(generator)
    one = torch.tensor([2.0, -3.0]).expand_as(value_vectors)
    without = answer(*parts, torch.zeros_like(value_vectors), PLACES, PLACES, CAUSAL)
    assert close(answer(*parts, one, PLACES, PLACES, CAUSAL), without + one[0]), (
        "When every offset has the same value vector, exactly this vector should be added to each output: "
        "the weights add up to one."
    )


def property_same_key_vector_everywhere(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    one = torch.ones_like(key_vectors)
    without = answer(query, key, value, torch.zeros_like(one), value_vectors, PLACES, PLACES, CAUSAL)
    assert close(answer(query, key, value, one, value_vectors, PLACES, PLACES, CAUSAL), without), (
        "When every offset has the same key vector, all scores of a query grow alike and nothing should change."
    )


def property_gradient(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    for name, vectors in (("key", key_vectors), ("value", value_vectors)):
        vectors.requires_grad_()
        assert answer(query, key, value, key_vectors, value_vectors, PLACES, PLACES, ALL).requires_grad, (
            f"PyTorch cannot follow your output back to the {name} vectors, so they could not be trained."
        )
        vectors.requires_grad_(False)
