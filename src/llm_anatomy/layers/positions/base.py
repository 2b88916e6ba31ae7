"""What every position scheme has in common: four hooks through which it may tell attention where each token is.

Legend of shapes as in ``layers.attention``. Positions are integers, ``(batch, tokens)`` or ``(1, tokens)`` where all
sequences are alike. A relative offset is key position minus query position.
"""

import math

from torch import nn

from llm_anatomy.shapes import Float, Int, Tensor


class PositionScheme(nn.Module):
    """The four hooks; each does nothing until a scheme says otherwise.

    Attention calls them in this order and knows no scheme by name::

        x      = position.embed(x, positions)                                     # the model, once, at the input
        query  = position.rotate(query, query_positions); key likewise
        scores = query @ key.T * position.scale(d_head) + position.bias(query, key, query_positions, key_positions)
        output = softmax(scores) @ value + position.add_to_output(weights, query_positions, key_positions)

    Positions are explicit, so that a cache, padding on the left and packed sequences work wherever a scheme allows it.

    Source: Dufter et al. (2022), who put absolute and relative schemes into one notation; IITD-03, IITD-16, CMU-22.

    >>> PositionScheme().scale(16)
    0.25
    """

    explicit_only: str | None = None
    """Why the scheme has no fused form, where it has none."""

    not_cacheable: str | None = None
    """Why keys cannot be kept from one step to the next, where they cannot."""

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Int[Tensor, "#batch tokens"]
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the embeddings."""
        return x

    def rotate(
        self, x: Float[Tensor, "batch heads tokens d_head"], positions: Int[Tensor, "#batch tokens"]
    ) -> Float[Tensor, "batch heads tokens d_head"]:
        """Change queries, or keys, each with its own positions."""
        return x

    def scale(self, d_head: int) -> float:
        """The factor of the scores."""
        return 1 / math.sqrt(d_head)

    def bias(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        key: Float[Tensor, "batch kv_heads keys d_head"],
        query_positions: Int[Tensor, "#batch queries"],
        key_positions: Int[Tensor, "#batch keys"],
        projections: tuple[nn.Linear, nn.Linear] | None = None,
    ) -> Float[Tensor, "#batch #heads queries keys"] | None:
        """Add to the scores, after they are scaled. ``projections`` are attention's own for queries and keys, which
        a scheme may share."""
        return None

    def add_to_output(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        query_positions: Int[Tensor, "#batch queries"],
        key_positions: Int[Tensor, "#batch keys"],
    ) -> Float[Tensor, "batch heads queries d_value"] | None:
        """Add to the values that are averaged: what the weights make of the positions. Explicit only, since it needs
        the weights."""
        return None


def offsets(
    query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
) -> Int[Tensor, "#batch queries keys"]:
    """Key position minus query position, for every pair.

    Args:
        query_positions, key_positions: of all sequences, or of one where all are alike.

    Source: the book's convention for the lectures' disagreement D-02; IITD-18, CMU-25, GT-30.

    >>> import torch
    >>> offsets(torch.tensor([[4]]), torch.tensor([[2, 3, 4]])).tolist()
    [[[-2, -1, 0]]]
    """
    return key_positions[:, None, :] - query_positions[:, :, None]
