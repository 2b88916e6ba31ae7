import torch
from torch.nn.functional import cross_entropy

from llm_anatomy.shapes import Int, Tensor


def train_bigram(pairs: Int[Tensor, "n_pairs 2"], n_vocab: int) -> dict[str, Tensor]:
    """A trained table of logits, by the name of logits."""
    table = torch.zeros(n_vocab, n_vocab, requires_grad=True)
    for _ in range(100):
        (gradient,) = torch.autograd.grad(cross_entropy(table[pairs[:, 0]], pairs[:, 1]), table)
        table = (table - 10 * gradient).detach().requires_grad_()
    return {"logits": table.detach()}


def accepted_adam(pairs, n_vocab):
    """Adam, with small steps."""
    table = torch.zeros(n_vocab, n_vocab, requires_grad=True)
    optimizer = torch.optim.Adam([table], lr=0.1)
    for _ in range(200):
        loss = cross_entropy(table[pairs[:, 0]], pairs[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"logits": table.detach()}


def accepted_counts(pairs, n_vocab):
    """The best table is known: the logarithms of the shares."""
    counts = torch.full((n_vocab, n_vocab), 1e-6)
    counts.index_put_((pairs[:, 0], pairs[:, 1]), torch.ones(len(pairs)), accumulate=True)
    return {"logits": counts.log()}


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


def hidden_cases(generator):
    def text(size, length, shift):
        chosen = [1]
        for choice in torch.randint(10, (length,), generator=generator).tolist():
            chosen.append(choice % size if choice > 6 else (2 * chosen[-1] + shift) % size)
        return {"pairs": torch.tensor([chosen[:-1], chosen[1:]]).T.contiguous(), "n_vocab": size}

    return [text(6, 150, 1), text(9, 240, 2)]
