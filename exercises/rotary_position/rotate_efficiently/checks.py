import torch


def cases(generator):
    position_three = torch.tensor([[[3.0, 0.3, 0.03, 0.003]]])
    lecture = {"x": torch.arange(1.0, 9.0).reshape(1, 1, 1, 8), "angles": position_three}

    def drawn(batch, n_heads, n_tokens, n_pairs, dtype=torch.float32):
        return {
            "x": torch.randn(batch, n_heads, n_tokens, 2 * n_pairs, generator=generator).to(dtype),
            "angles": (torch.randn(batch, n_tokens, n_pairs, generator=generator) * 3).to(dtype),
        }

    square = drawn(2, 2, 3, 2)  # as many heads as sequences, so that mixing them up gives numbers
    return [lecture, square, drawn(3, 2, 4, 5, torch.float64), drawn(1, 3, 2, 1)]


def drawn(generator):
    """Two sequences of four tokens, three heads of width 6, and the paces of its planes."""
    x = torch.randn(2, 3, 4, 6, generator=generator)
    return x, torch.tensor([1.0, 0.3, 0.09])


def property_angle_zero(answer, generator):
    x, theta = drawn(generator)
    assert torch.equal(answer(x, torch.zeros(2, 4, 3)), x), "Angles of zero should leave x as it is."


def property_quarter_turn(answer, generator):
    x, quarter = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]]), torch.full((1, 1, 2), torch.pi / 2)
    assert torch.allclose(answer(x, quarter), torch.tensor([[[[-2.0, 1.0, -4.0, 3.0]]]]), atol=1e-5), (
        "A quarter turn of all planes should take (1, 2, 3, 4) to (-2, 1, -4, 3)."
    )


def property_length_is_kept(answer, generator):
    x, theta = drawn(generator)
    angles = torch.randn(2, 4, 3, generator=generator)
    lengths = [x.unflatten(-1, (3, 2)).norm(dim=-1) for x in (x, answer(x, angles))]
    assert torch.allclose(*lengths, atol=1e-5), (
        "Neighbours form a plane, and a turn keeps the length of each pair of them. Yours changes it."
    )


def property_two_turns_add_up(answer, generator):
    x, theta = drawn(generator)
    once, again = (torch.randn(2, 4, 3, generator=generator) for _ in range(2))
    assert torch.allclose(answer(answer(x, once), again), answer(x, once + again), atol=1e-4), (
        "Turning twice should be the same as turning once by the sum of the angles."
    )


def property_only_the_difference_matters(answer, generator):
    x, theta = drawn(generator)
    x = x[:1, :1, :2]  # a query and a key
    scores = [answer(x, torch.tensor([m, m + 5])[None, :, None] * theta)[0, 0].prod(0).sum() for m in (0, 4, 90)]
    assert torch.allclose(torch.stack(scores), scores[0], atol=1e-4), (
        "Moving query and key by the same number of positions changes their product. It should depend on the offset "
        "alone."
    )


def property_sequences_and_heads_apart(answer, generator):
    x, theta = drawn(generator)
    angles = torch.randn(2, 4, 3, generator=generator)
    assert torch.allclose(answer(x, angles)[1:, 2:], answer(x[1:, 2:], angles[1:]), atol=1e-5), (
        "The last head of the second sequence, turned alone, comes out differently from you than together with others."
    )


def property_gradient(answer, generator):
    x, theta = drawn(generator)
    assert answer(x.requires_grad_(), torch.ones(2, 4, 3)).requires_grad, (
        "PyTorch cannot follow your output back to x, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
