"""A family: the table that says how one architecture of others is written in ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.models.before_transformers import MambaLM
from llm_anatomy.models.checkpoints.fields import HARMLESS
from llm_anatomy.models.checkpoints.rules import Rule
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.base import Record

LanguageModel = Transformer | MambaLM


@dataclass(frozen=True, kw_only=True)
class Family:
    """All that the engine has to know of one architecture.

    Args:
        name: by which it is asked for.
        architectures: their classes that it reads; the first is written.
        model_type: what ``config.json`` calls it.
        fields: entries of :mod:`~llm_anatomy.models.checkpoints.fields`.
        fixed: fields of our config that are the same in every model of the family.
        rules: from our config to the rules for tensors. A rule whose tensors a model does not have says nothing.
        harmless: fields of ``config.json`` that say nothing of the mathematics, beside ``HARMLESS``; words in a row.
        prefix: of their names, which files of the bare model leave out.
        renamed: parts of names in older files, and what they are called now.
        ignored: names, with holes, of tensors that a file may hold and nobody needs.
        copies: names of tensors that may repeat another, and of which. A head that repeats nothing makes the model
            one without tied embeddings.
        config_class: the class of our config.
        build: from our config to our model.

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
        """The fields of Hugging Face that our config says."""
        return {name for entry in self.fields for name in entry.names}

    @property
    def said_elsewhere(self) -> set[str]:
        """The fields of Hugging Face that say nothing of the mathematics."""
        return {*HARMLESS.split(), *self.harmless.split()} - self.said

    def config(self, record: Record) -> Config:
        """Our config from the fields of Hugging Face; what is not known is refused unless it is null."""
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
        """The fields of Hugging Face from our config, which must be one that the family can say."""
        hf = {"architectures": [self.architectures[0]], "model_type": self.model_type}
        for entry in self.fields:
            hf |= entry.to_hf(config)
        try:
            again = self.config(Record("config.json", hf))
        except ValueError as error:
            raise ValueError(f"the family {self.name} cannot say this config: {error}") from None
        differ = config.difference(again)
        if "tie_embeddings" in self.fixed:  # T5 says it by the tensors of the file
            differ.pop("tie_embeddings", None)
        if differ:
            says = ", ".join(f"{name}={value!r} (it must be {said!r})" for name, (value, said) in differ.items())
            raise ValueError(f"the family {self.name} cannot say {says}")
        return hf
