"""Presets: the configs of the lectures' models and of one model of each later family that can be loaded, the source of
every value, and the published numbers of parameters.

The data are in ``data/presets.json``, by families and their models. Values are listed under their source, first those
of the family, then those of its models. A value that no source gives is listed as unknown; none is guessed.
"""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

from llm_anatomy.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One model of the lectures.

    Args:
        name: of the preset, such as ``"gpt-2"``.
        title: name of the model in its publication.
        year: of its first publication.
        paper: its publication.
        items: of the lectures that mention it; none for a model that they do not mention.
        values: the known fields of its config, by dotted names.
        sources: the source of each value.
        unknown: fields that are not public; a model with any of them cannot be built.
        builder: the class of a model that is not a ``Transformer``.
        exact: its number of parameters, from a released model or its class, which ``exact_source`` names.
        printed: its size as printed in its paper, and ``printed_source``.
        difference: why these numbers differ from each other or from ours.
        notes: anything else, above all where it departs from the lectures.

    Source: the lectures' tables of models; GT-43, GT-44, UCL-09.

    >>> presets()["gpt-4"].known
    False
    """

    name: str
    title: str
    year: int
    paper: str
    items: tuple[str, ...]
    values: dict[str, Any]
    sources: dict[str, str]
    unknown: tuple[str, ...] = ()
    builder: str | None = None
    exact: int | None = None
    exact_source: str | None = None
    printed: str | None = None
    printed_source: str | None = None
    difference: str | None = None
    notes: str = ""

    @property
    def known(self) -> bool:
        """Whether the model has a complete config."""
        return not self.unknown and self.builder is None

    def config(self) -> ModelConfig:
        """The config of the model in full size; refused for a model that cannot be built, naming what is unknown."""
        return ModelConfig.of(self._buildable())

    def _buildable(self) -> dict[str, Any]:
        if self.builder:
            raise ValueError(f"name={self.name!r} has no ModelConfig: it is built by {self.builder}")
        if self.unknown:
            raise ValueError(f"name={self.name!r} cannot be built: {', '.join(self.unknown)} are not public")
        return self.values


def presets() -> dict[str, Preset]:
    """All models by name, in the order of the data, including those that cannot be built.

    Source: GT-43, GT-44, UCL-09, UCL-13, UCL-26, GT-02, GT-05, GT-06, GT-49.

    >>> gpt2 = presets()["gpt-2"]
    >>> gpt2.exact, gpt2.values["d_model"], gpt2.sources["d_model"]
    (124439808, 768, 'Radford et al. (2019), table 2')
    """
    return {name: _record(name, model, family) for name, (model, family) in _models().items()}


def _models() -> dict[str, tuple[dict, dict]]:
    """What the file says of each model and of its family, read anew: whoever changes it harms nobody."""
    families = json.loads(files("llm_anatomy.data").joinpath("presets.json").read_text(encoding="utf-8"))
    return {name: (model, family) for family in families for name, model in family["models"].items()}


def _record(name: str, model: dict, family: dict) -> Preset:
    by_source = [*family["config"].items(), *model.get("config", {}).items()]
    said = {key: value for key, value in (family | model).items() if key not in ("config", "models")}
    said |= {
        "items": tuple(family["items"]),
        "unknown": (*family.get("unknown", ()), *model.get("unknown", ())),
        "notes": " ".join(part["notes"] for part in (family, model) if "notes" in part),
    }
    return Preset(
        name=name,
        values={field: value for _, values in by_source for field, value in values.items()},
        sources={field: source for source, values in by_source for field in values},
        **said,
    )


def find(name: str) -> Preset:
    """Find a preset by its name.

    Args:
        name: of the preset.

    Raises:
        ValueError: for an unknown name, listing similar ones.

    Source: GT-43, GT-44.

    >>> find("llama-3-8b").printed
    '8B'
    >>> find("lama-3-8b")
    Traceback (most recent call last):
    ValueError: name='lama-3-8b' is no preset; close to it are llama-3-8b, llama-3.1-8b, llama-3-70b
    """
    models = _models()
    if name not in models:
        close = get_close_matches(name.lower(), models, n=3, cutoff=0.5)
        hint = f"close to it are {', '.join(close)}" if close else f"there are {', '.join(models)}"
        raise ValueError(f"{name=} is no preset; {hint}")
    return _record(name, *models[name])


def preset(name: str) -> ModelConfig:
    """The config of a model, in full size.

    Args:
        name: of the preset.

    Raises:
        ValueError: for an unknown name, and for a model that cannot be built, naming what is unknown.

    Source: GT-43, GT-44, UCL-13, UCL-26.

    >>> preset("gpt-2").difference(preset("llama-3-8b"))["position"]
    ('learned', 'rope')
    >>> preset("lamda")
    Traceback (most recent call last):
    ValueError: name='lamda' cannot be built: norm, norm_placement, tie_embeddings are not public
    """
    return find(name).config()


# --- Small models ---


def tiny(name: str) -> ModelConfig:
    """A config with the same parts as a preset, at a size that runs in milliseconds.

    It keeps every choice of design: the parts, grouped- or multi-query attention, heads that are wider or narrower than
    ``d_model / n_heads``, the types of layers, shared experts and dense layers, and the ratio ``d_ff / d_model``.

    Args:
        name: of the preset.

    Raises:
        ValueError: as ``preset``.

    Source: GT-43, GT-44.

    >>> config = tiny("gemma-2-9b")
    >>> config.d_model, config.n_layers, config.n_heads, config.n_kv_heads, config.window, config.layer_types
    (48, 2, 4, 2, 8, ('sliding_attention', 'full_attention'))
    """
    full = find(name)._buildable()
    d_model, n_heads = 48, 4

    def scaled(width: int) -> int:
        return round(width * d_model / full["d_model"])

    def heads_width(d_head: int) -> int:
        share = full["d_model"] / full["n_heads"]
        return d_model // n_heads + 4 * ((d_head > share) - (d_head < share))  # 12, wider 16, narrower 8

    layer_types = full.get("layer_types", ())
    small = {
        "d_model": d_model,
        "n_layers": max(2, len(layer_types), len(full.get("rope.layers", ())), full.get("moe.n_dense_layers", 0) + 1),
        "n_heads": n_heads,
        "n_kv_heads": {full["n_heads"]: n_heads, 1: 1}.get(full.get("n_kv_heads"), 2),
        "d_head": heads_width(full.get("d_head", 0)),
        "d_value": heads_width(full.get("d_value", 0)),
        "d_ff": scaled(full["d_ff"]),
        "n_vocab": 101,
        "n_ctx": 32,
        "window": 8,
        "buckets.n_buckets": 8,
        "buckets.max_distance": 16,
        "clipping.max_distance": 16,
        "rope.scaling.original_max_position_embeddings": 16,
        "latent.d_latent": 20,
        "latent.d_query_latent": 28,
        "latent.d_rotary": 6,
        "moe.n_experts": 8,
        "moe.n_experts_per_token": 3,
        "moe.n_groups": 4,
        "moe.n_groups_per_token": 2,
        "moe.d_expert": scaled(full.get("moe.d_expert", 0)),
    }
    return ModelConfig.of({field: small.get(field, value) for field, value in full.items()})
