import torch


def cases(generator):
    ones = torch.ones(128)
    lecture = {"query": ones, "key": ones, "offsets": torch.tensor([0, 200, 250]), "base": 10000}

    def drawn(d_head, offsets, base, dtype=torch.float32):
        query, key = (torch.randn(d_head, generator=generator).to(dtype) for _ in range(2))
        return {"query": query, "key": key, "offsets": torch.tensor(offsets), "base": base}

    return [
        lecture,
        drawn(6, [0, 1, -1, 7], 100),
        drawn(2, [3, -5, 90, 12, 0], 10000),
        drawn(10, [-40, 8], 10000, torch.float64),
    ]


def drawn(generator):
    query, key = torch.randn(2, 8, generator=generator)
    return query, key, torch.tensor([4, -9, 30])


def property_offset_zero(answer, generator):
    query, key, offsets = drawn(generator)
    scores, _ = answer(query, key, 0 * offsets, 10000)
    assert torch.allclose(scores, (query @ key).expand(3), atol=1e-4), (
        "At offset 0 nothing is turned: your score should be the plain scalar product of query and key."
    )


def property_roles_exchanged(answer, generator):
    query, key, offsets = drawn(generator)
    for here, there in zip(answer(query, key, offsets, 100), answer(key, query, -offsets, 100), strict=True):
        assert torch.allclose(here, there, atol=1e-4), (
            "Query and key exchanged, and the sign of the offset with them, should give the same score and bound."
        )


def property_one_plane_ahead(answer, generator):
    scores, _ = answer(torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8]), torch.tensor([1, -1]), 10000)
    assert scores[1] > 0.6 > scores[0], (
        "This key is ahead of its query by 0.93 radians. One position after the query it should be turned away from "
        "it, "
        "one position before it should come closer."
    )


def property_the_bound_holds(answer, generator):
    for _ in range(20):
        scores, bounds = answer(*torch.randn(2, 16, generator=generator), torch.arange(-200, 200), 1000)
        assert (scores.abs() <= bounds).all(), "One of your scores exceeds its bound."


def property_each_offset_alone(answer, generator):
    query, key, offsets = drawn(generator)
    for together, alone in zip(answer(query, key, offsets, 100), answer(query, key, offsets[1:2], 100), strict=True):
        assert torch.allclose(together[1:2], alone, atol=1e-4), (
            "Your values for an offset depend on which other offsets are asked with it."
        )
