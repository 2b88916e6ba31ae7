"""Gemma 2: Gemma with sandwich norms, softcapping of scores and logits, and a window in every other layer."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, OrNull, Rope, Shared, given
from llm_anatomy.models.checkpoints.rules import Rule
from llm_anatomy.models.checkpoints.windows import Windows


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Gemma Team (2024b), "Gemma 2", section 2, in the layout of Hugging Face; UCL-13.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].hf
    ('model.layers.{layer}.post_feedforward_layernorm.weight',)
    """
    at, hf = llama.AT, llama.HF
    return [
        *llama.rules(config),
        Rule(hf + "input_layernorm.weight", at + "attention_residual.norm_in.weight"),
        Rule(hf + "post_attention_layernorm.weight", at + "attention_residual.norm_out.weight"),
        Rule(hf + "pre_feedforward_layernorm.weight", at + "feedforward_residual.norm_in.weight"),
        Rule(hf + "post_feedforward_layernorm.weight", at + "feedforward_residual.norm_out.weight"),
    ]


class QueryScale:
    r"""The scale of the scores, given as :math:`1 / \sqrt{\cdot}` of a number whose default is :math:`d_\mathrm{head}`.

    Raises:
        ValueError: from ``from_hf``, for anything but a whole number of at least 1.

    Source: Gemma Team (2024b), whose largest model has :math:`d_\mathrm{model} / n_\mathrm{heads}`; UCL-13.

    >>> from llm_anatomy.files import Record
    >>> QueryScale().from_hf(Record("config.json", {"head_dim": 128, "query_pre_attn_scalar": 144}))
    {'attention_scale': 0.08333333333333333}
    >>> QueryScale().from_hf(Record("config.json", {"head_dim": 144, "query_pre_attn_scalar": 144}))
    {'attention_scale': None}
    """

    names = ("query_pre_attn_scalar",)

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        name, scalar = given(record, self.names, 256)
        if not isinstance(scalar, int) or isinstance(scalar, bool) or not 1 <= scalar < 2**31:
            record.refuse(name, f"{scalar!r:.60} must be a number without fraction, from 1")
        return {"attention_scale": None if scalar == given(record, ("head_dim",), 256)[1] else scalar**-0.5}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields. A scale that cannot be written like that is found to differ when
        the result is read again."""
        scale = config.attention_scale
        return {self.names[0]: config.d_head if scale is None else max(1, round(scale**-2))}


FAMILY = Family(
    name="gemma2",
    architectures=("Gemma2ForCausalLM",),
    model_type="gemma2",
    fields=(
        *llama.sizes(n_kv_heads=4),
        Field("head_dim", "d_head", default=256),
        Field("hidden_activation", "feedforward", llama.GATES, default="gelu_pytorch_tanh"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        OrNull("attn_logit_softcapping", "attn_logit_softcapping", default=50.0),
        OrNull("final_logit_softcapping", "final_logit_softcapping", default=30.0),
        QueryScale(),
        Windows(4096, period=2),
        Must("use_bidirectional_attention", False),
        Rope(n_trained=8192),
    ),
    fixed=dict(position="rope", norm="unit_offset_rmsnorm", norm_placement="sandwich", scale_embeddings=True),
    rules=rules,
    # names of the activation and of the window that their class does not read
    harmless="hidden_act sliding_window_size",
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
