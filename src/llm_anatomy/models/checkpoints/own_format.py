"""The format of our own, for every model that a config describes, whether or not Hugging Face's library has its like.

A folder holds the weights as safetensors, under the names of our parameters, and a ``config.json`` such as ::

    {
      "llm_anatomy model": 1,
      "model": "Transformer",
      "config": {"d_model": 24, "n_layers": 2, "position": "sinusoidal", …}
    }

The first field is the version of the format. The config holds all of its fields, also those at their defaults, so that
a later default changes no saved model. Nothing is pickled.
"""

import dataclasses
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, get_args, get_origin

from llm_anatomy.config import Config, ModelConfig, nested_config
from llm_anatomy.files import Record
from llm_anatomy.models import before_transformers as before
from llm_anatomy.models.checkpoints.family import Family, LanguageModel
from llm_anatomy.models.checkpoints.fields import LARGEST
from llm_anatomy.models.checkpoints.rules import Rule
from llm_anatomy.models.transformer import Transformer

KEY, VERSION = "llm_anatomy model", 1


def _of(model: Callable[..., LanguageModel]) -> Callable[[Any], LanguageModel]:
    """A function that makes a model from its config, whose fields are the arguments."""
    return lambda config: model(**vars(config))


def _of_cells(model: Callable[..., LanguageModel]) -> Callable[[Any], LanguageModel]:
    def build(config: before.RecurrentConfig) -> LanguageModel:
        if config.cell not in before.CELLS:
            raise ValueError(f"cell={config.cell!r} must be one of {', '.join(map(repr, before.CELLS))}")
        return model(**vars(config) | {"cell": before.CELLS[config.cell]})

    return build


MODELS: dict[type[Config], tuple[str, Callable[[Any], LanguageModel]]] = {
    ModelConfig: ("Transformer", Transformer),
    before.BigramConfig: ("BigramNetwork", _of(before.BigramNetwork)),
    before.EmbeddedBigramConfig: ("EmbeddedBigramNetwork", _of(before.EmbeddedBigramNetwork)),
    before.NeuralProbabilisticConfig: ("NeuralProbabilisticLM", _of(before.NeuralProbabilisticLM)),
    before.RecurrentConfig: ("RecurrentLM", _of_cells(before.RecurrentLM)),
    before.RecurrentEncoderDecoderConfig: ("RecurrentEncoderDecoder", _of_cells(before.RecurrentEncoderDecoder)),
    before.MambaConfig: ("MambaLM", before.MambaLM.of),
    before.MegaByteConfig: ("MegaByte", _of(before.MegaByte)),
}
"""The name and the builder of the model that each class of config describes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnFormat(Family):
    """Our format as a family: tensors bear our names, and ``config.json`` holds our config as it is.

    Source: the layout of the safetensors files is that of Hugging Face's checkpoints; GT-43.

    >>> config = before.BigramConfig(n_vocab=7, d_hidden=4)
    >>> FAMILY.hf_config(config)["config"]
    {'n_vocab': 7, 'd_hidden': 4, 'n_matrices': 2}
    >>> FAMILY.config(Record("config.json", FAMILY.hf_config(config))) == config
    True
    """

    def config(self, record: Record, ignore: Collection[str] = ()) -> Config:
        """Read our config. Unknown fields are refused, and missing ones have their defaults."""
        if ignore:
            raise ValueError(f"ignore={ignore!r:.60} must be empty: a model of llm_anatomy has no field too many")
        version = record.take(KEY, int)
        if version != VERSION:
            record.refuse(KEY, f"version {version!r:.20} of the format is not supported; it must be {VERSION}")
        for name in record.fields.keys() - {KEY, "model", "config"} - self.harmless_names:
            record.refuse("".join(filter(str.isprintable, name))[:60], "it is unknown in a model of llm_anatomy")
        name, classes = record.take("model", str), {name: kind for kind, (name, _) in MODELS.items()}
        if name not in classes:
            record.refuse("model", f"{name!r:.60} must be one of {', '.join(classes)}")
        values = record.take("config", dict)
        _check_values(record, classes[name], values)
        try:
            return classes[name].of(values)
        except ValueError as error:
            record.refuse("config", str(error)[:400])

    def hf_config(self, config: Config) -> dict[str, Any]:
        """Our config as plain values, with all of its fields."""
        if type(config) not in MODELS:
            raise ValueError(f"a config of type {type(config).__name__} has no model that could be read again")
        hf = {KEY: VERSION, "model": MODELS[type(config)][0], "config": dataclasses.asdict(config)}
        if self.config(Record("config.json", json.loads(json.dumps(hf)))) != config:
            raise ValueError("the config would be read as another one")
        return hf

    def without_head(self) -> Family:
        """The same: our config says whether there is a head."""
        return self

    def may_ignore(self, config: Config) -> tuple[str, ...]:
        """Nothing: what we have written, we need."""
        return ()


def is_written_in(folder: Path) -> bool:
    """Whether a folder holds a model in our format.

    Args:
        folder: an existing folder.

    Source: this module.

    >>> is_written_in(Path("no/such/folder"))
    False
    """
    try:
        return KEY in Record.read(folder / "config.json").fields
    except (ValueError, OSError):
        return False


def _check_values(record: Record, kind: type[Config], values: dict[str, Any]) -> None:
    """Refuse names, types and sizes that could not be put into a sentence or into memory; ``kind`` checks the rest."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name, value in values.items():
        if name not in fields:
            record.refuse("config", f"{name!r:.60} is no field of {kind.__name__}")
        nested, full = nested_config(fields[name].type), kind.prefix + name
        largest = LARGEST.get(full) or 2**31 - 1
        if isinstance(value, dict) and nested:
            _check_values(record, nested, value)
        elif isinstance(value, int | float) and not abs(value) <= largest:
            record.refuse("config", f"{full}={value!r:.60} must be at most {largest}")
        elif isinstance(value, str) and len(value) > 60:
            record.refuse("config", f"{full}={value!r:.60}… is too long")
        elif isinstance(value, dict | list):
            item = _type_of_items(fields[name].type)
            if item is None or isinstance(value, dict):
                record.refuse("config", f"{full}={value!r:.60} must be {'one value' if item is None else 'a list'}")
            if not all(type(one) is item or item is float and type(one) is int for one in value):
                record.refuse("config", f"{full}={value!r:.60} must be a list of {ITEMS[item]}")
            if any(isinstance(one, int | float) and not abs(one) <= largest for one in value):
                record.refuse("config", f"{full}={value!r:.60} must hold at most {largest} each")


ITEMS = {str: "texts", bool: "true and false", int: "numbers without fraction", float: "numbers"}
"""How messages call the values of a list, by their type."""


def _type_of_items(kind: Any) -> type | None:
    """The type of the values that a field holds as a list; None for a field that holds one value."""
    tuples = [one for one in (kind, *get_args(kind)) if get_origin(one) is tuple]
    return get_args(tuples[0])[0] if tuples else None


FAMILY = OwnFormat(
    name="llm_anatomy",
    architectures=(),
    model_type="",
    fields=(),
    fixed={},
    rules=lambda config: [Rule("{any}", "{any}")],
    config_class=Config,
    build=lambda config: MODELS[type(config)][1](config),
)
"""The family ``"llm_anatomy"``."""
