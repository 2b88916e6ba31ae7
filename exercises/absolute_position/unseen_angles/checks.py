import torch


# The last trained position is in no case: who compares angles may round it to either side.
def cases(generator):
    return [
        {"positions": torch.tensor([500, 998, 1000, 2500, 4999]), "d_model": 16, "n_trained": 1000},  # the slide's
        {"positions": torch.tensor([62, 64, 127, 255, 511, 700]), "d_model": 10, "n_trained": 64},
        {"positions": torch.tensor([900, 3, 5, 300], dtype=torch.int32), "d_model": 6, "n_trained": 5},
    ]


def property_trained_positions_are_seen(answer, generator):
    assert not answer(torch.arange(49), 12, 50).any(), (
        "A position that training had is called unseen on some pair. All of these have been seen."
    )


def property_the_fastest_pair_has_seen_everything(answer, generator):
    assert not answer(torch.arange(8, 3000, 7), 8, 8)[:, 0].any(), (
        "After 8 positions the fastest pair has passed through the whole circle. Nothing further is new on it."
    )


def property_the_slowest_pair_at_width_512(answer, generator):
    first, last = answer(torch.tensor([1000, 5000]), 512, 1000)[:, -1].tolist()
    assert first and last, (
        "At width 512 the slowest pair repeats after some 60,600 positions. After training on 1000, positions 1000 "
        "and 5000 "
        "should be new on it."
    )


def property_longer_training_sees_more(answer, generator):
    positions = torch.arange(0, 2000, 13)
    short, long = answer(positions, 16, 60), answer(positions, 16, 400)
    assert not (long & ~short).any(), "An angle that training on 60 positions passed should also be seen after 400."
