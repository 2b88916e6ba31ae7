r"""Language models before the Transformer, and alternatives to it: how far back each of them looks, and how.

A bigram network sees only the last token. Bengio's network sees a fixed number of tokens, with weights of their own for
each position. Recurrent networks and Mamba carry a state of fixed size from token to token. MegaByte has a large
Transformer over patches of bytes and a small one within each patch.

All are called as ``logits = model(ids)``; the logits at position t score the token that follows ``ids[:, t]``. Models
with a state also have ``advance(ids, state)``, which returns the logits and the state after the last token, so that a
text can be read in chunks or token by token.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.layers._checks import _check_ids
from llm_anatomy.layers._sharing import _own_once
from llm_anatomy.layers.embeddings import TokenEmbedding, Unembedding
from llm_anatomy.layers.normalization import RMSNorm
from llm_anatomy.layers.positions.absolute import Learned
from llm_anatomy.layers.recurrent import Cell, ElmanCell, GRUCell, LayerStates, LSTMCell, Recurrent
from llm_anatomy.layers.residual import PreNorm
from llm_anatomy.layers.state_space import MambaBlock, selective_scan_parallel
from llm_anatomy.models.block import EncoderOutput, Stack
from llm_anatomy.models.transformer import _last_tokens
from llm_anatomy.registry import PARTS
from llm_anatomy.shapes import Bool, Float, Int, Tensor

MambaStates = list[tuple[Float[Tensor, "batch d_inner kept"], Float[Tensor, "batch d_inner d_state"]]]

# --- Bigrams ---


@dataclass(frozen=True, kw_only=True)
class BigramConfig(Config):
    """The sizes of a bigram network.

    Args:
        n_vocab, d_hidden, n_matrices: as in :class:`BigramNetwork`.

    Raises:
        ValueError: for sizes out of range.

    Source: Bengio et al. (2003), section 1; UCL-10.

    >>> BigramConfig(n_vocab=7, d_hidden=4).n_matrices
    2
    """

    n_vocab: int
    d_hidden: int
    n_matrices: int = 2

    def __post_init__(self):
        super().__post_init__()
        self._require(self.n_matrices >= 2, "n_matrices", "be at least 2, one from the vocabulary and one back to it")


class BigramNetwork(nn.Module):
    r"""A feed-forward network that predicts the next token from the last one alone.

    .. math:: \hat p(x_0 \mid x_{-1}) = \mathrm{softmax}(W_d \tanh(\cdots \tanh(W_1 x_{-1}) \cdots))

    Since :math:`x_{-1}` is one-hot, :math:`W_1 x_{-1}` is a column of :math:`W_1`, which an embedding looks up. There
    are no biases.

    Args:
        n_vocab: number of tokens in the vocabulary.
        d_hidden: width of the hidden layers.
        n_matrices: number of weight matrices, d in the formula; at least 2.

    Raises:
        ValueError: for sizes out of range.

    Source: Bengio et al. (2003), section 1; UCL-10.

    >>> network = BigramNetwork(n_vocab=7, d_hidden=4)
    >>> tuple(network(torch.tensor([[3, 0, 3]])).shape), sum(p.numel() for p in network.parameters()) == 2 * 7 * 4
    ((1, 3, 7), True)
    """

    def __init__(self, n_vocab: int, d_hidden: int, n_matrices: int = 2):
        super().__init__()
        self.config = BigramConfig(n_vocab=n_vocab, d_hidden=d_hidden, n_matrices=n_matrices)
        self.embedding = TokenEmbedding(n_vocab, d_hidden)
        self.hidden_layers = nn.ModuleList(nn.Linear(d_hidden, d_hidden, bias=False) for _ in range(n_matrices - 2))
        self.unembedding = Unembedding(TokenEmbedding(n_vocab, d_hidden))

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        x = self.embedding(ids).tanh()
        for w in self.hidden_layers:
            x = w(x).tanh()
        return self.unembedding(x)


@dataclass(frozen=True, kw_only=True)
class EmbeddedBigramConfig(BigramConfig):
    """The sizes of a bigram network with an embedding.

    Args:
        n_vocab, d_embed, d_hidden, n_matrices, tie_embeddings: as in :class:`EmbeddedBigramNetwork`.

    Raises:
        ValueError: for sizes out of range.

    Source: Bengio et al. (2003), section 2; UCL-10.

    >>> EmbeddedBigramConfig(n_vocab=7, d_embed=3, d_hidden=4).tie_embeddings
    False
    """

    d_embed: int
    tie_embeddings: bool = False


class EmbeddedBigramNetwork(nn.Module):
    r"""A bigram network with an embedding: narrow matrices C and D connect the vocabulary to the hidden layers.

    .. math:: \hat p(x_0 \mid x_{-1}) = \mathrm{softmax}(D W_d \tanh(\cdots \tanh(W_1 C x_{-1}) \cdots)), \quad
        C \in \mathbb{R}^{d_\mathrm{emb} \times n_\mathrm{voc}},\;
        D \in \mathbb{R}^{n_\mathrm{voc} \times d_\mathrm{emb}}

    It has fewer parameters than :class:`BigramNetwork` but cannot represent more: :math:`W_1 C` and :math:`D W_d` have
    the shapes of the first and the last matrix there, and a rank of at most :math:`d_\mathrm{emb}`.

    Args:
        n_vocab: number of tokens in the vocabulary.
        d_embed: width of the embeddings.
        d_hidden: width of the hidden layers.
        n_matrices: number of weight matrices without C and D, d in the formula; at least 2.
        tie_embeddings: whether :math:`D = C^\top`, so that both are one table.

    Raises:
        ValueError: for sizes out of range.

    Source: Bengio et al. (2003), section 2; Press & Wolf (2017), section 3 (tied); UCL-10, UCL-11.

    >>> network = EmbeddedBigramNetwork(n_vocab=7, d_embed=3, d_hidden=4)
    >>> tuple(network(torch.tensor([[3, 0, 3]])).shape)
    (1, 3, 7)
    >>> sum(p.numel() for p in network.parameters()) == 2 * 7 * 3 + 2 * 3 * 4
    True
    """

    def __init__(self, n_vocab: int, d_embed: int, d_hidden: int, n_matrices: int = 2, *, tie_embeddings: bool = False):
        super().__init__()
        self.config = EmbeddedBigramConfig(
            n_vocab=n_vocab, d_embed=d_embed, d_hidden=d_hidden, n_matrices=n_matrices, tie_embeddings=tie_embeddings
        )
        self.embedding = TokenEmbedding(n_vocab, d_embed)
        widths = [d_embed, *[d_hidden] * (n_matrices - 1)]
        self.hidden_layers = nn.ModuleList(
            nn.Linear(*pair, bias=False) for pair in zip(widths, widths[1:], strict=False)
        )
        self.w_last = nn.Linear(d_hidden, d_embed, bias=False)
        self.unembedding = Unembedding(self.embedding if tie_embeddings else TokenEmbedding(n_vocab, d_embed))
        _own_once(self)

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        x = self.embedding(ids)
        for w in self.hidden_layers:
            x = w(x).tanh()
        return self.unembedding(self.w_last(x))


# --- A context of fixed size ---


@dataclass(frozen=True, kw_only=True)
class NeuralProbabilisticConfig(Config):
    """The sizes and options of Bengio's network.

    Args:
        n_vocab, n_ctx, d_embed, d_hidden, bias, direct: as in :class:`NeuralProbabilisticLM`.

    Raises:
        ValueError: for sizes below one.

    Source: Bengio et al. (2003), "A Neural Probabilistic Language Model", section 2; UCL-12.

    >>> NeuralProbabilisticConfig(n_vocab=7, n_ctx=0, d_embed=3, d_hidden=4)
    Traceback (most recent call last):
    ValueError: n_ctx=0 must be at least 1
    """

    n_vocab: int
    n_ctx: int
    d_embed: int
    d_hidden: int
    bias: bool = False
    direct: bool = False


class NeuralProbabilisticLM(nn.Module):
    r"""Bengio's network, which predicts the next token from the last ``n_ctx`` tokens.

    .. math:: \hat p(x_0 \mid x_{-1}, \dots, x_{-n_\mathrm{ctx}}) =
        \mathrm{softmax}(W_2 \tanh(W_1 X + b_1) + b_2 + W_3 X), \quad X = [C x_{-1}; \dots; C x_{-n_\mathrm{ctx}}]

    The lecture's formula has neither biases nor the direct connections :math:`W_3`; the paper has biases, and tries
    both with and without :math:`W_3`. Positions before the beginning of the text hold zeros in place of :math:`C x`.
    All positions share the embedding C, but each has its own columns of :math:`W_1`; hence the order of the tokens
    matters, and the number of parameters grows with ``n_ctx``.

    Args:
        n_vocab: number of tokens in the vocabulary.
        n_ctx: number of tokens that the prediction depends on.
        d_embed: width of the embeddings.
        d_hidden: width of the hidden layer.
        bias: whether there are :math:`b_1` and :math:`b_2`.
        direct: whether there are the direct connections :math:`W_3`.

    Raises:
        ValueError: for sizes below one.

    Source: Bengio et al. (2003), "A Neural Probabilistic Language Model", section 2 and figure 1; UCL-12, UCL-29.

    >>> model = NeuralProbabilisticLM(n_vocab=7, n_ctx=5, d_embed=3, d_hidden=4)
    >>> tuple(model(torch.tensor([[3, 0, 3]])).shape), tuple(model.w_1.weight.shape)
    ((1, 3, 7), (4, 15))
    """

    def __init__(
        self, n_vocab: int, n_ctx: int, d_embed: int, d_hidden: int, *, bias: bool = False, direct: bool = False
    ):
        super().__init__()
        self.config = NeuralProbabilisticConfig(
            n_vocab=n_vocab, n_ctx=n_ctx, d_embed=d_embed, d_hidden=d_hidden, bias=bias, direct=direct
        )
        self.n_ctx = n_ctx
        self.embedding = TokenEmbedding(n_vocab, d_embed)
        self.w_1 = nn.Linear(n_ctx * d_embed, d_hidden, bias=bias)
        self.w_2 = nn.Linear(d_hidden, n_vocab, bias=bias)
        self.w_direct = nn.Linear(n_ctx * d_embed, n_vocab, bias=False) if direct else None

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        x = F.pad(self.embedding(ids), (0, 0, self.n_ctx - 1, 0))  # (batch, n_ctx - 1 + tokens, d_embed)
        x = x.unfold(1, self.n_ctx, 1).flip(-1)  # (batch, tokens, d_embed, n_ctx), the newest first
        x = rearrange(x, "batch tokens d n_ctx -> batch tokens (n_ctx d)")
        logits = self.w_2(self.w_1(x).tanh())
        return logits if self.w_direct is None else logits + self.w_direct(x)


# --- Recurrent networks ---


CELLS: dict[str, type[Cell]] = {cell.__name__: cell for cell in (ElmanCell, LSTMCell, GRUCell)}
"""The cells that a config may name."""


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """The sizes of a recurrent network, and the name of its cells.

    Args:
        cell: the name of their class, such as ``"LSTMCell"``.
        n_vocab, d_embed, d_hidden, n_layers, fused: as in :class:`RecurrentLM`.

    Raises:
        ValueError: for sizes below one.

    Source: Goodfellow et al. (2016), section 10.2; UCL-14, UCL-15.

    >>> RecurrentConfig(cell="LSTMCell", n_vocab=7, d_embed=3, d_hidden=4).n_layers
    1
    """

    cell: str
    n_vocab: int
    d_embed: int
    d_hidden: int
    n_layers: int = 1
    fused: bool = False


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderDecoderConfig(RecurrentConfig):
    """The sizes of two recurrent networks, an encoder and a decoder.

    Args:
        n_source_vocab: as in :class:`RecurrentEncoderDecoder`; the others are those of :class:`RecurrentConfig`.

    Raises:
        ValueError: for sizes below one.

    Source: Sutskever et al. (2014), section 2; UCL-30.

    >>> RecurrentEncoderDecoderConfig(cell="GRUCell", n_source_vocab=9, n_vocab=7, d_embed=3, d_hidden=4).fused
    False
    """

    n_source_vocab: int


class RecurrentLM(nn.Module):
    r"""A recurrent network, which predicts the next token from a state that summarizes all tokens so far.

    .. math:: h^{(t)} = \mathrm{cell}(h^{(t-1)}, C x^{(t)}), \quad o^{(t)} = V h^{(t)} + c, \quad
        \hat y^{(t)} = \mathrm{softmax}(o^{(t)})

    Neither its parameters nor its state grow with the length of the text, and all that it knows of the text must fit
    into that state.

    Args:
        cell: :class:`~llm_anatomy.layers.recurrent.ElmanCell`, ``LSTMCell`` or ``GRUCell``.
        n_vocab: number of tokens in the vocabulary.
        d_embed: width of the embeddings.
        d_hidden: width of the state.
        n_layers: number of recurrent layers.
        fused: whether to use PyTorch's kernel instead of a loop over the tokens.

    Raises:
        ValueError: for sizes below one.

    Source: Mikolov et al. (2010), section 2; Goodfellow et al. (2016), section 10.2; UCL-14, UCL-15, UCL-29.

    >>> model, ids = RecurrentLM(LSTMCell, n_vocab=7, d_embed=3, d_hidden=4), torch.tensor([[3, 0, 3]])
    >>> first, state = model.advance(ids[:, :2])
    >>> last, state = model.advance(ids[:, 2:], state)
    >>> torch.allclose(torch.cat((first, last), 1), model(ids))
    True
    """

    def __init__(
        self, cell: type[Cell], n_vocab: int, d_embed: int, d_hidden: int, n_layers: int = 1, *, fused: bool = False
    ):
        super().__init__()
        self.config = RecurrentConfig(
            cell=cell.__name__, n_vocab=n_vocab, d_embed=d_embed, d_hidden=d_hidden, n_layers=n_layers, fused=fused
        )
        self.embedding = TokenEmbedding(n_vocab, d_embed)
        self.recurrent = Recurrent(cell, d_embed, d_hidden, n_layers, fused=fused)
        self.unembedding = Unembedding(TokenEmbedding(n_vocab, d_hidden), bias=True)

    def forward(
        self, ids: Int[Tensor, "batch tokens"], *, attention_mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the logits of the token that follows each token.

        Args:
            ids: the token ids, at least one for each row.
            attention_mask: True for a token, False for padding, which leaves the state unchanged; by default there is
                no padding.
        """
        return self.advance(ids, attention_mask=attention_mask)[0]

    def advance(
        self,
        ids: Int[Tensor, "batch tokens"],
        state: LayerStates | None = None,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> tuple[Float[Tensor, "batch tokens n_vocab"], LayerStates]:
        """Read tokens from a given state, zero by default; return the logits and the state after the last token."""
        x, next_state = self.recurrent(self.embedding(ids), state, attention_mask)
        return self.unembedding(x), next_state


class RecurrentEncoderDecoder(nn.Module):
    r"""Two recurrent networks, an encoder and a decoder, connected by one state of fixed size: the context vector.

    .. math:: c = \mathrm{state\ of\ the\ encoder\ after\ } (x_{T'}, \dots, x_1), \quad
        \hat p(y_{t+1} \mid y_{\leq t}, x) = \mathrm{softmax}(V h_t + b), \quad h_0 = c

    The source is read in reverse, so that its first tokens are close to the first tokens of the target.

    Args:
        n_source_vocab: number of tokens in the vocabulary of the source.
        n_vocab: number of tokens in the vocabulary of the target.
        d_embed: width of the embeddings.
        d_hidden: width of the states.
        n_layers: number of recurrent layers; the decoder starts with the state of each layer of the encoder.
        cell: ``LSTMCell`` in the paper.
        fused: whether to use PyTorch's kernel instead of a loop over the tokens.

    Raises:
        ValueError: for sizes below one, or an empty source.

    Source: Sutskever et al. (2014), sections 2 and 3; UCL-30.

    >>> model = RecurrentEncoderDecoder(n_source_vocab=9, n_vocab=7, d_embed=3, d_hidden=4)
    >>> logits = model(torch.tensor([[3, 0, 3]]), source=torch.tensor([[8, 1, 2, 8, 5]]))
    >>> tuple(logits.shape), [tuple(part.shape) for part in model.encode(torch.tensor([[8, 1, 2, 8, 5]]))]
    ((1, 3, 7), [(1, 1, 4), (1, 1, 4)])
    """

    def __init__(
        self,
        n_source_vocab: int,
        n_vocab: int,
        d_embed: int,
        d_hidden: int,
        n_layers: int = 1,
        *,
        cell: type[Cell] = LSTMCell,
        fused: bool = False,
    ):
        super().__init__()
        self.config = RecurrentEncoderDecoderConfig(
            cell=cell.__name__,
            n_source_vocab=n_source_vocab,
            n_vocab=n_vocab,
            d_embed=d_embed,
            d_hidden=d_hidden,
            n_layers=n_layers,
            fused=fused,
        )
        self.source_embedding = TokenEmbedding(n_source_vocab, d_embed)
        self.encoder = Recurrent(cell, d_embed, d_hidden, n_layers, fused=fused)
        self.decoder = RecurrentLM(cell, n_vocab, d_embed, d_hidden, n_layers, fused=fused)

    def encode(
        self, source: Int[Tensor, "batch source"], attention_mask: Bool[Tensor, "batch source"] | None = None
    ) -> LayerStates:
        """Compute the context vector: the state of the encoder after reading the source in reverse."""
        attention_mask = None if attention_mask is None else attention_mask.flip(1)
        return self.encoder(self.source_embedding(source.flip(1)), mask=attention_mask)[1]

    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        source: Int[Tensor, "batch source"],
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source_attention_mask: Bool[Tensor, "batch source"] | None = None,
    ) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the logits of the target token that follows each token.

        Args:
            ids: the target, beginning with its start token.
            source: the ids of the source.
            attention_mask, source_attention_mask: True for a token, False for padding; by default there is no padding.
        """
        return self.decoder.advance(ids, self.encode(source, source_attention_mask), attention_mask)[0]

    def advance(
        self, ids: Int[Tensor, "batch tokens"], state: LayerStates
    ) -> tuple[Float[Tensor, "batch tokens n_vocab"], LayerStates]:
        """Read tokens of the target, from ``encode(source)`` or from the state that an earlier call returned."""
        return self.decoder.advance(ids, state)


# --- Mamba, on tokens and on bytes ---


@dataclass(frozen=True, kw_only=True)
class MambaConfig(Config):
    """The sizes of a Mamba language model.

    Args:
        n_vocab, d_model, n_layers, d_inner, d_state, d_conv, dt_rank, tie_embeddings, norm_eps, unembedding: as in
            :class:`MambaLM`.

    Raises:
        ValueError: for sizes that are not integers, or below one.

    Source: Gu and Dao (2023), "Mamba", section 3.4 and its code; UCL-16.

    >>> MambaConfig(n_vocab=256, d_model=48, n_layers=2).dt_rank
    3
    """

    n_vocab: int
    d_model: int
    n_layers: int
    d_inner: int | None = None
    d_state: int = 16
    d_conv: int = 4
    dt_rank: int | None = None
    tie_embeddings: bool = True
    norm_eps: float = 1e-5
    unembedding: bool = True

    kind: ClassVar[str] = "decoder"
    n_ctx: ClassVar[None] = None

    def __post_init__(self):
        super().__post_init__()
        for name, value in {"d_inner": 2 * self.d_model, "dt_rank": math.ceil(self.d_model / 16)}.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self._require(self.unembedding or not self.tie_embeddings, "tie_embeddings", "be False with unembedding=False")


class MambaCache:
    """The state of each block after the tokens read so far. Its size does not depend on their number.

    Source: Gu and Dao (2023), "Mamba", section 3.4; UCL-16.

    >>> MambaCache().length
    0
    """

    def __init__(self):
        self.states: MambaStates | None = None
        self.length = 0

    @property
    def n_bytes(self) -> int:
        """Size of all states in bytes."""
        return sum(part.nbytes for state in self.states or [] for part in state)

    def reorder(self, rows: Int[Tensor, "rows"]) -> None:
        """Let row i continue from the state of row ``rows[i]``."""
        if self.states is not None:
            self.states = [(window[rows], h[rows]) for window, h in self.states]

    def repeat_interleave(self, repeats: int) -> None:
        """Repeat each row, with its copies next to each other."""
        if self.states is not None:
            self.states = [
                (window.repeat_interleave(repeats, 0), h.repeat_interleave(repeats, 0)) for window, h in self.states
            ]


class MambaLM(nn.Module):
    r"""Mamba: blocks of selective state spaces, which learn what to keep in a state of fixed size.

    .. math:: X = C\, \mathrm{ids}, \quad X \leftarrow X + \mathrm{Mamba}_l(\mathrm{Norm}(X)), \; l = 1 \dots N,
        \quad \mathrm{logits} = \mathrm{Norm}(X)\, C^\top

    Reading a text takes time proportional to its length, not to the square of its length. Long sequences are therefore
    affordable, and no tokenizer is needed: with ``n_vocab=256`` and the bytes of a text as ids, this is MambaByte.

    Args:
        n_vocab: number of tokens in the vocabulary, 256 for bytes.
        d_model: width of the hidden states.
        n_layers: number of blocks.
        d_inner, d_state, d_conv, dt_rank: as in :class:`~llm_anatomy.layers.state_space.MambaBlock`.
        tie_embeddings: whether the logits are computed with the table of the embeddings.
        norm_eps: epsilon of the norms.
        unembedding: whether there are logits; without them, the output is that of ``hidden_states``.
        scan: how the blocks compute their states: ``selective_scan_parallel`` or ``selective_scan_sequential``.

    Raises:
        ValueError: for sizes below one.

    Source: Gu and Dao (2023), "Mamba", section 3.4; Wang et al. (2024), "MambaByte", section 2; UCL-16.

    >>> model, ids = MambaLM(n_vocab=256, d_model=6, n_layers=2), torch.tensor([list("état".encode())])
    >>> logits, state = model.advance(ids)
    >>> tuple(logits.shape), torch.equal(logits, model(ids)), len(state)
    ((1, 5, 256), True, 2)
    """

    def __init__(
        self,
        n_vocab: int,
        d_model: int,
        n_layers: int,
        *,
        d_inner: int | None = None,
        d_state: int = 16,
        d_conv: int = 4,
        dt_rank: int | None = None,
        tie_embeddings: bool = True,
        norm_eps: float = 1e-5,
        unembedding: bool = True,
        scan: Callable = selective_scan_parallel,
    ):
        super().__init__()
        self.config = MambaConfig(
            n_vocab=n_vocab,
            d_model=d_model,
            n_layers=n_layers,
            d_inner=d_inner,
            d_state=d_state,
            d_conv=d_conv,
            dt_rank=dt_rank,
            tie_embeddings=tie_embeddings,
            norm_eps=norm_eps,
            unembedding=unembedding,
        )
        self.embedding = TokenEmbedding(n_vocab, d_model)
        self.blocks = nn.ModuleList(
            MambaBlock(d_model, d_inner=d_inner, d_state=d_state, d_conv=d_conv, dt_rank=dt_rank, scan=scan)
            for _ in range(n_layers)
        )
        self.block_residuals = nn.ModuleList(PreNorm(RMSNorm(d_model, eps=norm_eps)) for _ in range(n_layers))
        self.norm = RMSNorm(d_model, eps=norm_eps)
        self.unembedding = None
        if unembedding:
            self.unembedding = Unembedding(self.embedding if tie_embeddings else TokenEmbedding(n_vocab, d_model))
        _own_once(self)

    @classmethod
    def of(cls, config: MambaConfig) -> "MambaLM":
        """Make the model that a config describes."""
        return cls(**dataclasses.asdict(config))

    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source: EncoderOutput | None = None,
        cache: MambaCache | None = None,
        logits_to_keep: int = 0,
    ) -> Float[Tensor, "batch kept n_vocab"]:
        """Compute the logits of the token that follows each token.

        Args:
            ids: the token ids, at least one for each row.
            attention_mask: True for a token, False for padding, which must be on the left; by default there is no
                padding.
            source: must be None, since there is no encoder.
            cache: from ``new_cache``; holds the states after the tokens read so far, and is updated.
            logits_to_keep: for how many of the last tokens to compute logits; 0, the default, for all.
        """
        x, _ = self.hidden_states(ids, attention_mask=attention_mask, source=source, cache=cache)
        x = _last_tokens(x, logits_to_keep)
        return x if self.unembedding is None else self.logits(x)

    def advance(
        self, ids: Int[Tensor, "batch tokens"], state: MambaStates | None = None
    ) -> tuple[Float[Tensor, "batch tokens n_vocab"], MambaStates]:
        """Read tokens from a given state, zero by default; return the logits and the state after the last token."""
        x, next_state = self._run_blocks(ids, state)
        return self.logits(x), next_state

    # The interface of :class:`~llm_anatomy.models.generation.GenerativeModel`:

    def new_cache(self, batch: int, n_slots: int, n_source: int | None = None) -> MambaCache:
        """Make an empty cache, for any number of sequences and of tokens.

        Args:
            batch, n_slots: need not be known, since the size of a state does not depend on the number of tokens.
            n_source: must be None, since there is no encoder.
        """
        if n_source is not None:
            raise ValueError(f"{n_source=} must be None: Mamba has no encoder")
        return MambaCache()

    def hidden_states(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source: EncoderOutput | None = None,
        cache: MambaCache | None = None,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], MambaStates]:
        """Compute the hidden states after the last norm, and the state of each block after the last token.

        Args:
            ids, attention_mask: as in ``forward``.
            source: must be None, since there is no encoder.
            cache: from ``new_cache``; holds the states after the tokens read so far, and is updated.
        """
        _check_ids(ids, attention_mask=attention_mask)
        if source is not None:
            raise ValueError("source must be None: Mamba has no encoder")
        x, states = self._run_blocks(ids, None if cache is None else cache.states, attention_mask)
        if cache is not None:
            cache.states, cache.length = states, cache.length + ids.shape[1]
        return x, states

    def logits(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute a score for every token of the vocabulary from the hidden states after the last norm."""
        if self.unembedding is None:
            raise ValueError("unembedding=False: this model has hidden states and no logits")
        return self.unembedding(x)

    def _run_blocks(
        self, ids: Tensor, states: MambaStates | None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, MambaStates]:
        if attention_mask is not None and not torch.compiler.is_compiling():
            _check_padding(states, attention_mask)
        x, next_states = self.embedding(ids), []
        for i, (block, residual) in enumerate(zip(self.blocks, self.block_residuals, strict=True)):
            x, state = residual(x, block, state=None if states is None else states[i], mask=attention_mask)
            next_states.append(state)
        return self.norm(x), next_states


def _check_padding(states: MambaStates | None, attention_mask: Tensor) -> None:
    if states is not None or bool((attention_mask[:, :-1] & ~attention_mask[:, 1:]).any()):
        raise ValueError("attention_mask must be False only before the first token of a row: a state skips nothing")


# --- MegaByte ---


@dataclass(frozen=True, kw_only=True)
class MegaByteConfig(Config):
    """The configs of the two Transformers of MegaByte, and the size of a patch.

    Args:
        global_config, local_config, patch_size: as in :class:`MegaByte`.

    Raises:
        ValueError: for two configs that do not fit together.

    Source: Yu et al. (2023), "MEGABYTE", section 2; UCL-09.

    >>> sizes = dict(n_layers=1, n_heads=2, d_ff=9, n_vocab=256)
    >>> wide, narrow = ModelConfig(d_model=24, n_ctx=64, **sizes), ModelConfig(d_model=6, **sizes)
    >>> MegaByteConfig(global_config=wide, local_config=narrow, patch_size=5)
    Traceback (most recent call last):
    ValueError: patch_size=5 must divide global_config.d_model=24
    """

    global_config: ModelConfig
    local_config: ModelConfig
    patch_size: int

    def __post_init__(self):
        super().__post_init__()
        d_model = self.global_config.d_model
        self._require(d_model % self.patch_size == 0, "patch_size", f"divide global_config.d_model={d_model}")
        for name, config in {"global_config": self.global_config, "local_config": self.local_config}.items():
            if config.kind != "decoder":
                raise ValueError(f"{name}.kind={config.kind!r} must be 'decoder': no byte may attend to those after it")
            if PARTS["position"][config.position].at_input:
                raise ValueError(
                    f"{name}.position={config.position!r} must be a scheme that acts in attention: MegaByte has its "
                    "own embeddings, with learned positions"
                )
        if self.global_config.n_ctx is None:
            raise ValueError("global_config.n_ctx=None must be given: the number of bytes that have a position")


class MegaByte(nn.Module):
    r"""A byte-level model with two Transformers: a large one over patches, a small one over the bytes within a patch.

    Let :math:`x_{k,p}` be byte p of patch k, and let a patch have P bytes. The global model has one token for each
    patch, the concatenated embeddings of its bytes, shifted by one patch so that the output for patch k depends only on
    the patches before it. The local model predicts the bytes of a patch from that output and the bytes before:

    .. math:: G_{k} &= \mathrm{Global}(g, [E^G x_{1,\cdot} + P_1], \dots, [E^G x_{k-1,\cdot} + P_{k-1}])_k \\
        L_{k,p} &= \mathrm{Local}(W G_{k,1} + \ell,\; W G_{k,2} + E^L x_{k,1},\; \dots,\; W G_{k,p} + E^L x_{k,p-1})_p,
        \quad \hat p(x_{k,p} \mid \text{all bytes before}) = \mathrm{softmax}(E^L L_{k,p})

    g and :math:`\ell` are trained vectors, which stand for the patch before the first one, and for the byte before the
    first one of each patch. Attention over n bytes then has :math:`(n/P)^2 + nP` pairs of tokens instead of
    :math:`n^2`, and the large feed-forward layers are applied once for each patch.

    Args:
        global_config: config of the decoder over patches. Its ``d_model`` is P times the width of a byte's embedding,
            and its ``n_ctx`` is the largest number of bytes.
        local_config: config of the decoder within a patch; its ``n_vocab`` is the vocabulary of both.
        patch_size: P, at least 1.

    Raises:
        ValueError: if the patch size does not divide the width, a config is not that of a decoder, its position scheme
            changes the embeddings, or ``n_ctx`` is missing; when called, for a text longer than ``n_ctx``.

    Source: Yu et al. (2023), "MEGABYTE", section 2; UCL-09 (erratum E-91 leaves open what the
    table's 8192 counts; ``n_ctx`` here counts bytes).

    >>> sizes = dict(n_layers=1, n_heads=2, d_ff=9, n_vocab=256)
    >>> model = MegaByte(ModelConfig(d_model=24, n_ctx=64, **sizes), ModelConfig(d_model=6, **sizes), patch_size=4)
    >>> tuple(model(torch.tensor([list("patches".encode())])).shape)
    (1, 7, 256)
    """

    def __init__(self, global_config: ModelConfig, local_config: ModelConfig, patch_size: int):
        super().__init__()
        self.config = MegaByteConfig(global_config=global_config, local_config=local_config, patch_size=patch_size)
        assert global_config.n_ctx is not None
        self.patch_size, self.n_ctx = patch_size, global_config.n_ctx
        d_byte, d_local = global_config.d_model // patch_size, local_config.d_model
        self.global_embedding = TokenEmbedding(local_config.n_vocab, d_byte)
        self.positions = Learned(self.n_ctx, d_byte)
        self.global_start = nn.Parameter(torch.randn(global_config.d_model) * 0.02)
        self.global_model = Stack(global_config, global_config.n_layers, causal=True)
        self.w_local = nn.Linear(d_byte, d_local, bias=False)
        self.local_embedding = TokenEmbedding(local_config.n_vocab, d_local)
        self.local_start = nn.Parameter(torch.randn(d_local) * 0.02)
        self.local_model = Stack(local_config, local_config.n_layers, causal=True)
        self.unembedding = Unembedding(self.local_embedding)
        _own_once(self)

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the logits of the byte that follows each byte. The prediction of the first byte is left out."""
        if ids.shape[1] > self.n_ctx:
            raise ValueError(f"{ids.shape[1]} bytes are more than n_ctx={self.n_ctx}")
        n_tokens, n_full = ids.shape[1], ids.shape[1] // self.patch_size
        context = self._read_patches(ids[:, : n_full * self.patch_size])
        # The paper predicts byte t at position t, this model at position t - 1: compute one more, then drop the first.
        padded = F.pad(ids, (0, (n_full + 1) * self.patch_size - n_tokens))  # no prediction that is kept reads padding
        bytes_ = rearrange(padded, "batch (patches bytes) -> (batch patches) bytes", bytes=self.patch_size)
        before = self.local_embedding(bytes_[:, :-1])  # (batch patches, bytes - 1, d_local)
        before = torch.cat((self.local_start.expand(len(before), 1, -1), before), 1)
        x, _ = self.local_model(self.w_local(context) + before)
        x = rearrange(x, "(batch patches) bytes d -> batch (patches bytes) d", batch=len(ids))
        return self.unembedding(x[:, 1 : n_tokens + 1])

    def _read_patches(self, ids: Tensor) -> Float[Tensor, "batch_patches bytes d_byte"]:
        """The output of the global model, split into bytes, for each patch of ``ids`` and for the one that follows."""
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.positions(self.global_embedding(ids), positions)
        x = rearrange(x, "batch (patches bytes) d -> batch patches (bytes d)", bytes=self.patch_size)
        x = torch.cat((self.global_start.expand(len(x), 1, -1), x), 1)  # (batch, 1 + patches, d_global)
        x, _ = self.global_model(x)
        return rearrange(x, "batch patches (bytes d) -> (batch patches) bytes d", bytes=self.patch_size)
