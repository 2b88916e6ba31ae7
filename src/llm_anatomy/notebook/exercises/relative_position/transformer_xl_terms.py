import torch


def cases(generator):
    def drawn(n_heads, d_head, d_model, query_positions, key_positions, dtype=torch.float32):
        shapes = {
            "query": (n_heads, len(query_positions), d_head),
            "key": (n_heads, len(key_positions), d_head),
            "u": (n_heads, d_head),
            "v": (n_heads, d_head),
            "w_position": (n_heads, d_head, d_model),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    five = torch.arange(5)  # the dog chased the pig
    return [
        drawn(1, 3, 4, five, five.clone()),
        drawn(3, 5, 6, torch.tensor([11, 12]), torch.arange(9, 13)),  # the newest two, with a memory
        drawn(2, 5, 8, torch.tensor([9, 3, 5, 0]), torch.tensor([2, 8, 40])),
        drawn(4, 7, 10, torch.arange(20, 22), torch.arange(19, 22), torch.float64),
    ]


def drawn(generator):
    """Five tokens, two heads of width 3, vectors of distances of width 8."""
    shapes = (2, 5, 3), (2, 5, 3), (2, 3), (2, 3), (2, 3, 8)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def property_moving_all(answer, generator):
    parts = drawn(generator)
    assert close(answer(*parts, FIVE, FIVE), answer(*parts, FIVE + 30, FIVE + 30)), (
        "When all tokens move on by 30 positions, a term of yours changes. Only distances should count."
    )


def property_a_key_for_everyone(answer, generator):
    third = answer(*drawn(generator), FIVE, FIVE)[2]
    assert close(third, third[:, :1].expand_as(third)), "Your third term depends on the query. It should not."


def property_a_distance_for_everyone(answer, generator):
    fourth = answer(*drawn(generator), FIVE, FIVE)[3]
    assert close(fourth[:, 1:, 1:], fourth[:, :-1, :-1]), (
        "Your fourth term is not the same along its diagonals, although only the distance should count in it."
    )


def property_u_and_v_as_queries(answer, generator):
    query, key, _, _, w_position = drawn(generator)
    one = query[:, :1]
    terms = answer(one, key, one[:, 0], one[:, 0], w_position, FIVE[:1], FIVE)
    assert close(terms[0], terms[2]) and close(terms[1], terms[3]), (
        "With u and v equal to the query, the last two terms should be equal to the first two."
    )


def property_words_alone(answer, generator):
    query, key, *rest = drawn(generator)
    assert close(3**0.5 * answer(query, key, *rest, FIVE, FIVE)[0], query @ key.mT), (
        "Your first term should be the product of the words, divided by the root of the width of a head."
    )


def property_sum_of_the_terms(answer, generator):
    query, key, u, _, w_position = drawn(generator)
    apart = answer(query, key, u, u, w_position, FIVE, FIVE).sum(0)
    merged = answer(query + u[:, None], key, 0 * u, 0 * u, w_position, FIVE, FIVE).sum(0)
    assert close(apart, merged), (
        "With one vector for u and v, the sum of your terms should be the same as when this vector is added to every "
        "query beforehand and u and v are zero."
    )


def property_gradient(answer, generator):
    query, key, u, v, w_position = drawn(generator)
    for name, trained in (("u", u), ("v", v), ("w_position", w_position)):
        trained.requires_grad_()
        assert answer(query, key, u, v, w_position, FIVE, FIVE).requires_grad, (
            f"PyTorch cannot follow your terms back to {name}, so it could not be trained. Stay with tensors."
        )
        trained.requires_grad_(False)
