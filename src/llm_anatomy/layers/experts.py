r"""Mixtures of experts: several feed-forward networks, and a router that selects which of them process a token.

Shapes: ``tokens`` (of the whole batch, flattened), ``n_experts``, ``k`` (experts selected per token),
``slots`` (rows that one expert processes). A router scores and selects, the experts compute, and the layer carries
tokens to the experts and back. There is no Python loop over tokens: they are sorted by expert first.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from llm_anatomy.layers._precision import _wide
from llm_anatomy.shapes import Bool, Float, Int, Tensor

# --- Auxiliary losses of the router ---


def load_balance_loss(
    probabilities: Float[Tensor, "tokens n_experts"], experts: Int[Tensor, "tokens k"]
) -> Float[Tensor, ""]:
    r"""Load-balancing loss: lowest where all experts get equally many tokens and equal probability.

    .. math:: L = n_\mathrm{experts} \sum_e f_e P_e, \quad
        f_e = \frac{\text{choices of } e}{\mathrm{tokens}}, \quad P_e = \frac{1}{\mathrm{tokens}} \sum_t p_{t,e}

    With equal shares it is k: 1 for Switch, 2 for Mixtral, which selects two experts. Choices are counted before any of
    them is dropped for lack of capacity, and only :math:`P_e` carries a gradient.

    Args:
        probabilities: the router's softmax over all experts.
        experts: indices of those selected for each token.

    Source: Fedus et al. (2022), section 2.2, equations 4 to 6 (k = 1); Jiang et al. (2024) train Mixtral with the
    same for k = 2; GT-19.

    >>> even, all_to_the_first = torch.full((4, 2), 0.5), torch.tensor([[1.0, 0.0]]).repeat(4, 1)
    >>> load_balance_loss(even, torch.tensor([[0], [1], [0], [1]])).item()
    1.0
    >>> load_balance_loss(all_to_the_first, torch.zeros(4, 1, dtype=torch.long)).item()
    2.0
    """
    n_tokens, n_experts = probabilities.shape
    share = _count(experts.flatten(), n_experts).to(probabilities.dtype) / n_tokens
    return n_experts * (share * probabilities.mean(0)).sum()


def router_z_loss(logits: Float[Tensor, "tokens n_experts"]) -> Float[Tensor, ""]:
    r"""Router z-loss: it keeps the logits small, where low precision can still tell them apart.

    .. math:: L_z = \frac{1}{\mathrm{tokens}} \sum_t \left(\log \sum_e e^{z_{t,e}}\right)^2

    Args:
        logits: of the router, before the softmax.

    Source: Zoph et al. (2022), "ST-MoE", section 3.3, equation 5; GT-19.

    >>> round(router_z_loss(torch.tensor([[0.0, 0.0], [3.0, -3.0]])).item(), 4)
    4.7477
    """
    return logits.logsumexp(-1).square().mean()


# --- Routers: which experts process a token, and with which weights ---


class Router(nn.Module):
    r"""Score every expert for every token. Subclasses select experts by these scores.

    .. math:: z = x W_r

    The scores and all that follows from them are at least float32, because rounding would change the selection.

    Args:
        d_model: width of the tokens, at least 1.
        n_experts: number of experts, at least 1.
        k: number of experts per token, from 1 to ``n_experts``.
        router_bias: whether every logit has a bias, as in gpt-oss.

    Raises:
        ValueError: for sizes out of range.

    Source: Shazeer et al. (2017), section 2; Fedus et al. (2022), section 2.4 (float32); GT-19.

    >>> logits, _, weights, experts = SoftmaxOfTopK(d_model=8, n_experts=4, k=2)(torch.randn(5, 8))
    >>> tuple(logits.shape), tuple(weights.shape), tuple(experts.shape)
    ((5, 4), (5, 2), (5, 2))
    """

    def __init__(self, d_model: int, n_experts: int, k: int, *, router_bias: bool = False):
        super().__init__()
        if min(d_model, n_experts) < 1 or not 1 <= k <= n_experts:
            raise ValueError(f"{d_model=}, {n_experts=}, {k=}: each must be >= 1, and k at most n_experts")
        self.n_experts, self.k = n_experts, k
        self.w_router = nn.Linear(d_model, n_experts, bias=router_bias)

    def forward(
        self, x: Float[Tensor, "tokens d_model"]
    ) -> tuple[
        Float[Tensor, "tokens n_experts"],
        Float[Tensor, "tokens n_experts"],
        Float[Tensor, "tokens k"],
        Int[Tensor, "tokens k"],
    ]:
        """Return logits and probabilities of all experts, then weights and indices of those selected, best first."""
        precise = _wide(x.dtype)
        has_autocast = torch.amp.is_autocast_available(x.device.type)  # the meta device has none
        with torch.autocast(x.device.type, enabled=False) if has_autocast else nullcontext():
            bias = None if self.w_router.bias is None else self.w_router.bias.to(precise)
            logits = F.linear(x.to(precise), self.w_router.weight.to(precise), bias)
        probabilities, weights, experts = self.select(logits)
        return logits, probabilities, weights, experts

    def select(
        self, logits: Float[Tensor, "tokens n_experts"]
    ) -> tuple[Float[Tensor, "tokens n_experts"], Float[Tensor, "tokens k"], Int[Tensor, "tokens k"]]:
        """Return the probabilities of all experts, and weights and indices of those selected."""
        raise NotImplementedError


class SoftmaxOfTopK(Router):
    r"""Select the k largest logits, then take their softmax, as Mixtral does.

    .. math:: w = \mathrm{softmax}(\mathrm{TopK}(z))

    Args:
        d_model, n_experts, k, router_bias: as in :class:`Router`.

    Source: Shazeer et al. (2017), section 2.1; Jiang et al. (2024), "Mixtral", section 2.1; GT-19.

    >>> router = SoftmaxOfTopK(d_model=8, n_experts=4, k=2)
    >>> _, weights, experts = router.select(torch.tensor([[0.0, 2.0, 1.0, 2.0]]))
    >>> weights.tolist(), sorted(experts[0].tolist())
    ([[0.5, 0.5]], [1, 3])
    """

    def select(
        self, logits: Float[Tensor, "tokens n_experts"]
    ) -> tuple[Float[Tensor, "tokens n_experts"], Float[Tensor, "tokens k"], Int[Tensor, "tokens k"]]:
        best, experts = logits.topk(self.k, dim=-1)
        return logits.softmax(-1), best.softmax(-1), experts


class TopKOfSoftmax(Router):
    r"""Take the softmax over all experts, then select the k largest: Switch (k = 1), GShard, DeepSeek-V2.

    .. math:: w = \mathrm{scale} \cdot \mathrm{TopK}(\mathrm{softmax}(z))

    The weights sum to less than the scale, because the other experts keep their share. Renormalized, they are those of
    :class:`SoftmaxOfTopK`, scaled. With k = 1 they must not be renormalized: the weight would always be 1, and the
    router would get no gradient.

    Args:
        d_model, n_experts, k: as in :class:`Router`.
        renormalize: whether to divide the k weights by their sum before scaling.
        routed_scaling_factor: scale of the weights.

    Source: Fedus et al. (2022), section 2.1; Lepikhin et al. (2021), "GShard"; DeepSeek-AI (2024), "DeepSeek-V2",
    section 2.2; GT-19.

    >>> router = TopKOfSoftmax(d_model=8, n_experts=4, k=1)
    >>> _, weights, experts = router.select(torch.tensor([[0.0, 0.0, 0.0, 0.0]]))
    >>> weights.tolist()
    [[0.25]]
    """

    def __init__(
        self, d_model: int, n_experts: int, k: int, *, renormalize: bool = False, routed_scaling_factor: float = 1.0
    ):
        super().__init__(d_model, n_experts, k)
        self.renormalize, self.routed_scaling_factor = renormalize, routed_scaling_factor

    def select(
        self, logits: Float[Tensor, "tokens n_experts"]
    ) -> tuple[Float[Tensor, "tokens n_experts"], Float[Tensor, "tokens k"], Int[Tensor, "tokens k"]]:
        probabilities = logits.softmax(-1)
        weights, experts = probabilities.topk(self.k, dim=-1)
        if self.renormalize:
            weights = weights / weights.sum(-1, keepdim=True)
        return probabilities, self.routed_scaling_factor * weights, experts


class TopKOfSoftmaxInGroups(TopKOfSoftmax):
    r"""Select the groups with the best experts, then the k best experts within them, so that a token needs few devices.

    .. math:: G = \mathrm{TopM}_g \Big(\max_{e \in g} p_e\Big), \quad
        w = \mathrm{scale} \cdot \mathrm{TopK}_{e \in G}(p), \quad p = \mathrm{softmax}(z)

    Args:
        d_model, n_experts, k: as in :class:`Router`.
        n_groups: number of groups, one per device; each has equally many neighbouring experts.
        n_groups_per_token: number M of groups that a token may reach; they must hold at least k experts.
        routed_scaling_factor: scale of the weights.

    Raises:
        ValueError: for groups that do not divide the experts evenly, or that hold too few.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.2.2.

    >>> router = TopKOfSoftmaxInGroups(d_model=8, n_experts=4, k=2, n_groups=2, n_groups_per_token=1)
    >>> _, _, experts = router.select(torch.tensor([[3.0, 0.0, 2.0, 1.0]]))
    >>> experts.tolist()
    [[0, 1]]
    """

    def __init__(
        self,
        d_model: int,
        n_experts: int,
        k: int,
        *,
        n_groups: int,
        n_groups_per_token: int,
        routed_scaling_factor: float = 1.0,
    ):
        super().__init__(d_model, n_experts, k, routed_scaling_factor=routed_scaling_factor)
        _check_groups(n_experts, k, n_groups, n_groups_per_token)
        self.n_groups, self.n_groups_per_token = n_groups, n_groups_per_token

    def select(
        self, logits: Float[Tensor, "tokens n_experts"]
    ) -> tuple[Float[Tensor, "tokens n_experts"], Float[Tensor, "tokens k"], Int[Tensor, "tokens k"]]:
        probabilities = logits.softmax(-1)
        groups = rearrange(probabilities, "tokens (groups e) -> tokens groups e", groups=self.n_groups)
        weights, experts = _in_best_groups(groups, groups.amax(-1), self.n_groups_per_token).topk(self.k, dim=-1)
        return probabilities, self.routed_scaling_factor * weights, experts


def _check_groups(n_experts: int, k: int, n_groups: int, n_groups_per_token: int) -> None:
    if n_groups < 1 or n_experts % n_groups:
        raise ValueError(f"{n_groups=} must be at least 1 and divide {n_experts=}")
    if not k <= n_groups_per_token * (n_experts // n_groups) <= n_experts:
        raise ValueError(f"{n_groups_per_token=} must be at most {n_groups=}, and hold {k=} experts")


def _in_best_groups(
    scores: Float[Tensor, "tokens groups e"], of_groups: Float[Tensor, "tokens groups"], n_groups_per_token: int
) -> Float[Tensor, "tokens n_experts"]:
    """The scores, with minus infinity for the experts outside the best groups."""
    best = of_groups.topk(n_groups_per_token, dim=-1).indices  # (tokens, n_groups_per_token)
    is_outside = torch.ones_like(of_groups, dtype=torch.bool).scatter(-1, best, False)
    return scores.masked_fill(is_outside[..., None], -math.inf).flatten(1)


class TopKOfSigmoid(Router):
    r"""Score each expert with a sigmoid, and balance the selection by a bias without gradient, as DeepSeek-V3 does.

    .. math:: s = \sigma(z), \quad S = \mathrm{TopK}(s + b), \quad
        w_e = \mathrm{scale} \cdot s_e \Big/ \sum_{e' \in S} s_{e'}

    In place of a loss, training raises the ``selection_bias`` of experts that get too few tokens and lowers it for
    those that get too many. The bias affects which experts are selected, not their weights.

    Args:
        d_model, n_experts, k: as in :class:`Router`.
        routed_scaling_factor: scale of the weights.

    Source: Wang et al. (2024), "Auxiliary-loss-free load balancing", section 3; DeepSeek-AI (2024), "DeepSeek-V3",
    section 2.1.2; GT-19.

    >>> router = TopKOfSigmoid(d_model=8, n_experts=4, k=2)
    >>> router.selection_bias[3] = 1.0
    >>> _, weights, experts = router.select(torch.tensor([[0.0, 0.0, -9.0, 0.0]]))
    >>> weights.tolist(), experts[0, 0].item()
    ([[0.5, 0.5]], 3)
    """

    def __init__(self, d_model: int, n_experts: int, k: int, *, routed_scaling_factor: float = 1.0):
        super().__init__(d_model, n_experts, k)
        self.routed_scaling_factor = routed_scaling_factor
        self.selection_bias: Tensor
        self.register_buffer("selection_bias", torch.zeros(n_experts))

    def select(
        self, logits: Float[Tensor, "tokens n_experts"]
    ) -> tuple[Float[Tensor, "tokens n_experts"], Float[Tensor, "tokens k"], Int[Tensor, "tokens k"]]:
        scores = logits.sigmoid()
        experts = self.selection_scores(scores + self.selection_bias).topk(self.k, dim=-1).indices
        weights = scores.gather(-1, experts)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return scores / scores.sum(-1, keepdim=True), self.routed_scaling_factor * weights, experts

    def selection_scores(self, scores: Float[Tensor, "tokens n_experts"]) -> Float[Tensor, "tokens n_experts"]:
        """The scores by which experts are selected."""
        return scores


class TopKOfSigmoidInGroups(TopKOfSigmoid):
    r"""Select the groups by the sum of their two best scores, then the k best experts within them, as DeepSeek-V3 does.

    .. math:: G = \mathrm{TopM}_g \Big(\sum \mathrm{Top2}_{e \in g} (s_e + b_e)\Big), \quad
        S = \mathrm{TopK}_{e \in G}(s + b)

    Args:
        d_model, n_experts, k, routed_scaling_factor: as in :class:`TopKOfSigmoid`.
        n_groups: number of groups; each has equally many neighbouring experts, at least two.
        n_groups_per_token: number M of groups that a token may reach; they must hold at least k experts.

    Raises:
        ValueError: for groups that do not divide the experts evenly, that are too small, or that hold too few.

    Source: DeepSeek-AI (2024), "DeepSeek-V3", section 2.1.2, and its code.

    >>> router = TopKOfSigmoidInGroups(d_model=8, n_experts=4, k=2, n_groups=2, n_groups_per_token=1)
    >>> _, _, experts = router.select(torch.tensor([[3.0, -9.0, 2.0, 1.0]]))
    >>> experts.tolist()
    [[2, 3]]
    """

    def __init__(
        self,
        d_model: int,
        n_experts: int,
        k: int,
        *,
        n_groups: int,
        n_groups_per_token: int,
        routed_scaling_factor: float = 1.0,
    ):
        super().__init__(d_model, n_experts, k, routed_scaling_factor=routed_scaling_factor)
        _check_groups(n_experts, k, n_groups, n_groups_per_token)
        if n_experts < 2 * n_groups:
            raise ValueError(f"{n_groups=} must be at most half of {n_experts=}: a group is scored by its two best")
        self.n_groups, self.n_groups_per_token = n_groups, n_groups_per_token

    def selection_scores(self, scores: Float[Tensor, "tokens n_experts"]) -> Float[Tensor, "tokens n_experts"]:
        """The scores of experts in the best groups; minus infinity for all others."""
        groups = rearrange(scores, "tokens (groups e) -> tokens groups e", groups=self.n_groups)
        return _in_best_groups(groups, groups.topk(2, dim=-1).values.sum(-1), self.n_groups_per_token)


# --- Experts: feed-forward networks whose weights are stacked ---


class Experts(nn.Module):
    r"""Feed-forward networks, one per expert.

    .. math:: \mathrm{expert}_e(x) = f(x W_{1,e} + b_{1,e})\, W_{2,e} + b_{2,e}

    Rows come either in one block per expert, ``(n_experts, slots, d_model)``, for a batched product, or sorted by
    expert, ``(slots, d_model)`` with the ``counts`` of rows, for a grouped product.

    Args:
        n_experts: number of experts, at least 1.
        d_model: width of the tokens, at least 1.
        d_ff: inner width, at least 1.
        activation: a function of a tensor, shared by all experts.
        bias: whether both projections of every expert have biases, as in gpt-oss.

    Raises:
        ValueError: for sizes below 1.

    Source: Shazeer et al. (2017), section 2; Fedus et al. (2022), section 2; GT-19.

    >>> experts = Experts(n_experts=3, d_model=8, d_ff=32, activation=nn.ReLU())
    >>> experts(torch.randn(3, 5, 8)).shape, experts(torch.randn(9, 8), torch.tensor([4, 0, 5])).shape
    (torch.Size([3, 5, 8]), torch.Size([9, 8]))
    """

    n_projections_up = 1

    no_weight_decay = ("b_up", "b_down")
    """The biases, a vector for each expert."""

    def __init__(
        self, n_experts: int, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor], *, bias: bool = False
    ):
        super().__init__()
        if min(n_experts, d_model, d_ff) < 1:
            raise ValueError(f"{n_experts=}, {d_model=}, {d_ff=}: each must be >= 1")
        self.n_experts, self.activation = n_experts, activation
        d_up = self.n_projections_up * d_ff
        self.w_up = nn.Parameter(torch.empty(n_experts, d_up, d_model).uniform_(-1, 1) / math.sqrt(d_model))
        self.w_down = nn.Parameter(torch.empty(n_experts, d_model, d_ff).uniform_(-1, 1) / math.sqrt(d_ff))
        self.b_up: nn.Parameter | None = None
        self.b_down: nn.Parameter | None = None
        if bias:
            self.b_up = nn.Parameter(torch.empty(n_experts, d_up).uniform_(-1, 1) / math.sqrt(d_model))
            self.b_down = nn.Parameter(torch.empty(n_experts, d_model).uniform_(-1, 1) / math.sqrt(d_ff))

    def forward(
        self, x: Float[Tensor, "*#block slots d_model"], counts: Int[Tensor, "n_experts"] | None = None
    ) -> Float[Tensor, "*block slots d_model"]:
        """Apply its expert to every row; ``counts`` is the number of rows per expert if rows are sorted by expert."""
        hidden = self.activate(_linear_of_experts(x, self.w_up, self.b_up, counts))
        return _linear_of_experts(hidden, self.w_down, self.b_down, counts)

    def activate(self, hidden: Float[Tensor, "*rows d_up"]) -> Float[Tensor, "*rows d_ff"]:
        return self.activation(hidden)


class GatedExperts(Experts):
    r"""Gated feed-forward networks, one per expert, as in Mixtral and DeepSeek, where f is Swish.

    .. math:: \mathrm{expert}_e(x) = \left(f(x W_e) \otimes x V_e\right) W_{2,e}

    The first ``d_ff`` rows of each ``w_up`` belong to the gate, as in ``layers.feedforward.GatedFeedForward``.

    Args:
        n_experts, d_model, d_ff, activation, bias: as in :class:`Experts`.

    Source: Jiang et al. (2024), section 2.1; CMU-05, GT-19, GT-25.

    >>> experts = GatedExperts(n_experts=3, d_model=8, d_ff=32, activation=nn.SiLU())
    >>> experts.w_up.shape, experts(torch.randn(9, 8), torch.tensor([4, 0, 5])).shape
    (torch.Size([3, 64, 8]), torch.Size([9, 8]))
    """

    n_projections_up = 2

    def activate(self, hidden: Float[Tensor, "*rows d_up"]) -> Float[Tensor, "*rows d_ff"]:
        gate, up = hidden.chunk(2, dim=-1)
        return self.activation(gate) * up


class ClampedExperts(GatedExperts):
    r"""Gated feed-forward networks, one per expert, whose gating is a function of both sides, as in gpt-oss.

    .. math:: \mathrm{expert}_e(x) = f(x W_e + b_e,\; x V_e + c_e)\, W_{2,e} + b_{2,e}

    Args:
        n_experts, d_model, d_ff, bias: as in :class:`Experts`.
        activation: a function of gate and up, such as ``ClampedSwiGLU()``.

    Source: OpenAI (2025), "gpt-oss-120b & gpt-oss-20b Model Card", section 2.3.

    >>> from llm_anatomy.layers.feedforward import ClampedSwiGLU
    >>> experts = ClampedExperts(n_experts=3, d_model=8, d_ff=32, activation=ClampedSwiGLU(), bias=True)
    >>> experts.b_up.shape, experts(torch.randn(9, 8), torch.tensor([4, 0, 5])).shape
    (torch.Size([3, 64]), torch.Size([9, 8]))
    """

    activation: Callable[[Tensor, Tensor], Tensor]

    def activate(self, hidden: Float[Tensor, "*rows d_up"]) -> Float[Tensor, "*rows d_ff"]:
        return self.activation(*hidden.chunk(2, dim=-1))


def _linear_of_experts(x: Tensor, weight: Tensor, bias: Tensor | None, counts: Tensor | None) -> Tensor:
    """The product of every row with the matrix of its expert, and the bias of that."""
    result = x @ weight.mT if counts is None else grouped_linear(x, weight, counts)
    if bias is None:
        return result
    if counts is None:
        return result + bias[:, None].to(result.dtype)
    expert_of_row = torch.arange(len(bias), device=x.device).repeat_interleave(counts, output_size=len(x))
    return result + bias.index_select(0, expert_of_row).to(result.dtype)


def grouped_linear(
    x: Float[Tensor, "slots d_in"], weight: Float[Tensor, "n_experts d_out d_in"], counts: Int[Tensor, "n_experts"]
) -> Float[Tensor, "slots d_out"]:
    """Multiply every row by the matrix of its expert, where rows are sorted by expert.

    This is one call of PyTorch's grouped product where that supports the dtype and the widths, and otherwise one
    product per expert. The latter needs the counts on the CPU, for which a GPU has to be waited for, and it breaks a
    compiled graph. It happens where a width is no multiple of 16 bytes, and for float32 in compiled code.

    Args:
        x: the rows, sorted by expert.
        weight: one matrix per expert, as in ``nn.Linear``.
        counts: number of rows of each expert; they sum to ``slots``.

    Source: Gale et al. (2023), "MegaBlocks", section 3; GT-19.

    >>> weight = torch.stack([torch.eye(2), 10 * torch.eye(2)])
    >>> grouped_linear(torch.ones(3, 2), weight, torch.tensor([1, 2])).tolist()
    [[1.0, 1.0], [10.0, 10.0], [10.0, 10.0]]
    """
    if torch.is_autocast_enabled(x.device.type):  # autocast does not know the grouped product yet
        x, weight = (tensor.to(torch.get_autocast_dtype(x.device.type)) for tensor in (x, weight))
    rows_are_aligned = all(n * x.element_size() % 16 == 0 for n in weight.shape[1:])
    dtypes = (torch.bfloat16,) if torch.compiler.is_compiling() else (torch.bfloat16, torch.float16, torch.float32)
    if hasattr(F, "grouped_mm") and x.dtype in dtypes and rows_are_aligned:
        result = F.grouped_mm(x.contiguous(), weight.mT, offs=counts.cumsum(0, dtype=torch.int32))
        if result.requires_grad:
            result.register_hook(
                torch.Tensor.contiguous
            )  # its backward refuses gradients that are views, such as those of a sum
        return result
    slices = x.split(counts.tolist())
    return torch.cat([F.linear(rows, matrix) for rows, matrix in zip(slices, weight, strict=True)])


# --- The layers ---


class DenseMixture(nn.Module):
    r"""Average all experts for every token, weighted by a softmax.

    .. math:: y = \sum_e \mathrm{softmax}(x W_r)_e\, \mathrm{expert}_e(x)

    Args:
        d_model: width of the tokens, at least 1.
        experts: the experts.

    Source: Jacobs et al. (1991), section 2; Jordan & Jacobs (1994), section 2; GT-19 (mixture of experts).

    >>> mixture = DenseMixture(8, Experts(n_experts=3, d_model=8, d_ff=32, activation=nn.ReLU()))
    >>> mixture(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, experts: Experts):
        super().__init__()
        self.router = nn.Linear(d_model, experts.n_experts, bias=False)
        self.experts = experts

    def forward(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens d_model"]:
        weights = self.router(x).softmax(-1)  # (batch, tokens, n_experts)
        answers = self.experts(x.flatten(0, 1)[None]).unflatten(1, x.shape[:2])  # (n_experts, batch, tokens, d_model)
        return torch.einsum("b t e, e b t d -> b t d", weights, answers)


@dataclass(frozen=True)
class RoutingRecord:
    """The decisions of a router, for inspection and for auxiliary losses.

    Args:
        logits, probabilities: of all experts.
        weights, experts: of those selected, best first.
        kept: which choices were computed: not those of padding, nor those for an expert that was full.
        real: which tokens are not padding.

    Source: Fedus et al. (2022), sections 2.1 and 2.2; GT-19.

    >>> layer = MixtureOfExperts(TopKOfSoftmax(8, 3, k=1), Experts(3, 8, 32, nn.ReLU()), capacity_factor=1.0)
    >>> output, record = layer(torch.randn(2, 6, 8))
    >>> (record.tokens_per_expert.sum() + record.n_dropped).item(), record.tokens_per_expert.max().item() <= 4
    (12, True)
    """

    logits: Float[Tensor, "tokens n_experts"]
    probabilities: Float[Tensor, "tokens n_experts"]
    weights: Float[Tensor, "tokens k"]
    experts: Int[Tensor, "tokens k"]
    kept: Bool[Tensor, "tokens k"]
    real: Bool[Tensor, "tokens"]

    @property
    def tokens_per_expert(self) -> Int[Tensor, "n_experts"]:
        """Number of tokens that each expert processed."""
        return _count(self.experts.flatten(), self.logits.shape[1], self.kept.flatten())

    @property
    def n_dropped(self) -> Int[Tensor, ""]:
        """Number of choices of real tokens that were dropped because their expert was full."""
        return (self.real[:, None] & ~self.kept).sum()

    @property
    def load_balance_loss(self) -> Float[Tensor, ""]:
        return load_balance_loss(self.probabilities[self.real], self.experts[self.real])

    @property
    def router_z_loss(self) -> Float[Tensor, ""]:
        return router_z_loss(self.logits[self.real])


class MixtureOfExperts(nn.Module):
    r"""Select k experts per token, and sum their outputs with the weights of the router.

    .. math:: y = \sum_{e \in S} w_e\, \mathrm{expert}_e(x)

    With a capacity factor, an expert processes at most
    :math:`\lceil \mathrm{factor} \cdot k \cdot \mathrm{tokens} / n_\mathrm{experts} \rceil` choices of the batch. First
    choices take precedence over second ones, and earlier tokens over later ones. A choice whose expert is full is
    dropped: it adds zero, so that only the residual connection around the layer carries the token on.

    Args:
        router: selects the experts; ``TopKOfSoftmax`` with ``k=1`` and a capacity factor make the Switch layer.
        experts: as many as the router has logits.
        capacity_factor: capacity of an expert relative to its even share, above 0; None for no bound.
        shared: a layer that processes every token and is added to the mixture, as DeepSeek's shared experts.

    Raises:
        ValueError: for a router and experts of different numbers, and for a capacity factor that is not above 0.

    Source: Shazeer et al. (2017), section 2; Lepikhin et al. (2021), section 2.2 (precedence of choices); Fedus et al.
    (2022), section 2 (capacity); Dai et al. (2024), "DeepSeekMoE", section 3.2 (shared); GT-19.

    >>> mixtral = MixtureOfExperts(SoftmaxOfTopK(8, 4, k=2), GatedExperts(4, 8, 32, nn.SiLU()))
    >>> output, record = mixtral(torch.randn(2, 5, 8))
    >>> output.shape, record.tokens_per_expert.sum().item(), record.n_dropped.item()
    (torch.Size([2, 5, 8]), 20, 0)
    """

    def __init__(
        self,
        router: Router,
        experts: Experts,
        *,
        capacity_factor: float | None = None,
        shared: nn.Module | None = None,
    ):
        super().__init__()
        if router.n_experts != experts.n_experts:
            raise ValueError(f"{experts.n_experts=} must be {router.n_experts=}")
        if capacity_factor is not None and not 0 < capacity_factor < math.inf:
            raise ValueError(f"{capacity_factor=} must be above 0 and finite, or None for no bound")
        self.router, self.experts, self.shared = router, experts, shared
        self.capacity_factor = capacity_factor

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> tuple[Float[Tensor, "batch tokens d_model"], RoutingRecord]:
        """Return the mixture and the decisions of the router.

        Args:
            x: the tokens.
            mask: True for real tokens, False for padding, which takes no capacity and gets zero from the experts.

        Raises:
            ValueError: for a mask that is not boolean or not of the shape (batch, tokens).
        """
        if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:2]):
            raise ValueError(
                f"mask is {mask.dtype}, {tuple(mask.shape)}; it must be torch.bool, {tuple(x.shape[:2])}, True = real"
            )
        tokens = x.flatten(0, 1)
        real = torch.ones_like(tokens[:, 0], dtype=torch.bool) if mask is None else mask.flatten()
        logits, probabilities, weights, experts = self.router(tokens)
        if self.capacity_factor is None:
            kept = real[:, None].expand_as(experts)
            answers = self._answer_all(tokens, experts)
        else:
            answers, kept = self._answer_within_capacity(tokens, experts, real, self.capacity_factor)
        output = torch.einsum("t k d, t k -> t d", answers.to(weights.dtype), weights * kept).to(x.dtype).view_as(x)
        if self.shared is not None:
            output = output + self.shared(x)
        return output, RoutingRecord(logits, probabilities, weights, experts, kept, real)

    def _answer_all(
        self, tokens: Float[Tensor, "tokens d_model"], experts: Int[Tensor, "tokens k"]
    ) -> Float[Tensor, "tokens k d_model"]:
        """Sort the choices by expert, compute, and restore the order of the tokens."""
        order = experts.flatten().argsort(stable=True)
        rows = tokens.index_select(0, order // self.router.k)  # (tokens * k, d_model), sorted by expert
        answers = self.experts(rows, _count(experts.flatten(), self.router.n_experts))
        return answers.index_select(0, order.argsort()).unflatten(0, experts.shape)

    def _answer_within_capacity(
        self,
        tokens: Float[Tensor, "tokens d_model"],
        experts: Int[Tensor, "tokens k"],
        real: Bool[Tensor, "tokens"],
        capacity_factor: float,
    ) -> tuple[Float[Tensor, "tokens k d_model"], Bool[Tensor, "tokens k"]]:
        """Fill a block of slots per expert; a choice without a slot gets a row of zeros."""
        n_tokens, k = experts.shape
        n_experts = self.router.n_experts
        capacity = math.ceil(round(capacity_factor * k * n_tokens / n_experts, 6))  # 0.07 * 100 is above 7
        # how many choices of this expert come before: all first choices precede all second ones
        chosen = F.one_hot(rearrange(experts, "tokens k -> (k tokens)"), n_experts) * real.repeat(k)[:, None]
        position = rearrange(((chosen.cumsum(0) - 1) * chosen).sum(-1), "(k tokens) -> tokens k", k=k)
        kept = (position < capacity) & real[:, None]
        slot = torch.where(
            kept, experts * capacity + position, n_experts * capacity
        )  # the last slot collects dropped choices
        token = torch.arange(n_tokens, device=slot.device)[:, None].expand_as(slot)
        blocks = tokens.new_zeros(n_experts * capacity + 1, tokens.shape[1])
        blocks = blocks.index_copy(0, slot.flatten(), tokens.index_select(0, token.flatten()))[:-1]
        answers = self.experts(blocks.unflatten(0, (n_experts, capacity))).flatten(0, 1)
        answers = torch.cat([answers, answers.new_zeros(1, answers.shape[1])])
        return answers.index_select(0, slot.flatten()).unflatten(0, slot.shape), kept


def _count(
    experts: Int[Tensor, "n"], n_experts: int, counted: Bool[Tensor, "n"] | None = None
) -> Int[Tensor, "n_experts"]:
    """How often each expert occurs, only where ``counted`` if that is given, without waiting for a GPU."""
    ones = torch.ones_like(experts) if counted is None else counted.to(experts.dtype)
    return torch.zeros(n_experts, dtype=experts.dtype, device=experts.device).scatter_add(0, experts, ones)
