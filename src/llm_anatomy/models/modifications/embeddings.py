r"""Modifications of the embeddings and of the softmax over the vocabulary: rows 27 to 35.

The sizes are those of the authors' settings (google-research, ``transformer_modifications/gin/models``), which scale
with the config. A table that both an input and the output read starts from :math:`N(0, 1)`, and its logits are scaled
by :math:`1/\sqrt{d_\mathrm{model}}`, as in T5; a table of the output alone starts from :math:`N(0, 1/d_\mathrm{model})`
and is not scaled. Both factors of a factorized table start with the same variance, so that a vector has a variance
of one.
"""

from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers._sharing import _own_once
from llm_anatomy.layers.embeddings import (
    AdaptiveEmbedding,
    AdaptiveSoftmax,
    FactorizedEmbedding,
    FactorizedUnembedding,
    MixtureOfSoftmaxes,
    TokenEmbedding,
    Unembedding,
)
from llm_anatomy.models.modifications.base import Modification, initialize_
from llm_anatomy.models.transformer import Transformer

_ALBERT = "Lan et al. (2020), ALBERT"
_PRESS_WOLF = "Press & Wolf (2017), Using the Output Embedding to Improve Language Models"
_GRAVE = "Grave et al. (2017), Efficient Softmax Approximation for GPUs"


def untied_fields(config: ModelConfig) -> dict[str, object]:
    """The fields of a config whose output has a table of its own: its logits are then not scaled.

    Args:
        config: of the baseline, whose sizes do not matter here.

    Source: Press & Wolf (2017), section 3; Raffel et al. (2020), the authors' code; GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> untied_fields(baseline(n_vocab=60))
    {'tie_embeddings': False, 'scale_logits': False}
    """
    return dict(tie_embeddings=False, scale_logits=False)


def untied_output(model: Transformer) -> None:
    """Give the output a table of its own, which nothing else reads.

    Args:
        model: a built model, which is changed in place. Its config should have the fields of
            :func:`untied_fields`.

    Source: Press & Wolf (2017), section 3; GT-19 (untied embeddings).

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> model = Transformer(baseline(n_vocab=60))
    >>> untied_output(model)
    >>> model.unembedding.embedding is model.embedding
    False
    """
    table = TokenEmbedding(model.config.n_vocab, model.config.d_model)
    nn.init.normal_(table.weight, std=model.config.d_model**-0.5)
    _replace(model, unembedding=Unembedding(table))


def factorized_input(model: Transformer) -> None:
    """Factorize the embedding of both inputs, and give the output a full table of its own.

    Args:
        model: a built model, which is changed in place. Its config should have the fields of
            :func:`untied_fields`.

    Source: Lan et al. (2020), section 3.1; GT-19 (factorized embedding).

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> model = Transformer(baseline(n_vocab=60))
    >>> factorized_input(model)
    >>> model.embedding.embedding.weight.shape, model.unembedding.embedding.weight.shape
    (torch.Size([60, 8]), torch.Size([60, 48]))
    """
    _replace(model, embedding=_factorized(model.config))
    untied_output(model)


def factorized_and_shared(model: Transformer) -> None:
    """Factorize the one embedding of both inputs and the output.

    Args:
        model: a built model, which is changed in place.

    Source: Lan et al. (2020), section 3.1; GT-19 (factorized and shared embeddings).

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> model = Transformer(baseline(n_vocab=60))
    >>> factorized_and_shared(model)
    >>> model.unembedding.embedding is model.embedding
    True
    """
    embedding = _factorized(model.config)
    _replace(model, embedding=embedding, unembedding=FactorizedUnembedding(embedding, scale=_scale(model)))


def _factorized(config: ModelConfig) -> FactorizedEmbedding:
    """An embedding of a sixth of the width: 128 of 768."""
    embedding = FactorizedEmbedding(config.n_vocab, max(1, config.d_model // 6), config.d_model)
    _initialize_factors(embedding.embedding, embedding.w_up)
    return embedding


def _encoder_table(model: Transformer) -> None:
    table = TokenEmbedding(model.config.n_vocab, model.config.d_model)
    initialize_(table)
    _replace(model, encoder_embedding=table)


def _three_tables(model: Transformer) -> None:
    untied_output(model)
    _encoder_table(model)


def _adaptive_input(model: Transformer) -> None:
    embedding = _adaptive(model.config, projected=True, sentinels=False)
    _replace(model, embedding=embedding, unembedding=FactorizedUnembedding(embedding, scale=_scale(model)))


def _adaptive_softmax(projected: bool):
    def modify(model: Transformer) -> None:
        embedding = _adaptive(model.config, projected=projected, sentinels=True)
        softmax = AdaptiveSoftmax(embedding, scale=_scale(model))
        nn.init.normal_(softmax.w_clusters.weight)  # these are further rows of the first table
        _replace(model, embedding=embedding, unembedding=softmax)

    return modify


def _adaptive(config: ModelConfig, *, projected: bool, sentinels: bool) -> AdaptiveEmbedding:
    """Clusters that begin at the same fractions of the vocabulary as 0, 2,500, 8,500 and 32,000 of 32,128."""
    n_vocab, d_model = config.n_vocab, config.d_model
    cutoffs = [round(n_vocab * 2500 / 32128), round(n_vocab * 8500 / 32128)]
    widths = [d_model, max(1, d_model // 3), max(1, d_model // 12)] if projected else [d_model] * 3
    if sentinels:
        cutoffs.append(n_vocab - max(1, round(n_vocab * 128 / 32128)))
        widths.append(d_model)
    embedding = AdaptiveEmbedding(n_vocab, d_model, cutoffs, widths=widths)
    for table, project in zip(embedding.tables, embedding.w_up, strict=True):
        if isinstance(project, nn.Linear):
            _initialize_factors(table, project)
        else:
            initialize_(table)
    return embedding


def _initialize_factors(table: TokenEmbedding, project: nn.Linear) -> None:
    """Draw both with the same standard deviation, so that the sum of ``in_features`` products has a variance of one."""
    for factor in (table.weight, project.weight):
        nn.init.normal_(factor, std=project.in_features**-0.25)


def _mixture_of_softmaxes(model: Transformer) -> None:
    mixture = MixtureOfSoftmaxes(model.embedding, n_components=15)
    initialize_(mixture.w_weights)
    initialize_(mixture.w_components)
    _replace(model, unembedding=mixture)


def _scale(model: Transformer) -> float:
    return model.config.d_model**-0.5


def _replace(model: Transformer, **parts: nn.Module) -> None:
    """Put other parts into a model. A table that two parts share is owned by the first, as in a new model."""
    for name, part in parts.items():
        setattr(model, name, part)
    _own_once(model)


_PLAIN = "The output's own table is a plain matrix, as in the authors' code: its logits are not scaled."
_SIXTH = "The authors' 128 of a model width of 768 becomes a sixth of the width. No norm follows the projection."
_CLUSTERS = (
    "The clusters have the authors' fractions of the vocabulary, {} of 32,128 tokens, with vectors of {}. Ids are "
    "sorted by frequency, except that the authors' sentinels come last. "
)
_SENTINELS = (
    "The last cluster is for the sentinels; where a vocabulary has them elsewhere, it holds the rarest tokens. The "
    "authors ignore the targets of a cluster beyond a quarter of the sequence, as shapes are fixed there; here "
    "all count."
)

ROWS = [
    Modification(
        row=27,
        name="factorized_embedding",
        title="Factorized Embedding",
        paper=_ALBERT,
        card="Both inputs look up a vector of a sixth of the model's width, and a matrix projects it to the full "
        "width: the vector of a token alone may need fewer dimensions than that of a token in its context. The output "
        "keeps a full table, which nothing else reads.",
        reading=_SIXTH,
        config=untied_fields,
        modify=factorized_input,
    ),
    Modification(
        row=28,
        name="factorized_shared_embedding",
        title="Factorized & shared embeddings",
        paper=_ALBERT,
        card="The narrow table and its projection serve both inputs and, read in the other direction, the output. The "
        "matrix of logits then has a rank of at most a sixth of the model's width.",
        reading=_SIXTH,
        modify=factorized_and_shared,
    ),
    Modification(
        row=29,
        name="tied_inputs",
        title="Tied encoder/decoder input embeddings",
        paper=_PRESS_WOLF,
        card="Encoder and decoder read the same table, and the output has another one: a token that is read and a "
        "token that is predicted need not have the same vector. The baseline has one table for all three.",
        reading=_PLAIN,
        config=untied_fields,
        modify=untied_output,
    ),
    Modification(
        row=30,
        name="tied_decoder",
        title="Tied decoder input and output embeddings",
        paper=_PRESS_WOLF,
        card="The encoder has a table of its own, and the decoder reads and predicts with a second one: the vectors of "
        "the source and those of the target may differ, as those of two languages would.",
        modify=_encoder_table,
    ),
    Modification(
        row=31,
        name="untied",
        title="Untied embeddings",
        paper=_PRESS_WOLF,
        card="There are three tables: one for the encoder's input, one for the decoder's input and one for the output. "
        "This costs the most parameters and no more operations, since a token reads one row of a table.",
        reading=_PLAIN + " The model has 272.3 million parameters, where the paper's table says 273.",
        config=untied_fields,
        modify=_three_tables,
    ),
    Modification(
        row=32,
        name="adaptive_input",
        title="Adaptive input embeddings",
        paper="Baevski & Auli (2019), Adaptive Input Representations for Neural Language Modeling",
        card="Frequent tokens have wide vectors, and rarer ones have narrow vectors with a projection to the model's "
        "width, since a rare token gives too few examples to learn many numbers. The same tables and projections serve "
        "both inputs and the output, in one softmax over all tokens.",
        reading=_CLUSTERS.format("2,500, 6,000 and 23,628", "the whole width, a third and a twelfth of it")
        + "Baevski & Auli add an adaptive softmax, and the authors a plain one. The model has 203.49 million "
        "parameters, where the paper's table says 204.",
        modify=_adaptive_input,
    ),
    Modification(
        row=33,
        name="adaptive_softmax",
        title="Adaptive softmax",
        paper=_GRAVE,
        card="The output first chooses among the frequent tokens and the clusters of the others, and then a token "
        "within the cluster, whose vectors are narrower. In training, a cluster is computed only for the targets "
        "that belong to it. Both inputs and the output share tables and projections.",
        reading=_CLUSTERS.format(
            "2,500, 6,000, 23,500 and 128", "the whole width, a third and a twelfth of it, and the whole width again"
        )
        + _SENTINELS,
        modify=_adaptive_softmax(projected=True),
    ),
    Modification(
        row=34,
        name="adaptive_softmax_without_projection",
        title="Adaptive softmax without projection",
        paper=_GRAVE,
        card="An adaptive softmax whose vectors have the whole width in all clusters: its two steps without its "
        "smaller tables. Both inputs and the output share the tables.",
        reading=_CLUSTERS.format("2,500, 6,000, 23,500 and 128", "the whole width") + _SENTINELS,
        modify=_adaptive_softmax(projected=False),
    ),
    Modification(
        row=35,
        name="mixture_of_softmaxes",
        title="Mixture of softmaxes",
        paper="Yang et al. (2018), Breaking the Softmax Bottleneck",
        card="The output is a mixture of 15 softmaxes over the same table, each from a vector of its own, with weights "
        "that depend on the context. The logarithm of a mixture is not bound to the rank of the table, as the logits "
        "of one softmax are. The price is 15 products with the table.",
        reading="There are 15 components at every size, as in both papers. As in the authors' code, the logits of a "
        "component are not scaled, and neither projection has a bias.",
        config=lambda config: dict(scale_logits=False),
        modify=_mixture_of_softmaxes,
    ),
]
