import torch


def cases(generator):
    five = {"query_positions": torch.arange(5)[None], "key_positions": torch.arange(5)[None]}  # Georgia Tech's matrix
    sentence = torch.tensor([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]])  # as it stands, and after "Once upon a time,"
    newest = {"query_positions": torch.tensor([[7]] * 3) + torch.arange(3)[:, None], "key_positions": None}
    newest["key_positions"] = newest["query_positions"] + torch.arange(-7, 1)  # one new token, the keys of a cache

    def drawn(batch, n_queries, n_keys, dtype=torch.int64):
        positions = torch.randint(0, 90, (batch, n_queries + n_keys), generator=generator).to(dtype)
        return dict(zip(("query_positions", "key_positions"), positions.split((n_queries, n_keys), 1), strict=True))

    both = {"query_positions": sentence, "key_positions": sentence.clone()}
    return [five, both, newest, drawn(4, 3, 6), drawn(2, 5, 3, torch.int32)]


def property_moving_all(answer, generator):
    positions = torch.randint(0, 20, (2, 6), generator=generator)
    moved = positions + torch.tensor([[3], [40]])
    assert torch.equal(answer(positions, positions), answer(moved, moved)), (
        "When all tokens of a sequence move by the same number of positions, your offsets change. They should stay."
    )


def property_moving_the_keys(answer, generator):
    positions = torch.randint(0, 20, (2, 6), generator=generator)
    assert torch.equal(answer(positions, positions + 3), answer(positions, positions) + 3), (
        "When only the keys move on by 3 positions, every offset should grow by 3."
    )


def property_roles_swapped(answer, generator):
    offsets = answer(torch.tensor([[1, 4]]), torch.tensor([[1, 4]]))
    assert offsets[0, 0, 1] == 3 and offsets[0, 1, 0] == -3, (
        "In “the dog chased the pig” dog stands at 1 and pig at 4: from dog to pig it should be 3, from pig to dog -3."
    )
