import math

import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Int, Tensor


def three_units(
    scores: Float[Tensor, "n_tokens n_vocab"], targets: Int[Tensor, "n_tokens"], n_bytes: int
) -> tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the loss in nats per token, the perplexity and the loss in bits per byte."""
    log_p = torch.log_softmax(scores, dim=-1)
    losses = -log_p[torch.arange(len(targets)), targets]
    loss = losses.mean()
    return loss, loss.exp(), losses.sum() / math.log(2) / n_bytes


def accepted_library(scores, targets, n_bytes):
    """Calls PyTorch's cross-entropy and returns a list of Python numbers."""
    loss = F.cross_entropy(scores, targets).item()
    return [loss, math.exp(loss), loss * len(targets) / (n_bytes * math.log(2))]


def accepted_by_hand(scores, targets, n_bytes):
    """Subtracts the largest score of each row, and sums in base 2 and float64."""
    shifted = scores.double() - scores.double().amax(1, keepdim=True)
    bits = (shifted.exp().sum(1).log() - shifted.gather(1, targets[:, None])[:, 0]) / math.log(2)
    return bits.mean() * math.log(2), 2 ** bits.mean(), bits.sum() / n_bytes


def accepted_stacked(scores, targets, n_bytes):
    """Returns the three numbers in one tensor's parts, from a one-hot target."""
    p = F.one_hot(targets, scores.shape[1]).to(scores.dtype)
    loss = -(p * scores.log_softmax(1)).sum() / len(scores)
    bits_per_token = loss / torch.tensor(2.0).log()
    return tuple(torch.stack([loss, loss.exp(), bits_per_token * len(scores) / n_bytes]))


def cases(generator):
    even = {"scores": torch.zeros(2, 4), "targets": torch.tensor([3, 0]), "n_bytes": 8}
    large = {
        "scores": torch.tensor([[1e3, 999, 880], [-1e3, -1002, -1001], [5, 5, 4], [900, 0, -900]]),
        "targets": torch.tensor([2, 0, 1, 0]),
        "n_bytes": 7,
    }

    def drawn(n_tokens, n_vocab, n_bytes):
        scores = (2 * torch.randn(n_tokens, n_vocab, generator=generator)).round(decimals=1)
        return {
            "scores": scores,
            "targets": torch.randint(n_vocab, (n_tokens,), generator=generator),
            "n_bytes": n_bytes,
        }

    return [even, drawn(5, 3, 12), large, drawn(1, 6, 4)]


def property_uniform(answer, generator):
    loss, perplexity, _ = answer(torch.zeros(6, 50257), torch.arange(6), 25)
    assert abs(float(loss) - math.log(50257)) < 1e-3 and abs(float(perplexity) / 50257 - 1) < 1e-3, (
        "If all 50,257 tokens are equally probable, the loss should be ln 50257 = 10.825 and the perplexity 50,257."
    )


def property_shift(answer, generator):
    scores = torch.randn(5, 7, generator=generator)
    targets = torch.randint(7, (5,), generator=generator)
    pairs = zip(answer(scores, targets, 9), answer(scores + 3, targets, 9), strict=True)
    assert all(abs(float(a) - float(b)) < 1e-3 for a, b in pairs), (
        "Your numbers change when the same constant is added to all scores. The softmax does not notice it."
    )


def hidden_cases(generator):
    def drawn(n_tokens, n_vocab, n_bytes, scale=2.0):
        scores = scale * torch.randn(n_tokens, n_vocab, generator=generator)
        return {
            "scores": scores,
            "targets": torch.randint(n_vocab, (n_tokens,), generator=generator),
            "n_bytes": n_bytes,
        }

    sure = torch.tensor([[900.0, 780.0, -400.0], [300.0, 301.0, 302.5]])
    return [
        drawn(9, 5, 31),
        drawn(4, 11, 4),
        {"scores": sure, "targets": torch.tensor([1, 0]), "n_bytes": 5},
        drawn(1, 3, 2),
    ]


TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
