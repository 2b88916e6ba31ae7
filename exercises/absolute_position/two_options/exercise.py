import torch

from llm_anatomy.shapes import Bool, Float, Tensor


def two_options(
    is_word: Bool[Tensor, "batch n_tokens"],
) -> tuple[Float[Tensor, "batch n_tokens"], Float[Tensor, "batch n_tokens"], Float[Tensor, "batch"]]:
    """Return the index, the scaled index and its step; words are on the right, and the padding on the left gets 0."""
    index = ((is_word.cumsum(-1) - 1) * is_word).float()
    last = is_word.sum(-1) - 1  # n - 1
    divisor = last.clamp(min=1)
    return index, index / divisor[:, None], (last > 0) / divisor


def accepted_running_count(is_word):
    """Counts the words up to and including each one with cumsum."""
    index = ((is_word.cumsum(1) - 1) * is_word).float()
    n_steps = (is_word.sum(1) - 1).clamp(min=0)
    step = torch.where(n_steps > 0, 1 / n_steps.clamp(min=1), 0.0)
    return index, index * step[:, None], step


def accepted_padding_subtracted(is_word):
    """Numbers the columns, subtracts the length of the padding, and sets what is below 0 to 0."""
    columns = torch.arange(is_word.shape[1])
    n_padding = (~is_word).sum(1, keepdim=True)
    index = (columns - n_padding).clamp(min=0).float()
    last = index.amax(1, keepdim=True)
    scaled = index / last.clamp(min=1)
    step = (last > 0) / last.clamp(min=1)
    return index, scaled, step.squeeze(1)


def accepted_triangular_matrix(is_word):
    """Counts the words before each word with a triangle of ones; the step is the scaled index of word 1."""
    words = is_word.float()
    n_tokens = words.shape[1]
    index = words @ torch.ones(n_tokens, n_tokens).triu(1) * words
    scaled = index / index[:, -1:].clamp(min=1)
    step = (scaled * (index == 1)).sum(1)
    return [index, scaled, step]


def batch(lengths, n_tokens):
    """Sentences of these lengths, on the right of their rows."""
    return torch.arange(n_tokens) >= n_tokens - torch.tensor(lengths)[:, None]


def cases(generator):
    batches = [([1], 2), ([3], 4), ([5, 1, 3], 6), ([2, 7, 6, 4], 7)]
    return [{"is_word": batch(*each)} for each in batches]


def property_a_word_alone(answer, generator):
    step = float(answer(batch([1], 3))[2])
    assert abs(step) < 1e-5, (
        f"In a sentence of one word, the word has no neighbours, so the step should be 0. Yours is {step:g}."
    )


def property_position_two_on_the_slide(answer, generator):
    scaled = answer(batch([4, 31], 31))[1]
    short, long = scaled[0, 29].item(), scaled[1, 2].item()
    assert abs(short - 2 / 3) < 1e-5 and abs(long - 2 / 30) < 1e-5, (
        f"In option 2 the third word should get 2/3 among 4 words and 2/30 among 31 words. Yours gets {short:.3f} and "
        f"{long:.3f}."
    )


def property_padding_has_no_influence(answer, generator):
    (index, scaled, step), (index_wide, scaled_wide, step_wide) = answer(batch([5, 3], 5)), answer(batch([5, 3], 9))
    same = (
        torch.allclose(index, index_wide[:, 4:])
        and torch.allclose(scaled, scaled_wide[:, 4:])
        and torch.allclose(step, step_wide)
    )
    assert same, (
        "When we add four more positions of padding, the words and the step should get the same numbers as before. "
        "Yours do not."
    )


def property_the_step_is_the_difference_of_neighbours(answer, generator):
    scaled, step = (value.float() for value in answer(batch([8, 3, 5], 8))[1:])
    assert torch.allclose(scaled[:, -1] - scaled[:, -2], step, atol=1e-6), (
        "In option 2, the last two words of a sentence should differ by the step that you return for it. Yours do not."
    )


def hidden_cases(generator):
    def drawn(n_sentences, n_tokens):
        lengths = torch.randint(1, n_tokens, (n_sentences, 1), generator=generator)  # none fills its row
        lengths[0] = 1
        return {"is_word": torch.arange(n_tokens) >= n_tokens - lengths}

    return [drawn(4, 9), drawn(6, 5), drawn(3, 40), {"is_word": torch.ones(2, 11, dtype=torch.bool)}]
