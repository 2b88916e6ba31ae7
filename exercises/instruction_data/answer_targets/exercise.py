import torch

from llm_anatomy.shapes import Bool, Int, Tensor


def broken(
    ids: Int[Tensor, "n_tokens"], is_answer: Bool[Tensor, "n_tokens"]
) -> tuple[Int[Tensor, "n_targets"], Int[Tensor, "n_targets"]]:
    """Return the inputs, and the targets with -100 where they do not count."""
    inputs, targets = ids[:-1], ids[1:]
    return inputs, targets.masked_fill(~is_answer[:-1], -100)


def answer_targets(
    ids: Int[Tensor, "n_tokens"], is_answer: Bool[Tensor, "n_tokens"]
) -> tuple[Int[Tensor, "n_targets"], Int[Tensor, "n_targets"]]:
    """Return the inputs, and the targets with -100 where they do not count."""
    inputs, targets = ids[:-1], ids[1:]
    return inputs, targets.masked_fill(~is_answer[1:], -100)


def accepted_masked_first(ids, is_answer):
    """Hides the ids first, then shifts them."""
    return ids[:-1], torch.where(is_answer, ids, -100)[1:]


def accepted_lists(ids, is_answer):
    """Goes through the tokens, and returns lists."""
    ids, is_answer = ids.tolist(), is_answer.tolist()
    return [ids[:-1], [i if counts else -100 for i, counts in zip(ids[1:], is_answer[1:], strict=True)]]


def accepted_rolled(ids, is_answer):
    """Rolls both to the left, and leaves out the last position."""
    targets = ids.roll(-1)
    targets[~is_answer.roll(-1)] = -100
    return torch.stack((ids, targets))[:, :-1]


def observe(returned, ids, is_answer):
    """the inputs and the targets"""
    rows = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(rows, tuple | list) and len(rows) == 2, "two rows are needed, the inputs and the targets"
    rows = [row.tolist() if hasattr(row, "tolist") else list(row) for row in rows]
    numbers = [[float(number) for number in row] for row in rows]
    assert all(number.is_integer() for row in numbers for number in row), "ids and targets should be whole numbers"
    return tuple(torch.tensor([int(number) for number in row]) for row in numbers)


def _drawn(generator, *lengths):
    """Turns of question and answer, with so many tokens each."""
    is_answer = torch.cat([torch.full((n,), i % 2 == 1) for i, n in enumerate(lengths)])
    return {"ids": torch.randint(3, 1000, (len(is_answer),), generator=generator), "is_answer": is_answer}


def cases(generator):
    return [
        _drawn(generator, 6, 4),
        {"ids": torch.tensor([7, 8, 5, 2]), "is_answer": torch.tensor([False, False, True, True])},
        {"ids": torch.tensor([7, 5, 2, 8]), "is_answer": torch.tensor([False, True, True, False])},
        _drawn(generator, 3, 5, 4, 2),
        _drawn(generator, 4, 1, 2, 6, 3),
    ]


def property_as_many_as_the_answer(answer, generator):
    conversation = _drawn(generator, 5, 7)
    targets = answer(conversation["ids"], conversation["is_answer"])[1]
    n = sum(float(each) != -100 for each in targets)
    assert n == 7, "If an answer of 7 tokens comes last, 7 targets should count. Yours has another number of them."


def hidden_cases(generator):
    return [_drawn(generator, *lengths) for lengths in ((5, 8), (2, 3, 6, 4), (4, 2, 1, 1, 5), (9, 2, 3))]
