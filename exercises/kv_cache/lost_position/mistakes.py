import torch


def _rotate(x, positions, frequencies):
    angles = positions[:, None] * frequencies
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


def _run(q, k, v, frequencies, n_prompt, of_queries=torch.arange, of_keys=torch.arange, masked=True):
    keys, values, outputs = k[:0], v[:0], []
    for start, end in [(0, n_prompt), *((i, i + 1) for i in range(n_prompt, len(q)))]:
        keys = torch.cat((keys, _rotate(k[start:end], of_keys(start, end), frequencies)))
        values = torch.cat((values, v[start:end]))
        scores = _rotate(q[start:end], of_queries(start, end), frequencies) @ keys.T / q.shape[1] ** 0.5
        hidden = torch.arange(end) > torch.arange(start, end)[:, None]
        outputs.append((scores.masked_fill(hidden, -torch.inf) if masked else scores).softmax(-1) @ values)
    return torch.cat(outputs)


def only_the_queries(q, k, v, frequencies, n_prompt):
    """Your queries have the right positions now, but the new keys are still rotated as if each stood at the
    beginning."""
    return _run(q, k, v, frequencies, n_prompt, of_keys=lambda start, end: torch.arange(end - start))


def only_the_keys(q, k, v, frequencies, n_prompt):
    """Your keys have the right positions now, but the new queries are still rotated as if each stood at the
    beginning."""
    return _run(q, k, v, frequencies, n_prompt, of_queries=lambda start, end: torch.arange(end - start))


def same_position_for_all_new_tokens(q, k, v, frequencies, n_prompt):
    """All of your new tokens have the same position, the one just after the prompt. Each of them stands one further on
    than the token before it."""

    def positions(start, end):
        return torch.arange(end - start) + (n_prompt if start else 0)

    return _run(q, k, v, frequencies, n_prompt, positions, positions)


def steps_counted(q, k, v, frequencies, n_prompt):
    """You count the blocks: the first new token is at position 1, whatever the length of the prompt is. Every token of
    the prompt has a position of its own."""

    def positions(start, end):
        return torch.arange(end - start) + (start - n_prompt + 1 if start else 0)

    return _run(q, k, v, frequencies, n_prompt, positions, positions)


def decoding_counted_from_zero(q, k, v, frequencies, n_prompt):
    """The first of your new tokens is at position 0, the second at position 1, and so on. The prompt stands before
    them."""

    def positions(start, end):
        return torch.arange(end - start) + (start - n_prompt if start else 0)

    return _run(q, k, v, frequencies, n_prompt, positions, positions)


def one_too_far(q, k, v, frequencies, n_prompt):
    """The prompt is right, but each new token stands one position too far on. The token after a prompt of 4 tokens is
    at position 4 if the first token is at 0."""

    def positions(start, end):
        return torch.arange(start, end) + (1 if start else 0)

    return _run(q, k, v, frequencies, n_prompt, positions, positions)


def one_too_near(q, k, v, frequencies, n_prompt):
    """The prompt is right, but the first of your new tokens has the same position as the last token of the prompt, and
    the others are one position too early as well."""

    def positions(start, end):
        return torch.arange(start, end) - (1 if start else 0)

    return _run(q, k, v, frequencies, n_prompt, positions, positions)


def rotated_in_each_step(q, k, v, frequencies, n_prompt):
    """The cached keys are rotated again in each step. Each key should be rotated once, by its own position."""
    keys, values, outputs = k[:0], v[:0], []
    for start, end in [(0, n_prompt), *((i, i + 1) for i in range(n_prompt, len(q)))]:
        keys = _rotate(torch.cat((keys, k[start:end])), torch.arange(end), frequencies)
        values = torch.cat((values, v[start:end]))
        scores = _rotate(q[start:end], torch.arange(start, end), frequencies) @ keys.T / q.shape[1] ** 0.5
        hidden = torch.arange(end) > torch.arange(start, end)[:, None]
        outputs.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values)
    return torch.cat(outputs)


def not_rotated(q, k, v, frequencies, n_prompt):
    """Nothing is rotated any more, so that your outputs know nothing of positions. The prompt was right before."""
    return _run(q, k, v, 0 * frequencies, n_prompt)


def same_position_for_a_block(q, k, v, frequencies, n_prompt):
    """All tokens of your prompt are rotated by the same angle. They had the right positions before."""

    def positions(start, end):
        return torch.full((end - start,), start)

    return _run(q, k, v, frequencies, n_prompt, positions, positions)


def mask_removed(q, k, v, frequencies, n_prompt):
    """The positions are right, but the tokens of your prompt see those after them. The mask was right before."""
    return _run(q, k, v, frequencies, n_prompt, masked=False)


def turned_backwards(q, k, v, frequencies, n_prompt):
    """The positions are right, but the queries turn in one direction and the keys in the other. Both should turn in
    the same one."""
    return _run(q, k, v, frequencies, n_prompt, of_queries=lambda start, end: -torch.arange(start, end))
