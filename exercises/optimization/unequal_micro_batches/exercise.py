import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Int, Tensor


def broken(
    w: Float[Tensor, "d_model n_vocab"],
    x: Float[Tensor, "n_sequences n_tokens d_model"],
    targets: Int[Tensor, "n_sequences n_tokens"],
    micro_batch_size: int,
) -> Float[Tensor, "d_model n_vocab"]:
    """Return the gradient of the loss with respect to w, accumulated over micro-batches."""
    w = w.clone().requires_grad_()
    starts = range(0, len(x), micro_batch_size)
    for start in starts:
        rows = slice(start, start + micro_batch_size)
        logits = x[rows] @ w
        loss = F.cross_entropy(logits.flatten(0, 1), targets[rows].flatten(), ignore_index=-100)
        (loss / len(starts)).backward()
    return w.grad


def unequal_micro_batches(
    w: Float[Tensor, "d_model n_vocab"],
    x: Float[Tensor, "n_sequences n_tokens d_model"],
    targets: Int[Tensor, "n_sequences n_tokens"],
    micro_batch_size: int,
) -> Float[Tensor, "d_model n_vocab"]:
    """Return the gradient of the loss with respect to w, accumulated over micro-batches."""
    w = w.clone().requires_grad_()
    n_targets = (targets != -100).sum()
    for start in range(0, len(x), micro_batch_size):
        rows = slice(start, start + micro_batch_size)
        logits = x[rows] @ w
        loss = F.cross_entropy(logits.flatten(0, 1), targets[rows].flatten(), ignore_index=-100, reduction="sum")
        (loss / n_targets).backward()
    return w.grad


def accepted_divided_at_the_end(w, x, targets, micro_batch_size):
    """Adds the gradients of sums, counts on the way, and divides at the end."""
    total, n_targets = torch.zeros_like(w), 0
    for some_x, some_targets in zip(x.split(micro_batch_size), targets.split(micro_batch_size), strict=True):
        weights = w.detach().clone().requires_grad_()
        log_probs = (some_x @ weights).log_softmax(-1)
        counted = some_targets >= 0
        loss = -log_probs[counted].gather(1, some_targets[counted][:, None]).sum()
        total += torch.autograd.grad(loss, weights)[0]
        n_targets += int(counted.sum())
    return total / n_targets


def accepted_weighted_means(w, x, targets, micro_batch_size):
    """Keeps the means, weighs them by their numbers of targets, and skips what has none."""
    w = w.clone().requires_grad_()
    n_targets = int(targets.ne(-100).sum())
    for start in range(0, len(x), micro_batch_size):
        some = targets[start : start + micro_batch_size].flatten()
        n = int(some.ne(-100).sum())
        if n:
            logits = (x[start : start + micro_batch_size] @ w).flatten(0, 1)
            (F.cross_entropy(logits, some) * n / n_targets).backward()
    return w.grad


def accepted_by_hand(w, x, targets, micro_batch_size):
    """Needs no autograd: the gradient of the logits is the probability minus one at the target."""
    gradient = torch.zeros_like(w)
    for rows, some in zip(x.split(micro_batch_size), targets.split(micro_batch_size), strict=True):
        counted = (some != -100).float()[..., None]
        errors = torch.softmax(rows @ w, -1) - F.one_hot(some.clamp(min=0), w.shape[1])
        gradient += torch.einsum("btd, btv -> dv", rows, errors * counted)
    return gradient / (targets != -100).sum()


NAMES = ("w", "x", "targets", "micro_batch_size")


def _drawn(generator, n_tokens, d_model, n_vocab, counted, micro_batch_size):
    """A batch whose sequences have the given numbers of targets that count."""
    w = (10 * torch.randn(d_model, n_vocab, generator=generator)).round() / 10
    x = (10 * torch.randn(len(counted), n_tokens, d_model, generator=generator)).round() / 10
    targets = torch.randint(n_vocab, (len(counted), n_tokens), generator=generator)
    for row, n in zip(targets, counted, strict=True):
        row[: n_tokens - n] = -100
    return dict(zip(NAMES, (w, x, targets, micro_batch_size), strict=True))


def cases(generator):
    small = (torch.zeros(1, 2), torch.ones(2, 2, 1), torch.tensor([[0, -100], [1, 1]]), 1)
    return [
        _drawn(generator, 5, 3, 4, [1, 5, 2, 4], 2),
        dict(zip(NAMES, small, strict=True)),
        _drawn(generator, 4, 2, 3, [4, 4, 1], 2),
        _drawn(generator, 3, 2, 5, [0, 3, 1], 1),
        _drawn(generator, 4, 3, 2, [2, 3, 1, 4, 1], 5),
    ]


def property_size_of_the_micro_batches(answer, generator):
    case = _drawn(generator, 6, 3, 4, [1, 6, 2, 5, 3, 1, 4], 1)
    *given, _ = case.values()
    whole, *parts = (answer(*(each.clone() for each in given), size) for size in (7, 1, 2, 3, 4))
    assert all(torch.allclose(whole, part, atol=1e-4) for part in parts), (
        "The gradient of a batch of seven sequences still depends on the size of the micro-batches."
    )


def hidden_cases(generator):
    return [
        _drawn(generator, 6, 4, 3, [6, 1, 3, 2, 5], 2),
        _drawn(generator, 3, 2, 6, [1, 0, 3, 2], 1),
        _drawn(generator, 5, 5, 2, [2, 5, 1], 2),
        _drawn(generator, 7, 3, 5, [7, 2, 1, 3, 6, 4], 4),
    ]
