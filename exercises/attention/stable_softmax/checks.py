import torch


def cases(generator):
    lecture = {"scores": torch.tensor([[0.8, 0.2], [1000.0, 999.0]])}  # the slide's, and those of the erratum
    far_apart = {
        "scores": torch.tensor([[1000.0, 1002.0, -1000.0], [0.5, -0.3, 2.0], [-60.0, 40.0, 38.0], [1.0, 1.2, 0]])
    }

    def drawn(n_queries, n_keys, dtype=torch.float32):
        return {"scores": (2 * torch.randn(n_queries, n_keys, generator=generator)).to(dtype)}

    return [lecture, far_apart, drawn(3, 7), drawn(6, 5, torch.float64)]


def property_rows_add_up_to_one(answer, generator):
    weights = answer(5 * torch.randn(4, 6, generator=generator))
    assert torch.allclose(weights.sum(-1), torch.ones(4), atol=1e-5), "Not every row of yours adds up to one."


def property_weights_are_positive(answer, generator):
    assert (answer(torch.randn(4, 6, generator=generator)) > 0).all(), "A weight of yours is not above zero."


def property_size_of_a_row(answer, generator):
    scores = torch.randint(-8, 8, (4, 6), generator=generator).float()
    for size in (1000.0, -1000.0):
        shifted = scores.clone()
        shifted[2] += size
        assert torch.allclose(answer(scores), answer(shifted), atol=1e-5), (
            f"Adding {size:.0f} to all scores of one row changes your weights. It should not matter."
        )


def property_queries_alone(answer, generator):
    scores = torch.randn(4, 6, generator=generator)
    assert torch.allclose(answer(scores)[2:3], answer(scores[2:3]), atol=1e-5), (
        "The weights of one query depend on the scores of the others. Each row should be treated by itself."
    )


def property_gradient(answer, generator):
    scores = torch.randn(4, 6, generator=generator).requires_grad_()
    assert answer(scores).requires_grad, (
        "PyTorch cannot follow your weights back to the scores, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
