import torch


def cases(generator):
    return [
        {"d_head": 16, "base": 10000, "factor": 4, "n_trained": 64},
        {"d_head": 128, "base": 500000, "factor": 8, "n_trained": 8192},
        {"d_head": 10, "base": 50, "factor": 3, "n_trained": 100},
        {"d_head": 4, "base": 10, "factor": 2, "n_trained": 30},
    ]


def property_factor_one(answer, generator):
    frequencies = answer(12, 10000, 1, 64)
    assert torch.allclose(frequencies[1:] / frequencies[:-1], torch.tensor(10000 ** (-1 / 6)), rtol=1e-4), (
        "With a factor of 1 the frequencies should be as they were: 1, and each next one smaller by the same factor."
    )


def property_both_ends(answer, generator):
    before, after = answer(64, 10000, 1, 500), answer(64, 10000, 6, 500)
    slower = before / after
    assert torch.isclose(slower[0], torch.tensor(1.0)), (
        "The fastest plane should keep its frequency, and yours does not."
    )
    assert torch.isclose(slower[-1], torch.tensor(6.0), rtol=1e-4), (
        f"With a factor of 6, the slowest plane should be slower by 6; yours is slower by {slower[-1]:.2f}."
    )


def property_slower_and_slower(answer, generator):
    slower = answer(64, 10000, 1, 500) / answer(64, 10000, 6, 500)
    assert (slower.diff() > -1e-4).all(), (
        "From the fastest plane to the slowest, each should be slowed at least as much as the one before."
    )


def property_middle_of_the_ramp(answer, generator):
    n_trained = round(2.5 * 2 * torch.pi * 1000)  # 2.5 turns at a frequency of 0.001, which is the last of these four
    slower = 0.001 / answer(8, 10000, 3, n_trained)[-1]
    assert torch.isclose(slower, torch.tensor(1.5), rtol=1e-3), (
        "A plane with 2.5 turns is in the middle of the ramp: its frequency should be the mean of kept and slowed. "
        f"With a factor of 3 it should be slower by 1.5; yours is slower by {slower:.2f}."
    )
