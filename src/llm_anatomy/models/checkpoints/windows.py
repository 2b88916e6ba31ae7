"""Sliding windows: which layers of a ``config.json`` have one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from llm_anatomy.config import FULL, SLIDING, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.fields import OrNull, at_least_one, given

T = TypeVar("T")


@dataclass(frozen=True)
class Windows:
    """The windows of the layers that ``layer_types`` lists, and by default of all layers but every n-th.

    Args:
        width: the default of the architecture.
        period: every layer of this number, counted from 1, has no window by default.
        period_name: the field of older files that gives the period; None if there is none.

    Raises:
        ValueError: from ``from_hf``, as for :func:`window_of`.

    Source: Gemma Team (2024b), "Gemma 2", section 2, and (2025), "Gemma 3", section 2, in the words of Hugging Face's
    configurations; UCL-13.

    >>> Windows(4096, 2).from_hf(Record("config.json", {"num_hidden_layers": 4, "sliding_window": 8}))
    {'window': 8, 'layer_types': ('sliding_attention', 'full_attention')}
    """

    width: int
    period: int
    period_name: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return ("sliding_window", "layer_types", *([self.period_name] if self.period_name else []))

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        width = OrNull("sliding_window", "window", default=self.width).from_hf(record)["window"]
        period = at_least_one(record, self.period_name, self.period) if self.period_name else self.period
        n_layers = record.take("num_hidden_layers", int)
        usual = [SLIDING if (layer + 1) % period else FULL for layer in range(n_layers)]
        name, types = given(record, ("layer_types",), usual)
        return window_of(record, name, types, width)

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields. Their model wants a width even where no layer has a window."""
        return {"sliding_window": config.window or self.width, "layer_types": layer_types(config)}


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


def window_if_used(record: Record, default: int | None) -> int | None:
    """The window, if ``use_sliding_window`` switches it on.

    Args:
        record: of ``config.json``.
        default: the window of the architecture.

    Raises:
        ValueError: for a switch that is neither true nor false, and for a window that is no number.

    Source: the configurations of Hugging Face's models.

    >>> said = Record("config.json", {"use_sliding_window": True, "sliding_window": 8})
    >>> window_if_used(said, default=4096), window_if_used(Record("config.json", {"sliding_window": 8}), default=4096)
    (8, None)
    """
    window = OrNull("sliding_window", "window", default=default).from_hf(record)["window"]
    name, is_used = given(record, ("use_sliding_window",), False)
    if not isinstance(is_used, bool):
        record.refuse(name, f"{is_used!r:.60} must be true or false")
    return window if is_used else None


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
    return {"window": window, "layer_types": shortest_period(types) if FULL in types else ()}


def shortest_period(values: Sequence[T]) -> tuple[T, ...]:
    """The shortest list that gives these values when it is repeated from the start.

    Args:
        values: at least one, such as the type of every layer.

    Source: as :func:`layer_types`.

    >>> shortest_period([True, True, False, True])
    (True, True, False)
    """
    lengths = range(1, len(values) + 1)
    period = next(n for n in lengths if all(value == values[i % n] for i, value in enumerate(values)))
    return tuple(values[:period])
