"""gpt-oss: experts with biases and a clamped gate, sinks in attention, and a window in every other layer."""

from dataclasses import dataclass
from typing import Any

from einops import rearrange

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared
from llm_anatomy.models.checkpoints.rules import Change, Rule
from llm_anatomy.models.checkpoints.windows import Windows
from llm_anatomy.shapes import Tensor

AT, HF = llama.AT + "feedforward.", llama.HF + "mlp."


class Interleaved(Change):
    """Gates and ups of all experts, which alternate in the last axis there, and stand one after the other here.

    The weights are (experts, in, out) there and (experts, out, in) here.

    Source: OpenAI (2025), the released code of gpt-oss, in the layout of Hugging Face.

    >>> import torch
    >>> Interleaved().from_hf(torch.tensor([[10, 20, 11, 21]]))  # biases of one expert: 10, 11 of the gate
    (tensor([[10, 11, 20, 21]]),)
    """

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        (whole,) = hf
        into = "experts (two out) d" if whole.ndim == 3 else "experts (two out)"
        return (rearrange(whole, f"experts{' d' * (whole.ndim == 3)} (out two) -> {into}", two=2),)

    def to_hf(self, *ours: Tensor) -> tuple[Tensor, ...]:
        (whole,) = ours
        given = "experts (two out) d" if whole.ndim == 3 else "experts (two out)"
        return (rearrange(whole, f"{given} -> experts{' d' * (whole.ndim == 3)} (out two)", two=2),)


class TransposeEach(Change):
    """Transpose the matrix of every expert.

    Source: as :class:`Interleaved`.

    >>> import torch
    >>> [tuple(t.shape) for t in TransposeEach().from_hf(torch.ones(2, 3, 5))]
    [(2, 5, 3)]
    """

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.mT for tensor in hf)

    to_hf = from_hf


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: OpenAI (2025), "gpt-oss-120b & gpt-oss-20b Model Card", section 2, in the layout of Hugging Face.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].ours
    ('stack.blocks.{layer}.feedforward.experts.b_down',)
    """
    return [
        *llama.rules(config),
        Rule(llama.HF + "self_attn.sinks", llama.AT + "attention.sinks.logits"),
        Rule(HF + "router.{kind}", AT + "router.w_router.{kind}"),
        Rule(HF + "experts.gate_up_proj", AT + "experts.w_up", Interleaved()),
        Rule(HF + "experts.gate_up_proj_bias", AT + "experts.b_up", Interleaved()),
        Rule(HF + "experts.down_proj", AT + "experts.w_down", TransposeEach()),
        Rule(HF + "experts.down_proj_bias", AT + "experts.b_down"),
    ]


class Dequantized:
    """The quantization of the released files, MXFP4, whose tensors hold four bits a number and a scale for each block.

    Raises:
        ValueError: from ``from_hf``, unless the file says that its tensors were converted.

    Source: Rouhani et al. (2023), "Microscaling Data Formats for Deep Learning"; OpenAI (2025), section 2.1.

    >>> Dequantized().from_hf(Record("config.json", {"quantization_config": {"quant_method": "mxfp4"}}))
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: config.json, key 'quantization_config': quant_method='mxfp4' is not supported; save the model ...
    """

    names = ("quantization_config",)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Check the field; it sets none of ours."""
        said = record.fields.get(self.names[0])
        if not isinstance(said, dict | None):
            record.refuse(self.names[0], f"{said!r:.60} must be an object")
        if said and said.get("dequantize") is not True:
            how = "with transformers' Mxfp4Config(dequantize=True) first"
            method = f"quant_method={said.get('quant_method')!r:.60}"
            record.refuse(self.names[0], f"{method} is not supported; save the model dequantized, {how}")
        return {}

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Write nothing: our tensors are not quantized."""
        return {}


@dataclass(frozen=True)
class ScaledRope(Rope):
    """RoPE that is scaled by YaRN as in the released models, where the file says nothing of scaling.

    Source: OpenAI (2025), "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2, and the configuration of Hugging Face.

    >>> ScaledRope(base=150000.0).from_hf(Record("config.json", {}))["rope.scaling.factor"]
    32.0
    """

    def _parameters(self, record: Record) -> tuple[str, dict[str, Any]]:
        if record.fields.get("rope_parameters") is None and not record.fields.get("rope_scaling"):
            usual = dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False)
            usual |= dict(original_max_position_embeddings=4096)
            record = Record(record.name, record.fields | {"rope_scaling": usual})
        return super()._parameters(record)


FAMILY = Family(
    name="gpt_oss",
    architectures=("GptOssForCausalLM",),
    model_type="gpt_oss",
    fields=(
        *llama.sizes(n_kv_heads=8),
        Field("head_dim", "d_head", default=64),
        Field("rms_norm_eps", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=True),
        Field(("num_local_experts", "num_experts"), "moe.n_experts", default=128),
        Field(("num_experts_per_tok", "experts_per_token"), "moe.n_experts_per_token", default=4),
        Field("swiglu_alpha", "clamped_swiglu.alpha", default=1.702),
        Field("swiglu_limit", "clamped_swiglu.limit", default=7.0),
        Windows(128, period=2),
        Dequantized(),
        ScaledRope(base=150000.0, n_trained=131072),
    ),
    fixed={
        "position": "rope",
        "norm": "rmsnorm",
        "feedforward": "clamped_swiglu",
        "attention_sinks": True,
        "moe.router": "softmax_of_top_k",
        "moe.router_bias": True,
        "moe.expert_bias": True,
    },
    rules=rules,
    harmless="hidden_act initial_context_length",  # their class does not read them
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
