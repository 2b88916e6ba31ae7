"""DeepSeek-V2 and V2-Lite: latent attention, and shared and routed experts in all but the first layers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import fields
from llm_anatomy.models.checkpoints.families.llama import GATES
from llm_anatomy.models.checkpoints.families.llama import rules as llama_rules
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import NEEDED, Field, Must, NotNull, Rope, given, of_right_type
from llm_anatomy.models.checkpoints.rules import Reversed, Rule, Split, Stacked

ATTENTION, HF_ATTENTION = "stack.blocks.{layer}.attention.", "model.layers.{layer}.self_attn."
EXPERTS, HF_EXPERTS = "stack.blocks.{layer}.feedforward.", "model.layers.{layer}.mlp."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2, in the layout of Hugging Face; CMU-13.

    >>> sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> rules(ModelConfig.of(sizes | {"attention": "latent", "latent.d_latent": 6}))[-1].ours
    ('stack.blocks.{layer}.feedforward.router.selection_bias',)
    """
    n_experts, d_expert, d_shared = 0, 0, 0  # of a model without experts, to which the rules for them do not apply
    if config.moe:
        n_experts, d_expert = config.moe.n_experts, config.moe.d_expert
        d_shared = config.moe.n_shared_experts * d_expert
    expert = HF_EXPERTS + "experts.{expert}."
    return [
        *llama_rules(config),  # those for keys and values have no effect here
        Rule(HF_ATTENTION + "q_a_proj.{kind}", ATTENTION + "w_query.0.{kind}"),
        Rule(HF_ATTENTION + "q_a_layernorm.weight", ATTENTION + "w_query.1.weight"),
        Rule(HF_ATTENTION + "q_b_proj.weight", ATTENTION + "w_query.2.weight"),
        Rule(HF_ATTENTION + "kv_a_proj_with_mqa.{kind}", ATTENTION + "w_down.{kind}"),
        Rule(HF_ATTENTION + "kv_a_layernorm.weight", ATTENTION + "latent_norm.weight"),
        Rule(
            HF_ATTENTION + "kv_b_proj.weight",
            (ATTENTION + "w_up_key.weight", ATTENTION + "w_up_value.weight"),
            Split((config.d_head, config.d_value), config.n_heads),
        ),
        Rule(
            (expert + "gate_proj.weight", expert + "up_proj.weight"),
            EXPERTS + "experts.w_up",
            Stacked(n_experts, Reversed(Split((d_expert, d_expert)))),
        ),
        Rule(expert + "down_proj.weight", EXPERTS + "experts.w_down", Stacked(n_experts)),
        Rule(
            (HF_EXPERTS + "shared_experts.gate_proj.{kind}", HF_EXPERTS + "shared_experts.up_proj.{kind}"),
            EXPERTS + "shared.w_gate_up.{kind}",
            Reversed(Split((d_shared, d_shared))),
        ),
        Rule(HF_EXPERTS + "shared_experts.down_proj.{kind}", EXPERTS + "shared.w_down.{kind}"),
        Rule(HF_EXPERTS + "gate.weight", EXPERTS + "router.w_router.weight"),
        Rule(HF_EXPERTS + "gate.e_score_correction_bias", EXPERTS + "router.selection_bias"),  # in V3 only
    ]


@dataclass(frozen=True)
class Repeats:
    """A field of Hugging Face's config that repeats the sum of others, and may be missing.

    Args:
        hf: its name.
        of: the names of the fields whose sum it is.
        ours: a function from our config to that sum.

    Raises:
        ValueError: from ``from_hf``, for another value.

    Source: the configurations of Hugging Face's models.

    >>> heads = Repeats("num_key_value_heads", ("num_attention_heads",), lambda config: config.n_heads)
    >>> heads.from_hf(Record("config.json", {"num_key_value_heads": 2, "num_attention_heads": 4}))
    Traceback (most recent call last):
    ValueError: config.json, key 'num_key_value_heads': 2 is not supported; it must be num_attention_heads = 4
    """

    hf: str
    of: tuple[str, ...]
    ours: Callable[[ModelConfig], int]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.hf,)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Check the field; it sets none of ours."""
        total = sum(given(record, (name,), NEEDED)[1] for name in self.of)
        name, value = given(record, self.names, total)
        if value != total:
            record.refuse(name, f"{value!r:.60} is not supported; it must be {' + '.join(self.of)} = {total}")
        return {}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Write the sum."""
        return {self.hf: self.ours(config)}


class Queries:
    """The latent of queries, for which null means none, and the biases, which queries without a latent do not have.

    Raises:
        ValueError: from ``from_hf``, for biases without a latent of queries.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1, in the layout of Hugging Face.

    >>> Queries().from_hf(Record("config.json", {"q_lora_rank": None}))
    {'latent.d_query_latent': None, 'attention_bias': False}
    """

    names = ("q_lora_rank", "attention_bias")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        width = of_right_type(record, "q_lora_rank", "latent.d_query_latent", record.fields.get("q_lora_rank", 1536))
        _, bias = given(record, ("attention_bias",), False)
        if bias and width is None:
            record.refuse("attention_bias", "True is not supported where q_lora_rank is null; it must be False")
        bias = of_right_type(record, "attention_bias", "attention_bias", bias)
        return {"latent.d_query_latent": width, "attention_bias": bias}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"q_lora_rank": config.get("latent.d_query_latent"), "attention_bias": config.attention_bias}


class LatentRope(Rope):
    r"""RoPE whose YaRN scaling has two more parameters, ``mscale`` a and ``mscale_all_dim`` b.

    .. math:: m(c) = 0.1\, c \ln(\mathrm{factor}) + 1, \quad \mathrm{temperature} = \frac{m(a)}{m(b)}, \quad
        \mathrm{scale} = \frac{m(b)^2}{\sqrt{d_\mathrm{head} + d_\mathrm{rotary}}}

    Raises:
        ValueError: from ``from_hf``, as for ``Rope``, and for one of the two alone, which implementations treat
            differently.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 3.1.4 and its code, in the layout of Hugging Face; CMU-13.

    >>> scaling = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
    >>> scaling |= {"mscale": 0.707, "mscale_all_dim": 0.707}
    >>> fields = {"rope_scaling": scaling, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    >>> found = LatentRope().from_hf(Record("config.json", fields))
    >>> found["rope.scaling.attention_factor"], round(found["attention_scale"], 6)
    (1.0, 0.114721)
    """

    options: ClassVar = {kind: keys for kind, keys in Rope.options.items() if kind != "dynamic"}  # theirs misreads it
    read_too: ClassVar = {"yarn": ("mscale", "mscale_all_dim")}

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        ours, name = super().from_hf(record), self._parameters(record)[0]
        more = {key: ours.pop(f"rope.scaling.{key}") for key in self.read_too["yarn"] if f"rope.scaling.{key}" in ours}
        for key, value in more.items():
            if of_right_type(record, name, "rope.scaling.factor", value, f"{key}=") <= 0:
                record.refuse(name, f"{key}={value!r:.60} must be a number above 0")
        needed = {"mscale": "mscale_all_dim", "mscale_all_dim": "mscale"}
        for key in more:
            if needed[key] not in more:
                record.refuse(name, f"{key}={more[key]!r} is not supported without {needed[key]}")
        if more and "rope.scaling.factor" in ours:
            factor, width = ours["rope.scaling.factor"], sum(record.fields[part] for part in _HEAD)
            of_all = _magnitude(factor, more["mscale_all_dim"])
            ours.setdefault("rope.scaling.attention_factor", _magnitude(factor, more["mscale"]) / of_all)
            ours["attention_scale"] = _scale(width, of_all)
        return ours

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields, with the shortest numbers from which ours follow exactly."""
        hf: dict[str, Any] = super().to_hf(config)
        scaling = config.rope.scaling if config.rope else None
        if not scaling or not scaling.attention_factor or not config.attention_scale or scaling.type != "yarn":
            return hf
        factor, width = scaling.factor, _width(config)
        of_all = math.sqrt(config.attention_scale * math.sqrt(width))
        more = {
            "mscale_all_dim": _shortest(factor, of_all, lambda m: _scale(width, m) == config.attention_scale),
        }
        of_all = _magnitude(factor, more["mscale_all_dim"])
        temperature = scaling.attention_factor
        more["mscale"] = _shortest(factor, temperature * of_all, lambda m: m / of_all == temperature)
        for name in ("rope_parameters", "rope_scaling"):
            hf[name] |= more
            if _magnitude(factor, more["mscale"]) / of_all == temperature:
                del hf[name]["attention_factor"]
        return hf


_HEAD = ("qk_nope_head_dim", "qk_rope_head_dim")


def _d_rotary(config: ModelConfig) -> int:
    return config.latent and config.latent.d_rotary or 0


def _width(config: ModelConfig) -> int:
    return config.d_head + _d_rotary(config)


def _magnitude(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def _scale(width: int, magnitude: float) -> float:
    return width**-0.5 * magnitude * magnitude


def _shortest(factor: float, magnitude: float, fits: Callable[[float], bool]) -> float:
    """The ``mscale`` of this magnitude, with as few digits as suffice."""
    exact = (magnitude - 1) / (0.1 * math.log(factor)) if factor > 1 else 1.0
    for n_digits in range(1, 17):
        short = float(f"{exact:.{n_digits}g}")
        if fits(_magnitude(factor, short)):
            return short
    return exact


class Routing:
    """How experts are selected: among all, or within the best groups.

    Raises:
        ValueError: from ``from_hf``, for another method.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.2.2, in the layout of Hugging Face.

    >>> Routing().from_hf(Record("config.json", {"topk_method": "greedy", "n_group": 1, "topk_group": 1}))
    {'moe.router': 'top_k_of_softmax'}
    """

    names = ("topk_method", "n_group", "topk_group")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        values = {"greedy": "top_k_of_softmax", "group_limited_greedy": "top_k_of_softmax_in_groups"}
        ours = Field("topk_method", "moe.router", values, default="greedy").from_hf(record)
        grouped = ours["moe.router"] == "top_k_of_softmax_in_groups"
        groups = Field("n_group", "moe.n_groups", default=NEEDED if grouped else None).from_hf(record)
        groups |= Field("topk_group", "moe.n_groups_per_token", default=NEEDED if grouped else None).from_hf(record)
        return ours | groups if grouped else ours

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        if config.moe and config.moe.router == "top_k_of_softmax_in_groups":
            groups = {"n_group": config.moe.n_groups, "topk_group": config.moe.n_groups_per_token}
            return {"topk_method": "group_limited_greedy", **groups}
        return {"topk_method": "greedy"}


SIZES = (
    *fields.SIZES,
    Field("max_position_embeddings", "n_ctx", default=None),
    Field("kv_lora_rank", "latent.d_latent", default=512),
    Field("qk_nope_head_dim", "d_head"),
    Field("qk_rope_head_dim", "latent.d_rotary"),
    Field("v_head_dim", "d_value", default=128),
    Field(("n_routed_experts", "num_experts", "num_local_experts"), "moe.n_experts"),
    Field("num_experts_per_tok", "moe.n_experts_per_token"),
    Field("moe_intermediate_size", "moe.d_expert"),
    Field("hidden_act", "feedforward", GATES, default="silu"),
    Field("tie_word_embeddings", "tie_embeddings", default=False),
    Must("rms_norm_eps", 1e-6),  # the norms of their latents have no other
    Must("moe_layer_freq", 1),
    Queries(),
    Repeats("num_key_value_heads", ("num_attention_heads",), lambda config: config.n_heads),
    Repeats("head_dim", ("qk_rope_head_dim",), _d_rotary),
    Repeats("qk_head_dim", _HEAD, _width),
    LatentRope(),
)
"""The fields that V2 and V3 share."""

FIXED = dict(attention="latent", position="rope", norm="rmsnorm", norm_eps=1e-6)

FAMILY = Family(
    name="deepseek_v2",
    architectures=("DeepseekV2ForCausalLM",),
    model_type="deepseek_v2",
    fields=(
        *SIZES,
        NotNull(Field("n_shared_experts", "moe.n_shared_experts", default=2)),
        Field("first_k_dense_replace", "moe.n_dense_layers", default=0),
        Field("routed_scaling_factor", "moe.routed_scaling_factor", default=1.0),
        Field("mlp_bias", "ff_bias", default=False),
        Must("norm_topk_prob", False),
        Must("scoring_func", "softmax"),
        Routing(),
    ),
    fixed=FIXED | {"rope.pairing": "interleaved"},
    rules=rules,
    harmless="aux_loss_alpha seq_aux ep_size",
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
