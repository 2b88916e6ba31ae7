r"""Convolutions along the tokens: a token is mixed with its neighbours by weights that depend on their distance.

A convolution of width K reads K tokens. It is either causal, and reads a token and the K - 1 tokens before it, or
centred on the token. Padding is set to zero first, so that it changes no token beside it.

Shapes as in ``layers.functional``. Two of the classes replace self-attention, and have its method ``attend``.
"""

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.masks import BidirectionalMask, CausalMask, Mask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.shapes import Bool, Float, Int, Tensor


class TokenConvolution(nn.Module):
    r"""Convolution along the tokens of a sequence.

    .. math:: y_t = \sum_{j=0}^{K-1} W_j\, x_{t + j - s}, \quad s = K - 1 \text{ if causal, else } \lfloor K/2 \rfloor

    Args:
        d_in, d_out: width of the tokens before and after.
        width: K, the number of tokens that each output reads.
        causal: whether a token reads itself and earlier tokens only.
        groups: number of parts of the tokens that are convolved apart; ``d_in`` for a depthwise convolution.

    Raises:
        ValueError: for sizes below one, or if ``groups`` does not divide both widths.

    Source: LeCun et al. (1989); So et al. (2019), figure 3; GT-19.

    >>> convolution = TokenConvolution(1, 1, width=2, causal=True)
    >>> _ = convolution.weight.data.copy_(torch.tensor([[[10.0, 1.0]]]))
    >>> convolution(torch.tensor([[[1.0], [2.0], [3.0]]])).flatten().tolist()
    [1.0, 12.0, 23.0]
    """

    def __init__(self, d_in: int, d_out: int, width: int, *, causal: bool, groups: int = 1):
        super().__init__()
        _check_at_least_one(d_in=d_in, d_out=d_out, width=width, groups=groups)
        if d_in % groups or d_out % groups:
            raise ValueError(f"{groups=} must divide {d_in=} and {d_out=}")
        self.width, self.causal, self.groups = width, causal, groups
        n_inputs = d_in // groups
        self.weight = nn.Parameter(torch.randn(d_out, n_inputs, width) * (n_inputs * width) ** -0.5)

    def forward(
        self, x: Float[Tensor, "batch tokens d_in"], attention_mask: Bool[Tensor, "#batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens d_out"]:
        """Mix each token with its neighbours.

        Args:
            x: the tokens.
            attention_mask: boolean, True for a token and False for padding; by default there is no padding.
        """
        x = _with_neighbours(x, attention_mask, self.width, self.causal)
        return F.conv1d(x.mT, self.weight, groups=self.groups).mT


class SeparableConvolution(nn.Module):
    r"""Depthwise separable convolution: along the tokens in each channel by itself, then across the channels.

    .. math:: y_t = W \Big( \sum_{j=0}^{K-1} w_j \odot x_{t + j - s} \Big) + b

    It has :math:`K d_\mathrm{in} + d_\mathrm{in} d_\mathrm{out}` weights, where a full convolution has
    :math:`K d_\mathrm{in} d_\mathrm{out}`.

    Args:
        d_in, d_out, width, causal: as in :class:`TokenConvolution`.

    Raises:
        ValueError: for sizes below one.

    Source: Chollet (2017), "Xception", section 2; So et al. (2019), section 3.1; GT-19.

    >>> [tuple(parameter.shape) for parameter in SeparableConvolution(8, 5, width=3, causal=False).parameters()]
    [(8, 1, 3), (5, 8), (5,)]
    """

    def __init__(self, d_in: int, d_out: int, width: int, *, causal: bool):
        super().__init__()
        self.depthwise = TokenConvolution(d_in, d_in, width, causal=causal, groups=d_in)
        self.pointwise = nn.Linear(d_in, d_out)
        nn.init.zeros_(self.pointwise.bias)

    def forward(
        self, x: Float[Tensor, "batch tokens d_in"], attention_mask: Bool[Tensor, "#batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens d_out"]:
        """Mix each token with its neighbours; the arguments are those of :class:`TokenConvolution`."""
        return self.pointwise(self.depthwise(x, attention_mask))


class LightweightConvolution(nn.Module):
    r"""Lightweight convolution: a fixed weight for each distance, in place of the weights of self-attention.

    .. math::
        u_t &= (x_t W_1) \odot \sigma(x_t W_2), \\
        y_t &= \Big( \sum_{j=0}^{K-1} \mathrm{softmax}(k)_j\, u_{t + j - s} \Big) W^O, \quad
        s = K - 1 \text{ if causal, else } \lfloor K/2 \rfloor

    The channels are divided into heads. All channels of a head share one kernel k, whose softmax sums to one over the
    window, as the weights of attention do. Attention computes its weights from pairs of tokens; these ones are the same
    for all texts and all positions, and the cost is linear in the number of tokens.

    Args:
        d_model: width of the tokens.
        n_heads: number of kernels; must divide ``d_model``.
        width: K, the number of tokens that each output reads.
        causal: whether a token reads itself and earlier tokens only.
        w_output: the output projection; one matrix by default.

    Raises:
        ValueError: for sizes below one; if ``n_heads`` does not divide ``d_model``; when called, for a cache, and for
            any mask but the plain one that agrees with ``causal``.

    Source: Wu et al. (2019), "Pay Less Attention with Lightweight and Dynamic Convolutions", section 3; GT-19.

    >>> convolution = LightweightConvolution(d_model=12, n_heads=3, width=5, causal=True)
    >>> convolution.kernel.shape, tuple(convolution(torch.randn(2, 7, 12)).shape)
    (torch.Size([3, 5]), (2, 7, 12))
    """

    def __init__(self, d_model: int, n_heads: int, width: int, *, causal: bool, w_output: nn.Module | None = None):
        super().__init__()
        _check_at_least_one(d_model=d_model, n_heads=n_heads, width=width)
        if d_model % n_heads:
            raise ValueError(f"{n_heads=} must divide {d_model=}")
        self.n_heads, self.width, self.causal = n_heads, width, causal
        self.w_input = nn.Linear(d_model, 2 * d_model, bias=False)
        self.w_output = nn.Linear(d_model, d_model, bias=False) if w_output is None else w_output
        self._make_kernel(d_model)

    def _make_kernel(self, d_model: int) -> None:
        self.kernel = nn.Parameter(torch.randn(self.n_heads, self.width) * self.width**-0.5)

    def _convolve(self, u: Tensor, neighbours: Tensor) -> Tensor:
        """Average u, (batch, tokens, d_model), over the windows of ``neighbours``, which is u with zeros around it."""
        d_model = u.shape[-1]
        weight = repeat(self.kernel.softmax(-1), "heads width -> (heads c) 1 width", c=d_model // self.n_heads)
        return F.conv1d(neighbours.mT, weight, groups=d_model).mT

    def new_cache(self, batch: int, n_slots: int, kind: type[KVCache] = KVCache) -> KVCache:
        """Refuse: a convolution has neither keys nor values to cache."""
        raise ValueError(_no_cache(self))

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        mask: Mask | None = None,
        *,
        positions: Int[Tensor, "#batch tokens"] | None = None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "batch tokens d_model"] | tuple[Float[Tensor, "batch tokens d_model"], None]:
        """Mix each token with its neighbours.

        Args:
            x: the tokens.
            mask: the plain rule that agrees with ``causal``, or None, as a block passes it.
            positions: the positions of the tokens, -1 for padding; by default there is no padding.
            position_context: as in :class:`~llm_anatomy.layers.attention.SelfAttention`.
            cache: None, since there is nothing to cache.
            return_weights: whether to return ``(output, None)``, as there are no weights.
        """
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], positions, device=x.device)
        if cache is not None:
            raise ValueError(_no_cache(self))
        if mask not in (CausalMask() if self.causal else BidirectionalMask(), None):
            raise ValueError(f"mask={mask} is not possible with causal={self.causal}: a window has no other mask")
        u = F.glu(self.w_input(x))
        attention_mask = None if position_context.contiguous else position_context.query_positions >= 0
        neighbours = _with_neighbours(u, attention_mask, self.width, self.causal)
        output = self.w_output(self._convolve(u, neighbours))
        return (output, None) if return_weights else output


class DynamicConvolution(LightweightConvolution):
    r"""Dynamic convolution: each token computes the weights of its window from itself.

    .. math:: y_t = \Big( \sum_{j=0}^{K-1} \mathrm{softmax}(W^K u_t + b)_j\, u_{t + j - s} \Big) W^O

    All else is as in :class:`LightweightConvolution`. The weights depend on the token at the position, as in attention,
    and not on the tokens with which it is mixed.

    Args and errors as for :class:`LightweightConvolution`.

    Args:
        d_model, n_heads, width, causal, w_output: as there.

    Source: Wu et al. (2019), section 4; GT-19.

    >>> convolution = DynamicConvolution(d_model=12, n_heads=3, width=5, causal=True)
    >>> convolution.w_kernel.weight.shape, tuple(convolution(torch.randn(2, 7, 12)).shape)
    (torch.Size([15, 12]), (2, 7, 12))
    """

    def _make_kernel(self, d_model: int) -> None:
        self.w_kernel = nn.Linear(d_model, self.n_heads * self.width)
        nn.init.zeros_(self.w_kernel.bias)

    def _convolve(self, u: Tensor, neighbours: Tensor) -> Tensor:
        kernels = rearrange(
            self.w_kernel(u), "batch tokens (heads width) -> batch tokens heads 1 width", heads=self.n_heads
        )
        windows = neighbours.unfold(1, self.width, 1)  # (batch, tokens, d_model, width)
        windows = rearrange(windows, "batch tokens (heads c) width -> batch tokens heads c width", heads=self.n_heads)
        return (windows * kernels.softmax(-1)).sum(-1).flatten(2)


def _with_neighbours(x: Tensor, attention_mask: Tensor | None, width: int, causal: bool) -> Tensor:
    """The tokens, with padding set to zero, and with zeros before and after them, so that each has a whole window."""
    if attention_mask is not None:
        x = x.masked_fill(~attention_mask[..., None], 0)
    before = width - 1 if causal else width // 2
    return F.pad(x, (0, 0, before, width - 1 - before))


def _no_cache(layer: nn.Module) -> str:
    return f"{type(layer).__name__} has no cache: run the model on the whole text, without one"
