"""StableLM: Llama's layout with layer norm, RoPE on a part of each head, and QK-norm with weights for each head."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import fields
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope
from llm_anatomy.models.checkpoints.rules import Rule, Stacked


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors: those of Llama, with the norms of heads one by one, and one norm in parallel blocks.

    Args:
        config: of the model.

    Source: Stability AI (2024), "Stable LM 2 1.6B Technical Report", in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].hf[1]
    'model.layers.{layer}.self_attn.k_layernorm.norms.1.weight'
    """
    at, hf = llama.AT, llama.HF

    def one_by_one(name: str, n_heads: int) -> tuple[str, ...]:
        return tuple(f"{hf}self_attn.{name}.norms.{head}.weight" for head in range(n_heads))

    n_heads, n_kv_heads = config.n_heads, config.n_kv_heads
    return [
        *llama.rules(config),
        Rule(hf + "input_layernorm.{kind}", at + "attention_norm.{kind}"),
        Rule(one_by_one("q_layernorm", n_heads), at + "attention.query_norm.weight", Stacked(n_heads)),
        Rule(one_by_one("k_layernorm", n_kv_heads), at + "attention.key_norm.weight", Stacked(n_kv_heads)),
    ]


FAMILY = Family(
    name="stablelm",
    architectures=("StableLmForCausalLM",),
    model_type="stablelm",
    fields=(
        *fields.SIZES,
        Field("num_key_value_heads", "n_kv_heads", default=32),
        Field("max_position_embeddings", "n_ctx", default=None),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("layer_norm_eps", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Field("use_qkv_bias", "attention_bias", default=False),
        Field("qk_layernorm", "qk_norm", {False: None, True: "per_head_weights"}, default=False),
        Field("use_parallel_residual", "parallel_block", default=False),
        Rope(fraction=0.25, fraction_name="partial_rotary_factor", n_trained=4096),
    ),
    fixed=dict(position="rope"),
    rules=rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
