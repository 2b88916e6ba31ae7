"""Qwen 1.5, 2 and 2.5: Llama's layout with biases of queries, keys and values, and windows from some layer on."""

from typing import Any

from llm_anatomy.config import FULL, SLIDING, ModelConfig
from llm_anatomy.models.checkpoints import windows
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, Rope, given


class Windows:
    """The windows, if they are switched on, of the layers that ``layer_types`` lists, or of all but the first few.

    Source: Yang et al. (2024), "Qwen2", section 2.2, in the words of Hugging Face's configurations.

    >>> from llm_anatomy.files import Record
    >>> hf = {"num_hidden_layers": 2, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}
    >>> Windows().from_hf(Record("config.json", hf))
    {'window': 8, 'layer_types': ()}
    >>> Windows().from_hf(Record("config.json", hf | {"use_sliding_window": False}))
    {'window': None, 'layer_types': ()}
    """

    names = ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types")

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        window = windows.window_if_used(record, default=4096)
        n_layers = record.take("num_hidden_layers", int)
        name, n_whole = given(record, ("max_window_layers",), 28)
        if not isinstance(n_whole, int) or isinstance(n_whole, bool) or n_whole < 0:
            record.refuse(name, f"{n_whole!r:.60} must be a number from 0")
        n_whole = n_layers if window is None else min(n_whole, n_layers)
        types = [FULL] * n_whole + [SLIDING] * (n_layers - n_whole)
        name = "max_window_layers" if record.fields.get("layer_types") is None else "layer_types"
        return windows.window_of(record, name, given(record, ("layer_types",), types)[1], window)

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        types = windows.layer_types(config)
        return {
            "use_sliding_window": config.window is not None,
            "sliding_window": config.window,
            "max_window_layers": (types + [SLIDING]).index(SLIDING),
            "layer_types": types,
        }


FAMILY = Family(
    name="qwen2",
    architectures=("Qwen2ForCausalLM",),
    model_type="qwen2",
    fields=(
        *llama.sizes(n_kv_heads=32),
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Windows(),
        Must("use_mrope", False),
        Rope(n_trained=32768),
    ),
    fixed=dict(position="rope", norm="rmsnorm", attention_bias=True),
    rules=llama.rules,
    harmless="attention_bias",  # their class does not read it
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
