r"""What a modification of the Transformer is, the model that all of them modify, and the loss of any of them.

The model is T5's of the year 2019 with LayerNorm in place of RMSNorm: an encoder-decoder whose norms stand before the
sublayers, with ReLU, relative positions, no biases, and one table for both inputs and the output. A modification
changes its config, and then, if the config has no field for it, parts of the model that was built from the config.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from llm_anatomy.config import BucketConfig, ModelConfig
from llm_anatomy.layers.attention import MultiHeadAttention
from llm_anatomy.layers.embeddings import AdaptiveSoftmax, TokenEmbedding
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class Modification:
    """One row of Narang et al.'s table 1: how it changes the baseline.

    Args:
        row: its number in ``narang2021.csv``, from 1, which is the baseline.
        name: its short name, such as ``"geglu"``.
        title: its name in the table.
        paper: where it was proposed.
        card: one paragraph: what it changes, its formula in words, and what it was meant to buy.
        reading: what was decided where the papers are silent; empty where they are not.
        config: the fields of the config that change, from the config of the baseline.
        modify: changes the model that was built from the config, in place; called after its weights were drawn.

    Source: Narang et al. (2021), table 1; GT-19.

    >>> geglu = Modification(row=6, name="geglu", title="GeGLU", paper="Shazeer (2020)", card="A gate.",
    ...     config=lambda config: dict(feedforward="geglu", d_ff=config.d_ff * 2 // 3))
    >>> geglu.config_for(baseline(n_vocab=60)).d_ff
    128
    """

    row: int
    name: str
    title: str
    paper: str
    card: str
    reading: str = ""
    config: Callable[[ModelConfig], dict[str, object]] = lambda config: {}
    modify: Callable[[Transformer], None] = lambda model: None

    def config_for(self, config: ModelConfig) -> ModelConfig:
        """Change the config of the baseline."""
        return replace(config, **self.config(config))

    def build(self, config: ModelConfig, seed: int = 0) -> Transformer:
        """Build the modified model; ``config`` is that of the baseline, in any size.

        The seed decides all weights, and PyTorch's global random numbers go on as if nothing had been drawn. Under
        ``torch.device("meta")`` the model has sizes and no numbers.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Transformer(self.config_for(config))
            initialize_(model)
            self.modify(model)
        return model


def baseline(n_vocab: int, *, d_model: int = 48, n_layers: int = 6, n_heads: int = 6, d_ff: int = 192) -> ModelConfig:
    """The config of the baseline: small by default, T5-base with ``**T5_BASE``.

    Args:
        n_vocab: size of the vocabulary.
        d_model, n_layers, n_heads, d_ff: as in :class:`~llm_anatomy.config.ModelConfig`; six layers, so that the
            paper's four other depths are whole numbers of layers too.

    Source: Raffel et al. (2020), sections 2.1 and 3.1; Narang et al. (2021), section 3.1; GT-19.

    >>> config = baseline(n_vocab=60)
    >>> config.kind, config.norm, config.n_encoder_layers
    ('encoder-decoder', 'layernorm', 6)
    """
    return ModelConfig(
        kind="encoder-decoder",
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_head=d_model // n_heads,
        d_ff=d_ff,
        n_vocab=n_vocab,
        position="t5",
        buckets=BucketConfig(n_buckets=32, max_distance=128),
        norm="layernorm",
        feedforward="relu",
        tie_embeddings=True,
        scale_logits=True,
    )


T5_BASE: dict[str, int] = dict(n_vocab=32128, d_model=768, n_layers=12, n_heads=12, d_ff=3072)
"""The sizes of the paper's baseline: ``baseline(**T5_BASE)`` has 223 million parameters."""


def initialize_(model: nn.Module) -> None:
    r"""Draw weights as T5 does, so that scores without a factor start at a sensible size.

    Embedding tables start from :math:`N(0, 1)`, queries from :math:`N(0, 1 / (d_\mathrm{model} d_\mathrm{head}))`, and
    all other matrices from :math:`N(0, 1/d_\mathrm{in})`.

    Args:
        model: a model, or any part of one.

    Source: Raffel et al. (2020), the authors' code; GT-19.

    >>> initialize_(Transformer(baseline(n_vocab=60)))
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
        elif isinstance(module, TokenEmbedding):
            nn.init.normal_(module.weight)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            nn.init.normal_(module.w_query.weight, std=(module.w_query.in_features * module.d_head) ** -0.5)


def target_log_probs(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    ids: Int[Tensor, "batch tokens"],
    targets: Int[Tensor, "batch tokens"],
) -> Float[Tensor, "batch tokens"]:
    """Compute the log-probability of each target, whatever computes the model's probabilities.

    Args:
        model: the baseline or a modification of it.
        source: what the encoder reads.
        ids: what the decoder reads.
        targets: the token that should follow each.

    Source: Grave et al. (2017), section 4 (an adaptive softmax computes the target's alone); GT-19.

    >>> model = Transformer(baseline(n_vocab=60))
    >>> ids = torch.tensor([[1, 2, 3]])
    >>> target_log_probs(model, ids, ids, ids).shape
    torch.Size([1, 3])
    """
    x, _ = model.hidden_states(ids, source=source)
    if isinstance(model.unembedding, AdaptiveSoftmax):
        return model.unembedding(x, targets)
    return model.logits(x).log_softmax(-1).gather(-1, targets[..., None])[..., 0]


def auxiliary_loss(model: nn.Module) -> Float[Tensor, ""] | float:
    """Sum what the model's parts add to the loss in training: each that does keeps it as ``auxiliary_loss``.

    Args:
        model: after a forward pass.

    Source: Shazeer et al. (2017), section 4; GT-19.

    >>> auxiliary_loss(Transformer(baseline(n_vocab=60)))
    0.0
    """
    return sum((getattr(module, "auxiliary_loss", 0.0) for module in model.modules()), 0.0)
