"""A family: the table that maps an architecture of Hugging Face's library to ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.before_transformers import MambaLM
from llm_anatomy.models.checkpoints.fields import HARMLESS
from llm_anatomy.models.checkpoints.rules import Rule
from llm_anatomy.models.transformer import Transformer

LanguageModel = Transformer | MambaLM


@dataclass(frozen=True, kw_only=True)
class Family:
    """Everything that is specific to one architecture.

    Args:
        name: of the family.
        architectures: Hugging Face's classes that it reads; the first is written.
        model_type: its name in ``config.json``.
        fields: entries of :mod:`~llm_anatomy.models.checkpoints.fields`.
        fixed: fields of our config, by dotted names, that are the same in every model of the family.
        rules: a function from our config to the rules for tensors. Rules for tensors that a model lacks have no effect.
        harmless: fields of ``config.json`` that do not affect what the model computes, in addition to ``HARMLESS``,
            separated by spaces.
        prefix: of the tensors' names, which files of the bare model leave out.
        renamed: parts of names in older files, and their names today.
        ignored: names, with placeholders, of tensors that a file may hold and that are not read.
        copies: names of tensors that may repeat another one, and the name of that. If the head differs from the
            embedding, the model is loaded without tied embeddings.
        config_class: the class of our config.
        build: a function from our config to our model.

    Source: the models of Hugging Face's library; GT-43, GT-44.

    >>> family = Family(name="a", architectures=("A",), model_type="a", fields=(), fixed={}, rules=lambda config: [])
    >>> family.config(Record("config.json", {"temperature": 2}))
    Traceback (most recent call last):
    ValueError: config.json, key 'temperature': 2 is unknown in the family a, and might change what the model computes
    """

    name: str
    architectures: tuple[str, ...]
    model_type: str
    fields: tuple
    fixed: Mapping[str, object]
    rules: Callable[[Any], Sequence[Rule]]
    harmless: str = ""
    prefix: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    config_class: type[Config] = ModelConfig
    build: Callable[[Any], LanguageModel] = Transformer

    @property
    def said(self) -> set[str]:
        """Hugging Face's fields that our config represents."""
        return {name for entry in self.fields for name in entry.names}

    @property
    def said_elsewhere(self) -> set[str]:
        """Hugging Face's fields that do not affect what the model computes."""
        return {*HARMLESS.split(), *self.harmless.split()} - self.said

    def config(self, record: Record) -> Config:
        """Convert Hugging Face's fields to our config; an unknown field is refused unless it is null."""
        known = self.said | self.said_elsewhere
        for name, value in record.fields.items():
            if name not in known and value is not None:
                record.refuse(
                    name,
                    f"{value!r:.60} is unknown in the family {self.name}, and might change what the model computes",
                )
        ours = dict(self.fixed)
        for entry in self.fields:
            ours |= entry.from_hf(record)
        try:
            return self.config_class.of(ours)
        except ValueError as error:
            raise ValueError(f"{record.name}: {error}") from None

    def hf_config(self, config: Config) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields; a config that the family cannot represent is refused."""
        hf = {"architectures": [self.architectures[0]], "model_type": self.model_type}
        for entry in self.fields:
            hf |= entry.to_hf(config)
        try:
            again = self.config(Record("config.json", hf))
        except ValueError as error:
            raise ValueError(f"the family {self.name} cannot represent this config: {error}") from None
        differ = config.difference(again)
        if "tie_embeddings" in self.fixed:  # in T5 the tensors of the file decide that
            differ.pop("tie_embeddings", None)
        if differ:
            says = ", ".join(f"{name}={value!r} (it must be {said!r})" for name, (value, said) in differ.items())
            raise ValueError(f"the family {self.name} cannot represent {says}")
        return hf
