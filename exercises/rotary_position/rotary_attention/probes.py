import torch


def probe_moved_text(answer, queries, keys, values, query_positions, key_positions, mask, base):
    """Moving a whole sequence, queries and keys alike, changes no output: only the offsets count."""
    return answer(queries, keys, values, query_positions + 23, key_positions + 23, mask, base)


def probe_one_query_at_a_time(answer, queries, keys, values, query_positions, key_positions, mask, base):
    """Queries that come one by one, to keys that wait in a cache, receive what they receive together."""
    outputs = [
        answer(queries[:, :, i : i + 1], keys, values, query_positions[:, i : i + 1], key_positions, row, base)
        for i, row in enumerate(mask.split(1, dim=1))
    ]
    return torch.cat(outputs, 2)
