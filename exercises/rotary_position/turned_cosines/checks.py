import torch


def cases(generator):
    dog_chased_pig = torch.tensor([0.4, 2.0, 1.1])
    first = {"angles": dog_chased_pig, "positions": torch.tensor([1, 2, 4]), "theta": 0.25}
    second = {"angles": dog_chased_pig, "positions": torch.tensor([8, 6, 5]), "theta": 0.25}

    def drawn(positions, theta, dtype=torch.float32):
        angles = (torch.rand(len(positions), generator=generator) * 6).to(dtype)
        return {"angles": angles, "positions": torch.tensor(positions), "theta": theta}

    return [first, second, drawn([30, 7, 8, -2], 0.1), drawn([3, 90, 0, 12, 11], 0.01, torch.float64)]


WORDS, PLACES = torch.tensor([0.3, 1.5, 0.9, 4.0]), torch.tensor([2, 3, 5, 9])


def property_moved_together(answer, generator):
    assert torch.allclose(answer(WORDS, PLACES, 0.25), answer(WORDS, PLACES + 40, 0.25), atol=1e-4), (
        "Moving the whole sentence by 40 positions changes your cosines. Only the differences of positions should "
        "matter."
    )


def property_itself(answer, generator):
    assert torch.allclose(answer(WORDS, PLACES, 0.25).diagonal(), torch.ones(4)), (
        "Compared with itself a word should have a cosine of 1."
    )


def property_a_turn_can_bring_closer(answer, generator):
    ahead = answer(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]), 0.5)[0, 1]
    behind = answer(torch.tensor([0.0, 1.0]), torch.tensor([1, 0]), 0.5)[0, 1]
    assert ahead < torch.tensor(1.0).cos() < behind, (
        "Two arrows differ by 1 radian. Where the one ahead comes a position later it should turn away from the other; "
        "where it comes a position earlier, the other should catch up."
    )
