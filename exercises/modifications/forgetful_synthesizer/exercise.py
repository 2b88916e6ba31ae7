import torch

from llm_anatomy.shapes import Bool, Float, Tensor


def broken(
    value: Float[Tensor, "n_tokens d_head"],
    table: Float[Tensor, "longest longest"],
    attention_mask: Bool[Tensor, "n_tokens"],
) -> Float[Tensor, "n_tokens d_head"]:
    """Return the output of one head of a random synthesizer in a decoder."""
    n_tokens = len(value)
    causal = torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()
    weights = table.softmax(-1)[:n_tokens, :n_tokens]
    weights = weights.masked_fill(~(causal & attention_mask), 0)
    return weights @ value


def forgetful_synthesizer(
    value: Float[Tensor, "n_tokens d_head"],
    table: Float[Tensor, "longest longest"],
    attention_mask: Bool[Tensor, "n_tokens"],
) -> Float[Tensor, "n_tokens d_head"]:
    """Return the output of one head of a random synthesizer in a decoder."""
    n_tokens = len(value)
    causal = torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()
    scores = table[:n_tokens, :n_tokens].masked_fill(~(causal & attention_mask), -torch.inf)
    return scores.softmax(-1) @ value


def accepted_divided_afterwards(value, table, attention_mask):
    """Keeps the softmax of the table, and divides by what is left of each row."""
    n = len(value)
    weights = table.softmax(-1)[:n, :n] * torch.ones(n, n).tril() * attention_mask
    return weights / weights.sum(-1, keepdim=True) @ value


def accepted_row_by_row(value, table, attention_mask):
    """Averages the tokens that each row sees, in a loop."""
    outputs = []
    for t in range(len(value)):
        seen = attention_mask[: t + 1]
        outputs.append(torch.softmax(table[t, : t + 1][seen], dim=0) @ value[: t + 1][seen])
    return torch.stack(outputs)


def accepted_large_negative(value, table, attention_mask):
    """Extends the mask to the whole table, with a large negative number for what is hidden."""
    n, longest = len(value), len(table)
    hidden = torch.full((n, longest), -1e9)
    for t in range(n):
        for s in range(t + 1):
            hidden[t, s] = 0 if attention_mask[s] else -1e9
    return (table[:n] + hidden).softmax(-1)[:, :n] @ value


NAMES = ("value", "table", "attention_mask")


def cases(generator):
    def drawn(n_tokens, d_head, longest, padding=()):
        mask = torch.ones(n_tokens, dtype=torch.bool)
        mask[list(padding)] = False
        value, table = (
            (10 * torch.randn(*s, generator=generator)).round() / 10 for s in ((n_tokens, d_head), (longest, longest))
        )
        return dict(zip(NAMES, (value, table, mask), strict=True))

    small = dict(
        zip(NAMES, (torch.tensor([[1.0], [3.0]]), torch.zeros(3, 3), torch.ones(2, dtype=torch.bool)), strict=True)
    )
    return [drawn(5, 3, 8), small, drawn(6, 2, 6, (5,)), drawn(4, 5, 7, (2, 3)), drawn(3, 2, 4, (1,))]


def property_average(answer, generator):
    table, mask = torch.randn(7, 7, generator=generator), torch.tensor([True, True, False, True, True])
    found = torch.as_tensor(answer(torch.ones(5, 2), table, mask))
    assert torch.allclose(found, torch.ones(5, 2), atol=1e-4), (
        "If all values are ones, every output should be one, because it is an average. Yours is not."
    )


def property_no_later_token(answer, generator):
    value, table = torch.randn(5, 3, generator=generator), torch.randn(6, 6, generator=generator)
    changed, mask = value.clone(), torch.ones(5, dtype=torch.bool)
    changed[3] += 2
    one, other = (torch.as_tensor(answer(each, table, mask)) for each in (value, changed))
    assert torch.allclose(one[:3], other[:3], atol=1e-4), (
        "When we change the fourth token, the first three outputs should stay. Yours change."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_head, longest, padding=()):
        mask = torch.ones(n_tokens, dtype=torch.bool)
        mask[list(padding)] = False
        value, table = (torch.randn(*s, generator=generator) for s in ((n_tokens, d_head), (longest, longest)))
        return dict(zip(NAMES, (value, table, mask), strict=True))

    return [drawn(6, 4, 9, (4, 5)), drawn(4, 3, 5, (2,)), drawn(8, 2, 8, (1, 7)), drawn(5, 6, 12)]
