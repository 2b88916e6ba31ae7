"""Phi-3, 3.5 and 4 mini: Llama with fused projections, LongRoPE on a part of each head, and a window."""

from dataclasses import dataclass
from typing import Any

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, at_least_one
from llm_anatomy.models.checkpoints.rules import Rule, Split


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors: those of Llama, with fused projections.

    Args:
        config: of the model.

    Source: Abdin et al. (2024), "Phi-3 Technical Report", section 2, in the layout of Hugging Face.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].hf
    ('model.layers.{layer}.mlp.gate_up_proj.weight',)
    """
    at, hf = llama.AT, llama.HF
    projections = tuple(f"{at}attention.w_{name}.weight" for name in ("query", "key", "value"))
    widths = tuple(n * config.d_head for n in (config.n_heads, config.n_kv_heads, config.n_kv_heads))
    fused = ("q_proj", "k_proj", "v_proj", "gate_proj")
    return [
        *(rule for rule in llama.rules(config) if not any(name in rule.hf[0] for name in fused)),
        Rule(hf + "self_attn.qkv_proj.weight", projections, Split(widths)),
        Rule(hf + "mlp.gate_up_proj.weight", at + "feedforward.w_gate_up.weight"),
    ]


@dataclass(frozen=True)
class LongRope(Rope):
    """RoPE on a part of each head, with LongRoPE, which older files call "su" or "yarn".

    The length of the training has a field of its own, and the factor is ``max_position_embeddings`` divided by it
    unless it is given.

    Raises:
        ValueError: from ``from_hf``, as for ``Rope``, for lists that hold other things than numbers, and for lengths of
            the training that disagree.

    Source: Ding et al. (2024), "LongRoPE", section 3; Abdin et al. (2024), "Phi-3 Technical Report", section 2, in the
    words of Hugging Face's configurations.

    >>> rope = {"type": "su", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3]}
    >>> hf = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "rope_scaling": rope}
    >>> found = LongRope().from_hf(Record("config.json", hf))
    >>> found["rope.scaling.factor"], found["rope.scaling.long_factor"]
    (32.0, (2.0, 3.0))
    """

    fraction_name: str | None = "partial_rotary_factor"

    _of_longrope = ("factor", "original_max_position_embeddings", "short_factor", "long_factor", "attention_factor")
    options = {"default": (), "longrope": _of_longrope}

    @property
    def names(self) -> tuple[str, ...]:
        return (*super().names, "original_max_position_embeddings")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        ours, name = super().from_hf(record), self._parameters(record)[0]
        if "rope.scaling.type" not in ours:
            return ours
        for key in ("short_factor", "long_factor"):
            divisors = ours.get(f"rope.scaling.{key}")
            if not isinstance(divisors, list | tuple) or not all(type(one) in (int, float) for one in divisors):
                record.refuse(name, f"{key}={divisors!r:.60} must be a list of numbers")
            ours[f"rope.scaling.{key}"] = tuple(map(float, divisors))
        n_trained = at_least_one(record, "original_max_position_embeddings", 4096)
        also = ours.setdefault("rope.scaling.original_max_position_embeddings", n_trained)
        if also != n_trained:
            says = f"original_max_position_embeddings={also!r:.60} does not agree with the field of that name"
            record.refuse(name, f"{says}, {n_trained}")
        n_ctx = at_least_one(record, "max_position_embeddings", 4096)
        ours.setdefault("rope.scaling.factor", n_ctx / n_trained)
        return ours

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        hf, n_ctx = super().to_hf(config), config.get("n_ctx")
        n_trained = config.get("rope.scaling.original_max_position_embeddings") or 4096
        if n_ctx and config.get("rope.scaling.factor") == n_ctx / n_trained:
            for name in ("rope_parameters", "rope_scaling"):
                del hf[name]["factor"]
        return hf | {"original_max_position_embeddings": n_trained}

    def _parameters(self, record: Record) -> tuple[str, dict[str, Any]]:
        name, parameters = super()._parameters(record)
        kind = parameters["rope_type"]
        return name, parameters | {"rope_type": "longrope" if kind in ("su", "yarn") else kind}


FAMILY = Family(
    name="phi3",
    architectures=("Phi3ForCausalLM",),
    model_type="phi3",
    fields=(
        *llama.SIZES,
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Field("sliding_window", "window", default=None),
        LongRope(),
    ),
    fixed=dict(position="rope", norm="rmsnorm"),
    rules=rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
