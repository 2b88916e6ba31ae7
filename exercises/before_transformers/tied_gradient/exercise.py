import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Int, Tensor


def tied_gradient(
    table: Float[Tensor, "n_vocab d_embed"], ids: Int[Tensor, "batch"], targets: Int[Tensor, "batch"]
) -> Float[Tensor, "n_vocab d_embed"]:
    """Return the gradient of the loss with respect to a table that embeds and scores."""
    tied = table.detach().clone().requires_grad_()
    loss = F.cross_entropy(tied[ids] @ tied.T, targets)
    return torch.autograd.grad(loss, tied)[0]


def accepted_two_copies(table, ids, targets):
    """Differentiates with respect to two copies, and adds."""
    reading, scoring = (table.clone().requires_grad_(True) for _ in range(2))
    F.cross_entropy(reading[ids] @ scoring.T, targets).backward()
    return reading.grad + scoring.grad


def accepted_by_hand(table, ids, targets):
    """Derives both parts on paper: the gradient of the scores is the softmax minus the one-hot target."""
    x = table[ids]
    slope = (torch.softmax(x @ table.T, 1) - F.one_hot(targets, len(table))) / len(ids)
    gradient = slope.T @ x
    return gradient.index_add(0, ids, slope @ table)


def accepted_module(table, ids, targets):
    """Lets an embedding and a linear layer share their weight."""
    embedding = torch.nn.Embedding.from_pretrained(table.clone(), freeze=False)
    head = torch.nn.Linear(table.shape[1], table.shape[0], bias=False)
    head.weight = embedding.weight
    F.cross_entropy(head(embedding(ids)), targets).backward()
    return embedding.weight.grad


def cases(generator):
    small = {
        "table": torch.tensor([[1.0], [0.0]]),
        "ids": torch.tensor([0]),
        "targets": torch.tensor([1]),
    }

    def drawn(n_vocab, d_embed, ids, targets):
        table = (8 * torch.randn(n_vocab, d_embed, generator=generator)).round() / 10
        return {"table": table, "ids": torch.tensor(ids), "targets": torch.tensor(targets)}

    return [small, drawn(4, 3, [2, 0], [1, 3]), drawn(3, 2, [1, 1, 0, 1, 2], [0, 2, 2, 1, 0])]


def property_a_step_against_it_helps(answer, generator):
    table = torch.randn(6, 4, generator=generator)
    ids, targets = (torch.randint(6, (9,), generator=generator) for _ in range(2))
    before, after = (
        F.cross_entropy(each[ids] @ each.T, targets) for each in (table, table - 0.01 * answer(table, ids, targets))
    )
    assert after < before, "A small step against your gradient does not lower the loss."


def property_the_given_table_is_left_alone(answer, generator):
    table = torch.randn(4, 3, generator=generator)
    answer(table, torch.tensor([1, 2]), torch.tensor([0, 3]))
    assert not table.requires_grad and table.grad is None, (
        "The table that you are given asks for gradients after your call. Work with a copy of it."
    )


def hidden_cases(generator):
    def drawn(n_vocab, d_embed, batch):
        table = torch.randn(n_vocab, d_embed, generator=generator)
        ids, targets = (torch.randint(n_vocab, (batch,), generator=generator) for _ in range(2))
        return {"table": table, "ids": ids, "targets": targets}

    return [drawn(5, 3, 7), drawn(9, 2, 4), drawn(4, 6, 11)]
