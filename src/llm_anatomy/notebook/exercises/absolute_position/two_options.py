import torch


def batch(lengths, n_tokens):
    """Sentences of these lengths, at the right of their rows."""
    return torch.arange(n_tokens) >= n_tokens - torch.tensor(lengths)[:, None]


def cases(generator):
    slide = {"is_word": batch([4, 31], 31)}
    return [slide, {"is_word": batch([5, 1, 3], 6)}, {"is_word": batch([2, 7, 6, 4], 7)}]


def property_position_two_on_the_slide(answer, generator):
    scaled = answer(batch([4, 31], 31))[1]
    short, long = scaled[0, 29].item(), scaled[1, 2].item()
    assert abs(short - 2 / 3) < 1e-5 and abs(long - 2 / 30) < 1e-5, (
        f"The third word should get 2/3 among 4 words and 2/30 among 31. Yours gets {short:.3f} and {long:.3f}."
    )


def property_padding_has_no_influence(answer, generator):
    (index, scaled, step), (index_wide, scaled_wide, step_wide) = answer(batch([5, 3], 5)), answer(batch([5, 3], 9))
    same = (
        torch.allclose(index, index_wide[:, 4:])
        and torch.allclose(scaled, scaled_wide[:, 4:])
        and torch.allclose(step, step_wide)
    )
    assert same, "Four more positions of padding change what the words get. They should not."


def property_the_step_is_the_difference_of_neighbours(answer, generator):
    _, scaled, step = answer(batch([8, 3, 5], 8))
    assert torch.allclose(scaled[:, -1] - scaled[:, -2], step, atol=1e-6), (
        "The last two words of a sentence should differ by the step that you return for it."
    )
