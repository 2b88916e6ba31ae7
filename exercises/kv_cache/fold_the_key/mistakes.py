import torch


def _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scale=None, scores=None, rotary=1):
    folded = torch.einsum("hd, hdc -> hc", q, w_uk)
    if scores is None:
        scores = folded @ latents.T + rotary * (q_rotary @ k_rotary.T)
    weights = (scores / ((q.shape[1] + q_rotary.shape[1]) ** 0.5 if scale is None else scale)).softmax(-1)
    averaged = weights @ latents
    return folded, averaged, torch.einsum("hc, hvc -> hv", averaged, w_uv)


def rotary_part_missing(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but the scores lack the part of the rotated keys."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, rotary=0)


def latent_part_missing(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but the scores consist of the rotated part alone."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scores=q_rotary @ k_rotary.T)


def scaled_by_the_head(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but you divide the scores by the root of `d_head` alone. The rotated part counts,
    too."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scale=q.shape[1] ** 0.5)


def scaled_by_the_latent(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but you divide the scores by the root of the width of a latent. Folding does not
    change the scores, so they keep the scale that they had with keys."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scale=latents.shape[1] ** 0.5)


def scaled_by_latent_and_rotary(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but you divide the scores by the root of the width of latent and rotated key
    together. Folding does not change the scores, so they keep the scale that they had with keys."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scale=(latents.shape[1] + k_rotary.shape[1]) ** 0.5)


def not_scaled(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but the scores are not divided by the root."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scale=1)


def parts_scaled_apart(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but you divide each part of the scores by the root of its own width. Divide their
    sum by one root, as the formula does."""
    folded = torch.einsum("hd, hdc -> hc", q, w_uk)
    scores = folded @ latents.T / q.shape[1] ** 0.5 + q_rotary @ k_rotary.T / q_rotary.shape[1] ** 0.5
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scores=scores, scale=1)


def softmax_over_the_heads(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your softmax runs over the heads. For each head, the weights of all tokens should sum to one."""
    folded = torch.einsum("hd, hdc -> hc", q, w_uk)
    scores = (folded @ latents.T + q_rotary @ k_rotary.T) / (q.shape[1] + q_rotary.shape[1]) ** 0.5
    averaged = scores.softmax(0) @ latents
    return folded, averaged, torch.einsum("hc, hvc -> hv", averaged, w_uv)


def latents_weighted_by_scores(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but you weight the latents by the scores themselves. The softmax is missing."""
    folded = torch.einsum("hd, hdc -> hc", q, w_uk)
    scores = (folded @ latents.T + q_rotary @ k_rotary.T) / (q.shape[1] + q_rotary.shape[1]) ** 0.5
    averaged = scores @ latents
    return folded, averaged, torch.einsum("hc, hvc -> hv", averaged, w_uv)


def first_head_for_all(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """You use the matrices of the first head for all heads."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk[:1].expand_as(w_uk), w_uv[:1].expand_as(w_uv))


def values_of_the_first_head(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your averaged latents are right, but the outputs use the first head's matrix for all heads."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv[:1].expand_as(w_uv))


def values_by_the_key_matrix(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your averaged latents are right, but the outputs are made with the matrices of the keys."""
    folded, averaged, _ = _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv)
    return folded, averaged, torch.einsum("hc, hdc -> hd", averaged, w_uk)


def queries_not_folded(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your other two tensors are right, but the first holds the queries as they were. Return the folded ones."""
    return q.clone(), *_fold(q, q_rotary, latents, k_rotary, w_uk, w_uv)[1:]


def output_before_latents(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your tensors are right, but the outputs come before the averaged latents."""
    folded, averaged, output = _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv)
    return folded, output, averaged


def rotary_part_in_the_folded(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your outputs are right, but the first tensor holds the rotated queries as well. It should have the width of a
    latent."""
    folded, averaged, output = _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv)
    return torch.cat((folded, q_rotary), 1), averaged, output


def folded_is_scaled(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your outputs are right, but the folded queries are divided by the root already. The formula divides the scores
    by it."""
    folded, averaged, output = _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv)
    return folded / (q.shape[1] + q_rotary.shape[1]) ** 0.5, averaged, output


def outputs_first(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your tensors are right, but in reverse order: the folded queries come first and the outputs last."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv)[::-1]


def scaled_without_root(q, q_rotary, latents, k_rotary, w_uk, w_uv):
    """Your folded queries are right, but you divide the scores by the sum of the two widths. Divide by its root."""
    return _fold(q, q_rotary, latents, k_rotary, w_uk, w_uv, scale=q.shape[1] + q_rotary.shape[1])
