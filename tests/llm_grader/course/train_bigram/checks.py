import torch
from torch.nn.functional import cross_entropy


def walk(generator, n_vocab, n_pairs):
    """A text in which each character has a favourite to follow it."""
    text = [0]
    for strays in torch.rand(n_pairs, generator=generator) < 0.3:
        other = int(torch.randint(n_vocab, (), generator=generator))
        text.append(other if strays else (3 * text[-1] + 1) % n_vocab)
    return torch.tensor([text[:-1], text[1:]]).T.contiguous()


def cases(generator):
    return [{"pairs": walk(generator, n_vocab, 60), "n_vocab": n_vocab} for n_vocab in (5, 7)]


def observe(returned, pairs, n_vocab):
    """how far the loss is above the lowest possible, in tenths of a nat, and whether that is less than 0.05 nats"""
    assert isinstance(returned, dict) and set(returned) == {"logits"}, "a dictionary with logits alone is asked"
    table = returned["logits"]
    assert isinstance(table, torch.Tensor) and table.shape == (n_vocab, n_vocab), "logits has another shape than asked"
    counts = torch.zeros(n_vocab, n_vocab, dtype=torch.float64)
    counts.index_put_((pairs[:, 0], pairs[:, 1]), torch.ones(len(pairs), dtype=torch.float64), accumulate=True)
    share = counts / counts.sum(-1, keepdim=True).clamp(min=1)
    lowest = -(counts * share.clamp(min=1e-300).log()).sum() / len(pairs)
    above = float(cross_entropy(table.double()[pairs[:, 0]], pairs[:, 1]) - lowest)
    return round(above, 1), above < 0.05


def property_text_of_one_character(answer, generator):
    pairs = torch.zeros(9, 2, dtype=torch.int64)
    _, good = observe(answer(pairs, 3), pairs, 3)
    assert good, "In a text of one character alone, the next one is certain. Your table is not."
