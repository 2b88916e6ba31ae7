import torch
from einops import rearrange

from llm_anatomy.shapes import Float, Int, Tensor


def bengio_logits(
    contexts: Int[Tensor, "batch n_ctx"],
    table: Float[Tensor, "n_vocab d_embed"],
    w_1: Float[Tensor, "d_hidden n_ctx*d_embed"],
    w_2: Float[Tensor, "n_vocab d_hidden"],
) -> Float[Tensor, "batch n_vocab"]:
    """Return the scores of the next token; the most recent token's vector comes first."""
    newest_first = rearrange(table[contexts].flip(1), "batch n_ctx d_embed -> batch (n_ctx d_embed)")
    return torch.tanh(newest_first @ w_1.T) @ w_2.T


def accepted_one_by_one(contexts, table, w_1, w_2):
    """Computes one row after the other, with the vectors joined by cat."""
    rows = []
    for context in contexts.tolist():
        x = torch.cat([table[token] for token in reversed(context)])
        rows.append(w_2 @ torch.tanh(w_1 @ x))
    return torch.stack(rows)


def accepted_blocks_of_the_matrix(contexts, table, w_1, w_2):
    """Cuts the first matrix into a block for each token, and adds what the blocks contribute."""
    blocks = w_1.unflatten(1, (contexts.shape[1], table.shape[1]))  # (d_hidden, n_ctx, d_embed)
    hidden = torch.einsum("bnd, hnd -> bh", table[contexts], blocks.flip(1))
    return torch.nn.functional.linear(hidden.tanh(), w_2)


def accepted_one_hot(contexts, table, w_1, w_2):
    """Multiplies one-hot vectors by the table."""
    import torch.nn.functional as F

    x = F.one_hot(contexts, len(table)).to(table.dtype) @ table
    x = torch.cat(x.unbind(1)[::-1], dim=-1)
    return (w_2 @ (w_1 @ x.T).tanh()).T


def cases(generator):
    small = {
        "contexts": torch.tensor([[0, 1]]),
        "table": torch.tensor([[1.0], [2.0]]),
        "w_1": torch.tensor([[0.5, 0.0]]),
        "w_2": torch.tensor([[1.0], [-1.0]]),
    }

    def drawn(batch, n_ctx, n_vocab, d_embed, d_hidden):
        def tenths(*shape):
            return (10 * torch.randn(*shape, generator=generator)).round() / 10

        return {
            "contexts": torch.randint(n_vocab, (batch, n_ctx), generator=generator),
            "table": tenths(n_vocab, d_embed),
            "w_1": tenths(d_hidden, n_ctx * d_embed),
            "w_2": tenths(n_vocab, d_hidden),
        }

    return [small, drawn(3, 2, 5, 4, 6), drawn(2, 3, 4, 3, 9), drawn(1, 1, 3, 2, 5)]


def property_order_matters(answer, generator):
    contexts = torch.tensor([[0, 1, 2]])
    table, w_1, w_2 = (torch.randn(*shape, generator=generator) for shape in ((3, 2), (5, 6), (3, 5)))
    assert not torch.allclose(answer(contexts, table, w_1, w_2), answer(contexts.flip(1), table, w_1, w_2)), (
        "Your scores stay the same when the context is reversed. Each position has its own columns of the first matrix."
    )


def property_rows_alone(answer, generator):
    contexts = torch.tensor([[0, 1], [2, 0], [1, 1]])
    table, w_1, w_2 = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (5, 8), (3, 5)))
    assert torch.allclose(answer(contexts, table, w_1, w_2)[1:2], answer(contexts[1:2], table, w_1, w_2), atol=1e-5), (
        "The scores of one context depend on the other contexts of the batch."
    )


def hidden_cases(generator):
    def drawn(batch, n_ctx, n_vocab, d_embed, d_hidden):
        return {
            "contexts": torch.randint(n_vocab, (batch, n_ctx), generator=generator),
            "table": torch.randn(n_vocab, d_embed, generator=generator),
            "w_1": torch.randn(d_hidden, n_ctx * d_embed, generator=generator),
            "w_2": torch.randn(n_vocab, d_hidden, generator=generator),
        }

    return [drawn(4, 3, 7, 2, 5), drawn(2, 5, 6, 3, 4), drawn(6, 2, 4, 5, 3)]
