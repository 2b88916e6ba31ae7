import torch


def cases(generator):
    def drawn(n_heads, positions, d_head, d_value, base, dtype=torch.float32):
        widths = d_head, d_head, d_value
        tensors = [torch.randn(n_heads, len(positions), w, generator=generator).to(dtype) for w in widths]
        return dict(zip(("queries", "keys", "values"), tensors, strict=True)) | {
            "positions": torch.tensor(positions),
            "base": base,
        }

    return [
        drawn(1, [0, 1, 2], 4, 2, 10000),
        drawn(3, [5, 6, 9, 10, 30], 6, 4, 100),
        drawn(2, [90, 91, 92, 95], 8, 6, 1000, torch.float64),
    ]


def drawn(generator):
    """Two heads of width 6, five tokens with values of width 4."""
    return [torch.randn(2, 5, width, generator=generator) for width in (6, 6, 4)]


PLACES = torch.tensor([2, 3, 4, 7, 8])


def property_only_the_offsets_matter(answer, generator):
    tensors = drawn(generator)
    assert torch.allclose(answer(*tensors, PLACES, 100), answer(*tensors, PLACES + 40, 100), atol=1e-4), (
        "Moving the whole sequence by 40 positions changes your output. Offsets stay as they are, so it should not."
    )


def property_first_token(answer, generator):
    queries, keys, values = drawn(generator)
    assert torch.allclose(answer(queries, keys, values, PLACES, 100)[:, 0], values[:, 0], atol=1e-4), (
        "The first token sees itself alone, at offset 0: above and below the line stands the same weight, and its own "
        "value should come out."
    )


def property_same_position(answer, generator):
    queries, keys, values = drawn(generator)
    ones = answer(queries, keys, torch.ones_like(values), torch.full((5,), 7), 100)
    assert torch.allclose(ones, torch.ones(2, 5, 4), atol=1e-4), (
        "With all tokens at one position nothing turns, and the weights should add up to one. Yours do not."
    )


def property_no_looking_ahead(answer, generator):
    tensors = drawn(generator)
    changed = [x.clone() for x in tensors]
    for x in changed:
        x[:, 4] += 1
    before, after = answer(*tensors, PLACES, 100), answer(*changed, PLACES, 100)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-4), (
        "Changing the last token changes the output of an earlier one. It should not."
    )


def property_no_division_by_zero(answer, generator):
    queries, keys = torch.tensor([[[1.0, 1.0], [1.0, 1.0]]]), torch.tensor([[[-1.0, 0.0], [4.0, -9.0]]])
    output = answer(queries, keys, torch.ones(1, 2, 2), torch.tensor([0, 300]), 10000)
    assert output.isfinite().all(), "Your output is not finite: the sum below the line should always be positive."
