"""Modifications that use few of their parameters for a token: mixtures of experts, a memory; rows 48, 49 and 52."""

import math
from collections.abc import Callable

from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.experts import (
    Experts,
    MixtureOfExperts,
    Router,
    RoutingRecord,
    TopKOfSoftmax,
    load_balance_loss,
)
from llm_anatomy.layers.product_key_memory import ProductKeyMemory
from llm_anatomy.models.modifications.base import Modification, initialize_
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Bool, Float, Tensor

_N_EXPERTS, _EVERY = 32, 4  # experts in a layer, and one layer of four that has them
_LOSS_WEIGHT = 1e-2
_VARIANCE = 0.1  # of the first weights, relative to 1 / d_in


class SparseFeedForward(MixtureOfExperts):
    r"""A mixture of experts that keeps its load-balancing loss, and bounds its experts in training only.

    .. math:: L = \mathrm{weight} \cdot n_\mathrm{experts} \sum_e f_e P_e

    The loss counts the first choices of the tokens. With a bound on the capacity, the tokens of a batch compete for the
    experts, so that the output for a token also depends on others, later ones among them. In evaluation mode there is
    no bound, and each token is computed as if it were alone.

    Args:
        router, experts: as in :class:`~llm_anatomy.layers.experts.MixtureOfExperts`.
        capacity_factor: in training mode.
        loss_weight: of the load-balancing loss.

    Source: Shazeer et al. (2017), section 4; Fedus et al. (2022), section 2.2; the first choices as in the code of
    Narang et al. (2021); GT-19.

    >>> import torch
    >>> router, experts = TopKOfSoftmax(8, 4, k=1), Experts(4, d_model=8, d_ff=9, activation=nn.ReLU())
    >>> layer = SparseFeedForward(router, experts, capacity_factor=1.25, loss_weight=0.01)
    >>> output, _ = layer(torch.randn(2, 5, 8))
    >>> layer.auxiliary_loss.shape, layer.eval().capacity_factor
    (torch.Size([]), None)
    """

    auxiliary_loss: Float[Tensor, ""] | float

    def __init__(self, router: Router, experts: Experts, *, capacity_factor: float, loss_weight: float):
        super().__init__(router, experts, capacity_factor=capacity_factor)
        self.capacity_factor_in_training, self.loss_weight = capacity_factor, loss_weight

    def train(self, mode: bool = True) -> "SparseFeedForward":
        self.capacity_factor = self.capacity_factor_in_training if mode else None
        return super().train(mode)

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> tuple[Float[Tensor, "batch tokens d_model"], RoutingRecord]:
        """Return the mixture and the decisions of the router, as a mixture of experts does, and keep the loss."""
        output, record = super().forward(x, mask)
        self.auxiliary_loss = 0.0
        if self.training:
            real = slice(None) if mask is None else record.real
            first_choices = record.experts[real, :1]
            self.auxiliary_loss = self.loss_weight * load_balance_loss(record.probabilities[real], first_choices)
        return output, record

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "auxiliary_loss"}  # it has a graph


def _with_experts(k: int, share_of_d_ff: int, capacity_factor: float) -> Callable[[Transformer], None]:
    """Give every fourth layer of both stacks experts, counted so that the last layer has them."""

    def modify(model: Transformer) -> None:
        assert model.encoder is not None  # the baseline is an encoder-decoder
        for stack in (model.encoder, model.stack):
            for block in stack.blocks[::-1][::_EVERY]:
                block.feedforward = _sparse_feedforward(model.config, k, share_of_d_ff, capacity_factor)

    return modify


def _sparse_feedforward(config: ModelConfig, k: int, share_of_d_ff: int, capacity_factor: float) -> SparseFeedForward:
    d_model, d_expert = config.d_model, max(1, config.d_ff // share_of_d_ff)
    router = TopKOfSoftmax(d_model, _N_EXPERTS, k, renormalize=k > 1)
    experts = Experts(_N_EXPERTS, d_model, d_expert, nn.ReLU())
    for weight in (router.w_router.weight, experts.w_up, experts.w_down):
        nn.init.normal_(weight, std=math.sqrt(_VARIANCE / weight.shape[-1]))
    return SparseFeedForward(router, experts, capacity_factor=capacity_factor, loss_weight=_LOSS_WEIGHT)


def _with_memory(model: Transformer) -> None:
    """Give the last layer but one of the decoder a memory, whose size follows that of the model."""
    config, blocks = model.config, model.stack.blocks
    n_keys = max(1, round(512 * math.sqrt(config.d_model * config.n_layers / (768 * 12))))
    memory = ProductKeyMemory(
        config.d_model, n_keys, n_heads=4, k=math.ceil(n_keys / 16), d_query=2 * math.ceil(config.d_model / 6)
    )
    initialize_(memory)
    blocks[max(0, len(blocks) - 2)].feedforward = memory


ROWS = [
    Modification(
        row=48,
        name="mixture_of_experts",
        title="Mixture of experts",
        paper="Shazeer et al. (2017); Lepikhin et al. (2021)",
        card="In every fourth layer, 32 feed-forward networks of half the width take the place of one, and a router "
        "selects two of them for each token. A token thus costs as much as before, while the model has almost three "
        "times as many parameters.",
        reading="The sizes are those of the authors' configuration: 32 experts of width d_ff / 2 in layers 4, 8 and 12 "
        "of both stacks, two per token with renormalized weights, a loss of 0.01 on the balance of the first choices, "
        "and small first weights (variance 0.1 / d_in). In other depths we count the layers from the last one. Their "
        "code skips a second choice at random if its weight is small, even in evaluation; here both choices always "
        "count, so that a run depends on its seed alone. In training an expert takes at most twice its even share of "
        "the tokens, in both stacks; in the authors' configuration a misspelt name leaves the decoder at 1.25. In "
        "evaluation there is no bound, because with one a later token can displace an earlier one.",
        modify=_with_experts(k=2, share_of_d_ff=2, capacity_factor=1.0),  # relative to both choices
    ),
    Modification(
        row=49,
        name="switch_transformer",
        title="Switch Transformer",
        paper="Fedus et al. (2022)",
        card="A mixture of experts in its cheapest form: in every fourth layer, a router selects one of 32 "
        "feed-forward networks of the full width, and multiplies its output by the probability of the choice. A token "
        "costs as much as before, while the model has almost five times as many parameters.",
        reading="The sizes are those of the authors' configuration: 32 experts in layers 4, 8 and 12 of both stacks "
        "(Fedus et al. use every second layer), a loss of 0.01 on the balance, and small first weights (variance "
        "0.1 / d_in). In other depths we count the layers from the last one. In training an expert takes at most 1.2 "
        "times its even share of the tokens, in both stacks; in the authors' configuration a misspelt name leaves the "
        "decoder at 1.25. We leave out the noise of one per cent on the router's input, so that a run depends on its "
        "seed alone, and in evaluation there is no bound, because with one the output for a token depends on the "
        "other tokens of the batch.",
        modify=_with_experts(k=1, share_of_d_ff=1, capacity_factor=1.2),
    ),
    Modification(
        row=52,
        name="product_key_memory",
        title="Product key memory",
        paper="Lample et al. (2019)",
        card="In the last layer but one of the decoder, a memory takes the place of the feed-forward layer: four heads "
        "each read 32 of 262,144 values. Their keys are pairs of two sub-keys, so that two short searches find the "
        "best ones among all of them. It adds many parameters and, where values are looked up, few operations.",
        reading="In the authors' configuration, layer 11 of the decoder alone has the memory, and in their code "
        "LayerNorm takes the place of the batch normalization of Lample et al. The file with the sizes was not "
        "published; 2 x 512 sub-keys, queries of width 256, and 4 heads of 32 values are sizes that give both 421 "
        "million parameters and 386.6 trillion operations. In models of other sizes, the memory keeps its ratio to "
        "the parameters of the layers. The values start from N(0, 1 / d_model), as in Lample et al.",
        modify=_with_memory,
    ),
]
