"""DeBERTa, version 1: content asks for places, and places for content, by matrices of their own."""

from dataclasses import dataclass

import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import fields
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import NEEDED, Field, Must, given
from llm_anatomy.models.checkpoints.rules import Change, Rule, Split
from llm_anatomy.shapes import Tensor

AT, THEIRS = "stack.blocks.{layer}.", "deberta.encoder.layer.{layer}."
ATTENTION, THEIR_ATTENTION = AT + "attention.", THEIRS + "attention.self."


class WithoutKeyBias(Change):
    """Biases of queries and values, where ours have those of keys too: zeros, which change nothing.

    Raises:
        ValueError: from ``outward``, for a bias of keys other than zero, which cannot be said there.

    Source: the code of He et al. (2021), version 1.

    >>> WithoutKeyBias().inward(torch.ones(1), torch.ones(1))
    (tensor([1.]), tensor([0.]), tensor([1.]))
    """

    def inward(self, *theirs: Tensor) -> tuple[Tensor, ...]:
        query, value = theirs
        return query, torch.zeros_like(query), value

    def outward(self, *ours: Tensor) -> tuple[Tensor, ...]:
        query, key, value = ours
        if not key.is_meta and bool(key.any()):
            raise ValueError("the family deberta cannot say biases of keys other than zero")
        return query, value


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: He et al. (2021), section 3, and its code, in the layout of Hugging Face; IITD-23.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].theirs
    ('deberta.encoder.layer.{layer}.attention.self.in_proj.weight',)
    """
    parts = ("w_query", "w_key", "w_value")
    return [
        Rule(
            THEIR_ATTENTION + "in_proj.weight",
            tuple(f"{ATTENTION}{part}.weight" for part in parts),
            Split((config.d_head,) * 3, config.n_heads),
        ),
        Rule(
            (THEIR_ATTENTION + "q_bias", THEIR_ATTENTION + "v_bias"),
            tuple(f"{ATTENTION}{part}.bias" for part in parts),
            WithoutKeyBias(),
        ),
        Rule(THEIR_ATTENTION + "pos_q_proj.{kind}", ATTENTION + "position.projections.0.{kind}"),
        Rule(THEIR_ATTENTION + "pos_proj.weight", ATTENTION + "position.projections.1.weight"),
        Rule("deberta.encoder.rel_embeddings.weight", ATTENTION + "position.table.weight"),
        *around_attention(),
    ]


def around_attention() -> list[Rule]:
    """The rules for all but attention's own projections, which all versions share.

    Source: as :func:`rules`.

    >>> around_attention()[0].ours
    ('embedding.weight',)
    """
    return [
        Rule("deberta.embeddings.word_embeddings.weight", "embedding.weight"),
        Rule("deberta.embeddings.token_type_embeddings.weight", "segment_embedding.weight"),
        Rule("deberta.embeddings.LayerNorm.{kind}", "embedding_norm.{kind}"),
        Rule(THEIRS + "attention.output.dense.{kind}", ATTENTION + "w_output.{kind}"),
        Rule(THEIRS + "attention.output.LayerNorm.{kind}", AT + "around_attention.norm.{kind}"),
        Rule(THEIRS + "intermediate.dense.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(THEIRS + "output.dense.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule(THEIRS + "output.LayerNorm.{kind}", AT + "around_feedforward.norm.{kind}"),
        Rule("lm_predictions.lm_head.dense.{kind}", "token_head.0.{kind}"),
        Rule("lm_predictions.lm_head.LayerNorm.{kind}", "token_head.2.{kind}"),
        Rule("lm_predictions.lm_head.bias", "unembedding.bias"),
    ]


class Stated(Must):
    """One of theirs that must be there and have a certain value, because what they take by default is another.

    Args:
        theirs: its name.
        allowed: what it may hold; all must mean the same.

    Raises:
        ValueError: from ``inward``, for another value, and where it is missing.

    Source: the configurations of Hugging Face's models.

    >>> Stated("relative_attention", True).inward(Record("config.json", {}))
    Traceback (most recent call last):
    ValueError: config.json, key 'relative_attention': it is missing
    """

    def inward(self, record: Record) -> dict[str, object]:
        """Nothing, if all is well."""
        given(record, self.names, NEEDED)
        return super().inward(record)


@dataclass(frozen=True)
class Reach:
    """How far offsets are told apart: where it is below 1, as far as the longest text reaches.

    Source: the code of He et al. (2021).

    >>> Reach().inward(Record("config.json", {"max_relative_positions": -1, "max_position_embeddings": 512}))
    {'max_distance': 512}
    """

    names = ("max_relative_positions",)

    def inward(self, record: Record) -> dict[str, object]:
        """Ours from theirs."""
        ours = Field(self.names, "max_distance", default=-1).inward(record)
        return ours if ours["max_distance"] >= 1 else Field("max_position_embeddings", "max_distance").inward(record)

    def outward(self, config: ModelConfig) -> dict[str, object]:
        """Theirs from ours."""
        return {"max_relative_positions": -1 if config.max_distance == config.n_ctx else config.max_distance}


FIELDS = (
    *fields.SIZES,
    Field("max_position_embeddings", "n_ctx", default=512),
    Field("type_vocab_size", "n_segments", default=0),
    Field("hidden_act", "feedforward", {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}, default="gelu"),
    Field("layer_norm_eps", "norm_eps", default=1e-7),
    Reach(),
    Stated("relative_attention", True),
    Stated("position_biased_input", False),
    Stated("pos_att_type", ["c2p", "p2c"], ["p2c", "c2p"], "c2p|p2c", "p2c|c2p"),
    Must("tie_word_embeddings", True),
    Must("talking_head", False),
    Must("legacy", False, True),  # says what tensors are called; both names are read
)
"""The fields that all versions share."""

FIXED = dict(kind="encoder", norm="layernorm", norm_placement="post", embedding_norm=True, token_head=True)
FIXED |= dict(attention_bias=True, output_bias=True, ff_bias=True, unembedding_bias=True, tie_embeddings=True)

FAMILY = Family(
    name="deberta",
    architectures=("DebertaForMaskedLM",),
    model_type="deberta",
    fields=FIELDS,
    fixed=FIXED | dict(position="deberta"),
    rules=rules,
    harmless="pooler_dropout pooler_hidden_act pooler_hidden_size pooling padding_idx",
    prefix="deberta.",
    renamed={
        "cls.predictions.transform.": "lm_predictions.lm_head.",
        "cls.predictions.": "lm_predictions.lm_head.",
    },
    ignored=(
        "deberta.embeddings.position_ids",
        "deberta.embeddings.position_embeddings.weight",  # for a second pass before the logits, which is not read
        "mask_predictions.dense.{kind}",
        "mask_predictions.LayerNorm.{kind}",
        "mask_predictions.classifier.{kind}",
    ),
    copies={
        "lm_predictions.lm_head.decoder.weight": "deberta.embeddings.word_embeddings.weight",
        "lm_predictions.lm_head.decoder.bias": "lm_predictions.lm_head.bias",
    },
)
