import torch

from llm_anatomy.shapes import Float, Tensor


def fold_the_key(
    q: Float[Tensor, "n_heads d_head"],
    q_rotary: Float[Tensor, "n_heads d_rotary"],
    latents: Float[Tensor, "n_tokens d_latent"],
    k_rotary: Float[Tensor, "n_tokens d_rotary"],
    w_uk: Float[Tensor, "n_heads d_head d_latent"],
    w_uv: Float[Tensor, "n_heads d_value d_latent"],
) -> tuple[Float[Tensor, "n_heads d_latent"], Float[Tensor, "n_heads d_latent"], Float[Tensor, "n_heads d_value"]]:
    """Return the folded queries, the averaged latents and the outputs of the heads."""
    folded = torch.einsum("hd, hdc -> hc", q, w_uk)
    scores = folded @ latents.T + q_rotary @ k_rotary.T
    weights = (scores / (q.shape[1] + q_rotary.shape[1]) ** 0.5).softmax(-1)
    averaged = weights @ latents
    return folded, averaged, torch.einsum("hc, hvc -> hv", averaged, w_uv)


def accepted_loop(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Takes head by head, as in the formulas."""
    rows = []
    for i in range(len(q)):
        folded = w_uk[i].T @ q[i]
        scores = (latents @ folded + k_rotary @ q_rotary[i]) / (len(q[i]) + len(q_rotary[i])) ** 0.5
        averaged = torch.softmax(scores, 0) @ latents
        rows.append((folded, averaged, w_uv[i] @ averaged))
    return [torch.stack(each) for each in zip(*rows, strict=True)]


def accepted_joined(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Joins the folded query and the rotated one, and treats the cache as one table."""
    folded = (q.unsqueeze(1) @ w_uk).squeeze(1)
    scores = torch.cat((folded, q_rotary), 1) @ torch.cat((latents, k_rotary), 1).T
    averaged = torch.softmax(scores * (q.size(-1) + k_rotary.size(-1)) ** -0.5, 1) @ latents
    return folded, averaged, (w_uv @ averaged[..., None])[..., 0]


def accepted_unfolded(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Forms keys and values after all, which gives the same numbers."""
    keys, values = torch.einsum("tc, hdc -> htd", latents, w_uk), torch.einsum("tc, hvc -> htv", latents, w_uv)
    scores = (keys * q[:, None]).sum(-1) + (k_rotary * q_rotary[:, None]).sum(-1)
    weights = (scores / torch.tensor(q.shape[1] + q_rotary.shape[1]).sqrt()).softmax(-1)
    folded = (w_uk * q[..., None]).sum(1)
    return folded, weights @ latents, torch.einsum("ht, htv -> hv", weights, values)


NAMES = ("q", "q_rotary", "latents", "k_rotary", "w_uk", "w_uv")


def cases(generator):
    def drawn(n_heads, n_tokens, d_head, d_rotary, d_latent, d_value):
        shapes = (n_heads, d_head), (n_heads, d_rotary), (n_tokens, d_latent), (n_tokens, d_rotary)
        shapes = *shapes, (n_heads, d_head, d_latent), (n_heads, d_value, d_latent)
        return dict(zip(NAMES, [(10 * torch.randn(*s, generator=generator)).round() / 10 for s in shapes], strict=True))

    small = [[[3.0]], [[1.0]], [[0.0], [1.0]], [[1.0], [0.0]], [[[2.0]]], [[[4.0]]]]
    small = dict(zip(NAMES, map(torch.tensor, small), strict=True))
    square = drawn(3, 6, 4, 2, 4, 4)
    return [drawn(2, 5, 3, 2, 4, 6), small, square, drawn(4, 3, 5, 3, 2, 4)]


def property_equal_to_the_unfolded(answer, generator):
    shapes = (3, 4), (3, 2), (6, 5), (6, 2), (3, 4, 5), (3, 7, 5)
    q, q_rotary, latents, k_rotary, w_uk, w_uv = (torch.randn(*s, generator=generator) for s in shapes)
    output = answer(q, q_rotary, latents, k_rotary, w_uk, w_uv)[2]
    keys, values = latents @ w_uk.mT, latents @ w_uv.mT
    scores = (keys @ q[..., None])[..., 0] + q_rotary @ k_rotary.T
    right = ((scores / 6**0.5).softmax(-1)[:, None] @ values)[:, 0]
    assert torch.allclose(output, right, atol=1e-3), (
        "The outputs should be those of attention with keys and values that are recovered from the latents. "
        "They differ."
    )


def property_rotary_part(answer, generator):
    shapes = (3, 4), (3, 2), (6, 5), (6, 2), (3, 4, 5), (3, 7, 5)
    q, q_rotary, latents, k_rotary, w_uk, w_uv = (torch.randn(*s, generator=generator) for s in shapes)
    one, other = (answer(q, r, latents, k_rotary, w_uk, w_uv) for r in (q_rotary, -2 * q_rotary))
    assert torch.allclose(one[0], other[0], atol=1e-5), "The rotated queries should not enter the folded ones."
    assert not torch.allclose(one[1], other[1], atol=1e-3), (
        "When we change the rotated queries, the weights should change, and with them the averaged latents."
    )


def hidden_cases(generator):
    def drawn(n_heads, n_tokens, d_head, d_rotary, d_latent, d_value):
        shapes = (n_heads, d_head), (n_heads, d_rotary), (n_tokens, d_latent), (n_tokens, d_rotary)
        shapes = *shapes, (n_heads, d_head, d_latent), (n_heads, d_value, d_latent)
        return dict(zip(NAMES, [0.9 * torch.randn(*s, generator=generator) for s in shapes], strict=True))

    return [drawn(4, 7, 3, 2, 5, 4), drawn(1, 4, 6, 4, 3, 2), drawn(5, 2, 2, 6, 8, 3), drawn(3, 9, 5, 1, 4, 7)]
