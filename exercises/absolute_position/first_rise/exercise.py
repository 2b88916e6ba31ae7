import torch

from llm_anatomy.shapes import Float, Int, Tensor


def first_rise(proximity: Float[Tensor, "n_positions n_positions"]) -> Int[Tensor, "n_positions"]:
    """Return for each query the first distance at which proximity to a later key rises, or −1 if it never does."""
    rises = (proximity[:, 1:] > proximity[:, :-1]).triu()  # column j compares key j + 1 with key j
    key = rises.int().argmax(-1) + 1
    return torch.where(rises.any(-1), key - torch.arange(len(proximity)), -1)


def accepted_smallest_distance(proximity):
    """Writes the distance wherever proximity rises, a large number elsewhere, and takes the minimum of each row."""
    n_positions = len(proximity)
    keys = torch.arange(n_positions)
    distance = keys - keys[:, None]
    rises = (proximity > proximity.roll(1, dims=1)) & (distance >= 1)
    first = torch.where(rises, distance, n_positions).amin(1)
    return torch.where(first < n_positions, first, -1)


def accepted_diagonals(proximity):
    """Compares neighbouring diagonals from the largest distance down, so that the nearest rise is written last."""
    n_positions = len(proximity)
    first = torch.full((n_positions,), -1)
    for distance in range(n_positions - 1, 0, -1):
        rises = proximity.diagonal(distance) > proximity.diagonal(distance - 1)[:-1]
        first[: n_positions - distance][rises] = distance
    return first


def accepted_search(proximity):
    """Walks away from each query in a loop and stops at the first rise."""
    first = []
    for query, row in enumerate(proximity.tolist()):
        later = row[query:]
        first.append(next((r for r in range(1, len(later)) if later[r] > later[r - 1]), -1))
    return torch.tensor(first)


def cases(generator):
    small = torch.tensor([[2.0, 1, 3], [0, 2, 2], [1, 3, 2]])
    by_hand = torch.tensor([[5, 6, 2, 4, 9], [3, 4, 4, 3, 4], [0, 2, 7, 7, 1], [8, 1, 6, 3, 5], [1, 0, 2, 0, 4]])
    counter = torch.arange(9)[:, None] >> torch.arange(4) & 1
    drawn = torch.randint(-9, 10, (8, 8), generator=generator)
    drawn[2] = -torch.arange(8)
    tables = small, by_hand, counter @ counter.T, drawn
    return [{"proximity": table.float()} for table in tables]


def property_sinusoids_of_width_512(answer, generator):
    angles = torch.arange(60)[:, None] / 10000 ** (torch.arange(0, 512, 2) / 512)
    codes = torch.cat((angles.sin(), angles.cos()), -1)
    found = answer(codes @ codes.T)[:10].tolist()
    assert found == [44] * 10, (
        "With sinusoids of width 512, the first rise is at distance 44 for each of the first ten queries. You return "
        f"{found}."
    )


def property_never(answer, generator):
    positions = torch.arange(8.0)
    assert answer(-(positions[:, None] - positions).abs()).tolist() == [-1] * 8, (
        "If proximity falls with every step, there is no rise, and the answer is −1 for all queries. Yours is not."
    )


def property_the_past_has_no_influence(answer, generator):
    proximity = torch.randn(8, 8, generator=generator)
    assert torch.equal(answer(proximity), answer(proximity.triu())), (
        "Your answer changes when we change the proximity to keys before the query. Only later keys should count."
    )


def hidden_cases(generator):
    def falling(n_positions, d_code):
        """Codes that change slowly, so that rises are rare."""
        codes = torch.randn(n_positions, d_code, generator=generator, dtype=torch.float64).cumsum(0)
        return {"proximity": -torch.cdist(codes, codes).float()}

    steps = torch.randint(0, 3, (12, 12), generator=generator).float()
    # the only rise is at the last key, or at the one right after the query
    edges = torch.tensor([[9.0, 8, 7, 9], [1, 5, 6, 2], [1, 2, 5, 1], [0, 0, 0, 4]])
    return [falling(14, 3), falling(25, 6)] + [{"proximity": table} for table in (steps, torch.eye(5), edges)]
