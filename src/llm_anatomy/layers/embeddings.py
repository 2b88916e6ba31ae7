r"""Embeddings: from token ids to vectors, and from vectors back to a score for every token.

Shapes: ``batch``, ``tokens``, ``d_model``, ``n_vocab`` (number of tokens in the vocabulary), ``d_embed``
(width of a row of the table if it is not ``d_model``). Tied weights mean that input and output read the same table:
both modules hold the same embedding object, so that loading, copying and moving cannot separate them.
"""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.softcapping import Softcapping
from llm_anatomy.shapes import Float, Int, Tensor


class TokenEmbedding(nn.Module):
    r"""One trained vector for each token of the vocabulary, a row of a table.

    .. math:: x_t = \mathrm{scale} \cdot E_{w_t} = \mathrm{scale} \cdot e_{w_t}^\top E,
        \quad E \in \mathbb{R}^{n_\mathrm{vocab} \times d_\mathrm{model}}

    The table is initialized from a normal distribution with standard deviation 0.02, as in GPT-2.

    Args:
        n_vocab: number of tokens in the vocabulary, at least 1.
        d_model: width of a vector, at least 1.
        scale: factor of the vectors: :math:`\sqrt{d_\mathrm{model}}` in the first Transformer and in Gemma, 1 in T5.

    Raises:
        ValueError: for sizes below one; in ``forward``, for ids outside 0 to n_vocab - 1, which a compiled graph does
            not check.

    Source: Bengio et al. (2003), section 2; Vaswani et al. (2017), section 3.4; UCL-10, UCL-12, UCL-13.

    >>> embedding = TokenEmbedding(n_vocab=7, d_model=4, scale=4**0.5)
    >>> embedding(torch.tensor([[3, 0, 3]])).shape
    torch.Size([1, 3, 4])
    >>> embedding(torch.tensor([[3, 7]]))
    Traceback (most recent call last):
    ValueError: ids hold 7; they must be 0 to n_vocab - 1 = 6
    """

    def __init__(self, n_vocab: int, d_model: int, *, scale: float = 1.0):
        super().__init__()
        _check_at_least_one(n_vocab=n_vocab, d_model=d_model)
        self.scale = scale
        self.weight = nn.Parameter(torch.randn(n_vocab, d_model) * 0.02)

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens d_model"]:
        """Look up the vector of each token, and scale it.

        Args:
            ids: the token ids, from 0 to n_vocab - 1.

        Raises:
            ValueError: for other ids, on a CPU, unless the graph is compiled.
        """
        _check_bounds("ids", ids, len(self.weight))
        x = F.embedding(ids, self.weight)
        return x if self.scale == 1 else x * self.scale


class Unembedding(nn.Module):
    r"""A score for every token of the vocabulary: the product of a vector with each row of a table.

    .. math:: \mathrm{logits} = \mathrm{scale} \cdot x E^\top + b, \quad \mathrm{then\ perhaps\ }
        c \tanh(\mathrm{logits} / c)

    If ``embedding`` is also the embedding of the input, the weights are tied, :math:`D = C^\top` of the lecture; if it
    is another one, they are not. The scale of the embedding is not used here.

    Args:
        embedding: the embedding that holds the table.
        bias: whether each token has a bias, initialized to zero.
        scale: factor of the products: :math:`1/\sqrt{d_\mathrm{model}}` in T5 with tied weights.
        softcapping: the bound c of the logits: 30 in Gemma 2; none by default.

    Raises:
        ValueError: for a bound that is not above 0.

    Source: Press & Wolf (2017), section 3; Raffel et al. (2020); Gemma Team (2024), section 2 (soft cap); UCL-10,
    UCL-11, GT-19.

    >>> embedding = TokenEmbedding(n_vocab=7, d_model=4)
    >>> tied, untied = Unembedding(embedding), Unembedding(TokenEmbedding(n_vocab=7, d_model=4))
    >>> tied(embedding(torch.tensor([[3, 0, 3]]))).shape
    torch.Size([1, 3, 7])
    >>> [sum(p.numel() for p in nn.ModuleList([embedding, u]).parameters()) for u in (tied, untied)]
    [28, 56]
    """

    def __init__(
        self, embedding: TokenEmbedding, *, bias: bool = False, scale: float = 1.0, softcapping: float | None = None
    ):
        super().__init__()
        self.scale, self.embedding = scale, embedding
        self.softcapping = nn.Identity() if softcapping is None else Softcapping(softcapping)
        self.bias = nn.Parameter(torch.zeros(len(embedding.weight))) if bias else None

    def forward(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the logits of each token.

        Args:
            x: the hidden states after the last block.
        """
        x = x if self.scale == 1 else x * self.scale  # scaled here, since n_vocab is much larger than d_model
        return self.softcapping(F.linear(x, self.embedding.weight, self.bias))


class FactorizedEmbedding(nn.Module):
    r"""A narrow table and a projection to ``d_model`` instead of a wide table.

    .. math:: x_t = E_{w_t} P, \quad E \in \mathbb{R}^{n_\mathrm{vocab} \times d_\mathrm{embed}},\;
        P \in \mathbb{R}^{d_\mathrm{embed} \times d_\mathrm{model}}

    There are :math:`n_\mathrm{vocab} d_\mathrm{embed} + d_\mathrm{embed} d_\mathrm{model}` parameters instead of
    :math:`n_\mathrm{vocab} d_\mathrm{model}`. :class:`FactorizedUnembedding` reads both in the other direction. ALBERT
    adds positions and a norm between ``embedding`` and ``w_up``.

    Args:
        n_vocab: number of tokens in the vocabulary, at least 1.
        d_embed: width of the table, at least 1.
        d_model: width of the tokens, at least 1.
        bias: whether the projection has a bias, as in ALBERT.

    Raises:
        ValueError: for sizes below one; in ``forward``, as in :class:`TokenEmbedding`.

    Source: Lan et al. (2020), "ALBERT", section 3.1; GT-19 (factorized embedding), UCL-10.

    >>> embedding = FactorizedEmbedding(n_vocab=100, d_embed=3, d_model=16)
    >>> tuple(embedding(torch.tensor([[3, 0, 99]])).shape), sum(p.numel() for p in embedding.parameters())
    ((1, 3, 16), 348)
    """

    def __init__(self, n_vocab: int, d_embed: int, d_model: int, *, bias: bool = False):
        super().__init__()
        _check_at_least_one(n_vocab=n_vocab, d_embed=d_embed, d_model=d_model)
        self.embedding = TokenEmbedding(n_vocab, d_embed)
        self.w_up = nn.Linear(d_embed, d_model, bias=bias)

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens d_model"]:
        return self.w_up(self.embedding(ids))

    def logits(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the product of each x with the vector of every token, which has no bias."""
        return F.linear(x @ self.w_up.weight, self.embedding.weight)


class AdaptiveEmbedding(nn.Module):
    r"""Wide vectors for frequent tokens, and narrow vectors with a projection to ``d_model`` for rare ones.

    .. math:: x_t = E^{(c)}_{w_t - l_c}\, P_c, \quad
        E^{(c)} \in \mathbb{R}^{n_c \times d_c},\; d_c = \lfloor d_\mathrm{model} / \mathrm{factor}^c \rfloor

    Cluster c begins at id :math:`l_c`, so ids must be sorted by decreasing frequency. A cluster of width ``d_model``,
    such as the first, has no :math:`P_c`. The paper gives it a square matrix, which adds nothing that the table could
    not represent itself.

    Args:
        n_vocab: number of tokens in the vocabulary, at least 1.
        d_model: width of the tokens, at least 1.
        cutoffs: first ids of the second and later clusters; increasing, between 1 and ``n_vocab`` - 1.
        factor: the width of each cluster is that of the previous one divided by this factor. With 1, all clusters have
            width ``d_model``, and there are no projections.
        widths: the widths of the clusters, instead of those that follow from the factor.

    Raises:
        ValueError: for sizes below one, cutoffs that do not increase, a last cluster whose width would be zero, or
            another number of widths than of clusters; in ``forward``, as in :class:`TokenEmbedding`.

    Source: Baevski & Auli (2019), section 3; GT-19 (adaptive input embeddings).

    >>> embedding = AdaptiveEmbedding(n_vocab=100, d_model=16, cutoffs=[10, 40])
    >>> [tuple(table.weight.shape) for table in embedding.tables]
    [(10, 16), (30, 4), (60, 1)]
    >>> embedding(torch.tensor([[3, 10, 99]])).shape
    torch.Size([1, 3, 16])
    """

    def __init__(
        self, n_vocab: int, d_model: int, cutoffs: list[int], *, factor: int = 4, widths: Sequence[int] | None = None
    ):
        super().__init__()
        _check_at_least_one(n_vocab=n_vocab, d_model=d_model, factor=factor)
        edges = [0, *cutoffs, n_vocab]
        if any(high <= low for low, high in zip(edges[:-1], edges[1:], strict=True)):
            raise ValueError(f"{cutoffs=} must increase, from at least 1 to at most n_vocab - 1 = {n_vocab - 1}")
        if widths is None:
            widths = [d_model // factor**c for c in range(len(edges) - 1)]
            if widths[-1] < 1:
                raise ValueError(
                    f"{factor=} is too large: the last of {len(widths)} clusters of {d_model=} has width 0"
                )
        elif len(widths) != len(edges) - 1 or min(widths) < 1:
            raise ValueError(f"{widths=} must be {len(edges) - 1} numbers of at least 1, one for each cluster")
        self.edges, self.d_model = edges, d_model
        sizes = [high - low for low, high in zip(edges[:-1], edges[1:], strict=True)]
        tables = nn.ModuleList(TokenEmbedding(n, width) for n, width in zip(sizes, widths, strict=True))
        self.tables = cast("Sequence[TokenEmbedding]", tables)
        self.w_up = nn.ModuleList(
            nn.Identity() if width == d_model else nn.Linear(width, d_model, bias=False) for width in widths
        )

    def clusters(self, ids: Int[Tensor, "n"]) -> list[Int[Tensor, "_"]]:
        """Return, for each cluster, the indices of the entries of ``ids`` that belong to it."""
        return [
            ((ids >= low) & (ids < high)).nonzero()[:, 0]
            for low, high in zip(self.edges[:-1], self.edges[1:], strict=True)
        ]

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens d_model"]:
        _check_bounds("ids", ids, self.edges[-1])
        flat = ids.flatten()
        rows = self.clusters(flat)
        vectors = [
            project(table(flat[None, row] - low))[0]  # (n, d_model): the n tokens of one cluster
            for row, low, table, project in zip(rows, self.edges, self.tables, self.w_up, strict=False)
        ]
        positions = torch.cat(rows).argsort()  # from the order of the clusters back to the order of the text
        return torch.cat(vectors)[positions].unflatten(0, ids.shape)

    def cluster_logits(self, x: Float[Tensor, "*tokens d_model"], cluster: int) -> Float[Tensor, "*tokens n"]:
        """Compute the product of each x with the vector of every token of a cluster."""
        project = self.w_up[cluster]
        x = x @ project.weight if isinstance(project, nn.Linear) else x  # (*tokens, width of the cluster)
        return F.linear(x, self.tables[cluster].weight)

    def logits(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens n_vocab"]:
        """Compute the product of each x with the vector of every token of the vocabulary."""
        return torch.cat([self.cluster_logits(x, cluster) for cluster in range(len(self.tables))], dim=-1)


class FactorizedUnembedding(nn.Module):
    r"""A score for every token of the vocabulary from a factorized embedding, which is read in the other direction.

    .. math:: \mathrm{logits} = \mathrm{scale} \cdot (x P^\top) E^\top

    If ``embedding`` is also that of the input, both factors are tied. An :class:`AdaptiveEmbedding` has two factors in
    each cluster. Here one softmax over all clusters follows, unlike the two steps of :class:`AdaptiveSoftmax`.

    Args:
        embedding: the embedding that holds the factors.
        scale: factor of the products: :math:`1/\sqrt{d_\mathrm{model}}` in T5 with tied weights.

    Source: Lan et al. (2020), "ALBERT", section 3.1; Baevski & Auli (2019), section 3; GT-19 (factorized and shared
    embeddings, adaptive input embeddings).

    >>> embedding = FactorizedEmbedding(n_vocab=100, d_embed=3, d_model=16)
    >>> FactorizedUnembedding(embedding)(embedding(torch.tensor([[3, 0, 99]]))).shape
    torch.Size([1, 3, 100])
    """

    def __init__(self, embedding: FactorizedEmbedding | AdaptiveEmbedding, *, scale: float = 1.0):
        super().__init__()
        self.scale, self.embedding = scale, embedding

    def forward(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        return self.embedding.logits(x if self.scale == 1 else x * self.scale)


class AdaptiveSoftmax(nn.Module):
    r"""Log-probabilities in two steps: first the frequent token or the cluster, then the token in the cluster.

    .. math:: \log p(w \mid x) = \begin{cases} \log p_\mathrm{head}(w \mid x) & w \text{ frequent} \\
        \log p_\mathrm{head}(c \mid x) + \log p_c(w \mid x) & w \text{ in cluster } c \end{cases}

    .. math:: p_\mathrm{head} = \mathrm{softmax}\left(x\, [E^{(0)\top}, W]\right), \quad
        p_c = \mathrm{softmax}\left(x P_c^\top E^{(c)\top}\right)

    A cluster of rare tokens costs a product with a narrow table, and only for the targets in this cluster. If
    ``embedding`` is also the :class:`AdaptiveEmbedding` of the input, tables and projections are tied; if it is another
    one, this layer computes the same as PyTorch's ``nn.AdaptiveLogSoftmaxWithLoss``.

    Args:
        embedding: the embedding that holds the tables and projections.
        scale: factor of all products: :math:`1/\sqrt{d_\mathrm{model}}` in T5 with tied weights.

    Raises:
        ValueError: in ``forward``, for targets outside 0 to n_vocab - 1.

    Source: Grave et al. (2017), section 4; Baevski & Auli (2019), section 3 (tied); GT-19 (adaptive softmax; with
    ``factor=1``, adaptive softmax without projection).

    >>> softmax = AdaptiveSoftmax(AdaptiveEmbedding(n_vocab=100, d_model=16, cutoffs=[10, 40]))
    >>> x = torch.randn(2, 3, 16)
    >>> softmax(x, torch.tensor([[3, 10, 99], [0, 1, 50]])).shape, softmax.log_prob(x).shape
    (torch.Size([2, 3]), torch.Size([2, 3, 100]))
    """

    def __init__(self, embedding: AdaptiveEmbedding, *, scale: float = 1.0):
        super().__init__()
        self.scale, self.embedding = scale, embedding
        self.w_clusters = nn.Linear(embedding.d_model, len(embedding.tables) - 1, bias=False)

    def head(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens head"]:
        """Compute the log-probabilities of the frequent tokens, followed by those of the clusters."""
        x = x if self.scale == 1 else x * self.scale
        return torch.cat([self.embedding.cluster_logits(x, 0), self.w_clusters(x)], dim=-1).log_softmax(-1)

    def tail(self, x: Float[Tensor, "*tokens d_model"], cluster: int) -> Float[Tensor, "*tokens n"]:
        """Compute the log-probabilities of the tokens in a cluster, given the cluster."""
        x = x if self.scale == 1 else x * self.scale
        return self.embedding.cluster_logits(x, cluster).log_softmax(-1)

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], targets: Int[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens"] | Float[Tensor, "batch tokens n_vocab"]:
        """Compute the log-probability of each target; the loss is their negative mean. Without targets, return
        ``log_prob(x)``, which a model may use as its logits: their softmax is the same distribution."""
        if targets is None:
            return self.log_prob(x)
        n_frequent, n_vocab = self.embedding.edges[1], self.embedding.edges[-1]
        _check_bounds("targets", targets, n_vocab)
        x, flat = x.flatten(0, 1), targets.flatten()
        rows = self.embedding.clusters(flat)
        entry = flat.clone()  # the entry of the head for each target: the token itself, or its cluster
        for c in range(1, len(rows)):
            entry[rows[c]] = n_frequent + c - 1
        result = self.head(x).gather(1, entry[:, None])[:, 0]
        for c in range(1, len(rows)):
            within_cluster = (flat[rows[c]] - self.embedding.edges[c])[:, None]
            result = result.index_add(0, rows[c], self.tail(x[rows[c]], c).gather(1, within_cluster)[:, 0])
        return result.unflatten(0, targets.shape)

    def log_prob(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the log-probabilities of all tokens of the vocabulary."""
        n_frequent = self.embedding.edges[1]
        head = self.head(x)
        tails = [self.tail(x, c) + head[..., n_frequent + c - 1, None] for c in range(1, len(self.embedding.tables))]
        return torch.cat([head[..., :n_frequent], *tails], dim=-1)


class MixtureOfSoftmaxes(nn.Module):
    r"""Log-probabilities of a mixture of several softmaxes over one table.

    .. math:: p(w \mid x) = \sum_{k=1}^{K} \pi_k\, \mathrm{softmax}(h_k E^\top)_w, \quad
        h_k = \tanh(x W_k), \quad \pi = \mathrm{softmax}(x V)

    The logits of one softmax for many contexts are a matrix of rank :math:`d_\mathrm{model}` at most, which bounds how
    many distributions a model can express, whatever precedes the softmax. The logarithm of a mixture has no such bound.
    It costs K products with the table. If ``embedding`` is also that of the input, the weights are tied.

    Args:
        embedding: the embedding that holds the table E.
        n_components: the number of softmaxes K, at least 1.

    Raises:
        ValueError: for a number of components below 1.

    Source: Yang et al. (2018), "Breaking the Softmax Bottleneck", section 2.3; GT-19 (mixture of softmaxes).

    >>> mixture = MixtureOfSoftmaxes(TokenEmbedding(n_vocab=100, d_model=16), n_components=3)
    >>> log_probs = mixture(torch.randn(2, 5, 16))
    >>> log_probs.shape, torch.allclose(log_probs.exp().sum(-1), torch.ones(2, 5))
    (torch.Size([2, 5, 100]), True)
    """

    def __init__(self, embedding: TokenEmbedding, n_components: int):
        super().__init__()
        _check_at_least_one(n_components=n_components)
        d_model = embedding.weight.shape[1]
        self.embedding = embedding
        self.w_weights = nn.Linear(d_model, n_components, bias=False)
        self.w_components = nn.Linear(d_model, n_components * d_model, bias=False)

    def forward(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        log_weights = self.w_weights(x).log_softmax(-1)  # (batch, tokens, components)
        h = self.w_components(x).tanh().unflatten(-1, (log_weights.shape[-1], -1))
        log_probs = F.linear(h, self.embedding.weight).log_softmax(-1)  # (batch, tokens, components, n_vocab)
        return (log_weights[..., None] + log_probs).logsumexp(-2)


def _check_bounds(name: str, ids: Tensor, n_vocab: int) -> None:
    """Raise a ValueError for ids outside the vocabulary. Only on a CPU, since reading values waits for a GPU, where
    PyTorch's own check stops the process."""
    if torch.compiler.is_compiling() or ids.device.type != "cpu" or not ids.numel():
        return
    low, high = (extreme.item() for extreme in ids.aminmax())
    if low < 0 or high >= n_vocab:
        raise ValueError(f"{name} hold {low if low < 0 else high}; they must be 0 to n_vocab - 1 = {n_vocab - 1}")
