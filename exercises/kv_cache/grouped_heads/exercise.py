import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def grouped_heads(
    q: Float[Tensor, "n_heads n_tokens d_head"],
    k: Float[Tensor, "n_kv_heads n_tokens d_head"],
    v: Float[Tensor, "n_kv_heads n_tokens d_head"],
) -> Float[Tensor, "n_heads n_tokens d_head"]:
    """Return the outputs of causal attention, where neighbouring query heads share keys and values."""
    n_tokens, d_head = q.shape[1:]
    group = len(q) // len(k)
    k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
    hidden = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / d_head**0.5).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


def accepted_axis_of_groups(q, k, v):
    """Gives the queries an axis for their group, so that no key is copied."""
    n_tokens, d_head = q.shape[1:]
    grouped = q.reshape(len(k), -1, n_tokens, d_head)
    scores = torch.einsum("ghqd, gkd -> ghqk", grouped, k) / d_head**0.5
    weights = scores.where(torch.ones(n_tokens, n_tokens).tril() > 0, -torch.inf).softmax(-1)
    return torch.einsum("ghqk, gkd -> ghqd", weights, v).reshape(q.shape)


def accepted_formula(q, k, v):
    """Loops over the heads, with the formula."""
    n_heads, n_groups = len(q), len(k)
    outputs = []
    for h in range(1, n_heads + 1):
        g = -(-h * n_groups // n_heads) - 1
        outputs.append(F.scaled_dot_product_attention(q[h - 1][None], k[g][None], v[g][None], is_causal=True)[0])
    return torch.stack(outputs, dim=0)


def accepted_library(q, k, v):
    """Leaves the groups to PyTorch."""
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]


def accepted_token_by_token(q, k, v):
    """Lets each query read only what is there at its time."""
    group, outputs = q.size(0) // k.size(0), torch.empty_like(q)
    for i in range(q.size(0)):
        for t in range(q.size(1)):
            weights = (k[i // group, : t + 1] @ q[i, t] / q.size(2) ** 0.5).softmax(0)
            outputs[i, t] = weights @ v[i // group, : t + 1]
    return outputs


def cases(generator):
    def drawn(n_heads, n_kv_heads, n_tokens, d_head):
        shapes = {"q": (n_heads, n_tokens, d_head), "k": (n_kv_heads, n_tokens, d_head)}
        shapes["v"] = shapes["k"]
        return {name: (20 * torch.randn(*s, generator=generator)).round() / 10 for name, s in shapes.items()}

    small = {"q": torch.zeros(2, 1, 1), "k": torch.zeros(1, 1, 1), "v": torch.tensor([[[3.0]]])}
    few = {"q": torch.zeros(4, 1, 1), "k": torch.zeros(2, 1, 1), "v": torch.tensor([[[1.0]], [[5.0]]])}
    return [drawn(6, 2, 4, 3), few, drawn(6, 3, 2, 5), drawn(4, 1, 3, 2), drawn(3, 3, 5, 4), small]


def property_groups(answer, generator):
    q, k, v = (torch.randn(n, 4, 3, generator=generator) for n in (6, 2, 2))
    changed = v.clone()
    changed[1] += 1
    one, other = answer(q, k, v), answer(q, k, changed)
    assert torch.allclose(one[:3], other[:3], atol=1e-5), (
        "With 6 query heads and 2 key-value heads, the first 3 query heads share the first key-value head. When we "
        "change the values of the second one, the outputs of the first 3 should stay. Yours change."
    )
    assert torch.allclose(one[3:] + 1, other[3:], atol=1e-4), (
        "With 6 query heads and 2 key-value heads, the last 3 query heads share the second key-value head. When we add "
        "1 to the values of the second one, the outputs of the last 3 should grow by 1. Yours do not."
    )


def property_causal(answer, generator):
    q, k, v = (torch.randn(n, 5, 3, generator=generator) for n in (4, 2, 2))
    later_k, later_v = k.clone(), v.clone()
    later_k[:, 3:] += 1
    later_v[:, 3:] -= 1
    assert torch.allclose(answer(q, k, v)[:, :3], answer(q, later_k, later_v)[:, :3], atol=1e-5), (
        "When we change the keys and values of the last two of five tokens, the outputs of the first three should "
        "stay. Yours change: no token may attend to later ones."
    )


def hidden_cases(generator):
    def drawn(n_heads, n_kv_heads, n_tokens, d_head):
        return {
            name: 1.5 * torch.randn(n, n_tokens, d_head, generator=generator)
            for name, n in zip("qkv", (n_heads, n_kv_heads, n_kv_heads), strict=True)
        }

    return [drawn(8, 2, 5, 4), drawn(6, 3, 7, 2), drawn(5, 1, 3, 6), drawn(2, 2, 6, 3)]
