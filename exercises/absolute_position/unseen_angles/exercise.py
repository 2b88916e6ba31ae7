import math

import torch

from llm_anatomy.shapes import Bool, Int, Tensor


def unseen_angles(
    positions: Int[Tensor, "n_positions"], d_model: int, n_trained: int
) -> Bool[Tensor, "n_positions n_frequencies"]:
    """Return True where training on positions 0 to n_trained − 1 has not seen the angle of a pair."""
    wavelengths = 2 * math.pi * 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.remainder(positions[:, None], wavelengths) > n_trained - 1


def accepted_remainder(positions, d_model, n_trained):
    """Takes the remainder of each position by each wavelength, in float64."""
    wavelengths = 2 * math.pi * 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.remainder(positions[:, None], wavelengths) > n_trained - 1


def accepted_angles(positions, d_model, n_trained):
    """Compares angles instead of positions: an angle is unseen beyond that of the last trained position."""
    frequencies = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.outer(positions.double(), frequencies) % (2 * math.pi)
    return angles > (n_trained - 1) * frequencies


def accepted_start_of_a_turn(positions, d_model, n_trained):
    """Asks whether a turn begins at the position or among the n_trained − 1 before it; if so, the angle was passed."""
    unseen = torch.ones(len(positions), (d_model + 1) // 2, dtype=torch.bool)
    for pair in range(unseen.shape[1]):
        wavelength = 2 * math.pi * 10000 ** (2 * pair / d_model)
        for row, position in enumerate(positions.tolist()):
            latest_start = math.floor(position / wavelength)
            earliest_start = math.ceil((position - (n_trained - 1)) / wavelength)
            unseen[row, pair] = earliest_start > latest_start
    return unseen


# Only the first case contains the last trained position: its only pair turns by exactly 1, so nothing is rounded. In
# the other cases an answer that compares angles could round that position to either side.
def cases(generator):
    given = [
        ([5, 6, 7, 12], 2, 6),
        ([500, 998, 1000, 2500, 4999], 8, 1000),  # the slide's
        ([62, 64, 127, 255, 511, 700], 10, 64),
        ([30, 40, 133, 174, 175], 6, 40),
    ]
    return [{"positions": torch.tensor(p), "d_model": d_model, "n_trained": n} for p, d_model, n in given]


def property_trained_positions_are_seen(answer, generator):
    assert not answer(torch.arange(49), 12, 50).any(), (
        "You call an angle unseen at a position that training had. At such a position, training has seen the angles "
        "of all pairs."
    )


def property_the_fastest_pair_has_seen_everything(answer, generator):
    assert not answer(torch.arange(8, 3000, 7), 8, 8)[:, 0].any(), (
        "After 8 positions the fastest pair has gone through the whole circle, so none of its later angles is new. "
        "You call at least one of them unseen."
    )


def property_the_slowest_pair_at_width_512(answer, generator):
    first, last = answer(torch.tensor([1000, 5000]), 512, 1000)[:, -1].tolist()
    assert first and last, (
        "At width 512 the slowest pair repeats after about 60,600 positions. After training on 1000 positions, its "
        "angles at positions 1000 and 5000 should be unseen."
    )


def property_longer_training_sees_more(answer, generator):
    positions = torch.arange(0, 2000, 13)
    short, long = answer(positions, 16, 60), answer(positions, 16, 400)
    assert not (long & ~short).any(), (
        "An angle that training on 60 positions has seen should also be seen after training on 400. Yours is not."
    )


def hidden_cases(generator):
    def drawn(n_positions, d_model, n_trained, furthest):
        positions = torch.randint(0, furthest, (n_positions,), generator=generator)
        positions[:2] = torch.tensor([n_trained, n_trained + 1])
        wavelengths = 2 * math.pi * 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        phase = torch.remainder(positions[:, None], wavelengths)
        gaps = (phase - n_trained + 1).abs(), wavelengths - phase
        clear = torch.minimum(*gaps).amin(-1) > 0.02  # so that rounding decides nothing
        return {"positions": positions[clear], "d_model": d_model, "n_trained": n_trained}

    one_pair = {"positions": torch.tensor([4, 5, 11, 300]), "d_model": 2, "n_trained": 5}
    return [drawn(9, 32, 128, 4000), drawn(12, 8, 30, 3000), drawn(7, 64, 512, 9000), drawn(20, 4, 3, 1000), one_pair]
