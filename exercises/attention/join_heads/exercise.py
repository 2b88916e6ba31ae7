import torch
from einops import rearrange

from llm_anatomy.shapes import Float, Tensor


def join_heads(heads: Float[Tensor, "n_heads n_tokens d_head"]) -> Float[Tensor, "n_tokens n_heads·d_head"]:
    """Return one row for each token, with the outputs of its heads end to end."""
    return rearrange(heads, "n_heads n_tokens d_head -> n_tokens (n_heads d_head)")


def accepted_concatenation(heads):
    """Lays the matrices of the heads side by side."""
    return torch.cat(heads.unbind(), dim=1)


def accepted_transpose_and_reshape(heads):
    """Exchanges heads and tokens, then reshapes."""
    n_heads, n_tokens, d_head = heads.shape
    return heads.transpose(0, 1).reshape(n_tokens, n_heads * d_head)


def accepted_blocks_filled_in(heads):
    """Writes each head into its own columns of an empty result."""
    n_heads, n_tokens, d_head = heads.shape
    joined = heads.new_empty(n_tokens, n_heads * d_head)
    for i, head in enumerate(heads):
        joined[:, i * d_head : (i + 1) * d_head] = head
    return joined


def cases(generator):
    def numbered(n_heads, n_tokens, d_head):  # 142 is head 1, token 4, index 2
        head, token, index = (torch.arange(n) for n in (n_heads, n_tokens, d_head))
        return {"heads": 100.0 * head[:, None, None] + 10 * token[:, None] + index}

    small = {"heads": torch.arange(8.0).reshape(2, 2, 2)}
    one_token = {"heads": torch.arange(6.0).reshape(3, 1, 2)}
    return [numbered(3, 5, 2), small, one_token, numbered(2, 4, 3), numbered(4, 3, 5)]


def property_each_number_in_its_place(answer, generator):
    numbers = [[[100.0 * head + 10 * token + index for index in range(3)] for token in range(4)] for head in range(2)]
    joined = answer(torch.tensor(numbers))
    for token, column in torch.cartesian_prod(torch.arange(4), torch.arange(6)).tolist():
        found, (head, index) = [int(digit) for digit in f"{joined[token, column]:03.0f}"], divmod(column, 3)
        assert found == [head, token, index], (
            f"With 2 heads, 4 tokens and width 3, entry [{token}, {column}] of your result is number {found[2]} of "
            f"head {found[0]} for token {found[1]}; it should be number {index} of head {head} for token {token}."
        )


def property_tokens_stay_apart(answer, generator):
    heads = torch.randn(3, 5, 2, generator=generator)
    changed = heads.clone()
    changed[:, 3] += 1
    moved = (answer(heads) != answer(changed)).any(-1)
    assert moved.tolist() == [False, False, False, True, False], (
        "When we change what the heads found for one token, the row of that token should change, and no other row "
        "should."
    )


def property_output_is_a_sum_over_heads(answer, generator):
    heads, w_output = torch.randn(3, 5, 2, generator=generator), torch.randn(6, 4, generator=generator)
    each = sum(head @ rows for head, rows in zip(heads, w_output.split(2), strict=True))
    assert torch.allclose(answer(heads) @ w_output, each, atol=1e-5), (
        "Your result times W^O should be a sum: each head times its own rows of W^O, added up. It is not."
    )


def property_one_head(answer, generator):
    heads = torch.randn(1, 5, 6, generator=generator)
    assert torch.equal(answer(heads), heads[0]), (
        "With a single head, the result should be the matrix of that head. Yours is not."
    )


def hidden_cases(generator):
    def drawn(n_heads, n_tokens, d_head):
        return {"heads": torch.randn(n_heads, n_tokens, d_head, generator=generator)}

    return [drawn(5, 10, 2), drawn(1, 3, 4), drawn(6, 1, 5), drawn(3, 8, 4), drawn(2, 9, 7)]
