import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def rolling_step(
    q: Float[Tensor, "d_head"],
    k: Float[Tensor, "d_head"],
    v: Float[Tensor, "d_value"],
    keys: Float[Tensor, "n_slots d_head"],
    values: Float[Tensor, "n_slots d_value"],
    n_seen: int,
) -> tuple[Float[Tensor, "d_value"], Float[Tensor, "n_slots d_head"], Float[Tensor, "n_slots d_value"]]:
    """Return the output of the new token, and the cache with its key and its value."""
    keys, values = keys.clone(), values.clone()
    slot, n_used = n_seen % len(keys), min(n_seen + 1, len(keys))
    keys[slot], values[slot] = k, v
    weights = (keys[:n_used] @ q / len(q) ** 0.5).softmax(0)
    return weights @ values[:n_used], keys, values


def accepted_where(q, k, v, keys, values, n_seen):
    """Chooses the slot by a mask, and hides unused slots by another."""
    slots = torch.arange(keys.size(0))
    new = (slots == n_seen % keys.size(0))[:, None]
    keys, values = torch.where(new, k, keys), torch.where(new, v, values)
    scores = torch.einsum("sd, d -> s", keys, q) / q.numel() ** 0.5
    weights = torch.softmax(scores.masked_fill(slots > n_seen, -torch.inf), dim=0)
    return [torch.einsum("s, sd -> d", weights, torch.where((slots > n_seen)[:, None], 0, values)), keys, values]


def accepted_positions(q, k, v, keys, values, n_seen):
    """Goes through the positions of the window, from the oldest to the newest."""
    w = len(keys)
    rows, contents = list(keys), list(values)
    rows[n_seen % w], contents[n_seen % w] = k, v
    total, output = 0, torch.zeros_like(v)
    for position in range(max(0, n_seen - w + 1), n_seen + 1):
        power = torch.exp(rows[position % w] @ q / len(k) ** 0.5)
        total, output = total + power, output + power * contents[position % w]
    return output / total, torch.stack(rows), torch.stack(contents)


def accepted_cut_and_joined(q, k, v, keys, values, n_seen):
    """Cuts the tables around the slot, and leaves attention to PyTorch."""
    slot = n_seen - n_seen // len(keys) * len(keys)
    keys, values = (torch.cat((x[:slot], new[None], x[slot + 1 :])) for x, new in ((keys, k), (values, v)))
    used = slice(None) if n_seen >= len(keys) else slice(n_seen + 1)
    return F.scaled_dot_product_attention(q[None, None], keys[used][None], values[used][None])[0, 0], keys, values


NAMES = ("q", "k", "v", "keys", "values")


def cases(generator):
    def drawn(n_slots, d_head, d_value, n_seen):
        shapes = (d_head,), (d_head,), (d_value,), (n_slots, d_head), (n_slots, d_value)
        values = [(15 * torch.randn(*s, generator=generator)).round() / 10 for s in shapes]
        return dict(zip(NAMES, values, strict=True)) | {"n_seen": n_seen}

    small = [torch.tensor(x) for x in ([1.0], [0.0], [6.0], [[2.0], [0.0]], [[3.0], [1.0]])]
    small = dict(zip(NAMES, small, strict=True))
    few = [small | {"n_seen": n_seen} for n_seen in (2, 1)]
    return [drawn(4, 3, 2, 9), *few, drawn(5, 2, 3, 2), drawn(6, 4, 5, 0), drawn(3, 4, 2, 3), drawn(4, 2, 3, 15)]


def property_window(answer, generator):
    q, k, v = (torch.randn(11, 3, generator=generator) for _ in range(3))
    keys, values = torch.full((4, 3), 50.0), torch.full((4, 3), -70.0)
    outputs = []
    for t in range(11):
        output, keys, values = answer(q[t], k[t], v[t], keys, values, t)
        outputs.append(output)
    distance = torch.arange(11)[:, None] - torch.arange(11)
    scores = (q @ k.T / 3**0.5).masked_fill((distance < 0) | (distance >= 4), -torch.inf)
    assert torch.allclose(torch.stack(outputs), scores.softmax(-1) @ v, atol=1e-4), (
        "Eleven steps with 4 slots should give what attention with a sliding window of 4 tokens gives at once."
    )


def hidden_cases(generator):
    def drawn(n_slots, d_head, d_value, n_seen):
        shapes = (d_head,), (d_head,), (d_value,), (n_slots, d_head), (n_slots, d_value)
        values = [torch.randn(*s, generator=generator) for s in shapes]
        return dict(zip(NAMES, values, strict=True)) | {"n_seen": n_seen}

    return [drawn(5, 4, 3, 12), drawn(7, 2, 5, 3), drawn(3, 6, 2, 2), drawn(6, 3, 4, 6), drawn(2, 5, 3, 100)]
