"""A family: the table that maps an architecture of Hugging Face's library to ours."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llm_anatomy.config import OF_THE_HEAD, Config, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models import before_transformers as before
from llm_anatomy.models.checkpoints.fields import HARMLESS, NEUTRAL, one_of
from llm_anatomy.models.checkpoints.rules import Rule
from llm_anatomy.models.transformer import Transformer

LanguageModel = (
    Transformer
    | before.BigramNetwork
    | before.EmbeddedBigramNetwork
    | before.NeuralProbabilisticLM
    | before.RecurrentLM
    | before.RecurrentEncoderDecoder
    | before.MambaLM
    | before.MegaByte
)
"""The models that a config describes. Families of released weights have a ``Transformer`` or a ``MambaLM``."""

FIELDS_OF_THE_HEAD = {"tie_word_embeddings", "scale_decoder_outputs", "final_logit_softcapping", "logits_scaling"}
FIELDS_OF_THE_HEAD |= {"logit_scale"}
"""Fields of ``config.json`` that do not affect hidden states."""

TENSORS_OF_THE_HEAD = ("unembedding.", "token_head.")
"""How our names of the tensors begin that hidden states do not need."""

NO_HEAD = {"unembedding": False, "tie_embeddings": False}


def is_bare(config: Config) -> bool:
    """Whether a model with this config ends in hidden states, without logits.

    Args:
        config: of any model.

    Source: the bare classes of Hugging Face's library, such as ``BertModel``.

    >>> is_bare(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, unembedding=False))
    True
    """
    return not getattr(config, "unembedding", True)


DERIVED = (
    "{any}rotary_emb.inv_freq",
    "{any}rotary_emb.original_inv_freq",
    "{any}rotary_emb.cos_cached",
    "{any}rotary_emb.sin_cached",
    "{any}.position_ids",
    "{any}.masked_bias",
)
"""Names of tables that follow from the config, and that files of older versions hold in any family."""


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
        ignored: names, with placeholders, of tensors that a file may hold and that are not read, besides ``DERIVED``.
        bare: the class of the models without a head, if its name does not follow from the first of ``architectures``.
        copies: names of tensors that may repeat another one, and the name of that. If the head differs from the
            embedding, the model is loaded without tied embeddings.
        config_class: the class of our config.
        build: a function from our config to our model.

    Source: the models of Hugging Face's library; GT-43, GT-44.

    >>> family = Family(name="a", architectures=("A",), model_type="a", fields=(), fixed={}, rules=lambda config: [])
    >>> family.config(Record("config.json", {"alibi": True}))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: config.json, key 'alibi': True is unknown in the family a, and might change what the model computes; ...
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
    bare: str | None = None
    config_class: type[Config] = ModelConfig
    build: Callable[[Any], LanguageModel] = Transformer

    @property
    def bare_architecture(self) -> str:
        """The class of the models without a head, such as ``BertModel``."""
        return self.bare or re.sub("(For[A-Z][A-Za-z]+|LMHeadModel)$", "Model", self.architectures[0])

    def without_head(self) -> "Family":
        """The family of the bare models. What the head consists of may be in their files, and is not read."""
        of_the_head = [entry for entry in self.fields if FIELDS_OF_THE_HEAD & {*entry.names}]
        copies = {copy: name for copy, name in self.copies.items() if copy.startswith(self.prefix)}
        return replace(
            self,
            architectures=(self.bare_architecture,),
            fields=tuple(entry for entry in self.fields if entry not in of_the_head),
            fixed={name: value for name, value in self.fixed.items() if name not in OF_THE_HEAD} | NO_HEAD,
            harmless=" ".join([self.harmless, *(name for entry in of_the_head for name in entry.names)]),
            ignored=(*self.ignored, *(self.copies.keys() - copies)),
            copies=copies,
        )

    def may_ignore(self, config: Config) -> tuple[str, ...]:
        """Names, with placeholders, of tensors that a file may hold and that a model with this config does not need."""
        if not is_bare(config):
            return self.ignored
        head = [rule for rule in self.rules(config) if rule.ours[0].startswith(TENSORS_OF_THE_HEAD)]
        return (*self.ignored, *(name for rule in head for name in rule.hf))

    @property
    def represented_names(self) -> set[str]:
        """Hugging Face's fields that our config represents."""
        return {name for entry in self.fields for name in entry.names}

    @property
    def harmless_names(self) -> set[str]:
        """Hugging Face's fields that do not affect what the model computes."""
        return {*HARMLESS.split(), *self.harmless.split()} - self.represented_names

    def config(self, record: Record, ignore: Collection[str] = ()) -> Config:
        """Convert Hugging Face's fields to our config.

        Args:
            record: of ``config.json``.
            ignore: unknown fields that are left out; any other unknown field is refused unless it is null.

        Raises:
            ValueError: for fields that are not supported, and for a name in ``ignore`` that is no unknown field.
        """
        fields, known = record.fields, self.represented_names | self.harmless_names
        unknown = {name for name in fields if name not in known and fields[name] is not None}
        for name in sorted(unknown & NEUTRAL.keys()):
            one_of(record, name, fields[name], NEUTRAL[name])
        unknown -= NEUTRAL.keys()
        for name in ignore:
            if name not in unknown:
                why = f"a field that the family {self.name} knows" if name in fields else "no field of config.json"
                raise ValueError(f"ignore={name!r:.60} must be an unknown field; it is {why}")
        for name in sorted(unknown - set(ignore)):
            record.refuse(
                name,
                f"{fields[name]!r:.60} is unknown in the family {self.name}, and might change what the model computes; "
                f"load(…, ignore=({name!r:.60},)) loads it all the same",
            )
        ours = dict(self.fixed)
        for entry in self.fields:
            ours |= entry.from_hf(record)
        try:
            config = self.config_class.of(ours)
        except ValueError as error:
            raise ValueError(f"{record.name}: {error!s:.500}") from None
        _check_rotation(record, config)
        return config

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
            says = ", ".join(f"{name}={value!r} (it must be {known!r})" for name, (value, known) in differ.items())
            raise ValueError(f"the family {self.name} cannot represent {says}")
        return hf


def _check_rotation(record: Record, config: Config) -> None:
    """Refuse heads of which RoPE would rotate an odd number of entries: implementations round it differently."""
    if isinstance(config, ModelConfig) and config.rope and not config.latent:
        n_rotated = int(config.d_head * config.rope.fraction)
        if n_rotated % 2 or not n_rotated:
            raise ValueError(
                f"{record.name}: RoPE would rotate {n_rotated} of the {config.d_head} entries of a head; it must "
                "rotate an even number of them, at least 2"
            )
