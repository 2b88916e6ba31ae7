import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Int, Tensor


def shift_right(
    sentences: Int[Tensor, "batch n_tokens"], start: int, end: int, pad: int
) -> tuple[Int[Tensor, "batch n_tokens+1"], Int[Tensor, "batch n_tokens+1"]]:
    """Return the decoder's inputs and the targets."""
    inputs = torch.nn.functional.pad(sentences, (1, 0), value=start)
    targets = torch.nn.functional.pad(sentences, (0, 1), value=pad)
    lengths = (sentences != pad).sum(1, keepdim=True)
    return inputs, targets.scatter(1, lengths, end)


def accepted_comparison(sentences, start, end, pad):
    """Puts columns beside the sentences, and finds the end as the padding after a token."""
    column = torch.ones_like(sentences[:, :1])
    inputs = torch.cat((start * column, sentences), dim=1)
    targets = torch.cat((sentences, pad * column), dim=1)
    is_end = (targets == pad) & (inputs != pad)
    return inputs, torch.where(is_end, end, targets)


def accepted_lists(sentences, start, end, pad):
    """Works on lists of Python, one sentence after the other."""
    inputs, targets = [], []
    for row in sentences.tolist():
        words = [token for token in row if token != pad]
        more = [pad] * (len(row) - len(words))
        inputs.append([start, *words, *more])
        targets.append([*words, end, *more])
    return [torch.tensor(inputs), torch.tensor(targets)]


def accepted_index_of_rows(sentences, start, end, pad):
    """Fills new tensors; the end token is written at an index for each row."""
    batch, n_tokens = sentences.shape
    inputs = torch.full((batch, n_tokens + 1), start, dtype=sentences.dtype)
    inputs[:, 1:] = sentences
    targets = torch.full_like(inputs, pad)
    targets[:, :-1] = sentences
    targets[torch.arange(batch), sentences.ne(pad).sum(1)] = end
    return inputs, targets


def cases(generator):
    def of(rows, start, end, pad):
        return {"sentences": torch.tensor(rows), "start": start, "end": end, "pad": pad}

    return [
        of([[3, 4, 5], [6, 3, 0]], 1, 2, 0),  # the slide's sentence, and a shorter one
        of([[8, 5, 9, 9], [5, 7, 6, 5], [7, 9, 9, 9]], 3, 4, 9),
        of([[4, 1], [4, 4]], 2, 0, 1),
        of([[0, 0, 0], [5, 0, 0]], 8, 7, 0),  # an empty sentence
    ]


def property_the_target_is_the_next_input(answer, generator):
    sentences = torch.randint(3, 9, (4, 6), generator=generator)
    inputs, targets = answer(sentences, 1, 2, 0)
    assert torch.equal(inputs[:, 1:], targets[:, :-1]), (
        "In a full row, each target should be the input of the next position. In yours it is not."
    )


def property_more_padding(answer, generator):
    sentences = torch.tensor([[5, 6, 7], [8, 0, 0]])
    wide = F.pad(sentences, (0, 2))
    for short, long in zip(answer(sentences, 1, 2, 0), answer(wide, 1, 2, 0), strict=True):
        assert torch.equal(short, long[:, :4]) and not long[:, 4:].any(), (
            "Two more columns of padding should only add two columns of padding to the results."
        )


def hidden_cases(generator):
    def drawn(batch, n_tokens, start, end, pad):
        sentences = torch.randint(4, 30, (batch, n_tokens), generator=generator)
        lengths = torch.randint(1, n_tokens + 1, (batch, 1), generator=generator)
        lengths[0] = n_tokens - 1
        lengths[-1] = 0
        padding = torch.arange(n_tokens) >= lengths
        return {"sentences": sentences.masked_fill(padding, pad), "start": start, "end": end, "pad": pad}

    return [drawn(4, 6, 1, 2, 0), drawn(3, 9, 2, 0, 1), drawn(6, 5, 30, 31, 32), drawn(2, 4, 3, 2, 1)]
