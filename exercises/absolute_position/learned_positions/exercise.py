import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Int, Tensor


def add_learned_positions(
    x: Float[Tensor, "batch n_tokens d_model"],
    positions: Int[Tensor, "batch n_tokens"],
    table: Float[Tensor, "d_model n_ctx"],
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Add to each token the column of its position; −1 is padding, and any other position outside raises ValueError."""
    outside = positions[(positions < -1) | (positions >= table.shape[1])]
    if len(outside):
        raise ValueError(
            f"there is no vector for position {outside[0]}: positions are 0 to {table.shape[1] - 1}, or -1"
        )
    of_positions = table.T[positions.clamp(min=0)]  # (batch, n_tokens, d_model)
    return x + of_positions * (positions >= 0)[..., None]


def _check(positions, n_ctx):
    outside = positions[(positions < -1) | (positions >= n_ctx)]
    if len(outside):
        raise ValueError(f"position {outside[0].item()} is outside of the table, which has {n_ctx} positions")


def accepted_column_of_zeros(x, positions, table):
    """Appends a column of zeros for padding, which index −1 selects by itself."""
    _check(positions, table.shape[1])
    with_padding = torch.cat((table, torch.zeros_like(table[:, :1])), dim=1)
    return x + with_padding.T[positions]


def accepted_tokens_only(x, positions, table):
    """Copies the input and adds vectors only where there is a token; padding is never looked up."""
    _check(positions, table.shape[1])
    not_padding = positions >= 0
    output = x.clone()
    output[not_padding] += table.T[positions[not_padding]]
    return output


def accepted_one_hot_product(x, positions, table):
    """Multiplies one-hot vectors by the table; the vector of padding is all zeros."""
    n_ctx = table.shape[1]
    _check(positions, n_ctx)
    one_hot = F.one_hot(positions + 1, n_ctx + 1)[..., 1:]
    return x + one_hot.to(table.dtype) @ table.T


def cases(generator):
    def drawn(positions, d_model, n_ctx):
        positions = torch.tensor(positions)
        x, table = (torch.randn(n, generator=generator) for n in ((*positions.shape, d_model), (d_model, n_ctx)))
        return {"x": (10 * x).round() / 10, "positions": positions, "table": (10 * table).round() / 10}

    word = {"x": torch.tensor([[[1.0, 2]]]), "positions": torch.tensor([[0]])}
    padded = {"x": torch.tensor([[[7.0], [8]]]), "positions": torch.tensor([[-1, 1]])}
    return [
        padded | {"table": torch.tensor([[10.0, 20, 40]])},
        word | {"table": torch.tensor([[10.0, 20], [30, 50]])},
        drawn([[-1, -1, 0, 1], [2, 3, 4, 5]], 3, 7),  # padding at the left; a later piece of a text
        drawn([[4, 2], [0, 5], [3, 3]], 4, 6),  # the last position, no padding
    ]


def refusal(answer, *positions):
    """The error that the answer raises for these positions and a table for 6 positions, or None."""
    try:
        answer(torch.zeros(1, len(positions), 4), torch.tensor([positions]), torch.ones(4, 6))
    except Exception as e:
        return e.__cause__ or e
    return None


def property_the_bound(answer, generator):
    first, second = (isinstance(refusal(answer, 4, beyond), ValueError) for beyond in (6, 7))
    assert first or not second, (
        "Your bound is off by one. A table with 6 columns has vectors for the positions 0 to 5. Position 7 raises "
        "your ValueError, but position 6 does not."
    )


def property_a_position_beyond_the_table_is_refused(answer, generator):
    error = refusal(answer, 4, 17, 5)
    assert error is not None, (
        "A table for the 6 positions 0 to 5 has no vector for position 17, but your function raises no error. Raise "
        "a ValueError."
    )
    assert isinstance(error, ValueError), (
        f"Position 17 of a table for 6 positions raises {type(error).__name__}. Raise a ValueError yourself, before "
        "the lookup."
    )
    assert "17" in str(error), (
        "Your error message for position 17 of a table for 6 positions does not name that position."
    )


def property_a_position_below_padding_is_refused(answer, generator):
    for below in (-2, -17):
        error = refusal(answer, below, 0, 1)
        assert isinstance(error, ValueError), (
            f"Position {below} is neither padding nor a position. It should raise a ValueError too."
        )
    assert "17" in str(error), "Your error message for position −17 does not name that position."


def property_one_hot_times_the_table(answer, generator):
    table = torch.randn(3, 5, generator=generator)
    found = answer(torch.zeros(1, 5, 3), torch.arange(5)[None], table)[0]
    assert torch.allclose(found.float(), (table @ torch.eye(5)).T, atol=1e-6), (
        "If all embeddings are zero, the result for the token at position i should be the table times the one-hot "
        "vector of i. Yours is not."
    )


def hidden_cases(generator):
    def drawn(batch, n_tokens, d_model, n_ctx):
        return {
            "x": torch.randn(batch, n_tokens, d_model, generator=generator),
            "positions": torch.randint(-1, n_ctx, (batch, n_tokens), generator=generator),
            "table": torch.randn(d_model, n_ctx, generator=generator),
        }

    return [drawn(3, 8, 5, 12), drawn(4, 6, 7, 3), drawn(2, 15, 6, 9), drawn(5, 1, 2, 4)]
