import torch


def cases(generator):
    def numbered(n_heads, n_tokens, d_head):  # 142 is head 1, token 4, index 2
        head, token, index = (torch.arange(n) for n in (n_heads, n_tokens, d_head))
        return {"heads": 100.0 * head[:, None, None] + 10 * token[:, None] + index}

    def drawn(n_heads, n_tokens, d_head, dtype=torch.float32):
        return {"heads": torch.randn(n_heads, n_tokens, d_head, generator=generator).to(dtype)}

    return [numbered(3, 5, 2), numbered(2, 4, 3), drawn(2, 7, 5), drawn(4, 6, 3, torch.float64)]


def property_each_number_in_its_place(answer, generator):
    numbers = [[[100.0 * head + 10 * token + index for index in range(3)] for token in range(4)] for head in range(2)]
    joined = answer(torch.tensor(numbers))
    for token, column in torch.cartesian_prod(torch.arange(4), torch.arange(6)).tolist():
        found, (head, index) = [int(digit) for digit in f"{joined[token, column]:03.0f}"], divmod(column, 3)
        assert found == [head, token, index], (
            f"With 2 heads, 4 tokens and width 3, index [{token}, {column}] of yours has number {found[2]} of head "
            f"{found[0]} for token {found[1]}; it should have number {index} of head {head} for token {token}."
        )


def property_tokens_stay_apart(answer, generator):
    heads = torch.randn(3, 5, 2, generator=generator)
    changed = heads.clone()
    changed[:, 3] += 1
    moved = (answer(heads) != answer(changed)).any(-1)
    assert moved.tolist() == [False, False, False, True, False], (
        "Changing what the heads found for one token should change the row of that token and no other."
    )


def property_output_is_a_sum_over_heads(answer, generator):
    heads, w_output = torch.randn(3, 5, 2, generator=generator), torch.randn(6, 4, generator=generator)
    each = sum(head @ rows for head, rows in zip(heads, w_output.split(2), strict=True))
    assert torch.allclose(answer(heads) @ w_output, each, atol=1e-5), (
        "Multiplied by W^O, your rows should give the sum of what each head gives with its own rows of W^O."
    )


def property_one_head(answer, generator):
    heads = torch.randn(1, 5, 6, generator=generator)
    assert torch.equal(answer(heads), heads[0]), "A single head should come back as it is."
