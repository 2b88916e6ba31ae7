import torch

from llm_anatomy.shapes import Float, Int, Tensor


def bigram_table(ids: Int[Tensor, "n_tokens"], n_vocab: int, alpha: float) -> Float[Tensor, "n_vocab n_vocab"]:
    """Return the smoothed probability of each token (column) after each token (row)."""
    pairs = ids[:-1] * n_vocab + ids[1:]
    smoothed = torch.bincount(pairs, minlength=n_vocab**2).reshape(n_vocab, n_vocab) + alpha
    return smoothed / smoothed.sum(1, keepdim=True)


def accepted_loop(ids, n_vocab, alpha):
    """Adds one for each pair in a loop."""
    p = torch.full((n_vocab, n_vocab), float(alpha))
    for a, b in zip(ids.tolist(), ids.tolist()[1:], strict=False):
        p[a, b] += 1
    return p / p.sum(dim=1).unsqueeze(1)


def accepted_one_hot(ids, n_vocab, alpha):
    """Multiplies the one-hot vectors of all tokens by those of their followers."""
    x = torch.nn.functional.one_hot(ids.long(), n_vocab).double()
    counted = x[:-1].T @ x[1:] + alpha
    return torch.stack([row / row.sum() for row in counted])


def accepted_accumulated(ids, n_vocab, alpha):
    """Lets index_put_ accumulate."""
    c = torch.zeros(n_vocab, n_vocab)
    c.index_put_((ids[:-1], ids[1:]), torch.ones(len(ids) - 1), accumulate=True)
    return (c + alpha) / (c.sum(1, keepdim=True) + n_vocab * alpha)


def cases(generator):
    return [
        {"ids": torch.tensor([0, 1, 0, 1]), "n_vocab": 2, "alpha": 1.0},
        {"ids": torch.tensor([0, 2, 1, 0, 2, 0, 2, 2]), "n_vocab": 4, "alpha": 0.5},
        {"ids": torch.tensor([1]), "n_vocab": 3, "alpha": 0.25},
        {"ids": torch.randint(5, (40,), generator=generator), "n_vocab": 6, "alpha": 0.1},
    ]


def property_rows_are_distributions(answer, generator):
    table = answer(torch.randint(7, (30,), generator=generator), 9, 0.3)
    assert torch.allclose(table.sum(1).double(), torch.ones(9).double(), atol=1e-5), (
        "Each row of your table should sum to one, also the row of a token that never occurs."
    )
    assert (table > 0).all(), "With alpha above 0, no probability should be 0."


def hidden_cases(generator):
    def drawn(n_tokens, most, n_vocab, alpha):
        ids = torch.randint(most, (n_tokens,), generator=generator)
        return {"ids": ids, "n_vocab": n_vocab, "alpha": alpha}

    return [drawn(60, 4, 5, 1.0), drawn(25, 3, 3, 0.01), drawn(300, 8, 9, 0.5), drawn(7, 2, 4, 2.0)]
