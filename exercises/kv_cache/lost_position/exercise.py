import torch

from llm_anatomy.shapes import Float, Tensor


def broken(
    q: Float[Tensor, "n_tokens d_head"],
    k: Float[Tensor, "n_tokens d_head"],
    v: Float[Tensor, "n_tokens d_head"],
    frequencies: Float[Tensor, "n_frequencies"],
    n_prompt: int,
) -> Float[Tensor, "n_tokens d_head"]:
    """Return the outputs of attention with RoPE and a cache, first of the prompt, then of each new token."""

    def rotate(x, positions):
        angles = positions[:, None] * frequencies
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)

    keys, values, outputs = k[:0], v[:0], []
    for start, end in [(0, n_prompt), *((i, i + 1) for i in range(n_prompt, len(q)))]:
        positions = torch.arange(end - start)
        keys = torch.cat((keys, rotate(k[start:end], positions)))
        values = torch.cat((values, v[start:end]))
        scores = rotate(q[start:end], positions) @ keys.T / q.shape[1] ** 0.5
        hidden = torch.arange(end) > torch.arange(start, end)[:, None]
        outputs.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values)
    return torch.cat(outputs)


def lost_position(
    q: Float[Tensor, "n_tokens d_head"],
    k: Float[Tensor, "n_tokens d_head"],
    v: Float[Tensor, "n_tokens d_head"],
    frequencies: Float[Tensor, "n_frequencies"],
    n_prompt: int,
) -> Float[Tensor, "n_tokens d_head"]:
    """Return the outputs of attention with RoPE and a cache, first of the prompt, then of each new token."""

    def rotate(x, positions):
        angles = positions[:, None] * frequencies
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)

    keys, values, outputs = k[:0], v[:0], []
    for start, end in [(0, n_prompt), *((i, i + 1) for i in range(n_prompt, len(q)))]:
        positions = torch.arange(start, end)
        keys = torch.cat((keys, rotate(k[start:end], positions)))
        values = torch.cat((values, v[start:end]))
        scores = rotate(q[start:end], positions) @ keys.T / q.shape[1] ** 0.5
        hidden = torch.arange(end) > torch.arange(start, end)[:, None]
        outputs.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values)
    return torch.cat(outputs)


def accepted_length_of_the_cache(q, k, v, frequencies, n_prompt):
    """Adds the length of the cache."""

    def rotate(x, positions):
        angles = torch.outer(positions.to(x.dtype), frequencies)
        half = x.shape[-1] // 2
        turned = torch.cat((-x[:, half:], x[:, :half]), -1)
        return x * angles.cos().repeat(1, 2) + turned * angles.sin().repeat(1, 2)

    keys, values, outputs = k[:0], v[:0], []
    for n_new in [n_prompt, *[1] * (len(q) - n_prompt)]:
        n_cached = len(keys)
        block = slice(n_cached, n_cached + n_new)
        positions = torch.arange(n_new) + n_cached
        keys, values = torch.cat((keys, rotate(k[block], positions))), torch.cat((values, v[block]))
        scores = rotate(q[block], positions) @ keys.mT / k.shape[-1] ** 0.5
        allowed = torch.ones(n_new, len(keys)).tril(n_cached).bool()
        outputs.append(torch.where(allowed, scores, -torch.inf).softmax(-1) @ values)
    return torch.vstack(outputs)


def accepted_counted_from_one(q, k, v, frequencies, n_prompt):
    """Counts the positions from 1 and rotates all keys when they are read, in complex numbers."""

    def rotate(x, first):
        half = x.shape[1] // 2
        turns = torch.polar(torch.ones(()), torch.arange(first, first + len(x))[:, None] * frequencies)
        z = torch.complex(x[:, :half], x[:, half:]) * turns
        return torch.cat((z.real, z.imag), 1)

    outputs = []
    for i in range(len(q)):
        scores = rotate(k[: i + 1], 1) @ rotate(q[i : i + 1], i + 1)[0] / q.shape[1] ** 0.5
        outputs.append(scores.softmax(0) @ v[: i + 1])
    return torch.stack(outputs, dim=0)


def accepted_at_once(q, k, v, frequencies, n_prompt):
    """Needs no cache at all."""
    angles = torch.arange(len(q))[:, None] * frequencies

    def rotate(x):
        a, b = x.tensor_split(2, dim=1)
        return torch.hstack((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()))

    return torch.nn.functional.scaled_dot_product_attention(rotate(q)[None], rotate(k)[None], v[None], is_causal=True)[
        0
    ]


NAMES = ("q", "k", "v", "frequencies", "n_prompt")


def cases(generator):
    def drawn(n_tokens, d_head, n_prompt):
        q, k, v = ((10 * torch.randn(n_tokens, d_head, generator=generator)).round() / 10 for _ in range(3))
        frequencies = (0.7 ** torch.arange(d_head // 2) * 100).round() / 100
        return dict(zip(NAMES, (2 * q, k, v, frequencies, n_prompt), strict=True))

    two = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    small = dict(zip(NAMES, (two, two, torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.ones(1), 1), strict=True))
    return [drawn(6, 4, 4), small, drawn(7, 6, 2), drawn(5, 2, 3), drawn(4, 6, 4)]


def property_prompt_does_not_matter(answer, generator):
    q, k, v = (torch.randn(6, 4, generator=generator) for _ in range(3))
    frequencies = torch.tensor([1.0, 0.3])
    one, other = (answer(q, k, v, frequencies, n_prompt) for n_prompt in (6, 2))
    assert torch.allclose(one, other, atol=1e-4), (
        "The outputs should be the same whether the prompt has 2 of the 6 tokens or all of them. They still differ."
    )


def property_rotation_kept(answer, generator):
    q, k, v = (torch.randn(6, 4, generator=generator) for _ in range(3))
    still, turned = (answer(q, k, v, torch.tensor([f, f]), 3) for f in (0.0, 1.0))
    right = (q @ k.T / 2).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf).softmax(-1) @ v
    assert torch.allclose(still, right, atol=1e-4), (
        "With all frequencies zero, the code you were given was right. Yours is not any more."
    )
    assert not torch.allclose(still[3:], turned[3:], atol=1e-3), (
        "The frequencies should influence the tokens that come one at a time, too."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_head, n_prompt):
        q, k, v = (torch.randn(n_tokens, d_head, generator=generator) for _ in range(3))
        return dict(zip(NAMES, (2 * q, k, v, 0.6 ** torch.arange(d_head // 2), n_prompt), strict=True))

    return [drawn(8, 4, 3), drawn(5, 8, 1), drawn(9, 2, 6)]
