r"""Rotary position embedding: queries and keys are rotated by their position, so that their scalar products depend on
the difference of positions alone.

The first ``d_rotary`` entries of a head form ``pairs = d_rotary / 2`` planes; plane i rotates by ``position *
frequency_i``. Shapes as in ``layers.functional``. Which entries form a pair is a matter of storage.
Interleaved pairs are neighbours (the paper, GPT-J, RoFormer, Cohere, Llama's own files); half-split pairs are entry i
of the first half and entry i of the second (GPT-NeoX, Hugging Face's files of Llama). A fixed reordering leads from one
to the other.
"""

import torch

from llm_anatomy.layers._checks import _check_integers
from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.positions.base import ModelSizes, PositionScheme
from llm_anatomy.layers.positions.rotary_scaling import (
    DynamicNTKScaling,
    Frequencies,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    YaRNScaling,
    decay_bound,
)
from llm_anatomy.layers.positions.rotation import (
    interleaved_to_half_split,
    multiply_pairs,
    rotate_by_matrix,
    rotate_complex,
    rotate_efficient,
    rotate_every_two,
)
from llm_anatomy.shapes import Float, Int, Tensor

__all__ = [
    "DynamicNTKScaling",
    "Frequencies",
    "HalfSplitRotary",
    "InterleavedRotary",
    "LinearScaling",
    "Llama3Scaling",
    "LongRoPEScaling",
    "NTKScaling",
    "Rotary",
    "YaRNScaling",
    "decay_bound",
    "interleaved_to_half_split",
    "multiply_pairs",
    "rotate_by_matrix",
    "rotate_complex",
    "rotate_efficient",
    "rotate_every_two",
]


class Rotary(PositionScheme):
    r"""Rotary position embedding: the part that both ways of pairing share.

    .. math:: q_m' = R_m q_m, \quad k_n' = R_n k_n, \quad {q_m'}^\top k_n' = q_m^\top R_{n-m} k_n

    The rotation preserves lengths; YaRN also multiplies the result by ``attention_scaling``. A rotated vector depends
    on its position, but the product of two of them depends only on the difference of their positions.
    The rotation is applied to queries and keys after their projections, never to values. Any integer position is
    allowed. Angles are computed in float32 at least, whatever the dtype of the model; ``.to(dtype)`` does not touch the
    frequencies.

    With frequencies that depend on the length of the text, the text is as long as its last position says, over the
    whole batch, as in Hugging Face's code.

    Args:
        d_rotary: number of entries of a head that are rotated, the first ones; even, at most the width of a head.
        base: the larger, the lower the lowest frequency; above 1.
        frequencies: computes the frequency of each plane from these two, such as a scaling for longer contexts.

    Raises:
        ValueError: for a width that is odd or below 2, or a base of 1 or below; in ``rotate``, for heads narrower than
            ``d_rotary`` or positions that do not fit.
        TypeError: in ``rotate``, for positions that are not integers.

    Source: Su et al. (2021), "RoFormer: Enhanced Transformer with Rotary Position Embedding"; IITD-15,
    IITD-24, IITD-25, IITD-26, IITD-27, IITD-28, CMU-28, CMU-29, CMU-30, CMU-31, CMU-32, GT-33, GT-34, GT-35, GT-52,
    UCL-28.

    >>> rotary, x = HalfSplitRotary(4), torch.tensor([[[[1.0, 3.0, 2.0, 4.0]]]])
    >>> bool(torch.isclose(rotary.rotate(x, torch.tensor([[3]])).norm(), x.norm()))
    True
    """

    options = "rope"
    label = "RoPE"

    def __init__(self, d_rotary: int, base: float = 10000.0, frequencies: Frequencies | None = None):
        super().__init__()
        if d_rotary < 2 or d_rotary % 2:
            raise ValueError(f"{d_rotary=} must be even and at least 2")
        if not base > 1:
            raise ValueError(f"{base=} must be above 1")
        scheme = Frequencies() if frequencies is None else frequencies
        self.d_rotary, self.attention_scaling = d_rotary, scheme.attention_scaling
        self.base, self.scaling, self.by_length = base, scheme, scheme.by_length
        self.register_buffer("frequencies", scheme(d_rotary, base), persistent=False)

    @classmethod
    def for_model(
        cls,
        sizes: ModelSizes,
        *,
        base: float,
        local_base: float | None,
        fraction: float,
        pairing: "type[Rotary]",
        layers: tuple[bool, ...],
        scaling: Frequencies | None,
    ) -> list[PositionScheme]:
        """Make the scheme of each layer: one for all, but another for those with a window if ``local_base`` is given,
        and none for those that ``layers`` excludes.

        Args:
            sizes: of the model.
            base: that of the constructor.
            local_base: the base of layers with a window; None for the same base.
            fraction: which fraction of a head is rotated, rounded down to an even width.
            pairing: the class of the scheme.
            layers: whether each layer has the scheme, repeated from the start where there are fewer entries than
                layers; all have it if there are none.
            scaling: the ``frequencies`` of the constructor, for all layers but those with ``local_base``.
        """
        d_rotary = 2 * int(sizes.d_head * fraction / 2)
        none = PositionScheme()
        everywhere = local = pairing(d_rotary, base, scaling)
        if local_base is not None:
            local = pairing(d_rotary, local_base)
        schemes = [everywhere if window is None else local for window in sizes.windows]
        return [scheme if not layers or layers[i % len(layers)] else none for i, scheme in enumerate(schemes)]

    def rotate(
        self,
        x: Float[Tensor, "*leading tokens d_head"],
        positions: Int[Tensor, "*#batch tokens"],
        tables: tuple[Tensor, ...] | None = None,
    ) -> Float[Tensor, "*leading tokens d_head"]:
        """Rotate the first ``d_rotary`` entries of each query, or key, by its position; the others do not change.

        Args:
            x: queries or keys, with any dimensions before the tokens: none, batch, heads, batch and heads, or more.
            positions: (tokens,) for all of ``x``, or (batch, tokens), where batch is the first dimension of ``x`` or 1.
            tables: from ``tables``, for the same positions; computed unless they are given.

        Raises:
            ValueError: for heads narrower than ``d_rotary``, or positions that do not fit.
            TypeError: for positions that are not integers.

        >>> rotary, x = HalfSplitRotary(4), torch.randn(3, 5, 4)  # no heads: (batch, tokens, d_head)
        >>> by_one = rotary.rotate(x, torch.arange(5))
        >>> bool(torch.equal(rotary.rotate(x, torch.arange(5).expand(3, 5)), by_one))
        True
        """
        self._check_shapes(x, positions)
        tables = self.tables(positions, x.dtype) if tables is None else tables
        if positions.ndim == 2 and x.ndim != 4:  # from (batch, 1, tokens, ...) to the dimensions of x
            tables = tuple(table.view(table.shape[0], *[1] * (x.ndim - 3), *table.shape[2:]) for table in tables)
        if self.d_rotary == x.shape[-1]:
            return self._rotate(x, *tables)
        return torch.cat((self._rotate(x[..., : self.d_rotary], *tables), x[..., self.d_rotary :]), -1)

    def tables(self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Cosines and sines at the positions.

        Args:
            positions: the positions of the tokens: (tokens,), or (batch or 1, tokens).
            dtype: of the vectors that will be rotated.

        Returns:
            Tensors (tokens, ...) for positions (tokens,), and (batch or 1, 1, tokens, ...), with a dimension for the
            heads, for positions (batch or 1, tokens).
        """
        raise NotImplementedError

    def _rotate(self, x: Float[Tensor, "*leading tokens d_rotary"], *tables: Tensor) -> Tensor:
        """Rotate all entries of ``x``."""
        raise NotImplementedError

    def cache_stays_valid(self, n_before: int, n_after: int) -> bool:
        return not self.by_length or self.scaling.alike(n_before, n_after)

    def _angles(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        wide, frequencies = _wide(dtype), self.frequencies
        if self.by_length and positions.numel():
            frequencies = self.scaling.at_length(self.d_rotary, self.base, positions.max() + 1)
        frequencies = frequencies.to(positions.device, wide)
        positions = positions[..., None] if positions.ndim == 1 else positions[:, None, :, None]
        return positions.to(wide) * frequencies  # (tokens, pairs) or (batch or 1, 1, tokens, pairs)

    def _check_shapes(self, x: Tensor, positions: Tensor) -> None:
        shape, given = x.shape, positions.shape
        if len(shape) < 2 or shape[-1] < self.d_rotary:
            raise ValueError(
                f"x has shape {tuple(shape)}; it must be (..., tokens, d_head) with d_head at least "
                f"d_rotary={self.d_rotary}"
            )
        _check_integers(positions=positions)
        fits = given == shape[-2:-1]
        if len(given) == 2 and len(shape) > 2:
            fits = given[1] == shape[-2] and given[0] in (1, shape[0])
        if not fits:
            alternative = f" or ({shape[0]} or 1, {shape[-2]})" if len(shape) > 2 else ""
            raise ValueError(
                f"positions have shape {tuple(given)}; for x {tuple(shape)} they must be ({shape[-2]},){alternative}"
            )

    def _apply(self, fn, recurse=True):
        """Follow a change of device, but not of dtype: rounded frequencies give wrong angles at late positions."""
        frequencies = self.frequencies
        super()._apply(fn, recurse)
        self.frequencies = frequencies.to(self.frequencies.device)
        return self


class InterleavedRotary(Rotary):
    r"""RoPE with interleaved pairs: entries 0 and 1, 2 and 3, and so on.

    The paper, GPT-J, RoFormer and Cohere use this pairing. The complex form is the fastest for it, since a pair is
    stored in memory like a complex number.

    .. math:: (x_{2i} + \mathrm{i}\, x_{2i+1}) \, e^{\mathrm{i} m \theta_i}

    Args:
        d_rotary: number of entries of a head that are rotated, the first ones; even, at most the width of a head.
        base: the larger, the lower the lowest frequency; above 1.
        frequencies: computes the frequency of each plane from these two, as in :class:`Rotary`.

    Raises:
        ValueError, TypeError: as in :class:`Rotary`.

    Source: Su et al. (2021), section 3.4.2; IITD-25, IITD-26.

    >>> x, positions = torch.tensor([[[[1.0, 2.0, 3.0, 4.0, 5.0]]]]), torch.tensor([[3]])
    >>> [round(v, 4) for v in InterleavedRotary(4).rotate(x, positions).flatten().tolist()]  # the last entry stays
    [-1.2722, -1.8389, 2.8787, 4.0882, 5.0]
    """

    def tables(self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype) -> tuple[Tensor, ...]:
        angles = self._angles(positions, dtype)
        return (torch.stack((angles.cos(), angles.sin()), -1) * self.attention_scaling,)  # (..., pairs, 2)

    def _rotate(self, x: Float[Tensor, "*leading tokens d_rotary"], *tables: Tensor) -> Tensor:
        return multiply_pairs(x, *tables)


class HalfSplitRotary(Rotary):
    r"""RoPE with half-split pairs: entry i of the first half and entry i of the second.

    GPT-NeoX and Hugging Face's Llama use this pairing. The efficient form is the fastest for it: the halves are
    exchanged, and the sine carries the sign.

    .. math:: x \odot (c, c) + (x_\mathrm{second}, x_\mathrm{first}) \odot (-s, s), \quad
        c_i = \cos m\theta_i, \; s_i = \sin m\theta_i

    Args:
        d_rotary: number of entries of a head that are rotated, the first ones; even, at most the width of a head.
        base: the larger, the lower the lowest frequency; above 1.
        frequencies: computes the frequency of each plane from these two, as in :class:`Rotary`.

    Raises:
        ValueError, TypeError: as in :class:`Rotary`.

    Source: Su et al. (2021), section 3.4.2; IITD-25, IITD-26.

    >>> x, positions = torch.tensor([[[[1.0, 3.0, 2.0, 4.0, 5.0]]]]), torch.tensor([[3]])
    >>> [round(v, 4) for v in HalfSplitRotary(4).rotate(x, positions).flatten().tolist()]  # the last entry stays
    [-1.2722, 2.8787, -1.8389, 4.0882, 5.0]
    """

    def tables(self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype) -> tuple[Tensor, ...]:
        angles = self._angles(positions, dtype)  # (..., tokens, pairs)
        cos, sin = angles.cos() * self.attention_scaling, angles.sin() * self.attention_scaling
        return torch.cat((cos, cos), -1).to(dtype), torch.cat((-sin, sin), -1).to(dtype)

    def _rotate(self, x: Float[Tensor, "*leading tokens d_rotary"], *tables: Tensor) -> Tensor:
        # under autocast the tables have the dtype of the hidden states, not of x
        cos, signed_sin = (table.to(x.dtype) for table in tables)
        return (x * cos).addcmul_(x.roll(self.d_rotary // 2, -1), signed_sin)
