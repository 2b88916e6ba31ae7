"""Mixtral: Mistral with a mixture of experts, whose tensors are stored expert by expert."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope
from llm_anatomy.models.checkpoints.rules import Reversed, Rule, Split, Stacked

AT, HF = llama.AT + "feedforward.", llama.HF + "block_sparse_moe."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Jiang et al. (2024), "Mixtral of Experts", section 2.1, in the layout of Hugging Face; GT-19.

    >>> sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> rules(ModelConfig.of(sizes | {"moe.n_experts": 4, "moe.n_experts_per_token": 2}))[-1].hf
    ('model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight',)
    """
    n_experts, d_expert = (config.moe.n_experts, config.moe.d_expert) if config.moe else (0, 0)
    gate_and_up = Reversed(Split((d_expert, d_expert)))
    expert = HF + "experts.{expert}."
    return [
        *llama.rules(config),
        Rule(HF + "gate.weight", AT + "router.w_router.weight"),
        Rule((expert + "w1.weight", expert + "w3.weight"), AT + "experts.w_up", Stacked(n_experts, gate_and_up)),
        Rule(expert + "w2.weight", AT + "experts.w_down", Stacked(n_experts)),
    ]


FAMILY = Family(
    name="mixtral",
    architectures=("MixtralForCausalLM",),
    model_type="mixtral",
    fields=(
        *llama.sizes(n_kv_heads=8),
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Field("sliding_window", "window", default=None),
        Field(("num_local_experts", "num_experts"), "moe.n_experts", default=8),
        Field("num_experts_per_tok", "moe.n_experts_per_token", default=2),
        Rope(base=1e6, n_trained=131072),
    ),
    fixed={"position": "rope", "norm": "rmsnorm", "moe.router": "softmax_of_top_k"},
    rules=rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
