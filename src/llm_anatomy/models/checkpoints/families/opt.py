"""OPT: ReLU, and learned positions whose first two rows are unused."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, Shared, WidthOfEmbeddings
from llm_anatomy.models.checkpoints.rules import Rule

AT, HF = "stack.blocks.{layer}.", "model.decoder.layers.{layer}."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Zhang et al. (2022), "OPT", section 2, in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('model.decoder.embed_tokens.weight',)
    """
    return [
        Rule("model.decoder.embed_tokens.weight", "embedding.weight"),
        Rule("model.decoder.embed_positions.weight", "position.table"),
        Rule(HF + "self_attn.q_proj.{kind}", AT + "attention.w_query.{kind}"),
        Rule(HF + "self_attn.k_proj.{kind}", AT + "attention.w_key.{kind}"),
        Rule(HF + "self_attn.v_proj.{kind}", AT + "attention.w_value.{kind}"),
        Rule(HF + "self_attn.out_proj.{kind}", AT + "attention.w_output.{kind}"),
        Rule(HF + "self_attn_layer_norm.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(HF + "final_layer_norm.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule(HF + "fc1.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(HF + "fc2.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule("model.decoder.final_layer_norm.{kind}", "stack.norm.{kind}"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


FAMILY = Family(
    name="opt",
    architectures=("OPTForCausalLM",),
    model_type="opt",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field("hidden_size", "d_model"),
        Field("num_hidden_layers", "n_layers"),
        Field("num_attention_heads", "n_heads"),
        Field("ffn_dim", "d_ff"),
        Field("max_position_embeddings", "n_ctx", default=2048),
        Field(
            "activation_function",
            "feedforward",
            {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh"},
            default="relu",
        ),
        Field("do_layer_norm_before", "norm_placement", {True: "pre", False: "post"}, default=True),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Shared("enable_bias", ("attention_bias", "output_bias", "ff_bias"), default=True),
        Shared("layer_norm_elementwise_affine", ("layernorm.weight", "layernorm.bias"), default=True),
        WidthOfEmbeddings("word_embed_proj_dim"),
        Must("_remove_final_layer_norm", False),
    ),
    fixed={"position": "learned", "learned.offset": 2, "norm_eps": 1e-5},
    rules=rules,
    prefix="model.",
    ignored=("model.decoder.version",),
    copies={"lm_head.weight": "model.decoder.embed_tokens.weight"},
)
