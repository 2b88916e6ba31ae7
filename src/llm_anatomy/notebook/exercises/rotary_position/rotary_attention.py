import torch


def cases(generator):
    we, know = [1.0, 0.5, -0.4, 0.8], [0.25, 2.0, 1.0, 0.3]
    words = torch.tensor([[we, know]] * 2).unsqueeze(1)  # in "of course we know" and in "we know that"
    lecture = {
        "queries": words[:, :, 1:],
        "keys": words,
        "values": torch.tensor([[[1.0, 0.0], [0.0, 1.0]]] * 2).unsqueeze(1),
        "query_positions": torch.tensor([[3], [1]]),
        "key_positions": torch.tensor([[2, 3], [0, 1]]),
        "mask": torch.ones(2, 1, 2, dtype=torch.bool),
        "base": 10000,
    }

    def drawn(n_heads, n_queries, d_head, d_value, key_positions, visible, base, dtype=torch.float32):
        """The queries are the newest tokens; causal, and keys that are not visible see themselves alone."""
        batch, n_keys = key_positions.shape
        mask = torch.ones(n_keys, n_keys, dtype=torch.bool).tril() & visible[:, None, :]
        mask = (mask | torch.eye(n_keys, dtype=torch.bool))[:, n_keys - n_queries :]
        shapes = (n_queries, d_head), (n_keys, d_head), (n_keys, d_value)
        queries, keys, values = (torch.randn(batch, n_heads, *s, generator=generator).to(dtype) for s in shapes)
        return {
            "queries": queries,
            "keys": keys,
            "values": values,
            "query_positions": key_positions[:, n_keys - n_queries :],
            "key_positions": key_positions,
            "mask": mask,
            "base": base,
        }

    padded = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])  # the first sequence is two tokens shorter
    visible = torch.ones(2, 5, dtype=torch.bool)
    visible[0, :2] = False
    gaps = torch.tensor([[5, 6, 9, 10, 40, 41], [0, 1, 2, 3, 4, 7], [90, 91, 92, 95, 96, 97]])
    return [
        lecture,
        drawn(2, 5, 6, 4, padded, visible, base=1000),
        drawn(4, 2, 8, 2, gaps, torch.ones(3, 6, dtype=torch.bool), base=50),
        drawn(3, 1, 4, 6, padded, visible, base=10000, dtype=torch.float64),
    ]


def drawn(generator):
    """Two sequences, three heads of width 4; the queries are the last two of five tokens. No key is hidden."""
    tensors = [torch.randn(2, 3, *shape, generator=generator) for shape in ((2, 4), (5, 4), (5, 6))]
    positions = torch.tensor([[0, 1, 2, 3, 4], [10, 11, 13, 14, 20]])
    return *tensors, positions[:, 3:], positions, torch.ones(2, 2, 5, dtype=torch.bool)


def property_only_the_offsets_matter(answer, generator):
    *tensors, query_positions, key_positions, mask = drawn(generator)
    moved = answer(*tensors, query_positions + 57, key_positions + 57, mask, 100)
    assert torch.allclose(answer(*tensors, query_positions, key_positions, mask, 100), moved, atol=1e-4), (
        "Moving a whole sequence by 57 positions changes your output. Offsets stay as they are, so it should not."
    )


def property_same_position_is_plain_attention(answer, generator):
    queries, keys, values, query_positions, key_positions, mask = drawn(generator)
    plain = torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
    same = answer(queries, keys, values, 0 * query_positions + 6, 0 * key_positions + 6, mask, 100)
    assert torch.allclose(same, plain, atol=1e-4), (
        "With all tokens at one position, RoPE should change nothing, and plain attention should come out."
    )


def property_values_pass_unturned(answer, generator):
    queries, keys, values, *rest = drawn(generator)
    assert torch.allclose(
        answer(queries, keys, torch.ones_like(values), *rest, 100), torch.ones(2, 3, 2, 6), atol=1e-4
    ), "With all values equal to one the output should be one. Either the weights do not add up to one, or values turn."


def property_sequences_apart(answer, generator):
    arguments = drawn(generator)
    alone = answer(*(x[1:] for x in arguments), 100)
    assert torch.allclose(answer(*arguments, 100)[1:], alone, atol=1e-4), (
        "The second sequence alone gives another output than together with the first. Each has positions of its own."
    )


def property_hidden_keys_have_no_influence(answer, generator):
    queries, keys, values, query_positions, key_positions, mask = drawn(generator)
    mask[..., 1] = False
    changed = keys.clone()
    changed[:, :, 1] += 3
    before = answer(queries, keys, values, query_positions, key_positions, mask, 100)
    after = answer(queries, changed, values, query_positions, key_positions, mask, 100)
    assert torch.allclose(before, after, atol=1e-4), "Changing a key that is hidden from all changes your output."


def property_order_of_entries(answer, generator):
    queries, keys, values, query_positions, key_positions, mask = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    before = answer(queries, keys, values, query_positions, key_positions, mask, 100)
    after = answer(queries, keys[:, :, order], values[:, :, order], query_positions, key_positions[:, order], mask, 100)
    assert torch.allclose(before, after, atol=1e-4), (
        "Keys listed in another order, each with its value and its position, change your output. They should not."
    )


def property_positions_matter(answer, generator):
    *tensors, query_positions, key_positions, mask = drawn(generator)
    here = answer(*tensors, query_positions, key_positions, mask, 100)
    assert not torch.allclose(here, answer(*tensors, query_positions + 1, key_positions, mask, 100), atol=1e-3), (
        "Moving the queries alone by one position changes every offset, but your output stays the same."
    )


def property_gradient(answer, generator):
    queries, *rest = drawn(generator)
    assert answer(queries.requires_grad_(), *rest, 100).requires_grad, (
        "PyTorch cannot follow your output back to the queries, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
