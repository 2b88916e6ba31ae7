import torch


def _pieces(logits, sizes):
    return logits.split([sizes[0] + len(sizes) - 1, *sizes[1:]], dim=1)


def _joined(logits, sizes, join, head=None, order=None):
    first, *tails = _pieces(logits, sizes)
    first = first.log_softmax(-1) if head is None else head(first)
    n, m = sizes[0], len(sizes) - 1
    order = range(m) if order is None else order(m)
    tails = [join(tail.log_softmax(-1), first[:, n + c, None]) for tail, c in zip(tails, order, strict=True)]
    return torch.cat([first[:, :n], *tails], dim=1)


def clusters_forgotten(logits, sizes):
    """Your rare tokens have their probability within the cluster. The probability of the cluster is missing."""
    return _joined(logits, sizes, lambda tail, head: tail)


def cluster_alone(logits, sizes):
    """Your rare tokens have the probability of their cluster. Which of its tokens is chosen is missing."""
    return _joined(logits, sizes, lambda tail, head: head + 0 * tail)


def logarithms_multiplied(logits, sizes):
    """You multiply the two logarithms. The logarithm of a product is their sum."""
    return _joined(logits, sizes, lambda tail, head: tail * head)


def logarithms_subtracted(logits, sizes):
    """You subtract the logarithm of the cluster. Add it."""
    return _joined(logits, sizes, lambda tail, head: tail - head)


def one_softmax(logits, sizes):
    """You take one softmax over the whole row. There is one in the head and one in each cluster."""
    n, m = sizes[0], len(sizes) - 1
    every = logits.log_softmax(-1)
    return torch.cat((every[:, :n], every[:, n + m :]), dim=1)


def one_softmax_of_the_tokens(logits, sizes):
    """You leave out the logits of the clusters, and take one softmax over all tokens."""
    n, m = sizes[0], len(sizes) - 1
    return torch.cat((logits[:, :n], logits[:, n + m :]), dim=1).log_softmax(-1)


def probabilities(logits, sizes):
    """You return probabilities. Return their logarithms."""
    return _joined(logits, sizes, torch.add).exp()


def frequent_tokens_apart(logits, sizes):
    """Your head has two softmaxes, one for the frequent tokens and one for the clusters. They compete in a single one,
    so that all tokens together have the probability one."""

    def head(first):
        return torch.cat((first[:, : sizes[0]].log_softmax(-1), first[:, sizes[0] :].log_softmax(-1)), dim=1)

    return _joined(logits, sizes, torch.add, head)


def frequent_tokens_alone(logits, sizes):
    """The softmax of your frequent tokens leaves out the clusters. They compete in a single softmax."""
    right, n = _joined(logits, sizes, torch.add), sizes[0]
    return torch.cat((logits[:, :n].log_softmax(-1), right[:, n:]), dim=1)


def clusters_the_wrong_way_round(logits, sizes):
    """You add the logarithms of the clusters in the wrong order. The first logit of a cluster belongs to the first
    cluster."""
    return _joined(logits, sizes, torch.add, order=lambda m: range(m - 1, -1, -1))


def logit_of_the_cluster(logits, sizes):
    """To the tokens of a cluster, you add the logit of the cluster. Add the logarithm of its probability."""
    right, n, m = _joined(logits, sizes, torch.add), sizes[0], len(sizes) - 1
    total = logits[:, : n + m].logsumexp(-1, keepdim=True)
    return torch.cat((right[:, :n], right[:, n:] + total), dim=1)


def clusters_kept(logits, sizes):
    """Your rows also contain the clusters, which are not tokens. Leave them out."""
    right, n = _joined(logits, sizes, torch.add), sizes[0]
    return torch.cat((_pieces(logits, sizes)[0].log_softmax(-1), right[:, n:]), dim=1)


def logarithm_of_a_softmax(logits, sizes):
    """Where all is well, your numbers are right. But a probability that is too small for float32 becomes 0, and its
    logarithm minus infinity. Compute with logarithms throughout."""

    def head(first):
        return first.softmax(-1)

    return _joined(logits, sizes, lambda tail, p: tail.exp() * p, head).log()


def nothing_normalized(logits, sizes):
    """You add the logits. What is added are logarithms of probabilities, so a softmax is needed in each step."""
    n = sizes[0]
    first, *tails = _pieces(logits, sizes)
    return torch.cat([first[:, :n], *(tail + first[:, n + c, None] for c, tail in enumerate(tails))], dim=1)


def logarithm_of_each_softmax(logits, sizes):
    """Where all is well, your numbers are right. But in a softmax, a probability that is too small for float32 becomes
    0, and its logarithm minus infinity. Take softmax and logarithm in one step."""
    first, *tails = (piece.softmax(-1).log() for piece in _pieces(logits, sizes))
    n = sizes[0]
    return torch.cat([first[:, :n], *(tail + first[:, n + c, None] for c, tail in enumerate(tails))], dim=1)


def clusters_not_normalized(logits, sizes):
    """Your head is right. But to the logarithm of a cluster, you add the logits of its tokens. They need a softmax of
    their own."""
    head, *tails = _pieces(logits, sizes)
    head, n = head.log_softmax(-1), sizes[0]
    return torch.cat([head[:, :n], *(tail + head[:, n + c, None] for c, tail in enumerate(tails))], dim=1)


def one_softmax_of_all_clusters(logits, sizes):
    """Your head is right. But you take one softmax over the tokens of all clusters. Each cluster has its own."""
    head, n, m = _pieces(logits, sizes)[0].log_softmax(-1), sizes[0], len(sizes) - 1
    tails = logits[:, n + m :].log_softmax(-1).split(sizes[1:], dim=1)
    return torch.cat([head[:, :n], *(tail + head[:, n + c, None] for c, tail in enumerate(tails))], dim=1)


def clusters_before_the_tokens(logits, sizes):
    """In the head, you read the clusters first. The frequent tokens come first."""
    head, *tails = (piece.log_softmax(-1) for piece in _pieces(logits, sizes))
    m = len(sizes) - 1
    return torch.cat([head[:, m:], *(tail + head[:, c, None] for c, tail in enumerate(tails))], dim=1)
