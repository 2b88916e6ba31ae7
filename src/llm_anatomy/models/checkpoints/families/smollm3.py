"""SmolLM3: Llama's table without RoPE in every fourth layer (NoPE); those layers may have a window."""

from typing import Any

from llm_anatomy.config import FULL, SLIDING, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import windows
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared, at_least_one, given

INTERVAL = 4
"""Of layers without RoPE, by default."""


class Layers:
    """Which layers have RoPE, and which have a window: by default those without RoPE, if windows are switched on.

    Raises:
        ValueError: from ``from_hf``, for lists that do not name every layer, and for a model without RoPE in any layer.

    Source: Yang et al. (2025), "Rope to Nope and Back Again", section 4, in the words of Hugging Face's configurations,
    where ``no_rope_layers`` holds 1 for a layer *with* RoPE.

    >>> from llm_anatomy.files import Record
    >>> hf = {"num_hidden_layers": 4, "no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 8}
    >>> Layers().from_hf(Record("config.json", hf))
    {'rope.layers': (True, False), 'window': 8, 'layer_types': ('full_attention', 'sliding_attention')}
    """

    names = ("no_rope_layers", "no_rope_layer_interval", "use_sliding_window", "sliding_window", "layer_types")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        n_layers = record.take("num_hidden_layers", int)
        rotated = self._rotated(record, n_layers)
        window = windows.window_if_used(record, default=None)
        usual = [FULL if window is None or has_rope else SLIDING for has_rope in rotated]
        name, types = given(record, ("layer_types",), usual)
        layers = () if all(rotated) else windows.shortest_period(rotated)
        return {"rope.layers": layers, **windows.window_of(record, name, types, window)}

    def _rotated(self, record: Record, n_layers: int) -> list[bool]:
        """Whether each layer has RoPE."""
        usual = all_but_every(at_least_one(record, "no_rope_layer_interval", INTERVAL), n_layers)
        name, flags = given(record, ("no_rope_layers",), usual)
        if not isinstance(flags, list) or len(flags) < n_layers or any(flag not in (0, 1) for flag in flags):
            record.refuse(name, f"{flags!r:.60} must be a list of at least {n_layers} numbers, 0 or 1")
        rotated = [bool(flag) for flag in flags[:n_layers]]
        if not any(rotated):
            name = name if name in record.fields else "no_rope_layer_interval"
            record.refuse(name, f"{record.fields.get(name)!r:.60} leaves no layer with RoPE; at least one must have it")
        return rotated

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields, with the interval of the list if it has one."""
        rotated = [config.rope is not None and config.rope.has_layer(layer) for layer in range(config.n_layers)]
        interval = rotated.index(False) + 1 if False in rotated else INTERVAL
        return {
            "no_rope_layers": [int(has_rope) for has_rope in rotated],
            "no_rope_layer_interval": interval if all_but_every(interval, config.n_layers) == rotated else INTERVAL,
            "use_sliding_window": config.window is not None,
            "sliding_window": config.window,
            "layer_types": windows.layer_types(config),
        }


def all_but_every(interval: int, n_layers: int) -> list[bool]:
    """Whether each layer has RoPE, if one layer in every so many has none.

    Args:
        interval: from one layer without RoPE to the next.
        n_layers: number of layers.

    Source: as :class:`Layers`.

    >>> all_but_every(2, n_layers=3)
    [True, False, True]
    """
    return [(layer + 1) % interval != 0 for layer in range(n_layers)]


FAMILY = Family(
    name="smollm3",
    architectures=("SmolLM3ForCausalLM",),
    model_type="smollm3",
    fields=(
        *llama.sizes(n_kv_heads=4),
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Field("mlp_bias", "ff_bias", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Layers(),
        Rope(base=2e6, n_trained=32768),
    ),
    fixed=dict(position="rope", norm="rmsnorm"),
    rules=llama.rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
