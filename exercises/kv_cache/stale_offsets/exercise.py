import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def broken(
    q: Float[Tensor, "n_tokens d_head"],
    k: Float[Tensor, "n_tokens d_head"],
    v: Float[Tensor, "n_tokens d_head"],
    offsets: Float[Tensor, "n_offsets d_head"],
) -> Float[Tensor, "n_tokens d_head"]:
    """Return the outputs of Shaw's attention, token by token with a cache."""
    m = len(offsets) - 1
    keys, values, outputs = k[:0], v[:0], []
    for t in range(len(q)):
        distance = torch.arange(t, t + 1) - t
        new_key = k[t : t + 1] + offsets[distance.clamp(max=m)]
        keys = torch.cat((keys, new_key))
        values = torch.cat((values, v[t : t + 1]))
        scores = keys @ q[t] / q.shape[1] ** 0.5
        outputs.append(scores.softmax(0) @ values)
    return torch.stack(outputs)


def stale_offsets(
    q: Float[Tensor, "n_tokens d_head"],
    k: Float[Tensor, "n_tokens d_head"],
    v: Float[Tensor, "n_tokens d_head"],
    offsets: Float[Tensor, "n_offsets d_head"],
) -> Float[Tensor, "n_tokens d_head"]:
    """Return the outputs of Shaw's attention, token by token with a cache."""
    m = len(offsets) - 1
    keys, values, outputs = k[:0], v[:0], []
    for t in range(len(q)):
        distance = t - torch.arange(t + 1)
        keys = torch.cat((keys, k[t : t + 1]))
        values = torch.cat((values, v[t : t + 1]))
        scores = (keys + offsets[distance.clamp(max=m)]) @ q[t] / q.shape[1] ** 0.5
        outputs.append(scores.softmax(0) @ values)
    return torch.stack(outputs)


def accepted_row_of_biases(q, k, v, offsets):
    """Adds the products of the query with the few offset vectors to the scores."""
    m = len(offsets) - 1
    keys, values, outputs = k[:0], v[:0], []
    for t in range(len(q)):
        keys, values = torch.cat((keys, k[t : t + 1])), torch.cat((values, v[t : t + 1]))
        products = offsets @ q[t]
        row = torch.stack([products[min(t - s, m)] for s in range(t + 1)])
        weights = torch.softmax((keys @ q[t] + row) / q.size(1) ** 0.5, dim=-1)
        outputs.append(weights @ values)
    return torch.stack(outputs)


def accepted_slices(q, k, v, offsets):
    """Turns the offset vectors round, and repeats the last one."""
    outputs = []
    for t in range(len(q)):
        padded = torch.cat((offsets, offsets[-1:].expand(t + 1, -1)))[: t + 1].flip(0)
        weights = ((k[: t + 1] + padded) @ q[t] / len(q[t]) ** 0.5).softmax(0)
        outputs.append(torch.einsum("s, sd -> d", weights, v[: t + 1]))
    return torch.vstack(outputs)


def accepted_at_once(q, k, v, offsets):
    """Works on all tokens at once, without a cache."""
    position = torch.arange(len(q))
    distance = position[:, None] - position
    vectors = F.embedding(distance.clamp(0, len(offsets) - 1), offsets)
    scores = (q @ k.T + torch.einsum("td, tsd -> ts", q, vectors)) / k.shape[-1] ** 0.5
    return scores.masked_fill(distance < 0, -torch.inf).softmax(-1) @ v


NAMES = ("q", "k", "v", "offsets")


def cases(generator):
    def drawn(n_tokens, d_head, m):
        shapes = [(n_tokens, d_head)] * 3 + [(m + 1, d_head)]
        return dict(zip(NAMES, [(15 * torch.randn(*s, generator=generator)).round() / 10 for s in shapes], strict=True))

    small = dict(
        zip(NAMES, (torch.ones(2, 1), torch.zeros(2, 1), torch.eye(2)[:, :1], torch.eye(2)[:, :1]), strict=True)
    )
    return [drawn(6, 3, 2), small, drawn(4, 2, 5), drawn(7, 4, 3), drawn(5, 3, 1)]


def property_plain_keys(answer, generator):
    q, k, v = (torch.randn(6, 4, generator=generator) for _ in range(3))
    right = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    assert torch.allclose(answer(q, k, v, torch.zeros(3, 4)), right, atol=1e-4), (
        "With all offset vectors zero, the outputs should be those of causal attention. Yours are not."
    )


def property_far_offsets(answer, generator):
    q, k, v, offsets = (torch.randn(n, 4, generator=generator) for n in (6, 6, 6, 4))
    changed = offsets.clone()
    changed[2] *= -3
    one, other = answer(q, k, v, offsets), answer(q, k, v, changed)
    assert torch.allclose(one[:2], other[:2], atol=1e-4), (
        "When we change the vector of the distance 2, the outputs of the first two tokens should stay, because nothing "
        "is so far away from them. Yours change."
    )
    assert not torch.allclose(one[2:], other[2:], atol=1e-3), (
        "When we change the vector of the distance 2, the outputs of later tokens should change. Yours do not."
    )


def property_unreached_offsets(answer, generator):
    q, k, v, offsets = (torch.randn(n, 4, generator=generator) for n in (3, 3, 3, 6))
    changed = offsets.clone()
    changed[3:] *= -3
    assert torch.allclose(answer(q, k, v, offsets), answer(q, k, v, changed), atol=1e-4), (
        "With three tokens, no distance is larger than 2. So the outputs should stay when we change the vectors of "
        "the distances 3 to 5. Yours change. Negative distances, for example, read `offsets` from the end."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_head, m):
        return dict(
            zip(
                NAMES,
                [1.2 * torch.randn(n, d_head, generator=generator) for n in (*[n_tokens] * 3, m + 1)],
                strict=True,
            )
        )

    return [drawn(8, 3, 2), drawn(5, 6, 7), drawn(6, 4, 0), drawn(9, 2, 4)]
