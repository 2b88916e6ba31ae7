"""GPT-2: learned positions, fused projections, and weights that are stored as (in, out)."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must
from llm_anatomy.models.checkpoints.rules import Rule, Split, Then, Transpose

AT, HF = "stack.blocks.{layer}.", "transformer.h.{layer}."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Radford et al. (2019), their released code; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].ours
    ('embedding.weight',)
    """
    width = config.n_heads * config.d_head
    projections = tuple(f"{AT}attention.w_{name}.{{kind}}" for name in ("query", "key", "value"))
    return [
        Rule("transformer.wte.weight", "embedding.weight"),
        Rule("transformer.wpe.weight", "position.table"),
        Rule(HF + "attn.c_attn.{kind}", projections, Then(Transpose(), Split((width,) * 3))),
        Rule(HF + "attn.c_proj.{kind}", AT + "attention.w_output.{kind}", Transpose()),
        Rule(HF + "ln_1.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(HF + "ln_2.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule(HF + "mlp.c_fc.{kind}", AT + "feedforward.w_up.{kind}", Transpose()),
        Rule(HF + "mlp.c_proj.{kind}", AT + "feedforward.w_down.{kind}", Transpose()),
        Rule("transformer.ln_f.{kind}", "stack.norm.{kind}"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


FAMILY = Family(
    name="gpt2",
    architectures=("GPT2LMHeadModel",),
    model_type="gpt2",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(("n_embd", "hidden_size"), "d_model"),
        Field(("n_layer", "num_hidden_layers"), "n_layers"),
        Field(("n_head", "num_attention_heads"), "n_heads"),
        Field(("n_positions", "max_position_embeddings"), "n_ctx"),
        Field("n_inner", "d_ff", default=lambda hf: 4 * hf.get("n_embd", hf.get("hidden_size", 0))),
        Field("layer_norm_epsilon", "norm_eps", default=1e-5),
        Field(
            "activation_function",
            "feedforward",
            {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"},
            default="gelu_new",
        ),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Must("scale_attn_weights", True),
        Must("scale_attn_by_inverse_layer_idx", False),
        Must("add_cross_attention", False),
    ),
    fixed=dict(position="learned", attention_bias=True, output_bias=True, ff_bias=True),
    rules=rules,
    harmless="n_ctx reorder_and_upcast_attn",
    prefix="transformer.",
    ignored=("transformer.h.{layer}.attn.bias",),
    copies={"lm_head.weight": "transformer.wte.weight"},
)
