import torch


def cases(generator):
    def drawn(positions, d_model, d_head, d_value, dtype=torch.float32, x=None):
        positions = torch.tensor(positions)
        shapes = {
            "x": (*positions.shape, d_model),
            "w_query": (d_model, d_head),
            "w_key": (d_model, d_head),
            "w_value": (d_model, d_value),
        }
        drawn = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        return {"x": drawn.pop("x") if x is None else x, "positions": positions} | drawn

    slide = torch.tensor([[[0.42, 0.31, 0.73, 0.36], [0.87, -0.64, 0.81, 0.26], [0.02, 0.01, -0.24, -0.07]]])
    return [
        drawn([[0, 1, 2]], 4, 2, 1, x=slide),  # the slide's words, as wide as its worked example
        drawn([[-1, -1, 0, 1, 2], [3, 4, 5, 6, 7]], 6, 4, 3),
        drawn([[9, 2, 0, 5], [-1, 12, 13, 14], [-1, -1, -1, 4]], 8, 3, 5, torch.float64),
    ]


def observe(returned, x, positions, w_query, w_key, w_value):
    """what the words receive; padding has 0 in its place"""
    assert isinstance(returned, torch.Tensor), "a tensor is asked, (batch, n_tokens, d_value)"
    shape = (*positions.shape, w_value.shape[1])
    assert returned.shape == shape, f"it has shape {tuple(returned.shape)} where {shape} is expected"
    return torch.where((positions >= 0)[..., None], returned, torch.zeros_like(returned))


def drawn(generator):
    """Two sequences of four tokens of width 6, and the three matrices."""
    return [torch.randn(*shape, generator=generator) for shape in ((2, 4, 6), (6, 3), (6, 3), (6, 5))]


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def property_padding_has_no_influence(answer, generator):
    x, *matrices = drawn(generator)
    positions = torch.tensor([[-1, 0, 1, 2], [-1, -1, 0, 1]])
    changed = torch.where((positions < 0)[..., None], 30.0, x)
    before, after = answer(x, positions, *matrices), answer(changed, positions, *matrices)
    assert close(before[positions >= 0], after[positions >= 0]), (
        "Changing the embedding of padding changes what words receive. It should have no influence at all."
    )


def property_no_padding_the_same(answer, generator):
    x, *matrices = drawn(generator)
    padded = answer(x, torch.tensor([[-1, 0, 1, 2], [-1, 5, 6, 7]]), *matrices)[:, 1:]
    assert close(padded, answer(x[:, 1:], torch.tensor([[0, 1, 2], [5, 6, 7]]), *matrices)), (
        "A sentence should receive the same with padding before it as without."
    )


def property_tokens_may_stand_in_any_row(answer, generator):
    x, *matrices = drawn(generator)
    positions, order = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]]), torch.tensor([2, 0, 3, 1])
    found = answer(x[:, order], positions[:, order], *matrices)
    assert close(found, answer(x, positions, *matrices)[:, order]), (
        "Shuffling tokens together with their positions should shuffle the output likewise and change nothing else."
    )


def property_the_order_of_words_matters(answer, generator):
    x, *matrices = drawn(generator)
    positions, order = torch.arange(4).expand(2, 4), torch.tensor([2, 0, 3, 1])
    assert not close(answer(x[:, order], positions, *matrices), answer(x, positions, *matrices)[:, order]), (
        "Shuffling the words among the positions only shuffles your output. What is attended to should change."
    )


def property_values_carry_their_positions(answer, generator):
    _, w_query, w_key, w_value = drawn(generator)
    alike = answer(torch.zeros(1, 3, 6), torch.tensor([[4, 4, 4]]), 0 * w_query, w_key, w_value)
    apart = answer(torch.zeros(1, 3, 6), torch.tensor([[4, 5, 6]]), 0 * w_query, w_key, w_value)
    assert not close(alike, apart), (
        "With embeddings and queries of zero, your output is the same at positions 4, 4, 4 as at 4, 5, 6. Values carry "
        "their positions too, so it should differ."
    )


def property_gradient(answer, generator):
    x, *matrices = drawn(generator)
    x.requires_grad_()
    assert answer(x, torch.arange(4).expand(2, 4), *matrices).requires_grad, (
        "PyTorch cannot follow your output back to x, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
