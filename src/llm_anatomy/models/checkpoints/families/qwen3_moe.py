"""Qwen 3 with experts: Qwen 3's attention, and a mixture of experts in all layers but those that are left out."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import windows
from llm_anatomy.models.checkpoints.families import llama, qwen3
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared, at_least_one, given
from llm_anatomy.models.checkpoints.rules import Reversed, Rule, Split, Stacked

AT, HF = llama.AT + "feedforward.", llama.HF + "mlp."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Yang et al. (2025), "Qwen3 Technical Report", section 2, in the layout of Hugging Face; GT-19.

    >>> sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> rules(ModelConfig.of(sizes | {"moe.n_experts": 4, "moe.n_experts_per_token": 2}))[-1].hf
    ('model.layers.{layer}.mlp.experts.{expert}.down_proj.weight',)
    """
    n_experts, d_expert = (config.moe.n_experts, config.moe.d_expert) if config.moe else (0, 0)
    expert, gate_and_up = HF + "experts.{expert}.", Reversed(Split((d_expert, d_expert)))
    gate_and_up = Stacked(n_experts, gate_and_up)
    return [
        *qwen3.rules(config),
        Rule(HF + "gate.weight", AT + "router.w_router.weight"),
        Rule((expert + "gate_proj.weight", expert + "up_proj.weight"), AT + "experts.w_up", gate_and_up),
        Rule(expert + "down_proj.weight", AT + "experts.w_down", Stacked(n_experts)),
    ]


class DenseLayers:
    """The layers without experts: those that ``mlp_only_layers`` lists, and all but every so many.

    Raises:
        ValueError: from ``from_hf``, for a step or a list of another type.

    Source: the configurations of Hugging Face's models; Qwen Team (2024), "Qwen1.5-MoE".

    >>> hf = {"num_hidden_layers": 5, "decoder_sparse_step": 2, "mlp_only_layers": [3]}
    >>> DenseLayers().from_hf(Record("config.json", hf))
    {'moe.dense_layers': (0, 2, 3, 4)}
    """

    names = ("decoder_sparse_step", "mlp_only_layers")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        n_layers = record.take("num_hidden_layers", int)
        name, listed = given(record, ("mlp_only_layers",), [])
        if not isinstance(listed, list) or any(not isinstance(i, int) or isinstance(i, bool) for i in listed):
            record.refuse(name, f"{listed!r:.60} must be a list of indices of layers")
        dense = {*left_out(n_layers, at_least_one(record, "decoder_sparse_step", 1)), *listed}
        return {"moe.dense_layers": tuple(layer for layer in range(n_layers) if layer in dense)}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields: to a step alone if there is one, and otherwise to a list."""
        layers, dense = range(config.n_layers), config.get("moe.dense_layers") or ()
        step = 1 + next((layer for layer in layers if layer not in dense), config.n_layers)
        is_step = left_out(config.n_layers, step) == dense
        return {"decoder_sparse_step": step if is_step else 1, "mlp_only_layers": [] if is_step else [*dense]}


def left_out(n_layers: int, step: int) -> tuple[int, ...]:
    """The layers without experts if only every so many have them.

    Args:
        n_layers: number of layers.
        step: from one layer with experts to the next.

    Source: as :class:`DenseLayers`.

    >>> left_out(n_layers=5, step=2)
    (0, 2, 4)
    """
    return tuple(layer for layer in range(n_layers) if (layer + 1) % step)


class Windows:
    """The window of all layers, if it is switched on.

    Source: the configurations of Hugging Face's models.

    >>> Windows().from_hf(Record("config.json", {"use_sliding_window": True, "sliding_window": 8}))
    {'window': 8}
    >>> Windows().from_hf(Record("config.json", {"sliding_window": 8}))
    {'window': None}
    """

    names = ("use_sliding_window", "sliding_window")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        return {"window": windows.window_if_used(record, default=4096)}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"use_sliding_window": config.window is not None, "sliding_window": config.window}


FAMILY = Family(
    name="qwen3_moe",
    architectures=("Qwen3MoeForCausalLM",),
    model_type="qwen3_moe",
    fields=(
        *llama.sizes(n_kv_heads=4),
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Field(("num_local_experts", "num_experts"), "moe.n_experts", default=128),
        Field("num_experts_per_tok", "moe.n_experts_per_token", default=8),
        Field("moe_intermediate_size", "moe.d_expert", default=768),
        Field("norm_topk_prob", "moe.router", {True: "softmax_of_top_k", False: "top_k_of_softmax"}, default=False),
        DenseLayers(),
        Windows(),
        Rope(n_trained=32768),
    ),
    fixed=dict(position="rope", norm="rmsnorm", qk_norm="per_head"),
    rules=rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
