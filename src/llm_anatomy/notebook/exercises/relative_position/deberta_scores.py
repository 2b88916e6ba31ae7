import torch


def cases(generator):
    def drawn(n_heads, d_head, span, query_positions, key_positions, dtype=torch.float32):
        shapes = {
            "query": (n_heads, len(query_positions), d_head),
            "key": (n_heads, len(key_positions), d_head),
            "position_query": (n_heads, 2 * span, d_head),
            "position_key": (n_heads, 2 * span, d_head),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    five = torch.arange(5)  # the dog chased the pig: no two words are too far apart for the table
    return [
        drawn(2, 3, 5, five, five.clone()),
        drawn(3, 5, 2, torch.tensor([11, 12]), torch.arange(6, 13)),  # the newest two of seven tokens
        drawn(1, 2, 4, torch.tensor([9, 3, 5]), torch.tensor([2, 8, 4, 1, 15])),
        drawn(5, 4, 3, torch.arange(20, 23), torch.arange(18, 25), torch.float64),
    ]


def drawn(generator):
    """Five tokens, two heads of width 3, tables with span 2."""
    return [torch.randn(*shape, generator=generator) for shape in ((2, 5, 3), (2, 5, 3), (2, 4, 3), (2, 4, 3))]


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def property_moving_all(answer, generator):
    parts = drawn(generator)
    assert close(answer(*parts, FIVE, FIVE), answer(*parts, FIVE + 30, FIVE + 30)), (
        "When all tokens move on by 30 positions, your scores change. Only distances should count."
    )


def property_sides_exchanged(answer, generator):
    query, key, position_query, position_key = drawn(generator)
    exchanged = answer(key, query, position_key, position_query, FIVE, FIVE)
    assert close(answer(query, key, position_query, position_key, FIVE, FIVE), exchanged.mT), (
        "When queries and keys change roles, with their tables, the scores should only be transposed. This holds if "
        "the third term sees from the key what the second sees from the query."
    )


def property_no_position_with_position(answer, generator):
    query, key, *positions = drawn(generator)
    assert close(answer(0 * query, 0 * key, *positions, FIVE, FIVE), torch.zeros(2, 5, 5)), (
        "Without words nothing should be left of the scores. Yours compare positions with positions."
    )


def property_positions_of_zero(answer, generator):
    query, key, *positions = drawn(generator)
    alone = answer(query, key, *(0 * p for p in positions), FIVE, FIVE)
    assert close(3 * alone, query @ key.mT), (
        "With positions of zero, the products of the words should be left, divided by the root of three times the "
        "width: "
        "here by 3."
    )
