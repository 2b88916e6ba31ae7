import torch
from einops import rearrange

from llm_anatomy.shapes import Float, Tensor


def split_heads(x: Float[Tensor, "n_tokens n_heads·d_head"], n_heads: int) -> Float[Tensor, "n_heads n_tokens d_head"]:
    """Split the columns of each token into one block per head."""
    return rearrange(x, "n_tokens (n_heads d_head) -> n_heads n_tokens d_head", n_heads=n_heads)


def accepted_einops(x, n_heads):
    """Uses one einops pattern."""
    return rearrange(x, "tokens (heads d_head) -> heads tokens d_head", heads=n_heads)


def accepted_stacked_chunks(x, n_heads):
    """Cuts the columns into blocks and stacks them."""
    return torch.stack(x.chunk(n_heads, dim=1))


def accepted_columns_first(x, n_heads):
    """Splits the rows of the transpose and transposes each block back; the result is a view."""
    return x.T.unflatten(0, (n_heads, -1)).mT


def cases(generator):
    def numbered(n_tokens, width):  # 42 is token 4, column 2
        return 10.0 * torch.arange(n_tokens).unsqueeze(1) + torch.arange(width)

    chapter = {"x": numbered(5, 6), "n_heads": 3}
    small = {"x": torch.arange(8.0).reshape(2, 4), "n_heads": 2}
    return [chapter, small, {"x": numbered(6, 8), "n_heads": 2}, {"x": numbered(3, 10), "n_heads": 2}]


def property_each_number_in_its_place(answer, generator):
    x = 10 * torch.arange(4.0).unsqueeze(1) + torch.arange(6)
    heads = answer(x, 2)
    for head, token, index in torch.cartesian_prod(torch.arange(2), torch.arange(4), torch.arange(3)).tolist():
        (found, found_column), column = divmod(int(heads[head, token, index]), 10), 3 * head + index
        assert (found, found_column) == (token, column), (
            f"With 4 tokens and 2 heads of width 3, entry [{head}, {token}, {index}] of your result is column "
            f"{found_column} of token {found}; it should be column {column} of token {token}."
        )


def property_tokens_stay_apart(answer, generator):
    x = torch.randn(5, 6, generator=generator)
    changed = x.clone()
    changed[3] += 1
    moved = (answer(x, 2) != answer(changed, 2)).any(-1)
    assert moved.tolist() == [[False, False, False, True, False]] * 2, (
        "When we change one token, its row should change in every head, and no other row should."
    )


def property_a_head_has_a_matrix_of_its_own(answer, generator):
    x, w = torch.randn(5, 7, generator=generator), torch.randn(7, 6, generator=generator)
    assert torch.allclose(answer(x @ w, 3)[1], x @ w[:, 2:4], atol=1e-5), (
        "If we split a product x @ w into three heads of width 2, head 1 should be x times columns 2 and 3 of w. "
        "Yours is not."
    )


def property_one_head(answer, generator):
    x = torch.randn(5, 6, generator=generator)
    assert torch.equal(answer(x, 1), x[None]), (
        "With a single head, the result should be x with an axis for the head in front. Yours is not."
    )


def hidden_cases(generator):
    def drawn(n_tokens, n_heads, d_head):
        return {"x": torch.randn(n_tokens, n_heads * d_head, generator=generator), "n_heads": n_heads}

    return [drawn(10, 5, 2), drawn(3, 1, 4), drawn(1, 6, 5), drawn(9, 3, 4), drawn(6, 2, 7)]
