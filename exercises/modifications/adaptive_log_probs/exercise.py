import torch

from llm_anatomy.shapes import Float, Tensor


def adaptive_log_probs(logits: Float[Tensor, "n_rows n_logits"], sizes: list[int]) -> Float[Tensor, "n_rows n_vocab"]:
    """Return the log-probabilities of all tokens, by an adaptive softmax."""
    n_frequent, n_clusters = sizes[0], len(sizes) - 1
    pieces = logits.split([n_frequent + n_clusters, *sizes[1:]], dim=1)
    head, *clusters = [piece.log_softmax(-1) for piece in pieces]
    clusters = [cluster + head[:, n_frequent + c, None] for c, cluster in enumerate(clusters)]
    return torch.cat([head[:, :n_frequent], *clusters], dim=1)


def accepted_double(logits, sizes):
    """Works token by token, in double precision."""
    logits, n, m = logits.double(), sizes[0], len(sizes) - 1
    total, start = logits[:, : n + m].logsumexp(1), n + m
    columns = [logits[:, w] - total for w in range(n)]
    for c, size in enumerate(sizes[1:]):
        of_cluster = logits[:, start : start + size]
        columns += [logits[:, n + c] - total + of_cluster[:, w] - of_cluster.logsumexp(1) for w in range(size)]
        start += size
    return torch.stack(columns, dim=1)


def accepted_conditional(logits, sizes):
    """Lists the cluster of each token first, and then looks up what to add."""
    n, m = sizes[0], len(sizes) - 1
    head = torch.log_softmax(logits[:, : n + m], dim=1)
    cluster = torch.repeat_interleave(torch.arange(m), torch.tensor(sizes[1:]))
    rare = logits[:, n + m :]
    totals = torch.stack([rare[:, cluster == c].logsumexp(-1) for c in range(m)], dim=1)
    return torch.hstack([head[:, :n], rare + (head[:, n:] - totals)[:, cluster]])


NAMES = ("logits", "sizes")


def cases(generator):
    def drawn(n_rows, sizes, scale=1.0):
        logits = (10 * scale * torch.randn(n_rows, sum(sizes) + len(sizes) - 1, generator=generator)).round() / 10
        return dict(zip(NAMES, (logits, sizes), strict=True))

    small = dict(zip(NAMES, (torch.tensor([[0.0, 0.0, 0.0, 0.0]]), [1, 2]), strict=True))
    return [drawn(3, [4, 5, 7]), small, drawn(2, [3, 2, 6, 4]), drawn(5, [2, 3], 60.0)]


def property_sum_to_one(answer, generator):
    found = torch.as_tensor(answer(torch.randn(4, 3 + 2 + 5 + 6, generator=generator), [3, 5, 6]))
    assert torch.allclose(found.exp().sum(-1), torch.ones(4), atol=1e-4), (
        "The probabilities of all tokens should sum to one. Yours do not."
    )


def property_small_probabilities(answer, generator):
    found = torch.as_tensor(answer(torch.tensor([[0.0, 0.0, 0.0, 0.0, -200.0]]), [2, 2]))
    assert ((found > -220) & (found < -180)).any(), (
        "A token whose logit is 200 below that of the others should have a log-probability near −200. Yours has not."
    )


def hidden_cases(generator):
    def drawn(n_rows, sizes, scale=1.0):
        logits = scale * torch.randn(n_rows, sum(sizes) + len(sizes) - 1, generator=generator)
        return dict(zip(NAMES, (logits, sizes), strict=True))

    return [drawn(4, [5, 3, 8]), drawn(2, [6, 4, 2, 9]), drawn(3, [4, 7], 50.0), drawn(6, [2, 5, 3])]
