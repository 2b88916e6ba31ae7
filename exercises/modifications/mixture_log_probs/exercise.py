import torch

from llm_anatomy.shapes import Float, Tensor


def mixture_log_probs(
    gate: Float[Tensor, "n_rows n_components"], logits: Float[Tensor, "n_rows n_components n_vocab"]
) -> Float[Tensor, "n_rows n_vocab"]:
    """Return the log-probabilities of a mixture of softmaxes."""
    return (gate.log_softmax(-1)[:, :, None] + logits.log_softmax(-1)).logsumexp(1)


def accepted_double(gate, logits):
    """Adds probabilities in double precision."""
    weights, p = gate.double().softmax(1), logits.double().softmax(2)
    return torch.einsum("rk, rkw -> rw", weights, p).log()


def accepted_one_by_one(gate, logits):
    """Adds one component after the other, and normalizes the weights at the end."""
    total = torch.full_like(logits[:, 0], -torch.inf)
    for k in range(gate.shape[1]):
        component = logits[:, k] - torch.logsumexp(logits[:, k], -1, keepdim=True)
        total = torch.logaddexp(total, gate[:, k, None] + component)
    return total - gate.logsumexp(1)[:, None]


def accepted_largest_first(gate, logits):
    """Takes the largest component out of the sum, as a stable softmax does."""
    each = gate[..., None].log_softmax(1) + logits.log_softmax(-1)
    largest = each.max(dim=1, keepdim=True).values
    return ((each - largest).exp().sum(1, keepdim=True).log() + largest)[:, 0]


NAMES = ("gate", "logits")


def cases(generator):
    def drawn(n_rows, n_components, n_vocab, scale=1.0):
        gate = (10 * torch.randn(n_rows, n_components, generator=generator)).round() / 10
        logits = (10 * scale * torch.randn(n_rows, n_components, n_vocab, generator=generator)).round() / 10
        return dict(zip(NAMES, (gate, logits), strict=True))

    small = dict(zip(NAMES, (torch.zeros(1, 2), torch.tensor([[[0.0, 0.0], [9.0, 0.0]]])), strict=True))
    return [drawn(3, 2, 5), small, drawn(2, 4, 7), drawn(5, 3, 6, 80.0)]


def property_sum_to_one(answer, generator):
    given = torch.randn(4, 3, generator=generator), torch.randn(4, 3, 6, generator=generator)
    found = torch.as_tensor(answer(*given))
    assert torch.allclose(found.exp().sum(-1), torch.ones(4), atol=1e-4), (
        "The probabilities of all tokens should sum to one. Yours do not."
    )


def property_small_probabilities(answer, generator):
    found = torch.as_tensor(answer(torch.zeros(1, 2), torch.tensor([[[0.0, 0.0, -200.0]] * 2])))
    assert ((found > -220) & (found < -180)).any(), (
        "A token whose logit is 200 below that of the others should have a log-probability near −200. Yours has not."
    )


def hidden_cases(generator):
    def drawn(n_rows, n_components, n_vocab, scale=1.0):
        return dict(
            zip(
                NAMES,
                (
                    torch.randn(n_rows, n_components, generator=generator),
                    scale * torch.randn(n_rows, n_components, n_vocab, generator=generator),
                ),
                strict=True,
            )
        )

    return [drawn(4, 3, 8), drawn(2, 5, 6), drawn(3, 2, 9, 70.0), drawn(6, 4, 3)]
