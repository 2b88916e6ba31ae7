import torch


def probe_causality(answer, queries, keys, values, positions, base):
    """Changing a later token leaves the outputs before it alone."""
    half = positions.shape[0] // 2
    queries, keys, values = (torch.cat((x[:, :half], 2 - x[:, half:]), 1) for x in (queries, keys, values))
    return answer(queries, keys, values, positions, base)[:, :half]
