r"""Embeddings: from token ids to vectors, and from vectors back to a score for every token.

Legend of shapes: ``batch``, ``tokens``, ``d_model``, ``n_vocab`` (how many tokens the vocabulary has), ``d_embed``
(width of a stored row where it is not ``d_model``). Tied means that input and output read the same table: the object
of one is handed to the other, so that loading, copying and moving cannot part them.
"""

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.softcapping import Softcapping
from llm_anatomy.shapes import Float, Int, Tensor


class TokenEmbedding(nn.Module):
    r"""One trained vector per token: a row of a table.

    .. math:: x_t = \mathrm{scale} \cdot E_{w_t} = \mathrm{scale} \cdot e_{w_t}^\top E,
        \quad E \in \mathbb{R}^{n_\mathrm{vocab} \times d_\mathrm{model}}

    The table starts from a normal distribution of standard deviation 0.02, GPT-2's.

    Args:
        n_vocab: how many tokens, from 1.
        d_model: width of a vector, from 1.
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
        _check_bounds("ids", ids, len(self.weight))
        x = F.embedding(ids, self.weight)
        return x if self.scale == 1 else x * self.scale


class Unembedding(nn.Module):
    r"""A score for every token: how well a vector points along each row of a table.

    .. math:: \mathrm{logits} = \mathrm{scale} \cdot x E^\top + b, \quad \mathrm{then\ perhaps\ }
        c \tanh(\mathrm{logits} / c)

    Given the embedding of the input, the weights are tied, :math:`D = C^\top` of the lecture; given one of its own,
    they are not. The embedding's own scale plays no part here.

    Args:
        embedding: whose table is read.
        bias: whether each token has a bias, which starts at zero.
        scale: factor of the products: :math:`1/\sqrt{d_\mathrm{model}}` in T5 with tied weights.
        softcapping: logits approach this bound, c above, and never pass it: 30 in Gemma 2.

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
        x = x if self.scale == 1 else x * self.scale  # on the narrow side: n_vocab is much wider than d_model
        return self.softcapping(F.linear(x, self.embedding.weight, self.bias))


class FactorizedEmbedding(nn.Module):
    r"""A narrow table and one projection, in place of a wide table.

    .. math:: x_t = E_{w_t} P, \quad E \in \mathbb{R}^{n_\mathrm{vocab} \times d_\mathrm{embed}},\;
        P \in \mathbb{R}^{d_\mathrm{embed} \times d_\mathrm{model}}

    :math:`n_\mathrm{vocab} d_\mathrm{embed} + d_\mathrm{embed} d_\mathrm{model}` parameters in place of
    :math:`n_\mathrm{vocab} d_\mathrm{model}`. The way back mirrors it: narrow the vector, then
    ``Unembedding(factorized.embedding)``; ALBERT adds positions and a norm between ``embedding`` and ``w_up``.

    Args:
        n_vocab: how many tokens, from 1.
        d_embed: width of the table, from 1.
        d_model: width of the tokens, from 1.
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


class AdaptiveEmbedding(nn.Module):
    r"""Frequent tokens have wide rows, rare ones narrow rows that are projected up.

    .. math:: x_t = E^{(c)}_{w_t - l_c}\, P_c, \quad
        E^{(c)} \in \mathbb{R}^{n_c \times d_c},\; d_c = \lfloor d_\mathrm{model} / \mathrm{factor}^c \rfloor

    Cluster c holds the ids from :math:`l_c` on, so ids must be sorted by falling frequency. A cluster as wide as
    ``d_model``, the first always, has no :math:`P_c`; the paper gives it a square one, which maps onto nothing that
    the table could not hold itself.

    Args:
        n_vocab: how many tokens, from 1.
        d_model: width of the tokens, from 1.
        cutoffs: where the second and later clusters begin; rising, between 1 and ``n_vocab`` - 1.
        factor: how many times narrower each cluster is than the one before; 1 for all alike and no projections.

    Raises:
        ValueError: for sizes below one, cutoffs out of order, or a last cluster that would have no width; in
            ``forward``, as in :class:`TokenEmbedding`.

    Source: Baevski & Auli (2019), section 3; GT-19 (adaptive input embeddings).

    >>> embedding = AdaptiveEmbedding(n_vocab=100, d_model=16, cutoffs=[10, 40])
    >>> [tuple(table.weight.shape) for table in embedding.tables]
    [(10, 16), (30, 4), (60, 1)]
    >>> embedding(torch.tensor([[3, 10, 99]])).shape
    torch.Size([1, 3, 16])
    """

    def __init__(self, n_vocab: int, d_model: int, cutoffs: list[int], *, factor: int = 4):
        super().__init__()
        _check_at_least_one(n_vocab=n_vocab, d_model=d_model, factor=factor)
        edges = [0, *cutoffs, n_vocab]
        if any(high <= low for low, high in zip(edges[:-1], edges[1:], strict=True)):
            raise ValueError(f"{cutoffs=} must rise from 1 to at most n_vocab - 1 = {n_vocab - 1}")
        widths = [d_model // factor**c for c in range(len(edges) - 1)]
        if widths[-1] < 1:
            raise ValueError(f"{factor=} leaves no width for the last of {len(widths)} clusters of {d_model=}")
        self.edges = edges
        sizes = [high - low for low, high in zip(edges[:-1], edges[1:], strict=True)]
        self.tables = nn.ModuleList(TokenEmbedding(n, width) for n, width in zip(sizes, widths, strict=True))
        self.w_up = nn.ModuleList(
            nn.Identity() if width == d_model else nn.Linear(width, d_model, bias=False) for width in widths
        )

    def clusters(self, ids: Int[Tensor, "n"]) -> list[Int[Tensor, "_"]]:
        """Which entries of ``ids`` belong to each cluster."""
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
        positions = torch.cat(rows).argsort()  # from the order of the clusters back to that of the text
        return torch.cat(vectors)[positions].unflatten(0, ids.shape)


class AdaptiveSoftmax(nn.Module):
    r"""Log-probabilities in two steps: first the frequent token or the cluster, then the token within the cluster.

    .. math:: \log p(w \mid x) = \begin{cases} \log p_\mathrm{head}(w \mid x) & w \text{ frequent} \\
        \log p_\mathrm{head}(c \mid x) + \log p_c(w \mid x) & w \text{ in cluster } c \end{cases}

    .. math:: p_\mathrm{head} = \mathrm{softmax}\left(x\, [E^{(0)\top}, W]\right), \quad
        p_c = \mathrm{softmax}\left(x P_c^\top E^{(c)\top}\right)

    Rare tokens cost a product with a narrow table, and only where a target lies in their cluster. Given the
    :class:`AdaptiveEmbedding` of the input, tables and projections are tied; given one of its own, it computes what
    PyTorch's ``nn.AdaptiveLogSoftmaxWithLoss`` does.

    Args:
        embedding: whose tables and projections are read.

    Raises:
        ValueError: in ``forward``, for targets outside 0 to n_vocab - 1.

    Source: Grave et al. (2017), section 4; Baevski & Auli (2019), section 3 (tied); GT-19 (adaptive softmax; with
    ``factor=1``, adaptive softmax without projection).

    >>> softmax = AdaptiveSoftmax(AdaptiveEmbedding(n_vocab=100, d_model=16, cutoffs=[10, 40]))
    >>> x = torch.randn(2, 3, 16)
    >>> softmax(x, torch.tensor([[3, 10, 99], [0, 1, 50]])).shape, softmax.all_tokens(x).shape
    (torch.Size([2, 3]), torch.Size([2, 3, 100]))
    """

    def __init__(self, embedding: AdaptiveEmbedding):
        super().__init__()
        self.embedding = embedding
        self.w_clusters = nn.Linear(embedding.tables[0].weight.shape[1], len(embedding.tables) - 1, bias=False)

    def head(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens head"]:
        """Log-probabilities of the frequent tokens, then of the clusters."""
        frequent = F.linear(x, self.embedding.tables[0].weight)
        return torch.cat([frequent, self.w_clusters(x)], dim=-1).log_softmax(-1)

    def tail(self, x: Float[Tensor, "*tokens d_model"], cluster: int) -> Float[Tensor, "*tokens n"]:
        """Log-probabilities of the tokens within a cluster."""
        project = self.embedding.w_up[cluster]
        x = x if isinstance(project, nn.Identity) else x @ project.weight  # (*tokens, width of the cluster)
        return F.linear(x, self.embedding.tables[cluster].weight).log_softmax(-1)

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], targets: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens"]:
        """Log-probability of each target; the loss is their mean with the sign turned."""
        n_frequent, n_vocab = self.embedding.edges[1], self.embedding.edges[-1]
        _check_bounds("targets", targets, n_vocab)
        x, flat = x.flatten(0, 1), targets.flatten()
        rows = self.embedding.clusters(flat)
        entry = flat.clone()  # where the head is read: the token itself, or its cluster
        for c in range(1, len(rows)):
            entry[rows[c]] = n_frequent + c - 1
        result = self.head(x).gather(1, entry[:, None])[:, 0]
        for c in range(1, len(rows)):
            within = (flat[rows[c]] - self.embedding.edges[c])[:, None]
            result = result.index_add(0, rows[c], self.tail(x[rows[c]], c).gather(1, within)[:, 0])
        return result.unflatten(0, targets.shape)

    def all_tokens(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Log-probabilities of the whole vocabulary."""
        n_frequent = self.embedding.edges[1]
        head = self.head(x)
        tails = [self.tail(x, c) + head[..., n_frequent + c - 1, None] for c in range(1, len(self.embedding.tables))]
        return torch.cat([head[..., :n_frequent], *tails], dim=-1)


def _check_bounds(name: str, ids: Tensor, n_vocab: int) -> None:
    """Looks at values, for which a GPU would have to be waited for: there PyTorch's own check stops the process."""
    if torch.compiler.is_compiling() or ids.device.type != "cpu" or not ids.numel():
        return
    low, high = (extreme.item() for extreme in ids.aminmax())
    if low < 0 or high >= n_vocab:
        raise ValueError(f"{name} hold {low if low < 0 else high}; they must be 0 to n_vocab - 1 = {n_vocab - 1}")
