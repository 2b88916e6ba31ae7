import torch


def cases(generator):
    we, know = [1.0, 0.5], [0.25, 2.0]
    lecture = {"x": torch.tensor([we, know, we, know]), "positions": torch.tensor([2, 3, 0, 1]), "theta": 0.3}

    def drawn(positions, theta, dtype=torch.float32):
        x = torch.randn(len(positions), 2, generator=generator).to(dtype)
        return {"x": x, "positions": torch.tensor(positions), "theta": theta}

    return [
        lecture,
        drawn([7, 8, 9], 0.5),
        drawn([5, -3, 0, 60, 12], 0.01, torch.float64),
        drawn([40], 1.25),
    ]


def property_quarter_turn(answer, generator):
    x, positions = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1])
    assert torch.allclose(answer(x, positions, torch.pi / 2), torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), atol=1e-5), (
        "A quarter turn should take (1, 0) to (0, 1), and (0, 1) to (-1, 0)."
    )


def property_position_zero(answer, generator):
    x = torch.randn(3, 2, generator=generator)
    assert torch.equal(answer(x, torch.tensor([4, 0, 9]), 0.7)[1], x[1]), "A token at position 0 should not be turned."


def property_length_is_kept(answer, generator):
    x, positions = torch.randn(5, 2, generator=generator), torch.arange(5) + 3
    assert torch.allclose(answer(x, positions, 0.7).norm(dim=-1), x.norm(dim=-1), atol=1e-5), (
        "A turn changes no vector's length. Yours does."
    )


def property_only_the_difference_matters(answer, generator):
    x = torch.randn(2, 2, generator=generator)
    scores = [answer(x, torch.tensor([m, m + 4]), 0.7).prod(0).sum() for m in (0, 3, 11)]
    assert torch.allclose(torch.stack(scores), scores[0], atol=1e-5), (
        "Moving query and key by the same number of positions changes their product. It should depend on the offset "
        "alone."
    )


def property_gradient(answer, generator):
    x = torch.randn(3, 2, generator=generator).requires_grad_()
    assert answer(x, torch.arange(3), 0.7).requires_grad, (
        "PyTorch cannot follow your output back to x, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
