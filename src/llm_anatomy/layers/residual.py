r"""Residual placement: the position of the norm relative to a sublayer and the residual stream.

A block holds its sublayers and one placement for each of them::

    x = self.attention_residual(x, self.attention, mask=mask)
    x = self.feedforward_residual(x, self.feedforward)

A placement owns its norms, but not the sublayer, to which it passes keyword arguments. If the sublayer returns a tuple,
its first entry is the branch, which is added to the residual stream; the other entries, such as attention weights, are
returned unchanged behind the result. A placement thus returns a tensor or a tuple as its sublayer does.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from llm_anatomy.shapes import Float, Tensor


class Residual(nn.Module):
    r"""Residual connection without a norm: add the output of a sublayer to its input.

    .. math:: y = x + F(x)

    The gradient bypasses the sublayer through the identity. The placements below change the input of the sublayer
    (``before_sublayer``) or the way in which its output is added to the residual stream (``after_sublayer``).

    Raises:
        ValueError: when called, if the sublayer's output does not have the shape of its input.

    Source: He et al. (2015), section 3.1; IITD-33, IITD-42, UCL-24.

    >>> Residual()(torch.tensor([[1.0, 2.0]]), lambda x: 10 * x).tolist()
    [[11.0, 22.0]]
    """

    def before_sublayer(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Compute the input of the sublayer from the residual stream.

        Args:
            x: the residual stream.
        """
        return x

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Compute the residual stream after the sublayer.

        Args:
            x: the residual stream before the sublayer.
            branch: the output of the sublayer, of the same shape.
        """
        return x + branch

    def forward(
        self, x: Float[Tensor, "*batch d_model"], sublayer: Callable[..., Tensor | tuple], **kwargs
    ) -> Float[Tensor, "*batch d_model"] | tuple:
        """Run the sublayer and add its output to the residual stream.

        Args:
            x: the residual stream.
            sublayer: called as ``sublayer(x, **kwargs)``; returns a tensor of the shape of ``x``, or a tuple whose
                first entry is such a tensor.
            kwargs: the keyword arguments of the sublayer, such as ``mask``.

        Returns:
            The residual stream after the sublayer; if the sublayer returns a tuple, this in front of its other entries.

        Raises:
            ValueError: if the sublayer's output does not have the shape of its input.
        """
        result = sublayer(self.before_sublayer(x), **kwargs)
        branch, *rest = result if isinstance(result, tuple) else (result,)
        if branch.shape != x.shape:
            raise ValueError(
                f"the sublayer returned shape {tuple(branch.shape)}; it must be that of its input, {tuple(x.shape)}"
            )
        x = self.after_sublayer(x, branch)
        return (x, *rest) if isinstance(result, tuple) else x


class PostNorm(Residual):
    r"""Normalize the sum, as in the original Transformer. The residual stream passes through every norm.

    .. math:: y = \mathrm{Norm}(x + F(x))

    Args:
        norm: a norm over the width of the residual stream.

    Source: Vaswani et al. (2017), section 3.1; Xiong et al. (2020); CMU-18, GT-13, GT-15.

    >>> y = PostNorm(nn.LayerNorm(3))(torch.tensor([[1.0, 2.0, 9.0]]), torch.tanh)
    >>> [round(v, 2) for v in y.flatten().tolist()]
    [-0.87, -0.54, 1.4]
    """

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return self.norm(x + branch)


class PreNorm(Residual):
    r"""Normalize the input of the sublayer. The residual stream stays an identity, with a norm after the last block.

    .. math:: y = x + m\, F(\mathrm{Norm}(x))

    Args:
        norm: a norm over the width of the residual stream.
        multiplier: the factor m of the sublayer's output, a constant: 1 in most models, 0.22 in Granite 3.0. With
            :math:`m \propto 1/\sqrt{n_\mathrm{layers}}` the stream grows no faster in a deeper model.

    Source: Xiong et al. (2020), section 3; Baevski and Auli (2018); Child et al. (2019); Wang et al. (2019); Yang et
    al. (2023), "Tensor Programs VI" (the multiplier); CMU-19 (erratum E-42), GT-13, GT-14, GT-21, UCL-28.

    >>> x = torch.tensor([[1.0, 2.0, 9.0]])
    >>> [round(v, 2) for v in (PreNorm(nn.LayerNorm(3))(x, torch.relu) - x).flatten().tolist()]
    [0.0, 0.0, 1.4]
    """

    def __init__(self, norm: nn.Module, *, multiplier: float = 1.0):
        super().__init__()
        self.norm, self.multiplier = norm, multiplier

    def before_sublayer(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm(x)

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + (branch if self.multiplier == 1 else self.multiplier * branch)


class PostSublayerNorm(Residual):
    r"""Normalize the output of the sublayer, before it is added. The residual stream stays an identity.

    .. math:: y = x + \mathrm{Norm}(F(x))

    Args:
        norm: a norm over the width of the residual stream.

    Source: OLMo team (2025), "2 OLMo 2 Furious", after Liu et al. (2021), "Swin Transformer V2"; GT-13.

    >>> x = torch.tensor([[1.0, 2.0, 9.0]])
    >>> y = PostSublayerNorm(nn.LayerNorm(3))(x, lambda x: 1000 * x)
    >>> [round(v, 2) for v in (y - x).flatten().tolist()]
    [-0.84, -0.56, 1.4]
    """

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.norm(branch)


class SandwichNorm(Residual):
    r"""Normalize the input and the output of the sublayer. The residual stream stays an identity.

    .. math:: y = x + \mathrm{Norm}_\mathrm{out}(F(\mathrm{Norm}_\mathrm{in}(x)))

    Args:
        norm_in, norm_out: two norms over the width of the residual stream, each with its own weights.

    Source: Ding et al. (2021), "CogView"; used by Gemma 2; GT-13.

    >>> x = torch.tensor([[1.0, 2.0, 9.0]])
    >>> y = SandwichNorm(nn.LayerNorm(3), nn.LayerNorm(3))(x, lambda x: 1000 * x)
    >>> [round(v, 2) for v in (y - x).flatten().tolist()]
    [-0.84, -0.56, 1.4]
    """

    def __init__(self, norm_in: nn.Module, norm_out: nn.Module):
        super().__init__()
        self.norm_in, self.norm_out = norm_in, norm_out

    def before_sublayer(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm_in(x)

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.norm_out(branch)


class ReZero(Residual):
    r"""Scale the output of the sublayer by a learned number, initially zero: an untrained stack is the identity.

    .. math:: y = x + \alpha F(\mathrm{Norm}(x)), \quad \alpha = 0 \text{ at first}

    Args:
        norm: a norm before the sublayer; none in the paper's ReZero, a LayerNorm or an RMSNorm in its variants.

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

    def before_sublayer(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm(x)

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.alpha * branch


class FixupResidual(Residual):
    r"""Scale the output of the sublayer and shift its input by learned numbers, as Fixup does instead of a norm.

    .. math:: y = x + s\, F(x + b), \quad s = 1,\ b = 0 \text{ at first}

    The shifts between the layers of a branch are the biases of these layers. ``fixup_`` initializes their weights.

    Source: Zhang, Dauphin and Ma (2019), section 3, rule 3; GT-19.

    >>> FixupResidual()(torch.tensor([[1.0, 2.0]]), lambda x: 10 * x).tolist()
    [[11.0, 22.0]]
    """

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))

    def before_sublayer(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return x + self.shift

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.scale * branch


@torch.no_grad()
def fixup_(branches: Sequence[Sequence[nn.Module]]) -> None:
    r"""Initialize a deep stack to train without norms: every branch is zero, and changes little in the first step.

    With L branches of m layers each, and :math:`W` from a standard initialization:

    .. math:: W_\mathrm{last} = 0, \quad W_\mathrm{other} = L^{-1/(2m-2)}\, W

    Biases become zero. Call this function once, right after the layers are made, and also set the weight of the layer
    that computes the logits to zero: the paper's first rule asks for both.

    Args:
        branches: for each branch, its layers in order, each with a ``weight`` and possibly a ``bias``. For attention,
            these are the two layers that act on the values, ``[w_value, w_output]``.

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
            raise ValueError(f"branches[{i}]={list(branch)} must hold at least one layer, each with a weight")
    for branch in branches:
        for layer in branch:
            last = layer is branch[-1]
            weight, bias = layer.get_parameter("weight"), getattr(layer, "bias", None)
            # W_last = 0, W_other = L^(-1 / (2 m - 2)) W
            weight.mul_(0 if last else len(branches) ** (-1 / (2 * len(branch) - 2)))
            if bias is not None:
                bias.zero_()
