import torch


def code(positions, d_model):
    angles = torch.tensor(positions)[:, None] / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def cases(generator):
    def of(queries, keys, d_model, dtype=torch.float32):
        return {"query_codes": code(queries, d_model).to(dtype), "key_codes": code(keys, d_model).to(dtype)}

    return [
        of([0, 6, 2, 1, 3], [6, 0, 3, 1, 1], 4),  # 0 and 6 are the slide's
        of([10, 250, 7], [210, 2, 290], 4),
        of([100, 40, 5, 12], [40, 99, 6, 900], 8, torch.float64),
        of([31, 63], [0, 127], 64),
    ]


def property_the_same_wherever_it_is_measured(answer, generator):
    here = answer(code([0, 9], 12), code([5, 2], 12))
    there = answer(code([80, 89], 12), code([85, 82], 12))
    assert torch.equal(here, there), "Moving query and key together should not change the distance between them."


def property_there_and_back(answer, generator):
    a, b = code([3, 70, 12], 10), code([64, 1, 12], 10)
    assert torch.equal(answer(a, b), -answer(b, a)), "Exchanging query and key should change the sign and no more."


def property_every_distance(answer, generator):
    positions = list(range(0, 301))
    found = answer(code([0] * 301, 4), code(positions, 4))
    assert found.tolist() == positions, (
        "From position 0, at width 4, the distances 0 to 300 should all come out. At least one of yours does not."
    )
