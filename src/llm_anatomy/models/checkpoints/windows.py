"""Sliding windows: which layers of a ``config.json`` have one."""

from typing import Any

from llm_anatomy.config import FULL, SLIDING, ModelConfig
from llm_anatomy.files import Record


def layer_types(config: ModelConfig) -> list[str]:
    """The type of every layer of a model.

    Args:
        config: of the model.

    Source: Gemma Team (2024b), "Gemma 2", section 2, in the words of Hugging Face's configurations; UCL-13.

    >>> sizes = dict(d_model=8, n_layers=3, n_heads=2, d_ff=9, n_vocab=5)
    >>> layer_types(ModelConfig(window=4, layer_types=("sliding_attention", "full_attention"), **sizes))
    ['sliding_attention', 'full_attention', 'sliding_attention']
    """
    return [FULL if config.window_of(layer) is None else SLIDING for layer in range(config.n_layers)]


def window_of(record: Record, key: str, types: object, window: int | None) -> dict[str, Any]:
    """Our fields for layers of these types, which are listed as briefly as they repeat.

    Args:
        record: of ``config.json``.
        key: of the field that lists the types, for messages.
        types: of all layers.
        window: of those that have one.

    Raises:
        ValueError: for types that are not supported, and for a window that is needed and missing.

    Source: as :func:`layer_types`.

    >>> window_of(Record("config.json", {"num_hidden_layers": 3}), "layer_types", [SLIDING, FULL, SLIDING], window=8)
    {'window': 8, 'layer_types': ('sliding_attention', 'full_attention')}
    """
    n_layers = record.take("num_hidden_layers", int)
    if not isinstance(types, list) or len(types) != n_layers or any(kind not in (SLIDING, FULL) for kind in types):
        record.refuse(key, f"{types!r:.60} must be a list of {n_layers} texts, {SLIDING!r} or {FULL!r}")
    if SLIDING not in types:
        return {"window": None, "layer_types": ()}
    if window is None:
        record.refuse(key, "there are layers with a window, and nothing says how wide it is")
    lengths = range(1, n_layers + 1)
    period = next(n for n in lengths if all(kind == types[i % n] for i, kind in enumerate(types)))
    return {"window": window, "layer_types": tuple(types[:period]) if FULL in types else ()}
