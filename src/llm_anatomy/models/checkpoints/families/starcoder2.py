"""StarCoder2: Mistral's attention with layer norms, a plain feed-forward layer, and biases everywhere."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, Rope, Shared
from llm_anatomy.models.checkpoints.rules import Rule


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Lozhkov et al. (2024), "StarCoder 2 and The Stack v2", section 5.1, in the layout of Hugging Face.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].hf
    ('model.layers.{layer}.mlp.c_proj.{kind}',)
    """
    shared = [rule for rule in llama.rules(config) if "mlp." not in rule.hf[0]]
    return [
        *shared,
        Rule(llama.HF + "mlp.c_fc.{kind}", llama.AT + "feedforward.w_up.{kind}"),
        Rule(llama.HF + "mlp.c_proj.{kind}", llama.AT + "feedforward.w_down.{kind}"),
    ]


ACTIVATIONS = {"gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu"}

FAMILY = Family(
    name="starcoder2",
    architectures=("Starcoder2ForCausalLM",),
    model_type="starcoder2",
    fields=(
        *llama.sizes(n_kv_heads=2),
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", ACTIVATIONS, default="gelu_pytorch_tanh"),
        Field("norm_epsilon", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Shared("use_bias", ("attention_bias", "output_bias", "ff_bias"), default=True),
        Field("sliding_window", "window", default=None),
        Must("mlp_type", "default"),
        Must("norm_type", "layer_norm"),
        Rope(n_trained=4096),
    ),
    fixed=dict(position="rope", norm="layernorm"),
    rules=rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
