import torch

from llm_anatomy.shapes import Float, Tensor


def pooled_heads(
    w_key: Float[Tensor, "d_model d_keys"], w_value: Float[Tensor, "d_model d_values"], n_heads: int, n_groups: int
) -> tuple[Float[Tensor, "d_model d_new_keys"], Float[Tensor, "d_model d_new_values"]]:
    """Return the projections of keys and values, averaged over the heads of each group."""

    def pooled(w):
        return w.reshape(len(w), n_groups, n_heads // n_groups, -1).mean(2).flatten(1)

    return pooled(w_key), pooled(w_value)


def accepted_loop(w_key, w_value, n_heads, n_groups):
    """Adds up the heads of each group, and returns a list."""
    group, new = n_heads // n_groups, []
    for w in (w_key, w_value):
        heads = w.chunk(n_heads, dim=1)
        new.append(torch.cat([sum(heads[g * group : (g + 1) * group]) / group for g in range(n_groups)], dim=1))
    return new


def accepted_matrix(w_key, w_value, n_heads, n_groups):
    """Multiplies by a matrix that averages."""

    def average(w):
        eye = torch.eye(w.shape[1] // n_heads)
        table = torch.eye(n_groups).repeat_interleave(n_heads // n_groups, dim=0) * n_groups / n_heads
        return w @ torch.kron(table, eye)

    return average(w_key), average(w_value)


def accepted_rows(w_key, w_value, n_heads, n_groups):
    """Works on the rows of the transposed matrices, and transposes back."""
    results = []
    for w in (w_key, w_value):
        heads = torch.stack(w.T.split(w.shape[1] // n_heads))
        groups = torch.stack(heads.split(n_heads // n_groups))
        results.append(torch.cat(list(groups.mean(dim=1))).T)
    return tuple(results)


def cases(generator):
    def drawn(d_model, n_heads, d_key, d_value, n_groups):
        w_key, w_value = (torch.randint(-9, 10, (d_model, n_heads * d), generator=generator) for d in (d_key, d_value))
        return {"w_key": w_key.float(), "w_value": w_value.float(), "n_heads": n_heads, "n_groups": n_groups}

    small = {"w_key": torch.tensor([[1.0, 3.0, 6.0, 20.0]]), "w_value": torch.tensor([[0.0, 2.0, 4.0, 10.0]])}
    return [
        drawn(3, 6, 2, 3, 2),
        small | {"n_heads": 4, "n_groups": 2},
        drawn(2, 4, 3, 2, 1),
        drawn(5, 6, 2, 4, 3),
        drawn(4, 3, 2, 1, 3),
    ]


def property_equal_heads(answer, generator):
    head_of_keys, head_of_values = torch.randn(4, 2, 3, generator=generator), torch.randn(4, 2, 2, generator=generator)
    w_key, w_value = (w.repeat_interleave(3, dim=1).flatten(1) for w in (head_of_keys, head_of_values))
    found = answer(w_key, w_value, 6, 2)
    for new, old in zip(found, (head_of_keys, head_of_values), strict=True):
        assert torch.allclose(new, old.flatten(1), atol=1e-5), (
            "If the heads of each group are equal, the shared head should be one of them. Yours is not."
        )


def property_keys_are_averaged(answer, generator):
    w_key, w_value, x = (torch.randn(*s, generator=generator) for s in ((4, 8), (4, 8), (5, 4)))
    new = answer(w_key, w_value, 4, 1)[0]
    old = (x @ w_key).reshape(5, 4, 2).mean(1)
    assert torch.allclose(x @ new, old, atol=1e-4), (
        "With one group, the key of a token should be the mean of the keys that its heads had before. Yours is not."
    )


def hidden_cases(generator):
    def drawn(d_model, n_heads, d_key, d_value, n_groups):
        w_key, w_value = (torch.randn(d_model, n_heads * d, generator=generator) for d in (d_key, d_value))
        return {"w_key": w_key, "w_value": w_value, "n_heads": n_heads, "n_groups": n_groups}

    return [drawn(4, 8, 3, 2, 2), drawn(3, 6, 2, 5, 3), drawn(6, 5, 1, 4, 1), drawn(2, 8, 4, 4, 4)]
