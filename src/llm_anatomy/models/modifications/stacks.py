"""Other ways to stack blocks: transparent attention, the Universal Transformer, the Weighted Transformer (rows 36, 47
and 51).

Parts of a model are replaced by others that are called in the same way, whatever their class; hence ``model: Any``.
"""

from typing import Any

import torch
from einops import rearrange
from torch import nn

from llm_anatomy.layers.attention import CrossAttention
from llm_anatomy.layers.kv_cache import KVCache
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.residual import PreNorm, Residual
from llm_anatomy.models import parts
from llm_anatomy.models.block import Block, BlockRecord, Stack
from llm_anatomy.models.modifications.base import Modification, initialize_
from llm_anatomy.models.modifications.embeddings import untied_fields, untied_output
from llm_anatomy.models.modifications.sharing import repeat_blocks
from llm_anatomy.shapes import Float, Tensor

# --- Transparent attention ---


class AllStatesEncoder(nn.Module):
    r"""An encoder that returns the states after all of its blocks, not only after the last one.

    .. math:: X_0 = X, \quad X_l = \mathrm{Block}_l(X_{l-1}), \quad \mathrm{output} = \left[X_0, \dots, X_{N-1},
        \mathrm{Norm}(X_N)\right]

    Args:
        stack: the encoder whose blocks and norm this one takes over.

    Source: Bapna et al. (2018), "Training Deeper Neural Machine Translation Models with Transparent Attention", section
    4; GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> from llm_anatomy.models.transformer import Transformer
    >>> encoder = AllStatesEncoder(Transformer(baseline(n_vocab=60)).encoder)
    >>> encoder(torch.randn(2, 5, 48))[0].shape
    torch.Size([2, 5, 7, 48])
    """

    def __init__(self, stack: Stack):
        super().__init__()
        self.blocks, self.masks, self.norm = stack.blocks, stack.masks, stack.norm

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], *, position_context: PositionContext | None = None
    ) -> tuple[Float[Tensor, "batch tokens states d_model"], list[BlockRecord]]:
        """Return all states, one more than there are blocks, and a record of each block.

        Args:
            x: the embeddings.
            position_context: as in :class:`~llm_anatomy.models.block.Stack`.
        """
        states, records = [x], []
        for block, mask in zip(self.blocks, self.masks, strict=True):
            x, record = block(x, mask=mask, position_context=position_context)
            states.append(x)
            records.append(record)
        return torch.stack([*states[:-1], self.norm(x)], dim=2), records

    output_positions = Stack.output_positions


class TransparentCrossAttention(nn.Module):
    r"""Cross-attention to a mean of the encoder's states, with learned weights.

    .. math:: \mathrm{attend}\left(X, \sum_l s_l C_l\right), \quad s = \mathrm{softmax}(w)

    The gradient reaches every block of the encoder directly, through its own weight. Each block of the decoder has its
    own weights.

    Args:
        attention: the cross-attention that reads the mean.
        n_states: number of states of each source token.

    Source: Bapna et al. (2018), section 4; GT-19.

    >>> attention = TransparentCrossAttention(CrossAttention(8, n_heads=2), n_states=4)
    >>> attention.mean(torch.randn(2, 5, 4, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, attention: CrossAttention, n_states: int):
        super().__init__()
        self.attention = attention
        self.state_logits = nn.Parameter(torch.randn(n_states) * n_states**-0.5)

    def mean(self, states: Float[Tensor, "batch source states d_model"]) -> Float[Tensor, "batch source d_model"]:
        """Average the states with the weights of this block."""
        return torch.einsum("bsld,l->bsd", states, self.state_logits.softmax(-1))

    def forward(
        self, x: Float[Tensor, "batch queries d_model"], context: Float[Tensor, "batch source states d_model"], **kwargs
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend to the mean of the states; the other arguments are those of cross-attention."""
        return self.attention(x, self.mean(context), **kwargs)

    def new_cache(self, batch: int, n_slots: int) -> KVCache:
        """Make a cache of the keys and values of the mean."""
        return self.attention.new_cache(batch, n_slots)


def _transparent(model: Any) -> None:
    n_states = len(model.encoder.blocks) + 1
    model.encoder = AllStatesEncoder(model.encoder)
    for block in model.stack.blocks:
        block.cross_attention = TransparentCrossAttention(block.cross_attention, n_states)


# --- The Universal Transformer ---


class GatedResidual(PreNorm):
    r"""A residual connection whose sublayer passes the gates of a GRU before it is added.

    .. math:: z, r = \sigma(W [\hat x; \hat y] + b), \quad c = \sigma(W_c [\widehat{r \otimes x}; \hat y] + b_c), \quad
        x \leftarrow x + (1 - z) \otimes y + z \otimes c, \quad y = F(\mathrm{Norm}(x))

    A hat stands for a LayerNorm.

    Args:
        norm: a norm over the width of the residual stream.
        d_model: that width.

    Source: Cho et al. (2014), section 2.3 (the gates); the code of Narang et al. (2021), where the candidate has a
    sigmoid, and the result is added to x; GT-19.

    >>> GatedResidual(nn.LayerNorm(4), d_model=4)(torch.randn(2, 3, 4), torch.relu).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, norm: nn.Module, d_model: int):
        super().__init__(norm)
        self.state_norm, self.branch_norm, self.reset_norm = (nn.LayerNorm(d_model) for _ in range(3))
        self.gates = nn.Linear(2 * d_model, 2 * d_model)
        self.candidate = nn.Linear(2 * d_model, d_model)

    def after_sublayer(
        self, x: Float[Tensor, "*batch d_model"], branch: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        normed = self.branch_norm(branch)
        update, reset = self.gates(torch.cat([self.state_norm(x), normed], dim=-1)).sigmoid().chunk(2, dim=-1)
        candidate = self.candidate(torch.cat([self.reset_norm(reset * x), normed], dim=-1)).sigmoid()
        return x + (1 - update) * branch + update * candidate


class StepBlock(Block):
    r"""A run of a block with an embedding of the step, which is all that tells this run from the others.

    .. math:: X \leftarrow \mathrm{Block}(X + e_n)

    Args:
        block: all runs share its parts.
        d_model: width of the states.

    Source: Dehghani et al. (2019), "Universal Transformers", section 2.1; learned embeddings as in the code of Narang
    et al. (2021); GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> from llm_anatomy.models.transformer import Transformer
    >>> block = Transformer(baseline(n_vocab=60)).encoder.blocks[0]
    >>> first, second = StepBlock(block, d_model=48), StepBlock(block, d_model=48)
    >>> first.attention is second.attention, torch.equal(first.step_embedding, second.step_embedding)
    (True, False)
    """

    def __init__(self, block: Block, d_model: int):
        cross_attention = {
            name: getattr(block, name)
            for name in ("cross_attention", "cross_attention_residual")
            if hasattr(block, name)
        }
        super().__init__(
            block.attention,
            block.feedforward,
            attention_residual=block.attention_residual,
            feedforward_residual=block.feedforward_residual,
            **cross_attention,
        )
        self.step_embedding = nn.Parameter(torch.randn(d_model))

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], **arguments
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """As :class:`~llm_anatomy.models.block.Block`, whose arguments it takes."""
        return super().forward(x + self.step_embedding, **arguments)


_OUTER_RUNS = 2  # before the steps, and as many after them


def _universal(model: Any) -> None:
    """Run one block of each stack for two steps per layer of the baseline, and twice before and after them."""
    d_model, n_steps = model.config.d_model, 2 * model.config.n_layers
    for stack in (model.encoder, model.stack):
        block = stack.blocks[0]
        for name in ("attention_residual", "cross_attention_residual", "feedforward_residual"):
            if hasattr(block, name):
                residual = GatedResidual(getattr(block, name).norm, d_model)
                initialize_(residual)
                setattr(block, name, residual)
        repeat_blocks(stack, n_blocks=1, n_times=n_steps + 2 * _OUTER_RUNS)
        for run in range(_OUTER_RUNS, _OUTER_RUNS + n_steps):
            stack.blocks[run] = StepBlock(block, d_model)
    untied_output(model)


# --- The Weighted Transformer ---


class WeightedBranches(nn.Module):
    r"""The end of an attention layer whose heads are branches, each with its own way through a feed-forward layer.

    .. math:: \mathrm{output} = \sum_i \alpha_i\, \mathrm{FFN}(\kappa_i\, \mathrm{head}_i W_i^O), \quad
        \kappa = \mathrm{softmax}(k),\; \alpha = \mathrm{softmax}(a)

    It takes the place of the output projection, whose rows for head i are :math:`W_i^O`. All branches have the same
    feed-forward layer, and the same weight at first.

    Args:
        w_output: the output projection of all heads, without a bias.
        feedforward: a module from (…, d_model) to the same shape.
        n_heads: number of heads.

    Source: Ahmed et al. (2017), "Weighted Transformer Network for Machine Translation", section 3; GT-19.

    >>> branches = WeightedBranches(nn.Linear(12, 8, bias=False), nn.Identity(), n_heads=3)
    >>> branches(torch.randn(2, 5, 12)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, w_output: nn.Linear, feedforward: nn.Module, n_heads: int):
        super().__init__()
        self.w_output, self.feedforward = w_output, feedforward
        self.kappa_logits = nn.Parameter(torch.zeros(n_heads))
        self.alpha_logits = nn.Parameter(torch.zeros(n_heads))

    def forward(self, heads: Float[Tensor, "batch queries width"]) -> Float[Tensor, "batch queries d_model"]:
        n_heads = len(self.kappa_logits)
        heads = rearrange(heads, "batch queries (heads d) -> batch heads queries d", heads=n_heads)
        weight = rearrange(self.w_output.weight, "d_model (heads d) -> heads d d_model", heads=n_heads)
        kappa, alpha = self.kappa_logits.softmax(-1), self.alpha_logits.softmax(-1)
        branches = self.feedforward((heads @ weight) * kappa[:, None, None])  # (batch, heads, queries, d_model)
        return torch.einsum("bhqm,h->bqm", branches, alpha)


class NoSublayer(Residual):
    """A residual connection that leaves out its sublayer.

    Source: GT-19.

    >>> NoSublayer()(torch.tensor([1.0, 2.0]), torch.exp).tolist()
    [1.0, 2.0]
    """

    def forward(self, x: Float[Tensor, "*batch d_model"], sublayer, **kwargs) -> Float[Tensor, "*batch d_model"]:
        return x


def _weighted(model: Any) -> None:
    for block in (*model.encoder.blocks, *model.stack.blocks):
        attention = block.attention
        attention.w_output = WeightedBranches(attention.w_output, block.feedforward, attention.n_heads)
        block.feedforward, block.feedforward_residual = nn.Identity(), NoSublayer()
    for block in model.stack.blocks:
        feedforward, attention = parts.feedforward(model.config), block.cross_attention
        initialize_(feedforward)
        attention.w_output = WeightedBranches(attention.w_output, feedforward, attention.n_heads)


ROWS = [
    Modification(
        row=36,
        name="transparent_attention",
        title="Transparent attention",
        paper="Bapna et al. (2018), Training Deeper Neural Machine Translation Models with Transparent Attention",
        card="The cross-attention of each decoder block reads a weighted mean of the embeddings and of the states that "
        "follow each encoder block, not only of the last ones. The weights are learned, one set for each decoder "
        "block, and sum to one. It was meant to make deep encoders trainable: the gradient reaches each of their "
        "blocks directly.",
        reading="The states in between enter without a norm, the last ones behind the final norm, as in the paper's "
        "code. The dropout of the weights is left out.",
        modify=_transparent,
    ),
    Modification(
        row=47,
        name="universal_transformer",
        title="Universal Transformer",
        paper="Dehghani et al. (2019), Universal Transformers",
        card="One block runs again and again, with the same parameters each time, so that depth becomes time, as in a "
        "recurrent network. An embedding tells the steps apart, and gates like those of a GRU decide how much of each "
        "sublayer's output is kept. A third of the parameters thus do three and a half times the operations.",
        reading="Dehghani et al. also let each token decide when to halt. The authors' configuration does not: in "
        "each stack, one block runs 28 times, of which 24 have a learned embedding of the step, and each sublayer has "
        "gates. This gives the table's 84 million parameters and 40.0 trillion operations. A smaller model has two "
        "steps for each layer of the baseline, and two runs before and after them. As in that code, the candidate of "
        "the gates has a sigmoid, and positions are those of the baseline.",
        config=untied_fields,
        modify=_universal,
    ),
    Modification(
        row=51,
        name="weighted_transformer",
        title="Weighted Transformer",
        paper="Ahmed et al. (2017), Weighted Transformer Network for Machine Translation",
        card="The heads of an attention layer are not concatenated. Each is projected to the model's width, multiplied "
        "by a learned weight, sent through the feed-forward layer on its own, and multiplied by a second learned "
        "weight before all are added. Both sets of weights sum to one. It was meant to train in fewer steps; the "
        "feed-forward layer is computed once for each head.",
        reading="As the paper's parameters and operations show, all heads of a layer share one feed-forward layer, and "
        "in the decoder self-attention and cross-attention have one each. A softmax keeps the weights positive and "
        "their sum at one, where the paper's code projects them after each update; they start equal, and not from "
        "random numbers, and they are trained to the end, where that code freezes them for the last 10,000 steps.",
        modify=_weighted,
    ),
]
