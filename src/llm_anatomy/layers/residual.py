r"""Residual placement: where the norm stands between a sublayer and the stream that it adds to.

A block holds its sublayers and one placement for each::

    x = self.attention_residual(x, self.attention, mask=mask)
    x = self.feedforward_residual(x, self.feedforward)

A placement owns its norms, never the sublayer. Keyword arguments go on to the sublayer. A sublayer that returns a tuple
means: the first entry is the branch, added to the stream; the others, such as attention weights, are handed back
untouched behind it. So the placement returns a tensor where the sublayer does, and a tuple where the sublayer does.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from llm_anatomy.shapes import Float, Tensor


class Residual(nn.Module):
    r"""The sublayer's output is added to its input; the identity carries the gradient past it.

    .. math:: y = x + F(x)

    The placements below change what the branch reads (``enter``) or how it comes back to the stream (``join``).

    Raises:
        ValueError: when called, if the sublayer's output does not have the shape of its input.

    Source: He et al. (2015), section 3.1; IITD-33, IITD-42, UCL-24.

    >>> Residual()(torch.tensor([[1.0, 2.0]]), lambda x: 10 * x).tolist()
    [[11.0, 22.0]]
    """

    def enter(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """What the sublayer reads."""
        return x

    def join(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """The stream after the sublayer."""
        return x + branch

    def forward(
        self, x: Float[Tensor, "*batch d_model"], sublayer: Callable[..., Tensor | tuple], **kwargs
    ) -> Float[Tensor, "*batch d_model"] | tuple:
        """Run the sublayer and add what it finds.

        Args:
            x: the stream.
            sublayer: called as ``sublayer(x, **kwargs)``; gives a tensor of the shape of ``x``, or a tuple that begins
                with one.
        """
        result = sublayer(self.enter(x), **kwargs)
        branch, *rest = result if isinstance(result, tuple) else (result,)
        if branch.shape != x.shape:
            raise ValueError(f"the sublayer made {tuple(branch.shape)} of {tuple(x.shape)}; the shapes must be equal")
        joined = self.join(x, branch)
        return (joined, *rest) if isinstance(result, tuple) else joined


class PostNorm(Residual):
    r"""Normalize the sum: the original Transformer. The stream passes through every norm.

    .. math:: y = \mathrm{Norm}(x + F(x))

    Args:
        norm: of the width of the stream.

    Source: Vaswani et al. (2017), section 3.1; Xiong et al. (2020); CMU-18, GT-13, GT-15.

    >>> y = PostNorm(nn.LayerNorm(3))(torch.tensor([[1.0, 2.0, 9.0]]), torch.tanh)
    >>> [round(v, 2) for v in y.flatten().tolist()]
    [-0.87, -0.54, 1.4]
    """

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def join(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return self.norm(x + branch)


class PreNorm(Residual):
    r"""Normalize what the branch reads. The stream stays an identity, and needs one norm after the last block.

    .. math:: y = x + F(\mathrm{Norm}(x))

    Args:
        norm: of the width of the stream.

    Source: Xiong et al. (2020), section 3; Baevski and Auli (2018); Child et al. (2019); Wang et al. (2019); CMU-19
    (erratum E-42), GT-13, GT-14, GT-21, UCL-28.

    >>> x = torch.tensor([[1.0, 2.0, 9.0]])
    >>> [round(v, 2) for v in (PreNorm(nn.LayerNorm(3))(x, torch.relu) - x).flatten().tolist()]
    [0.0, 0.0, 1.4]
    """

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def enter(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm(x)


class PostSublayerNorm(Residual):
    r"""Normalize what the branch found, before it is added. The stream stays an identity.

    .. math:: y = x + \mathrm{Norm}(F(x))

    Args:
        norm: of the width of the stream.

    Source: OLMo team (2025), "2 OLMo 2 Furious", after Liu et al. (2021), "Swin Transformer V2"; GT-13.

    >>> x = torch.tensor([[1.0, 2.0, 9.0]])
    >>> y = PostSublayerNorm(nn.LayerNorm(3))(x, lambda x: 1000 * x)
    >>> [round(v, 2) for v in (y - x).flatten().tolist()]
    [-0.84, -0.56, 1.4]
    """

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def join(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.norm(branch)


class SandwichNorm(Residual):
    r"""Normalize what the branch reads and what it found. The stream stays an identity.

    .. math:: y = x + \mathrm{Norm}_\mathrm{out}(F(\mathrm{Norm}_\mathrm{in}(x)))

    Args:
        norm_in, norm_out: two norms of the width of the stream, each with weights of its own.

    Source: Ding et al. (2021), "CogView"; used by Gemma 2; GT-13.

    >>> x = torch.tensor([[1.0, 2.0, 9.0]])
    >>> y = SandwichNorm(nn.LayerNorm(3), nn.LayerNorm(3))(x, lambda x: 1000 * x)
    >>> [round(v, 2) for v in (y - x).flatten().tolist()]
    [-0.84, -0.56, 1.4]
    """

    def __init__(self, norm_in: nn.Module, norm_out: nn.Module):
        super().__init__()
        self.norm_in, self.norm_out = norm_in, norm_out

    def enter(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm_in(x)

    def join(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.norm_out(branch)


class ReZero(Residual):
    r"""One learned number scales the branch, and starts at zero: the whole stack starts as the identity.

    .. math:: y = x + \alpha F(\mathrm{Norm}(x)), \quad \alpha = 0 \text{ at first}

    Args:
        norm: what stands before the branch; nothing in the paper's ReZero, a LayerNorm or an RMSNorm in its variants.

    Source: Bachlechner et al. (2020), "ReZero is All You Need"; the variants with a norm are rows of Narang et al.
    (2021), table 1, which does not say where the norm stands; GT-19.

    >>> rezero, x = ReZero(), torch.tensor([[1.0, 2.0]])
    >>> rezero(x, torch.exp).tolist(), rezero.alpha.item()
    ([[1.0, 2.0]], 0.0)
    """

    def __init__(self, norm: nn.Module | None = None):
        super().__init__()
        self.norm = nn.Identity() if norm is None else norm
        self.alpha = nn.Parameter(torch.zeros(()))

    def enter(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm(x)

    def join(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.alpha * branch


class FixupResidual(Residual):
    r"""A learned number scales the branch, another shifts what it reads: what stands for a norm under Fixup.

    .. math:: y = x + s\, F(x + b), \quad s = 1,\ b = 0 \text{ at first}

    The shifts between the layers of the branch are those layers' biases. ``fixup_`` sets the weights that go with it.

    Source: Zhang, Dauphin and Ma (2019), section 3, rule 3; GT-19.

    >>> FixupResidual()(torch.tensor([[1.0, 2.0]]), lambda x: 10 * x).tolist()
    [[11.0, 22.0]]
    """

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))

    def enter(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return x + self.shift

    def join(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.scale * branch


@torch.no_grad()
def fixup_(branches: Sequence[Sequence[nn.Module]]) -> None:
    r"""Make deep stacks trainable without norms: every branch starts at zero, and moves little at the first step.

    With L branches of m layers each, and :math:`W` as a standard method has set it:

    .. math:: W_\mathrm{last} = 0, \quad W_\mathrm{other} = L^{-1/(2m-2)}\, W

    Biases become zero. Call it once, right after the layers were made, and set the weight of the layer that makes the
    logits to zero as well: the paper's first rule says both.

    Args:
        branches: for each branch its layers in order, each with a ``weight`` and perhaps a ``bias``; of attention the
            two that the values pass through, ``[w_value, w_output]``.

    Raises:
        ValueError: for a branch without layers, or a layer without a weight.

    Source: Zhang, Dauphin and Ma (2019), section 3; GT-19.

    >>> branches = [[nn.Linear(2, 3), nn.Linear(3, 2)] for _ in range(4)]  # L = 4, m = 2: factor 1/2
    >>> before = branches[0][0].weight.clone()
    >>> fixup_(branches)
    >>> bool(torch.equal(branches[0][0].weight, before / 2)), branches[0][1].weight.abs().sum().item()
    (True, 0.0)
    """
    for i, branch in enumerate(branches):
        if not branch or not all(isinstance(getattr(layer, "weight", None), Tensor) for layer in branch):
            raise ValueError(f"branches[{i}]={list(branch)} must be one layer or more, each with a weight")
    for branch in branches:
        for layer in branch:
            last = layer is branch[-1]
            layer.weight.mul_(0 if last else len(branches) ** (-1 / (2 * len(branch) - 2)))
            if getattr(layer, "bias", None) is not None:
                layer.bias.zero_()
