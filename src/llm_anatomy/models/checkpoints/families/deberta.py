"""DeBERTa, version 1: disentangled attention, with projections of their own for positions."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import fields
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import NEEDED, Field, Must, given
from llm_anatomy.models.checkpoints.rules import Change, Rule, Split
from llm_anatomy.shapes import Tensor

AT, HF = "stack.blocks.{layer}.", "deberta.encoder.layer.{layer}."
ATTENTION, HF_ATTENTION = AT + "attention.", HF + "attention.self."


class WithoutKeyBias(Change):
    """Biases of queries and values, to which zeros are added for the keys.

    Raises:
        ValueError: from ``to_hf``, for a bias of keys other than zero, which their layout lacks.

    Source: the code of He et al. (2021), version 1.

    >>> WithoutKeyBias().from_hf(torch.ones(1), torch.ones(1))
    (tensor([1.]), tensor([0.]), tensor([1.]))
    """

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        query, value = hf
        return query, torch.zeros_like(query), value

    def to_hf(self, *ours: Tensor) -> tuple[Tensor, ...]:
        query, key, value = ours
        if not key.is_meta and bool(key.any()):
            raise ValueError("the family deberta cannot represent biases of keys other than zero")
        return query, value


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: He et al. (2021), section 3, and its code, in the layout of Hugging Face; IITD-23.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('deberta.encoder.layer.{layer}.attention.self.in_proj.weight',)
    """
    parts = ("w_query", "w_key", "w_value")
    return [
        Rule(
            HF_ATTENTION + "in_proj.weight",
            tuple(f"{ATTENTION}{part}.weight" for part in parts),
            Split((config.d_head,) * 3, config.n_heads),
        ),
        Rule(
            (HF_ATTENTION + "q_bias", HF_ATTENTION + "v_bias"),
            tuple(f"{ATTENTION}{part}.bias" for part in parts),
            WithoutKeyBias(),
        ),
        Rule(HF_ATTENTION + "pos_q_proj.{kind}", ATTENTION + "position.projections.0.{kind}"),
        Rule(HF_ATTENTION + "pos_proj.weight", ATTENTION + "position.projections.1.weight"),
        Rule("deberta.encoder.rel_embeddings.weight", ATTENTION + "position.table.weight"),
        *attention_residual(),
    ]


def attention_residual() -> list[Rule]:
    """The rules that all versions share: those for everything but attention's projections.

    Source: as :func:`rules`.

    >>> attention_residual()[0].ours
    ('embedding.weight',)
    """
    return [
        Rule("deberta.embeddings.word_embeddings.weight", "embedding.weight"),
        Rule("deberta.embeddings.token_type_embeddings.weight", "segment_embedding.weight"),
        Rule("deberta.embeddings.LayerNorm.{kind}", "embedding_norm.{kind}"),
        Rule(HF + "attention.output.dense.{kind}", ATTENTION + "w_output.{kind}"),
        Rule(HF + "attention.output.LayerNorm.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(HF + "intermediate.dense.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(HF + "output.dense.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule(HF + "output.LayerNorm.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule("lm_predictions.lm_head.dense.{kind}", "token_head.0.{kind}"),
        Rule("lm_predictions.lm_head.LayerNorm.{kind}", "token_head.2.{kind}"),
        Rule("lm_predictions.lm_head.bias", "unembedding.bias"),
    ]


class Stated(Must):
    """A field of Hugging Face's config that must be present with one value, because its default is not supported.

    Args:
        hf: its name.
        allowed: ways to write that value.

    Raises:
        ValueError: from ``from_hf``, for another value, and if it is missing.

    Source: the configurations of Hugging Face's models.

    >>> Stated("relative_attention", True).from_hf(Record("config.json", {}))
    Traceback (most recent call last):
    ValueError: config.json, key 'relative_attention': it is missing
    """

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Check the field; it sets none of ours."""
        given(record, self.names, NEEDED)
        return super().from_hf(record)


@dataclass(frozen=True)
class MaxDistance:
    """The distance at which offsets are clipped; a value below 1 stands for the length of the longest text.

    Args:
        ours: the name of our field.

    Source: the code of He et al. (2021).

    >>> record = Record("config.json", {"max_relative_positions": -1, "max_position_embeddings": 512})
    >>> MaxDistance("clipping.max_distance").from_hf(record)
    {'clipping.max_distance': 512}
    """

    ours: str

    names: ClassVar = ("max_relative_positions",)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        found = Field(self.names, self.ours, default=-1).from_hf(record)
        return found if found[self.ours] >= 1 else Field("max_position_embeddings", self.ours).from_hf(record)

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        max_distance = config.get(self.ours)
        return {"max_relative_positions": -1 if max_distance == config.n_ctx else max_distance}


FIELDS = (
    *fields.SIZES,
    Field("max_position_embeddings", "n_ctx", default=512),
    Field("type_vocab_size", "n_segments", default=0),
    Field("hidden_act", "feedforward", {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}, default="gelu"),
    Field("layer_norm_eps", "norm_eps", default=1e-7),
    Stated("relative_attention", True),
    Stated("position_biased_input", False),
    Stated("pos_att_type", ["c2p", "p2c"], ["p2c", "c2p"], "c2p|p2c", "p2c|c2p"),
    Must("tie_word_embeddings", True),
    Must("talking_head", False),
    Must("legacy", False, True),  # names of tensors; both are read
)
"""The fields that all versions share."""

FIXED = dict(kind="encoder", norm="layernorm", norm_placement="post", embedding_norm=True, token_head=True)
FIXED |= dict(attention_bias=True, output_bias=True, ff_bias=True, unembedding_bias=True, tie_embeddings=True)

FAMILY = Family(
    name="deberta",
    architectures=("DebertaForMaskedLM",),
    model_type="deberta",
    fields=(*FIELDS, MaxDistance("clipping.max_distance")),
    fixed=FIXED | dict(position="deberta"),
    rules=rules,
    harmless="pooler_hidden_act pooler_hidden_size pooling padding_idx",
    prefix="deberta.",
    renamed={
        "cls.predictions.transform.": "lm_predictions.lm_head.",
        "cls.predictions.": "lm_predictions.lm_head.",
    },
    ignored=(
        "deberta.embeddings.position_embeddings.weight",  # for a second pass before the logits, which is not supported
        "mask_predictions.dense.{kind}",
        "mask_predictions.LayerNorm.{kind}",
        "mask_predictions.classifier.{kind}",
    ),
    copies={
        "lm_predictions.lm_head.decoder.weight": "deberta.embeddings.word_embeddings.weight",
        "lm_predictions.lm_head.decoder.bias": "lm_predictions.lm_head.bias",
    },
)
