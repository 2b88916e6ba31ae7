import torch


def cases(generator):
    def drawn(n_heads, d_head, d_model, n_ctx, query_positions, key_positions, dtype=torch.float32):
        n_queries, n_keys = len(query_positions), len(key_positions)
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "positions": (n_ctx, d_model),
            "u_query": (n_heads, d_model, d_head),
            "u_key": (n_heads, d_model, d_head),
            "bias": (n_heads, n_queries, n_keys),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    five = torch.arange(5)  # the dog chased the pig
    return [
        drawn(2, 3, 4, 6, five, five.clone()),
        drawn(3, 4, 5, 13, torch.tensor([11, 12]), torch.arange(6, 13)),  # the newest two of seven tokens
        drawn(1, 6, 2, 10, torch.tensor([9, 3, 5]), torch.tensor([2, 8, 4, 1])),
        drawn(5, 2, 7, 25, torch.arange(20, 23), torch.arange(18, 24), torch.float64),
    ]


def drawn(generator):
    """Four queries, five keys, two heads of width 3, ten positions of width 6."""
    shapes = (2, 4, 3), (2, 5, 3), (10, 6), (2, 6, 3), (2, 6, 3), (2, 4, 5)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


QUERIES, KEYS = torch.tensor([2, 3, 4, 5]), torch.tensor([1, 2, 3, 4, 5])


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def property_words_do_not_meet_positions(answer, generator):
    query, key, positions, *rest = drawn(generator)
    both = answer(query, key, positions, *rest, QUERIES, KEYS)
    words = answer(query, key, 0 * positions, *rest, QUERIES, KEYS)
    here = answer(0 * query, key, positions, *rest, QUERIES, KEYS)
    nothing = answer(0 * query, key, 0 * positions, *rest, QUERIES, KEYS)
    assert close(both - words, here - nothing), (
        "What the positions add to a score depends on the words. The two products that mix them should be absent."
    )


def property_u_query_of_zero(answer, generator):
    query, key, positions, u_query, u_key, bias = drawn(generator)
    one = answer(query, key, positions, 0 * u_query, u_key, bias, QUERIES, KEYS)
    assert close(one, answer(query, key, 3 * positions, 0 * u_query, u_key, bias, QUERIES, KEYS)), (
        "With all of u_query zero, the positions should have no influence: a bias as in T5 is left."
    )


def property_bias_as_it_is(answer, generator):
    *parts, bias = drawn(generator)
    assert close(answer(*parts, bias + 1, QUERIES, KEYS), answer(*parts, bias, QUERIES, KEYS) + 1), (
        "With a bias larger by 1, every score should be larger by 1."
    )


def property_doubling(answer, generator):
    query, key, positions, u_query, u_key, bias = drawn(generator)
    once = answer(2 * query, key, positions, u_query, u_key, bias, QUERIES, KEYS) - bias
    twice = answer(2 * query, key, positions, 2 * u_query, u_key, bias, QUERIES, KEYS) - bias
    assert close(2 * (answer(query, key, positions, u_query, u_key, bias, QUERIES, KEYS) - bias), twice), (
        "With queries and u_query both doubled, everything but the bias should be doubled."
    )
    assert not close(once, twice), "Doubling u_query has no influence."
