"""Gemma 3, text only: Gemma 2 with QK-norm in place of softcapping, five windows to a full layer, and two RoPEs."""

from dataclasses import dataclass
from typing import Any

from llm_anatomy.config import FULL, SLIDING, Config, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.families import gemma2, llama, qwen3
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, OrNull, Rope, Shared, given, of_right_type, one_of
from llm_anatomy.models.checkpoints.rules import Rule
from llm_anatomy.models.checkpoints.windows import Windows


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors: the norms of Gemma 2, and those of queries and keys as in Qwen 3.

    Args:
        config: of the model.

    Source: Gemma Team (2025), "Gemma 3", section 2, in the layout of Hugging Face; UCL-13.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].hf
    ('model.layers.{layer}.post_feedforward_layernorm.weight',)
    """
    of_queries_and_keys = [rule for rule in qwen3.rules(config) if "_norm" in rule.hf[0]]
    return [*of_queries_and_keys, *gemma2.rules(config)]


@dataclass(frozen=True)
class TwoRopes(Rope):
    """RoPE of the layers without a window, scaled or not, and RoPE of those with one, which is never scaled.

    Today's files list the parameters of both types of layers, and older ones have the base of the second in a field of
    its own. Both are written.

    Args:
        base, fraction, base_name, fraction_name, n_trained: as in ``Rope``, of the layers without a window.
        local_base: the default of the architecture for the layers with one.
        local_base_name: name of the older field; None for none.
        windows: the entry that tells which layers have a window.

    Raises:
        ValueError: from ``from_hf``, as for ``Rope``, and for parameters of the layers with a window other than a base.

    Source: Gemma Team (2025), "Gemma 3", section 2.1, in the words of Hugging Face's configurations.

    >>> said = {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_theta": 500.0}}
    >>> hf = Record("config.json", {"num_hidden_layers": 6, "rope_parameters": said})
    >>> TwoRopes(base=1e6).from_hf(hf)["rope.local_base"]
    500.0
    """

    local_base: float = 10000.0
    local_base_name: str | None = None
    windows: Windows = Windows(4096, period=6)

    # theirs looks for the option "truncate" of YaRN elsewhere
    options = Rope.options | {"yarn": tuple(key for key in Rope.options["yarn"] if key != "truncate")}

    @property
    def names(self) -> tuple[str, ...]:
        return (*super().names, *([self.local_base_name] if self.local_base_name else []))

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        both = record.fields.get("rope_parameters")
        if not isinstance(both, dict | None):
            record.refuse("rope_parameters", f"{both!r:.60} must be an object")
        both = both or {}
        for key, parameters in both.items():
            if key not in (FULL, SLIDING):
                record.refuse("rope_parameters", f"{key!r:.60} is not supported beside {FULL!r} and {SLIDING!r}")
            if not isinstance(parameters, dict | None):
                record.refuse("rope_parameters", f"{key}={parameters!r:.60} must be an object")
        older = record.fields.get("rope_scaling")
        if isinstance(older, dict) and "type" in older and "rope_type" not in older:  # theirs reads no scaling then
            record.refuse("rope_scaling", f"type={older['type']!r:.60} is not supported; it must be called rope_type")
        ours = super().from_hf(Record(record.name, record.fields | {"rope_parameters": both.get(FULL)}))
        local = self._local_base(record, both.get(SLIDING) or {})
        has_window = self.windows.from_hf(record)["window"] is not None
        alike = local == ours["rope.base"] and "rope.scaling.type" not in ours
        return ours | {"rope.local_base": local if has_window and not alike else None}

    def _local_base(self, record: Record, said: dict[str, Any]) -> float:
        said = {key: value for key, value in said.items() if value is not None}
        kind = said.pop("rope_type", said.pop("type", "default"))
        said.pop("type", None)
        one_of(record, "rope_parameters", kind, ("default",))
        name, usual = "rope_parameters", self.local_base
        if self.local_base_name and "rope_theta" not in said:
            name, usual = given(record, (self.local_base_name,), usual)
        base = said.pop("rope_theta", usual)
        if said:
            key = min(said)
            record.refuse("rope_parameters", f"{key}={said[key]!r:.60} is not supported with {SLIDING!r}")
        return of_right_type(record, name, "rope.local_base", base, "rope_theta=")

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        hf, base = super().to_hf(config), config.get("rope.base")
        local = base if config.get("rope.local_base") is None else config.get("rope.local_base")
        hf["rope_parameters"] = {
            FULL: hf["rope_parameters"],
            SLIDING: {"rope_type": "default", "rope_theta": local},
        }
        return hf | ({self.local_base_name: local} if self.local_base_name else {})


WINDOWS = Windows(4096, period=6, period_name="sliding_window_pattern")

FAMILY = Family(
    name="gemma3",
    architectures=("Gemma3ForCausalLM",),
    model_type="gemma3_text",
    fields=(
        *llama.sizes(n_kv_heads=4),
        Field("head_dim", "d_head", default=256),
        Field("hidden_activation", "feedforward", llama.GATES, default="gelu_pytorch_tanh"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Must("attn_logit_softcapping", None),  # their class does not read it
        OrNull("final_logit_softcapping", "final_logit_softcapping", default=None),
        gemma2.QueryScale(),
        WINDOWS,
        Must("use_bidirectional_attention", False),
        TwoRopes(base=1e6, local_base_name="rope_local_base_freq", windows=WINDOWS, n_trained=131072),
    ),
    fixed={**gemma2.FAMILY.fixed, "qk_norm": "per_head"},
    rules=rules,
    # names of the activation and of the pattern of windows that their class does not read
    harmless="hidden_act _sliding_window_pattern",
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
    bare="Gemma3TextModel",
)
