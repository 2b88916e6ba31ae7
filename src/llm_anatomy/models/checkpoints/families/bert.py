"""BERT with its head for masked tokens: segments, post-norm, learned positions."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import fields
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must
from llm_anatomy.models.checkpoints.rules import Rule

AT = "stack.blocks.{layer}."


def rules(config: ModelConfig, model: str = "bert") -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.
        model: the prefix of the tensors' names.

    Source: Devlin et al. (2019), "BERT", the released code, in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('bert.embeddings.word_embeddings.weight',)
    """
    hf, head = model + ".encoder.layer.{layer}.", "cls.predictions."
    return [
        Rule(model + ".embeddings.word_embeddings.weight", "embedding.weight"),
        Rule(model + ".embeddings.position_embeddings.weight", "position.table"),
        Rule(model + ".embeddings.token_type_embeddings.weight", "segment_embedding.weight"),
        Rule(model + ".embeddings.LayerNorm.{kind}", "embedding_norm.{kind}"),
        Rule(hf + "attention.self.query.{kind}", AT + "attention.w_query.{kind}"),
        Rule(hf + "attention.self.key.{kind}", AT + "attention.w_key.{kind}"),
        Rule(hf + "attention.self.value.{kind}", AT + "attention.w_value.{kind}"),
        Rule(hf + "attention.output.dense.{kind}", AT + "attention.w_output.{kind}"),
        Rule(hf + "attention.output.LayerNorm.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(hf + "intermediate.dense.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(hf + "output.dense.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule(hf + "output.LayerNorm.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule(head + "transform.dense.{kind}", "token_head.0.{kind}"),
        Rule(head + "transform.LayerNorm.{kind}", "token_head.2.{kind}"),
        Rule(head + "bias", "unembedding.bias"),
    ]


FIELDS = (
    *fields.SIZES,
    Field("type_vocab_size", "n_segments", default=2),
    Field("hidden_act", "feedforward", {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}, default="gelu"),
    Field("layer_norm_eps", "norm_eps", default=1e-12),
    Must("add_cross_attention", False),
    Must("tie_word_embeddings", True),
)
"""The fields that models like BERT share."""

FIXED = dict(
    norm_placement="post",
    embedding_norm=True,
    token_head=True,
    unembedding_bias=True,
    tie_embeddings=True,
    attention_bias=True,
    output_bias=True,
    ff_bias=True,
)
"""Our fields that are the same in all of them."""

HARMLESS = """
directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
cell emb_size structure pre_trained training
"""
"""Fields of other heads, and of the training of TinyBERT."""

RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""The names of norms in TensorFlow, which some files still use."""

OTHER_HEADS = ("cls.seq_relationship.{kind}",)
"""The head for next-sentence prediction, which is not used for masked tokens."""


FAMILY = Family(
    name="bert",
    architectures=("BertForMaskedLM", "BertForPreTraining"),
    model_type="bert",
    fields=(
        *FIELDS,
        Field("max_position_embeddings", "n_ctx", default=512),
        Must("position_embedding_type", "absolute"),
        Must("is_decoder", False),
    ),
    fixed=FIXED | dict(kind="encoder", position="learned"),
    rules=rules,
    harmless=HARMLESS,
    prefix="bert.",
    renamed=RENAMED,
    ignored=("bert.pooler.dense.{kind}", *OTHER_HEADS),
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
