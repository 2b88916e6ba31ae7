import torch


def cases(generator):
    lecture = {  # the soft dictionary of the chapter, with a third entry out of sight, and a second query
        "queries": torch.tensor([[0.8, 0.2], [1.0, 0.0]]),
        "keys": torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]),
        "values": torch.tensor([[1.0, 1.0], [-1.0, 1.0], [9.0, -9.0]]),
        "mask": torch.tensor([[True, True, False], [False, True, True]]),
    }

    def drawn(mask, d_head, d_value, dtype=torch.float32):
        n_queries, n_keys = mask.shape
        return {
            "queries": torch.randn(n_queries, d_head, generator=generator).to(dtype),
            "keys": torch.randn(n_keys, d_head, generator=generator).to(dtype),
            "values": torch.randn(n_keys, d_value, generator=generator).to(dtype),
            "mask": mask,
        }

    # Each row hides something, and each column shows something: so also mistakes have finite, telling numbers.
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    causal[1:, 0] = False  # the first token is padding, which only it may attend to
    window = torch.ones(4, 6, dtype=torch.bool).tril(2).triu()
    return [lecture, drawn(causal, 3, 2), drawn(window, 5, 3), drawn(window[:2, :4], 6, 7, torch.float64)]


def drawn(generator):
    queries, keys, values = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (5, 4), (5, 2)))
    return queries, keys, values, torch.ones(3, 5, dtype=torch.bool).tril(1)


def property_weights_add_up_to_one(answer, generator):
    queries, keys, values, mask = drawn(generator)
    assert torch.allclose(answer(queries, keys, torch.ones_like(values), mask), torch.ones(3, 2), atol=1e-5), (
        "With all values equal to one the output should be one, whatever the scores: your weights do not add up to one."
    )


def property_hidden_keys_have_no_influence(answer, generator):
    queries, keys, values, mask = drawn(generator)
    changed_keys, changed_values = keys.clone(), values.clone()
    changed_keys[4], changed_values[4] = 7.0, -50.0  # hidden from all three queries
    before, after = answer(queries, keys, values, mask), answer(queries, changed_keys, changed_values, mask)
    assert torch.allclose(before, after, atol=1e-5), (
        "Changing an entry that is hidden from all queries changes your output. It should have no influence at all."
    )


def property_hidden_even_from_low_scores(answer, generator):
    queries, keys, values, mask = drawn(generator)
    queries, keys = queries.abs(), -300 * keys.abs()
    visible = answer(queries[:1], keys[:2], values[:2], mask[:1, :2])
    assert torch.allclose(answer(queries[:1], keys, values, mask[:1]), visible, atol=1e-5), (
        "Where all visible scores are very low, hidden keys get weight: the score you give them is not low enough."
    )


def property_large_scores(answer, generator):
    queries, keys, values, mask = drawn(generator)
    assert answer(1000 * queries, keys, values, mask).isfinite().all(), (
        "Scores of some thousands make your output overflow. Let torch.softmax take the exponentials."
    )


def property_order_of_entries(answer, generator):
    queries, keys, values, mask = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    shuffled = answer(queries, keys[order], values[order], mask[:, order])
    assert torch.allclose(answer(queries, keys, values, mask), shuffled, atol=1e-5), (
        "Shuffling keys, values and the columns of the mask together changes your output. It should not matter."
    )


def property_gradient(answer, generator):
    queries, keys, values, mask = drawn(generator)
    queries.requires_grad_()
    assert answer(queries, keys, values, mask).requires_grad, (
        "PyTorch cannot follow your output back to the queries, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
