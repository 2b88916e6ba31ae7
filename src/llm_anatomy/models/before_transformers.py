r"""Language models before the Transformer, and beside it: what each does about the tokens before the last.

A bigram network forgets them; Bengio's network has a matrix with columns for a fixed number of them; recurrent networks
and Mamba carry a state of fixed size; MegaByte has a large Transformer over patches of bytes and a small one within.
All are called as ``logits = model(ids)``: row t scores the token after ``ids[:, t]``. Those with a state have
``advance(ids, state)`` as well, which returns logits and the state after the last token, so that a text may be read in
pieces, or token by token.
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
from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.embeddings import TokenEmbedding, Unembedding
from llm_anatomy.layers.normalization import RMSNorm
from llm_anatomy.layers.positions.absolute import Learned
from llm_anatomy.layers.recurrent import Cell, LayerStates, LSTMCell, Recurrent
from llm_anatomy.layers.residual import PreNorm
from llm_anatomy.layers.state_space import MambaBlock, selective_scan_parallel
from llm_anatomy.models.block import Stack
from llm_anatomy.models.transformer import ModelCache
from llm_anatomy.shapes import Bool, Float, Int, Tensor

MambaStates = list[tuple[Float[Tensor, "batch d_inner kept"], Float[Tensor, "batch d_inner d_state"]]]

# --- One token back ---


class BigramNetwork(nn.Module):
    r"""The next token from the last one alone.

    .. math:: \hat p(x_0 \mid x_{-1}) = \mathrm{softmax}(W_d \tanh(\cdots \tanh(W_1 x_{-1}) \cdots))

    with :math:`x_{-1}` one-hot, so that :math:`W_1 x_{-1}` is a column of :math:`W_1`: a lookup. There are no biases.

    Args:
        n_vocab: how many tokens.
        d_hidden: width of the layers between.
        n_matrices: d, from 2.

    Raises:
        ValueError: for sizes out of range.

    Source: Bengio et al. (2003), section 1; UCL-10.

    >>> network = BigramNetwork(n_vocab=7, d_hidden=4)
    >>> tuple(network(torch.tensor([[3, 0, 3]])).shape), sum(p.numel() for p in network.parameters()) == 2 * 7 * 4
    ((1, 3, 7), True)
    """

    def __init__(self, n_vocab: int, d_hidden: int, n_matrices: int = 2):
        super().__init__()
        _check_at_least_one(n_vocab=n_vocab, d_hidden=d_hidden)
        if n_matrices < 2:
            raise ValueError(f"{n_matrices=} must be at least 2: from the vocabulary, and back to it")
        self.embedding = TokenEmbedding(n_vocab, d_hidden)
        self.between = nn.ModuleList(nn.Linear(d_hidden, d_hidden, bias=False) for _ in range(n_matrices - 2))
        self.unembedding = Unembedding(TokenEmbedding(n_vocab, d_hidden))

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        x = self.embedding(ids).tanh()
        for w in self.between:
            x = w(x).tanh()
        return self.unembedding(x)


class EmbeddedBigramNetwork(nn.Module):
    r"""The same through an encoder C and a decoder D, narrow matrices between vocabulary and network.

    .. math:: \hat p(x_0 \mid x_{-1}) = \mathrm{softmax}(D W_d \tanh(\cdots \tanh(W_1 C x_{-1}) \cdots)), \quad
        C \in \mathbb{R}^{d_\mathrm{emb} \times n_\mathrm{voc}},\;
        D \in \mathbb{R}^{n_\mathrm{voc} \times d_\mathrm{emb}}

    It can do no more than :class:`BigramNetwork`: :math:`W_1 C` and :math:`D W_d` have the old shapes, and rank
    :math:`d_\mathrm{emb}` at most. It has fewer parameters.

    Args:
        n_vocab: how many tokens.
        d_embed: width of the embeddings.
        d_hidden: width of the layers between.
        n_matrices: d, from 2.
        tied: whether :math:`D = C^\top`, one table for both.

    Raises:
        ValueError: for sizes out of range.

    Source: Bengio et al. (2003), section 2; Press & Wolf (2017), section 3 (tied); UCL-10, UCL-11.

    >>> network = EmbeddedBigramNetwork(n_vocab=7, d_embed=3, d_hidden=4)
    >>> tuple(network(torch.tensor([[3, 0, 3]])).shape)
    (1, 3, 7)
    >>> sum(p.numel() for p in network.parameters()) == 2 * 7 * 3 + 2 * 3 * 4
    True
    """

    def __init__(self, n_vocab: int, d_embed: int, d_hidden: int, n_matrices: int = 2, *, tied: bool = False):
        super().__init__()
        _check_at_least_one(n_vocab=n_vocab, d_embed=d_embed, d_hidden=d_hidden)
        if n_matrices < 2:
            raise ValueError(f"{n_matrices=} must be at least 2: from the embedding, and back to it")
        self.embedding = TokenEmbedding(n_vocab, d_embed)
        widths = [d_embed, *[d_hidden] * (n_matrices - 1)]
        self.between = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in zip(widths, widths[1:], strict=False))
        self.w_last = nn.Linear(d_hidden, d_embed, bias=False)
        self.unembedding = Unembedding(self.embedding if tied else TokenEmbedding(n_vocab, d_embed))

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        x = self.embedding(ids)
        for w in self.between:
            x = w(x).tanh()
        return self.unembedding(self.w_last(x))


# --- A fixed number of tokens back ---


class NeuralProbabilisticLM(nn.Module):
    r"""The next token from the last ``n_ctx``, which share one embedding.

    .. math:: \hat p(x_0 \mid x_{-1}, \dots, x_{-n_\mathrm{ctx}}) =
        \mathrm{softmax}(W_2 \tanh(W_1 X + b_1) + b_2 + W_3 X), \quad X = [C x_{-1}; \dots; C x_{-n_\mathrm{ctx}}]

    The lecture's formula has neither biases nor the direct connections :math:`W_3`; the paper has biases, and tries
    both with and without :math:`W_3`. Positions before the text hold zeros in place of :math:`C x`. :math:`W_1` has
    columns for each position, so that parameters grow with ``n_ctx``, and so does the order matter.

    Args:
        n_vocab: how many tokens.
        n_ctx: how many of them are looked back to.
        d_embed: width of an embedding.
        d_hidden: width of the layer between.
        bias: whether there are :math:`b_1` and :math:`b_2`.
        direct: whether there is :math:`W_3`.

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
        _check_at_least_one(n_vocab=n_vocab, n_ctx=n_ctx, d_embed=d_embed, d_hidden=d_hidden)
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


# --- A state, carried on ---


class RecurrentLM(nn.Module):
    r"""The next token from a state that has read all tokens so far.

    .. math:: h^{(t)} = \mathrm{cell}(h^{(t-1)}, C x^{(t)}), \quad o^{(t)} = V h^{(t)} + c, \quad
        \hat y^{(t)} = \mathrm{softmax}(o^{(t)})

    Its parameters do not grow with the length of the text; nor does its state, through which all must pass.

    Args:
        cell: :class:`~llm_anatomy.layers.recurrent.ElmanCell`, ``LSTMCell`` or ``GRUCell``.
        n_vocab: how many tokens.
        d_embed: width of an embedding.
        d_hidden: width of the state.
        n_layers: cells on top of each other.
        fused: whether PyTorch's kernel runs in place of the steps written here.

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
        self.embedding = TokenEmbedding(n_vocab, d_embed)
        self.recurrent = Recurrent(cell, d_embed, d_hidden, n_layers, fused=fused)
        self.unembedding = Unembedding(TokenEmbedding(n_vocab, d_hidden), bias=True)

    def forward(
        self, ids: Int[Tensor, "batch tokens"], *, attention_mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens n_vocab"]:
        """Logits for the token after each, of a whole text.

        Args:
            ids: the tokens, at least one.
            attention_mask: True = a token, False = padding, which the state skips; all are tokens by default.
        """
        return self.advance(ids, attention_mask=attention_mask)[0]

    def advance(
        self,
        ids: Int[Tensor, "batch tokens"],
        state: LayerStates | None = None,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> tuple[Float[Tensor, "batch tokens n_vocab"], LayerStates]:
        """Read on from a state, by default from the start; logits, and the state after the last token."""
        x, state = self.recurrent(self.embedding(ids), state, attention_mask)
        return self.unembedding(x), state


class RecurrentEncoderDecoder(nn.Module):
    r"""A target from a source, all of which must pass through one state of fixed size: the context vector.

    .. math:: c = \mathrm{state\ of\ the\ encoder\ after\ } (x_{T'}, \dots, x_1), \quad
        \hat p(y_{t+1} \mid y_{\leq t}, x) = \mathrm{softmax}(V h_t + b), \quad h_0 = c

    The source is read backwards, so that its beginning is near the beginning of the target.

    Args:
        n_source_vocab: tokens of the source's vocabulary.
        n_vocab: of the target's.
        d_embed: width of embeddings.
        d_hidden: width of the states.
        n_layers: cells on top of each other; the state of each is handed over.
        cell: ``LSTMCell`` in the paper.
        fused: whether PyTorch's kernel runs in place of the steps written here.

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
        self.source_embedding = TokenEmbedding(n_source_vocab, d_embed)
        self.encoder = Recurrent(cell, d_embed, d_hidden, n_layers, fused=fused)
        self.decoder = RecurrentLM(cell, n_vocab, d_embed, d_hidden, n_layers, fused=fused)

    def encode(
        self, source: Int[Tensor, "batch source"], attention_mask: Bool[Tensor, "batch source"] | None = None
    ) -> LayerStates:
        """The context vector: the encoder's state when it has read the source from its end to its beginning."""
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
        """Logits for the token of the target after each.

        Args:
            ids: the target, from the token that starts it.
            source: the text to read.
            attention_mask, source_attention_mask: True = a token, False = padding.
        """
        return self.decoder.advance(ids, self.encode(source, source_attention_mask), attention_mask)[0]

    def advance(
        self, ids: Int[Tensor, "batch tokens"], state: LayerStates
    ) -> tuple[Float[Tensor, "batch tokens n_vocab"], LayerStates]:
        """Read on in the target, from ``encode(source)`` or what an earlier call returned."""
        return self.decoder.advance(ids, state)


@dataclass(frozen=True, kw_only=True)
class MambaConfig(Config):
    """The architecture of a Mamba model.

    Args:
        n_vocab, d_model, n_layers, d_inner, d_state, d_conv, dt_rank, norm_eps: as in :class:`MambaLM`.
        tie_embeddings: whether logits read the table of the embeddings.

    Raises:
        ValueError: for sizes that are no numbers, or below one.

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

    kind: ClassVar[str] = "decoder"
    n_ctx: ClassVar[None] = None

    def __post_init__(self):
        super().__post_init__()
        for name, value in {"d_inner": 2 * self.d_model, "dt_rank": math.ceil(self.d_model / 16)}.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)


class StateCache:
    """What one block keeps of a text: its state, of one size whatever the length.

    Source: Gu and Dao (2023), "Mamba", section 3.4; UCL-16.

    >>> StateCache().length
    0
    """

    def __init__(self):
        self.state, self.length = None, 0

    @property
    def n_bytes(self) -> int:
        return sum(part.numel() * part.element_size() for part in self.state or ())

    def read(self) -> tuple[Tensor, ...]:
        """The state."""
        return self.state

    def reorder(self, rows: Int[Tensor, "_"]) -> None:
        """Row i goes on from what row ``rows[i]`` held."""
        self.state = tuple(part[rows] for part in self.state)


class MambaLM(nn.Module):
    r"""The next token from the states of selective state spaces, which learn what to keep.

    .. math:: X = C\, \mathrm{ids}, \quad X \leftarrow X + \mathrm{Mamba}_l(\mathrm{Norm}(X)), \; l = 1 \dots N,
        \quad \mathrm{logits} = \mathrm{Norm}(X)\, C^\top

    A text costs a time that grows with its length and not with the square of it, and a state of fixed size; so the
    tokenizer may be left out: with ``n_vocab=256`` and the bytes of a text for ids, this is MambaByte.

    Args:
        n_vocab: how many tokens, 256 for bytes.
        d_model: width of the stream.
        n_layers: how many blocks.
        d_inner, d_state, d_conv, dt_rank: as in :class:`~llm_anatomy.layers.state_space.MambaBlock`.
        tied: whether logits read the table of the embeddings.
        norm_eps: of the norms.
        scan: how the blocks read: ``selective_scan_parallel`` or ``selective_scan_sequential``.

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
        tied: bool = True,
        norm_eps: float = 1e-5,
        scan: Callable = selective_scan_parallel,
    ):
        super().__init__()
        _check_at_least_one(d_model=d_model, n_layers=n_layers)
        sizes = dict(d_inner=d_inner, d_state=d_state, d_conv=d_conv, dt_rank=dt_rank)
        of_all = dict(n_vocab=n_vocab, d_model=d_model, n_layers=n_layers, tie_embeddings=tied, norm_eps=norm_eps)
        self.config = MambaConfig(**of_all, **sizes)
        self.embedding = TokenEmbedding(n_vocab, d_model)
        self.blocks = nn.ModuleList(MambaBlock(d_model, **sizes, scan=scan) for _ in range(n_layers))
        self.block_residuals = nn.ModuleList(PreNorm(RMSNorm(d_model, eps=norm_eps)) for _ in range(n_layers))
        self.norm = RMSNorm(d_model, eps=norm_eps)
        self.unembedding = Unembedding(self.embedding if tied else TokenEmbedding(n_vocab, d_model))

    @classmethod
    def of(cls, config: MambaConfig) -> "MambaLM":
        """The model that a config describes."""
        values = dataclasses.asdict(config)
        return cls(tied=values.pop("tie_embeddings"), **values)

    def forward(
        self, ids: Int[Tensor, "batch tokens"], *, attention_mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens n_vocab"]:
        """Logits for the token after each, of a whole text.

        Args:
            ids: the tokens, at least one.
            attention_mask: True = a token, False = padding, on the left of its row; all are tokens by default.
        """
        return self.logits(self._read(ids, None, attention_mask)[0])

    def advance(
        self, ids: Int[Tensor, "batch tokens"], state: MambaStates | None = None
    ) -> tuple[Float[Tensor, "batch tokens n_vocab"], MambaStates]:
        """Read on from a state, by default from the start; logits, and the state of each block after the last token."""
        x, after = self._read(ids, state)
        return self.logits(x), after

    # What ``models.generation`` asks of a model:

    def new_cache(self, batch: int, n_slots: int, n_source: None = None) -> ModelCache:
        """A cache for a text of any length."""
        return ModelCache([StateCache() for _ in self.blocks], None)

    def read(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source: None = None,
        cache: ModelCache | None = None,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], MambaStates]:
        """The stream at its end, before the logits, after what the cache holds, which then holds the new tokens too."""
        state = None if cache is None or cache.length == 0 else [of_block.state for of_block in cache.blocks]
        x, after = self._read(ids, state, attention_mask)
        if cache is not None:
            for kept, of_block in zip(cache.blocks, after, strict=True):
                kept.state, kept.length = of_block, kept.length + ids.shape[1]
        return x, after

    def logits(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """A score for every token of the vocabulary, from the stream at its end."""
        return self.unembedding(self.norm(x))

    def _read(
        self, ids: Tensor, state: MambaStates | None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, list]:
        if attention_mask is not None and not torch.compiler.is_compiling():
            _check_padding(state, attention_mask)
        x, after = self.embedding(ids), []
        before = [None] * len(self.blocks) if state is None else state
        for block, residual, of_block in zip(self.blocks, self.block_residuals, before, strict=True):
            x, of_block = residual(x, block, state=of_block, mask=attention_mask)
            after.append(of_block)
        return x, after


def _check_padding(state: MambaStates | None, attention_mask: Tensor) -> None:
    if state is not None or bool((attention_mask[:, :-1] & ~attention_mask[:, 1:]).any()):
        raise ValueError("attention_mask must be False only before the first token of a row: a state skips nothing")


# --- Bytes in patches ---


class MegaByte(nn.Module):
    r"""Bytes at two levels: a large Transformer reads patches of them, a small one the bytes within a patch.

    With patches of P bytes, byte p of patch k being :math:`x_{k,p}`, the global model has a token for each patch, made
    of the embeddings of its bytes side by side, and is told of patch k - 1 where it speaks for patch k:

    .. math:: G_{k} &= \mathrm{Global}(g, [E^G x_{1,\cdot} + P_1], \dots, [E^G x_{k-1,\cdot} + P_{k-1}])_k \\
        L_{k,p} &= \mathrm{Local}(W G_{k,1} + \ell,\; W G_{k,2} + E^L x_{k,1},\; \dots,\; W G_{k,p} + E^L x_{k,p-1})_p,
        \quad \hat p(x_{k,p} \mid \text{all bytes before}) = \mathrm{softmax}(E^L L_{k,p})

    g and :math:`\ell` are trained vectors for what comes before the first patch, and before the first byte of each.
    Attention over n bytes then takes :math:`(n/P)^2 + nP` pairs in place of :math:`n^2`, and the large feed-forward
    layers work once a patch.

    Args:
        global_config: of the decoder over patches; its ``d_model`` is P times the width of a byte there. Its ``n_ctx``
            is the longest text in bytes, and bounds the table of positions.
        local_config: of the decoder within a patch, whose ``n_vocab`` is that of both.
        patch_size: P, at least 1.

    Raises:
        ValueError: for a patch size that does not divide the width, configs that are no decoders or whose position
            scheme changes embeddings, or no ``n_ctx``; when called, for a text longer than ``n_ctx``.

    Source: Yu et al. (2023), "MEGABYTE", section 2; UCL-09 (erratum E-91 leaves open what the
    table's 8192 counts; ``n_ctx`` here counts bytes).

    >>> sizes = dict(n_layers=1, n_heads=2, d_ff=9, n_vocab=256)
    >>> model = MegaByte(ModelConfig(d_model=24, n_ctx=64, **sizes), ModelConfig(d_model=6, **sizes), patch_size=4)
    >>> tuple(model(torch.tensor([list("patches".encode())])).shape)
    (1, 7, 256)
    """

    def __init__(self, global_config: ModelConfig, local_config: ModelConfig, patch_size: int):
        super().__init__()
        _check_levels(global_config, local_config, patch_size)
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

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Logits for the byte after each. What the first byte of a text may be, before any, is not among them."""
        if ids.shape[1] > self.n_ctx:
            raise ValueError(f"{ids.shape[1]} bytes are more than n_ctx={self.n_ctx}")
        n_tokens, n_full = ids.shape[1], ids.shape[1] // self.patch_size
        context = self._read_patches(ids[:, : n_full * self.patch_size])
        # the paper's byte t is scored in place t, from those before it; here in t - 1: one position more, then cut
        padded = F.pad(ids, (0, (n_full + 1) * self.patch_size - n_tokens))  # what is scored last is read by nobody
        bytes_ = rearrange(padded, "batch (patches bytes) -> (batch patches) bytes", bytes=self.patch_size)
        before = self.local_embedding(bytes_[:, :-1])  # (batch patches, bytes - 1, d_local)
        before = torch.cat((self.local_start.expand(len(before), 1, -1), before), 1)
        x, _ = self.local_model(self.w_local(context) + before)
        x = rearrange(x, "(batch patches) bytes d -> batch (patches bytes) d", batch=len(ids))
        return self.unembedding(x[:, 1 : n_tokens + 1])

    def _read_patches(self, ids: Tensor) -> Float[Tensor, "batch_patches bytes d_byte"]:
        """For each byte of each patch, and of one patch more, what the global model has made of the patches before."""
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.positions.embed(self.global_embedding(ids), positions)
        x = rearrange(x, "batch (patches bytes) d -> batch patches (bytes d)", bytes=self.patch_size)
        x = torch.cat((self.global_start.expand(len(x), 1, -1), x), 1)  # (batch, 1 + patches, d_global)
        x, _ = self.global_model(x)
        return rearrange(x, "batch patches (bytes d) -> (batch patches) bytes d", bytes=self.patch_size)


def _check_levels(global_config: ModelConfig, local_config: ModelConfig, patch_size: int) -> None:
    _check_at_least_one(patch_size=patch_size)
    if global_config.d_model % patch_size:
        raise ValueError(f"{patch_size=} must divide global_config.d_model={global_config.d_model}")
    for name, config in {"global_config": global_config, "local_config": local_config}.items():
        if config.kind != "decoder":
            raise ValueError(f"{name}.kind={config.kind!r} must be 'decoder': no byte may see those after it")
        if config.position in ("sinusoidal", "learned"):
            raise ValueError(f"{name}.position={config.position!r} must act in attention: embeddings are made here")
    if global_config.n_ctx is None:
        raise ValueError("global_config.n_ctx=None must be given: it is how many bytes have a position")
