import torch

from llm_anatomy.shapes import Float, Tensor


def stable_softmax(scores: Float[Tensor, "n_queries n_keys"]) -> Float[Tensor, "n_queries n_keys"]:
    """Return the softmax of each row, for scores of any size."""
    shifted = (scores - scores.amax(dim=-1, keepdim=True)).exp()  # the largest in each row is 1
    return shifted / shifted.sum(dim=-1, keepdim=True)


def accepted_largest_score_subtracted(scores):
    """Subtracts the largest score of each row before the exponential."""
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def accepted_differences_of_pairs(scores):
    """Divides the fraction by its numerator, 1 / sum of exp(s_l - s_j), where a difference of 80 is as good as more."""
    differences = scores[:, None, :] - scores[:, :, None]  # (n_queries, n_keys j, n_keys l)
    return 1 / differences.clamp(max=80).exp().sum(-1)


def accepted_logarithms(scores):
    """Divides by subtracting logarithms. In float32, a score of 1000 is known to 3e-5, and so are the weights."""
    return torch.exp(scores - scores.logsumexp(-1, keepdim=True))


def cases(generator):
    lecture = {"scores": torch.tensor([[0.8, 0.2], [1000.0, 999.0]])}  # the slide's, and those of the erratum
    far_apart = {
        "scores": torch.tensor(
            [[1000.0, 1002.0, -1000.0], [0.5, -0.3, 2.0], [-60.0, 40.0, 38.0], [-1000.0, -1001.0, -999.0]]
        )
    }

    def drawn(n_queries, n_keys):
        return {"scores": (20 * torch.randn(n_queries, n_keys, generator=generator)).round() / 10}

    return [lecture, far_apart, drawn(3, 7), drawn(6, 5)]


def property_rows_add_up_to_one(answer, generator):
    weights = answer(5 * torch.randn(4, 6, generator=generator))
    assert torch.allclose(weights.sum(-1), torch.ones(4), atol=1e-5), (
        "Each row of your weights should add up to one, but at least one row does not."
    )


def property_weights_are_positive(answer, generator):
    assert (answer(torch.randn(4, 6, generator=generator)) > 0).all(), (
        "Every weight should be above zero, but at least one of yours is not."
    )


def property_size_of_a_row(answer, generator):
    scores = torch.randint(-8, 8, (4, 6), generator=generator).float()
    for size in (1000.0, -1000.0):
        shifted = scores.clone()
        shifted[2] += size
        assert torch.allclose(answer(scores), answer(shifted), rtol=1e-4, atol=1e-5), (
            f"Adding {size:.0f} to all scores of one row changes your weights. It should not change them."
        )


def property_queries_alone(answer, generator):
    scores = torch.randn(4, 6, generator=generator)
    assert torch.allclose(answer(scores)[2:3], answer(scores[2:3]), atol=1e-5), (
        "The weights of one query depend on the scores of other queries. Each row should be treated on its own."
    )


def property_gradient(answer, generator):
    scores = (300 * torch.randn(4, 6, generator=generator)).requires_grad_()
    weights = answer(scores)
    total = weights.square().sum()
    gradient = torch.autograd.grad(total, scores, allow_unused=True)[0] if total.requires_grad else None
    assert gradient is not None, (
        "PyTorch cannot follow your weights back to the scores, so nothing could be learned. Stay with tensors: no "
        ".item(), .tolist(), .numpy() or .detach() on the way."
    )
    assert gradient.isfinite().all(), (
        "Your weights are right, but for large scores their gradient contains NaN or infinity, so nothing could be "
        "learned. An exponential overflows on the way."
    )


def hidden_cases(generator):
    def drawn(n_queries, n_keys, size=3.0):
        return {"scores": size * torch.randn(n_queries, n_keys, generator=generator)}

    # In float32, scores above 1024 are known to 6e-5 or worse, which an answer with logarithms turns into as large a
    # relative error of its weights. That is not wrong, and it must stay below the tolerance.
    sizes = torch.tensor([[1000.0], [-1000.0], [0.0]])
    levels = {"scores": sizes + torch.tensor([[3.0, 1.0, 2.5, -1.0], [0.0, 4.0, 1.0, 1.5], [2.0, 2.0, -2.0, 1.0]])}
    return [levels, drawn(1, 9), drawn(8, 5), drawn(6, 6), drawn(4, 11), drawn(7, 3, size=300.0)]
