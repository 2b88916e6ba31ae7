import torch
from einops import repeat

from llm_anatomy.shapes import Int, Tensor


def offset_matrix(
    query_positions: Int[Tensor, "batch n_queries"], key_positions: Int[Tensor, "batch n_keys"]
) -> Int[Tensor, "batch n_queries n_keys"]:
    """Key position minus query position for every pair."""
    return key_positions[:, None, :] - query_positions[:, :, None]


def accepted_missing_axes(query_positions, key_positions):
    """Inserts the two missing axes and forms the pairs by broadcasting."""
    return key_positions[:, None, :] - query_positions[:, :, None]


def accepted_written_out(query_positions, key_positions):
    """Repeats both positions to the full shape before the subtraction."""
    n_queries, n_keys = query_positions.shape[1], key_positions.shape[1]
    of_keys = repeat(key_positions, "batch keys -> batch queries keys", queries=n_queries)
    of_queries = repeat(query_positions, "batch queries -> batch queries keys", keys=n_keys)
    return of_keys - of_queries


def accepted_product(query_positions, key_positions):
    """Writes the difference as the dot product of (1, −p_i) and (p_j, 1)."""
    queries = torch.stack((torch.ones_like(query_positions), -query_positions), dim=2)
    keys = torch.stack((key_positions, torch.ones_like(key_positions)), dim=1)
    return queries @ keys


def cases(generator):
    newest = {"query_positions": torch.tensor([[5, 6]]), "key_positions": torch.tensor([[4, 5, 7]])}
    cached = {"query_positions": torch.tensor([[3], [9]]), "key_positions": torch.tensor([[1, 2, 3], [7, 9, 6]])}
    sentence = torch.tensor([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]])  # alone, and after "Once upon a time,"
    both = {"query_positions": sentence, "key_positions": sentence.clone()}
    positions = torch.randint(0, 90, (3, 6), generator=generator)
    drawn = dict(zip(("query_positions", "key_positions"), positions.split((2, 4), 1), strict=True))
    return [newest, cached, both, drawn]


def property_moving_all(answer, generator):
    positions = torch.randint(0, 20, (2, 6), generator=generator)
    moved = positions + torch.tensor([[3], [40]])
    assert torch.equal(answer(positions, positions), answer(moved, moved)), (
        "When all tokens of a sequence move by the same number of positions, your offsets change. They should stay "
        "the same."
    )


def property_moving_the_keys(answer, generator):
    positions = torch.randint(0, 20, (2, 6), generator=generator)
    assert torch.equal(answer(positions, positions + 3), answer(positions, positions) + 3), (
        "When only the keys move by 3 positions, every offset should increase by 3."
    )


def property_roles_swapped(answer, generator):
    offsets = answer(torch.tensor([[1, 4]]), torch.tensor([[1, 4]]))
    assert offsets[0, 0, 1] == 3 and offsets[0, 1, 0] == -3, (
        "In “the dog chased the pig”, dog is at position 1 and pig at position 4. The offset from dog to pig should "
        "be 3, and from pig to dog -3."
    )


def hidden_cases(generator):
    def drawn(batch, n_queries, n_keys, low=0):
        positions = torch.randint(low, low + 300, (batch, n_queries + n_keys), generator=generator)
        return dict(zip(("query_positions", "key_positions"), positions.split((n_queries, n_keys), 1), strict=True))

    return [drawn(1, 1, 9, 50), drawn(3, 7, 2), drawn(5, 4, 8, 1000), drawn(2, 6, 11, 100)]
