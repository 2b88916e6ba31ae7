"""Sliding windows: ``config.json`` names the kind of each layer, our config says that each so many-th sees all."""

from collections.abc import Sequence

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record

SLIDING, FULL = "sliding_attention", "full_attention"
"""What ``layer_types`` calls a layer with a window, and one without."""


def layer_types(config: ModelConfig) -> list[str]:
    """Which layers have a window, and which see all.

    Args:
        config: of the model.

    Source: Gemma Team (2024b), "Gemma 2", section 2, in the words of Hugging Face's configurations; UCL-13.

    >>> sizes = dict(d_model=8, n_layers=3, n_heads=2, d_ff=9, n_vocab=5)
    >>> layer_types(ModelConfig(window=4, global_every=2, **sizes))
    ['sliding_attention', 'full_attention', 'sliding_attention']
    """
    every = config.global_every or config.n_layers + 1
    sees_all = [config.window is None or layer % every == 0 for layer in range(1, config.n_layers + 1)]
    return [FULL if whole else SLIDING for whole in sees_all]


def window_of(
    record: Record, key: str, kinds: Sequence[str], window: int | None, usual: int | None = None
) -> dict[str, int | None]:
    """Our fields for layers of these kinds: all alike, or each so many-th without a window.

    Args:
        record: of ``config.json``.
        key: of the field that says the kinds, for messages.
        kinds: of the layers.
        window: of those that have one.
        usual: the ``global_every`` of the architecture, taken where others would say the same.

    Raises:
        ValueError: for kinds that we do not have, kinds in another order, and a window that is needed and missing.

    Source: as :func:`layer_types`.

    >>> record = Record("config.json", {"num_hidden_layers": 3})
    >>> window_of(record, "layer_types", [SLIDING, SLIDING, FULL], window=8)
    {'window': 8, 'global_every': 3}
    >>> window_of(record, "layer_types", [FULL, SLIDING, SLIDING], window=8)
    Traceback (most recent call last):
    ValueError: config.json, key 'layer_types': layers without a window must be each so many-th one, not layers 1 of 3
    """
    n_layers = record.take("num_hidden_layers", int)
    if not isinstance(kinds, list) or len(kinds) != n_layers or any(kind not in (SLIDING, FULL) for kind in kinds):
        record.refuse(key, f"{kinds!r:.60} must be a list of {n_layers} texts, {SLIDING!r} or {FULL!r}")
    whole = [layer for layer, kind in enumerate(kinds, 1) if kind == FULL]
    if len(whole) == n_layers:
        return {"window": None, "global_every": None}
    if window is None:
        record.refuse(key, "there are layers with a window, and nothing says how wide it is")
    for every in (usual, None, *range(2, n_layers + 1)):
        if whole == (list(range(every, n_layers + 1, every)) if every else []):
            return {"window": window, "global_every": every}
    layers = ", ".join(map(str, whole))
    record.refuse(key, f"layers without a window must be each so many-th one, not layers {layers} of {n_layers}")
