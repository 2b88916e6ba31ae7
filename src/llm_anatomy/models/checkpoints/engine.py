"""Loading and saving checkpoints. Everything is checked from the headers before a tensor is read or written."""

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import nn

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.deprecation import renamed_arguments, renamed_attribute
from llm_anatomy.files import Record, first_line, replace_folder, write_atomically
from llm_anatomy.models.checkpoints import own_format, pooling, storage, texts
from llm_anatomy.models.checkpoints.chat import Message
from llm_anatomy.models.checkpoints.conversation import Conversation
from llm_anatomy.models.checkpoints.families import families
from llm_anatomy.models.checkpoints.family import DERIVED, Family, LanguageModel, is_bare
from llm_anatomy.models.checkpoints.fields import Must
from llm_anatomy.models.checkpoints.gguf_files import is_gguf, read_gguf
from llm_anatomy.models.checkpoints.gguf_texts import read_gguf_texts
from llm_anatomy.models.checkpoints.hub import FILES, locate
from llm_anatomy.models.checkpoints.pooling import Pooling, read_pooling
from llm_anatomy.models.checkpoints.rules import Move, matches, moves
from llm_anatomy.models.checkpoints.scoring import Likelihood, TextModel
from llm_anatomy.models.checkpoints.storage import Header
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.checkpoints.writing import in_batches
from llm_anatomy.models.generation import GenerativeModel
from llm_anatomy.models.inference import InferenceTransformer, fastest_inference_model
from llm_anatomy.models.sampling import make_sampler
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Tensor
from llm_anatomy.tokenizers.base import Tokenizer

HEAD = "unembedding.embedding.weight"
SHARD = 5_000_000_000
SAMPLING = frozenset({"temperature", "top_k", "top_p", "seed"})
SETTINGS = frozenset({"sampler", "overflow", "stop_strings", "stop_token_ids", "allowed_special", "log_probs", "step"})
SETTINGS |= {"decode", "variables"}
"""What generated texts can be given: numbers for a sampler, and further settings."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model with everything that came with its weights.

    Args:
        model: ready to run; in evaluation mode. It may be optimized for inference, and cannot be saved then.
        family: name of the family whose layout it has; ``"llm_anatomy"`` is our own, which every model fits.
        texts: its tokenizer and its special tokens.
        extra_config: fields of its ``config.json`` that do not affect the model; they are written when it is saved.
        folder: the folder it was loaded from, which may say how its hidden states become vectors of sentences; the
            files that say so are copied when it is saved.

    Source: the layout of Hugging Face's checkpoints; GT-43.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> Checkpoint(model=model).config.d_model
    8
    """

    model: LanguageModel | InferenceTransformer
    family: str = own_format.FAMILY.name
    texts: Texts = Texts(note="there is no tokenizer beside the weights")
    extra_config: dict = field(default_factory=dict)
    folder: Path | None = None

    more = renamed_attribute("more", "extra_config")
    sentence_vectors = renamed_attribute("sentence_vectors", "embed")

    @property
    def config(self) -> Config:
        """The config of the model."""
        return self.model.config

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that came with the weights; None if there was none that can be read."""
        return self.texts.tokenizer

    @property
    def tokenizer_note(self) -> str:
        """Why there is no tokenizer; empty if there is one."""
        return self.texts.note

    @cached_property
    def pooling(self) -> Pooling:
        """How hidden states become vectors of sentences; a ValueError if the folder does not say it."""
        if self.folder is None:
            raise ValueError("the model comes from no folder, which would say how hidden states become a vector")
        return read_pooling(self.folder)

    def stream(self, prompt: str | Sequence[Message], *, max_new_tokens: int = 50, **settings: Any) -> Iterator[str]:
        """Generate the continuation of a text piece by piece, the target of an encoder-decoder, or an answer.

        Args:
            prompt: any text; or the messages of a conversation, each with its ``role`` and its ``content``, of which
                the last one is answered.
            max_new_tokens: number of tokens after which the text ends, if no stop token comes before.
            settings: ``temperature``, ``top_k``, ``top_p`` and ``seed`` as for
                :func:`~llm_anatomy.models.sampling.make_sampler`, without which each token is the most likely one;
                or those of :func:`~llm_anatomy.models.generation.stream`, such as ``sampler``. A full context ends
                the text unless ``overflow`` says something else.

        Raises:
            ValueError: for a model that generates nothing, if there is no tokenizer or, for messages, no chat template,
                and as ``stream`` does.
            TypeError: for a setting that does not exist.

        >>> from llm_anatomy.models.loading import load
        >>> list(load("story_rope").stream("One day, the", max_new_tokens=5, stop_strings=[" gave"]))
        [' gard', 'en', 'er']
        """
        settings = self._settings(max_new_tokens, settings)
        if isinstance(prompt, str):
            return self.texts.write(self._generative, prompt, **settings)
        if not all(isinstance(message, Mapping) for message in prompt):
            raise ValueError("prompt must be a text, or the messages of a conversation; generate takes several texts")
        return self.texts.reply(self._generative, prompt, **settings)

    def _settings(self, max_new_tokens: int, settings: dict[str, Any]) -> dict[str, Any]:
        """All settings of a text, with the sampler that some of them describe."""
        drawn = {name: settings.pop(name) for name in SAMPLING & settings.keys()}
        for name in settings.keys() - SETTINGS:
            among = ", ".join(sorted(SAMPLING | SETTINGS | {"max_new_tokens"}))
            raise TypeError(f"{name} is no setting of generated texts; there are {among}")
        if drawn:
            if "sampler" in settings:
                raise TypeError(f"sampler and {min(drawn)} must not both be given")
            settings["sampler"] = make_sampler(**drawn, device=next(self._generative.parameters()).device)
        return {"overflow": "stop", "max_new_tokens": max_new_tokens} | settings

    @overload
    def generate(self, prompt: str, *, max_new_tokens: int = 50, batch_size: int = 32, **settings: Any) -> str: ...
    @overload
    def generate(
        self, prompt: Sequence[str], *, max_new_tokens: int = 50, batch_size: int = 32, **settings: Any
    ) -> list[str]: ...
    def generate(
        self, prompt: str | Sequence[str], *, max_new_tokens: int = 50, batch_size: int = 32, **settings: Any
    ) -> str | list[str]:
        """Generate the continuation of a text, or of each of several texts.

        Args:
            prompt: any text, or a list of texts.
            max_new_tokens, settings: as for :meth:`stream`.
            batch_size: the most texts of a list that are continued at once; an encoder-decoder reads one at a time.

        Raises:
            ValueError: as :meth:`stream` does.

        >>> from llm_anatomy.models.loading import load
        >>> load("story_rope").generate("One day, the", max_new_tokens=5)
        ' gardener gave'
        """
        if isinstance(prompt, str):
            return "".join(self.stream(prompt, max_new_tokens=max_new_tokens, **settings))
        if batch_size < 1:
            raise ValueError(f"{batch_size=} must be at least 1")
        model, tokenizer = self._generative, self.texts.tokenizer
        if model.config.kind != "decoder" or tokenizer is None:
            return [self.generate(text, max_new_tokens=max_new_tokens, **settings) for text in prompt]
        settings = {"stop_token_ids": self.texts.stop} | self._settings(max_new_tokens, settings)
        allowed = settings.pop("allowed_special", ())
        ids = [self.texts.encode_prompt(text, allowed_special=allowed) for text in prompt]
        return [written.text for _, written in in_batches(model, tokenizer, ids, batch_size=batch_size, **settings)]

    def chat(self, messages: str | Sequence[Message], *, max_new_tokens: int = 512, **settings: Any) -> str:
        """Answer a message, or the last one of a conversation, as an instruction-tuned model.

        Args:
            messages: what the user says, or all messages, each with its ``role`` and its ``content``.
            max_new_tokens, settings: as for :meth:`stream`.

        Raises:
            ValueError: as :meth:`stream` does, and for a model without a chat template.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return "".join(self.stream(messages, max_new_tokens=max_new_tokens, **settings))

    def for_inference(self, *, quantize: str | None = None) -> "Checkpoint":
        """Optimize the model for inference if that is possible; without ``quantize``, its texts are the same.

        Args:
            quantize: None, ``"bfloat16"``, ``"int8"`` or ``"int4"``, as for
                :func:`~llm_anatomy.models.inference.for_inference`.

        Raises:
            ValueError: for a ``quantize`` that the model cannot have.

        >>> from llm_anatomy.models.loading import load
        >>> load("story_rope").for_inference().generate("One day, the", max_new_tokens=5)
        ' gardener gave'
        """
        return replace(self, model=fastest_inference_model(self.model, quantize=quantize))

    def conversation(self, *, system: str | None = None, max_new_tokens: int = 512, **settings: Any) -> Conversation:
        """Begin a conversation, which remembers its messages.

        Args:
            system: what the model is told before the first message.
            max_new_tokens: of an answer.
            settings: as for :meth:`stream`, but a full context leaves out the oldest messages.

        Raises:
            ValueError: as :meth:`chat` does.

        >>> from llm_anatomy.models.loading import load
        >>> conversation = load("story_instructed").conversation(max_new_tokens=9)
        >>> answer = conversation.answer("Tell me a story.")
        >>> [message["role"] for message in conversation.messages]
        ['user', 'assistant']
        """
        settings = {"overflow": "slide"} | settings
        settings = self._settings(max_new_tokens, settings)
        return Conversation(self._generative, self.texts, system=system, **settings)

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        batch_size: int = 32,
        allowed_special: Collection[str] | Literal["all"] = (),
    ) -> list[Likelihood]:
        """Compute how likely continuations are, each after its context.

        Args:
            pairs: a context, which may be empty, and its continuation.
            batch_size: number of texts in a forward pass.
            allowed_special: the special tokens that the texts may contain, or "all".

        Raises:
            ValueError: for a model that is no decoder, if there is no tokenizer, and for an empty continuation.

        >>> from llm_anatomy.models.loading import load
        >>> found = load("story_rope").score([("Once upon a", " time"), ("Once upon a", " lake")])
        >>> found[0].log_prob > found[1].log_prob
        True
        """
        return TextModel(self, batch_size, allowed_special).log_likelihoods(pairs)

    @property
    def _generative(self) -> GenerativeModel:
        if not isinstance(self.model, GenerativeModel) or getattr(self.config, "kind", "") == "encoder":
            raise ValueError(f"a {type(self.model).__name__} of this config generates no text")
        return self.model

    def embed(self, sentences: Sequence[str], *, batch_size: int = 32) -> Float[Tensor, "texts width"]:
        """Compute the vectors of texts, as the folder describes it in the layout of sentence-transformers.

        Args:
            sentences: the texts.
            batch_size: the most texts that are read at once.

        Raises:
            ValueError: if the folder does not describe it, or there is no tokenizer.
        """
        if not isinstance(self.model, Transformer):
            raise ValueError(f"a {type(self.model).__name__} has no vectors of sentences")
        return self.pooling.vectors(self.model, self.texts, sentences, batch_size=batch_size)


Checkpoint.__init__ = renamed_arguments(more="extra_config")(Checkpoint.__init__)

# --- Loading ---


def load(
    name_or_folder: str | os.PathLike,
    *,
    dtype: torch.dtype | str | None = None,
    device: str | torch.device = "cpu",
    ignore: Collection[str] = (),
) -> Checkpoint:
    """A model with released weights, in the layout of one of the families or in a GGUF file; or one that :func:`save`
    has written.

    :func:`~llm_anatomy.models.checkpoints.families.families` lists them.

    Args:
        name_or_folder: a folder, a file such as ``SmolLM2-135M-Instruct.Q4_1.gguf``, or a name on the Hugging Face hub
            such as ``openai-community/gpt2``.
        dtype: a floating-point type for all weights, such as ``torch.bfloat16`` or ``"bfloat16"``, by default the most
            frequent one in the files; quantized weights count as float32. A model in our own format keeps by default
            the types that it was saved with.
        device: of the model.
        ignore: names of fields of ``config.json`` that its family does not know, and without which the model is loaded
            all the same. A warning says which they were.

    Raises:
        ValueError: before any tensor is read, for an architecture or an option that is not supported; tensors that are
            missing, unexpected or of another shape; files that are truncated or malformed, or pickled and hold more
            than tensors; and a model that does not fit into the free memory. Afterwards, if the folder was replaced
            while it was read.

    Source: the layout of Hugging Face's checkpoints; GT-43, GT-44.

    >>> load("no/such/folder")
    Traceback (most recent call last):
    ValueError: name_or_folder='no/such/folder' is no folder, and no name on the hub, which is like owner/model
    """
    device, dtype = _device(device), None if dtype is None else _dtype(dtype)
    opened = open_checkpoint(name_or_folder, ignore)
    path, record, family, model, plan, found, read_texts = opened
    if ignore:
        says = ", ".join(f"{name}={record.fields[name]!r:.60}" for name in _names(ignore))
        warnings.warn(f"{record.name}: ignored {says}, which might change what the model computes", stacklevel=2)
    if dtype is None and family is not own_format.FAMILY:
        dtype = opened.most_frequent_dtype
    _check_memory(opened, dtype, device)
    tokens, identity = read_texts(), _identity(path)
    for move in sorted(plan, key=lambda move: -sum(found[name].n_bytes for name in move.hf)):
        wanted = [found[name] for name in move.hf]
        storage.read(wanted, lambda *hf, move=move: _assign(model, move, hf, dtype, device))
    if _identity(path) != identity:
        raise ValueError(f"{str(path)!r:.200} was replaced while it was read")
    kept = _kept(family)
    extra = {name: value for name, value in record.fields.items() if name in kept}
    folder = path if path.is_dir() else None
    return Checkpoint(
        model=model.to(device).eval(), family=family.name, texts=tokens, extra_config=extra, folder=folder
    )


class Opened(NamedTuple):
    """What is known of a checkpoint before its tensors are read.

    Source: the layout of Hugging Face's checkpoints.

    >>> Opened._fields
    ('path', 'record', 'family', 'model', 'plan', 'found', 'read_texts')
    """

    path: Path
    """The folder, or the file."""

    record: Record
    """The fields of ``config.json``, or of the metadata of the file."""

    family: Family
    model: LanguageModel
    """On the meta device, without values."""

    plan: list[Move]
    """Which tensors of the files become which of the model."""

    found: dict[str, Header]
    """The tensors in the files, by the names that ``plan`` uses."""

    read_texts: Callable[[], Texts]
    """Reads the tokenizer."""

    @property
    def needed(self) -> list[Header]:
        """The tensors that the model needs."""
        return [self.found[name] for move in self.plan for name in move.hf]

    @property
    def most_frequent_dtype(self) -> torch.dtype:
        """The dtype in which most of the numbers are stored."""
        n_bytes: dict[str, int] = {}
        for header in self.needed:
            n_bytes[header.dtype] = n_bytes.get(header.dtype, 0) + header.n_bytes
        return storage.DTYPES[max(n_bytes, key=n_bytes.__getitem__)]


def open_checkpoint(name_or_folder: str | os.PathLike, ignore: Collection[str] = ()) -> Opened:
    """Check the files of a checkpoint, and describe the model that they hold, without reading a tensor.

    Args:
        name_or_folder, ignore: as in :func:`load`.

    Raises:
        ValueError: as :func:`load` does before it reads.

    Source: the layout of Hugging Face's checkpoints.

    >>> open_checkpoint("no/such/folder")
    Traceback (most recent call last):
    ValueError: name_or_folder='no/such/folder' is no folder, and no name on the hub, which is like owner/model
    """
    path, record, headers, read_texts = _files(name_or_folder)
    family = _family_of(record)
    config = family.config(record, _names(ignore))
    found = _named_as_now(family, config, headers())
    config, found = _without_copies(family, config, found)
    _check_counts(record, config, len(found))
    model = _empty_model(family, config, record.name)
    plan = _plan(family, model)
    _check_shapes(path, model, plan, found, family.may_ignore(config))
    return Opened(path, record, family, model, plan, found, read_texts)


def _check_counts(record: Record, config: Config, n_tensors: int) -> None:
    """Refuse more layers than the tensors could fill, before as many are built, which may take a minute."""
    for name in ("n_layers", "n_encoder_layers", "n_matrices"):
        if getattr(config, name, 0) > n_tensors + 2:
            raise ValueError(
                f"{record.name}: {name}={getattr(config, name)} is more than the {n_tensors} tensors in the files allow"
            )


def _names(ignore: Collection[str]) -> Collection[str]:
    return (ignore,) if isinstance(ignore, str) else ignore


def _identity(path: Path) -> tuple[int, int]:
    """What differs once a folder or file is replaced by another."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _files(name_or_folder: str | os.PathLike) -> tuple[Path, Record, Callable[[], Mapping], Callable[[], Texts]]:
    """The folder or file, its config, and what reads the headers and the tokenizer once the config is accepted."""
    if is_gguf(name_or_folder):
        file = read_gguf(name_or_folder)
        return file.path, file.record, lambda: file.headers, lambda: read_gguf_texts(file)
    folder = locate(name_or_folder)
    if not (folder / "config.json").is_file():
        files = sorted(path.name for path in folder.glob("*.gguf"))
        hint = f"; to load the file {files[0]!r:.80} in it, give its path" if files else ""
        raise ValueError(f"folder {str(folder)!r:.200} holds no config.json{hint}")
    record = Record.read(folder / "config.json")
    return folder, record, lambda: storage.headers(folder), lambda: texts.read_texts(folder, record.fields)


def _dtype(dtype: torch.dtype | str) -> torch.dtype:
    by_name = {name: known for known, name in storage.NAMES.items()}
    name = str(dtype).removeprefix("torch.")
    if name not in by_name:
        raise ValueError(f"dtype={dtype!r:.60} must be one of {', '.join(by_name)}")
    return by_name[name]


def _device(device: str | torch.device) -> torch.device:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={device!r:.60} is not there: {first_line(error):.300}") from None
    if torch.device(device).type == "meta":
        raise ValueError(f"{device=} holds no numbers; it must be one that does, such as cpu")
    return torch.device(device)


def _family_of(record: Record) -> Family:
    if own_format.KEY in record.fields:
        return own_format.FAMILY
    named = record.fields.get("architectures")
    if named is not None and not (isinstance(named, list) and named and isinstance(named[0], str)):
        record.refuse("architectures", f"{named!r:.60} must be a list of names")
    key, value = ("architectures", named[0]) if named else ("model_type", record.take("model_type", str))
    for family in families().values():
        bare = named and value == family.bare_architecture
        if bare or value in (family.architectures if named else (family.model_type,)):
            Must("model_type", family.model_type).from_hf(record)  # which their library goes by
            return family.without_head() if bare else family
    known = sorted(n for f in families().values() for n in (f.architectures if named else (f.model_type,)))
    others = ", or one of these models without its head, such as BertModel" if named else ""
    record.refuse(key, f"{value!r:.60} is not supported; it must be one of {', '.join(known)}{others}")


def _named_as_now(family: Family, config: Config, found: Mapping[str, Header]) -> dict[str, Header]:
    """The headers, by the names that the rules use."""
    bare = not any(name.startswith(family.prefix) for name in found)
    of_head = (*family.copies, *(family.may_ignore(config) if is_bare(config) else ()))
    named = {}
    for name, header in found.items():
        for old, new in family.renamed.items():
            name = name.replace(old, new)
        if bare and not any(matches(pattern, name) for pattern in of_head):  # a head never has the prefix
            name = family.prefix + name
        if name in named:
            raise ValueError(
                f"{header.file.name:.80} holds {header.name:.80} and {named[name].name:.80}, which are one tensor"
            )
        named[name] = header
    return named


def _without_copies(family: Family, config: Config, found: dict[str, Header]) -> tuple[Config, dict[str, Header]]:
    """Remove copies. A head that differs from the embedding means that they are not tied, whatever the config says."""
    found = dict(found)
    for copy, original in family.copies.items():
        is_head = any(rule.hf == (copy,) and rule.ours == (HEAD,) for rule in family.rules(config))
        if copy not in found or is_head and not config.get("tie_embeddings"):
            continue
        if original not in found:
            found[original] = found.pop(copy)
        elif _are_equal(found[copy], found[original]):
            del found[copy]
        elif is_head:
            config = replace(config, tie_embeddings=False)
        else:
            raise ValueError(f"{found[copy].file.name} holds {copy}, which must repeat {original} and does not")
    return config, found


def _are_equal(first: Header, second: Header) -> bool:
    equal = [first.shape == second.shape]
    if equal[0]:
        storage.read([first, second], lambda a, b: equal.append(torch.equal(a, b)))
    return all(equal)


def _empty_model(family: Family, config: Config, named: str) -> LanguageModel:
    try:
        with torch.device("meta"):
            return family.build(config)
    except (ValueError, RuntimeError) as error:  # the latter for more numbers than PyTorch can count
        raise ValueError(f"{named} describes no model: {first_line(error):.500}") from None


def _tensors(model: LanguageModel) -> dict[str, Tensor]:
    """Every tensor that a file has to hold: parameters and persistent buffers."""
    return model.state_dict(keep_vars=True)


def _plan(family: Family, model: LanguageModel) -> list[Move]:
    config = model.config
    n_experts = config.moe.n_experts if isinstance(config, ModelConfig) and config.moe else 0
    return moves(family.rules(config), _tensors(model), n_experts)


def _hf_shapes(model: LanguageModel, plan: list[Move]) -> dict[str, tuple[int, ...]]:
    """The shapes of Hugging Face's tensors, found by passing empty tensors of ours through ``to_hf``."""
    ours = {name: torch.empty(tensor.shape, device="meta") for name, tensor in _tensors(model).items()}
    return {
        name: tuple(tensor.shape)
        for move in plan
        for name, tensor in zip(move.hf, move.change.to_hf(*(ours[n] for n in move.ours)), strict=True)
    }


def _check_shapes(folder: Path, model: LanguageModel, plan: list[Move], found: dict[str, Header], ignored) -> None:
    wanted = _hf_shapes(model, plan)
    missing = [_described(name, shape) for name, shape in wanted.items() if name not in found]
    others = [name for name in found if name not in wanted]
    extra = [name for name in others if not any(matches(pattern, name) for pattern in (*DERIVED, *ignored))]
    here = [(name, found[name], shape) for name, shape in wanted.items() if name in found]
    problems = {
        "missing": missing,
        "unexpected": [_described(found[name].name, found[name].shape) for name in extra],
        "of another shape": [
            f"{_described(name, header.shape, 'is ')}, not {shape}"
            for name, header, shape in here
            if header.shape != shape
        ],
        "of another type": [
            f"{name:.80} is {header.dtype}" for name, header, _ in here if header.dtype not in storage.DTYPES
        ],
    }
    problems = {what: names for what, names in problems.items() if names}
    if problems:
        of_all = _wrong_prefix([header.name for header in found.values()], wanted) if missing and extra else None
        says = [f"{len(names)} {what} ({_some(names, 450 // len(problems))})" for what, names in problems.items()]
        if of_all:
            says = [f"all names begin with {of_all!r:.80}; expected without it"]
        described = "config.json" if folder.is_dir() else "metadata"
        raise ValueError(f"the tensors in {str(folder)!r:.200} do not fit its {described}: {', '.join(says)}")


def _described(name: str, shape: tuple[int, ...], verb: str = "") -> str:
    return f"{name:.80} {verb}{shape!s:.40}"


def _some(names: list[str], room: int) -> str:
    """The first three names, or fewer if they take more room than that, and how many there are besides."""
    shown = names[:3]
    while len(shown) > 1 and len("; ".join(shown)) > room:
        shown.pop()
    return "; ".join(shown) + (f"; and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _wrong_prefix(found: list[str], wanted: Collection[str]) -> str | None:
    """What all names begin with, if the names that are wanted follow when it is left out."""
    words = os.path.commonprefix(found).split(".")[:-1]
    prefixes = [".".join(words[: i + 1]) + "." for i in range(len(words))]
    first_words = {name.partition(".")[0] + "." for name in wanted}
    for prefix in prefixes:
        bare = {name.removeprefix(prefix) for name in found}
        if all(name in bare or any(name.removeprefix(word) in bare for word in first_words) for name in wanted):
            return prefix
    return None


def _check_memory(opened: Opened, dtype: torch.dtype | None, device: torch.device) -> None:
    needed, free = sum(header.n_bytes for header in opened.needed), free_bytes(device)
    if dtype is not None:
        needed = sum(p.numel() for p in opened.model.parameters()) * dtype.itemsize
    if free is not None and needed > free:
        dtype = dtype or opened.most_frequent_dtype
        raise ValueError(
            f"the weights need {needed / 1e9:.2f} GB as {storage.NAMES[dtype]}, "
            f"and {device} has {free / 1e9:.2f} GB free; a smaller dtype or another device may do"
        )


def free_bytes(device: torch.device) -> int | None:
    """The memory available to a model; None where it is unknown.

    Args:
        device: a CUDA device, or a CPU, for which Linux and the limits of the control group are asked.

    Source: the manual of Linux, proc(5); the documentation of its control groups, version 2.

    >>> free_bytes(torch.device("meta")) is None
    True
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu" or not Path("/proc/meminfo").is_file():
        return None
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines())
    free, group = 1024 * int(lines["MemAvailable"].split()[0]), Path("/sys/fs/cgroup")
    try:
        bound = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no such group, or no bound
        return free
    reclaimable = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())["inactive_file"]
    return min(free, bound + int(reclaimable))


def _assign(
    model: LanguageModel, move: Move, hf: tuple[Tensor, ...], dtype: torch.dtype | None, device: torch.device
) -> None:
    """Copy into the model's own memory: the file may change later, and its pages must be freed."""
    for name, tensor in zip(move.ours, move.change.from_hf(*hf), strict=True):
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        if last in dict(module.named_buffers(recurse=False)):  # these need the dtype with which they are stored
            setattr(module, last, tensor.to(device, copy=True))
        else:
            own = torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=device).copy_(tensor)
            setattr(module, last, nn.Parameter(own))


# --- Saving ---


def save(
    model: Checkpoint | nn.Module,
    folder: str | os.PathLike,
    *,
    tokenizer: Tokenizer | None = None,
    shard: int = SHARD,
) -> None:
    """Write a model with its tokenizer: in our own format, or in the layout of a family of Hugging Face's library.

    The folder appears only when it is complete, and a checkpoint in our own format that it holds is replaced in one
    step: an interrupted save leaves what was there before.

    Args:
        model: a model of your own, or a :class:`Checkpoint`: from :func:`load`, or ``Checkpoint(model=…, family=…)``
            for the layout of a family. A family writes a model without an unembedding as its bare architecture, such as
            ``BertModel``; BERT's pooler is not read, and so not written either.
        folder: must not exist, or be empty, or hold a checkpoint in our own format and nothing else.
        tokenizer: instead of that of the checkpoint.
        shard: the most bytes that a file may hold, at least 1; larger models get several files and an index.

    Raises:
        ValueError: for an unknown family, a config that it cannot represent, fields in ``more`` that affect the model
            or that the family does not know, a model with other tensors than its config describes, and a folder that
            holds anything else or is the working folder.

    Source: the layout of Hugging Face's checkpoints; :mod:`~llm_anatomy.models.checkpoints.own_format`.

    >>> import tempfile
    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> model = Transformer(ModelConfig(position="sinusoidal", **sizes))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, folder)
    ...     load(folder).config.position
    'sinusoidal'
    >>> save(Checkpoint(model=model, family="gpt2"), "gpt2")
    Traceback (most recent call last):
    ValueError: the family gpt2 cannot represent this config: config.json, key 'n_positions': it is missing
    """
    if not isinstance(model, Checkpoint | LanguageModel):
        raise ValueError(f"a model of type {type(model).__name__} has no config that describes it")
    checkpoint = model if isinstance(model, Checkpoint) else Checkpoint(model=model)
    language_model = checkpoint.model
    if isinstance(language_model, InferenceTransformer):
        raise ValueError("a model that is optimized for inference cannot be saved; save the one it was made from")
    if tokenizer is not None:
        n_vocab = getattr(checkpoint.config, "n_vocab", tokenizer.n_vocab)
        if tokenizer.n_vocab > n_vocab:
            raise ValueError(f"the tokenizer has {tokenizer.n_vocab} tokens; the model knows n_vocab={n_vocab}")
        checkpoint = replace(checkpoint, texts=replace(checkpoint.texts, tokenizer=tokenizer, note=""))
    if shard < 1:
        raise ValueError(f"{shard=} must be at least 1")
    folder, family = Path(folder).resolve(), _family_to_write(checkpoint)
    _check_folder(folder)
    foreign = sorted(checkpoint.extra_config.keys() - _kept(family))
    if foreign:
        raise ValueError(f"more holds {', '.join(map(repr, foreign))}, which the family {family.name} cannot keep")
    fields = {"dtype": str(next(checkpoint.model.parameters()).dtype).removeprefix("torch.")} | checkpoint.extra_config
    fields = family.hf_config(checkpoint.config) | fields
    _check_tensors(family, language_model)
    plan = _plan(family, language_model)
    if is_bare(checkpoint.config):  # as their class for it names them
        plan = [replace(move, hf=tuple(name.removeprefix(family.prefix) for name in move.hf)) for move in plan]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as draft:
        whole = Path(draft) / folder.name
        whole.mkdir()  # with the usual permissions, unlike a temporary folder
        write_atomically(whole / "config.json", json.dumps(fields, indent=2) + "\n")
        storage.write(whole, _groups(language_model, plan), shard)
        texts.write_texts(checkpoint.texts, whole, ours=family.name == own_format.FAMILY.name)
        if checkpoint.folder:
            texts.copy_files(pooling.FILES, checkpoint.folder, whole)
        replace_folder(whole, folder)


def _family_to_write(checkpoint: Checkpoint) -> Family:
    known = {own_format.FAMILY.name: own_format.FAMILY, **families()}
    if checkpoint.family not in known:
        raise ValueError(f"family={checkpoint.family!r} must be one of {', '.join(known)}")
    family, model = known[checkpoint.family], checkpoint.model
    if not isinstance(model.config, family.config_class):
        raise ValueError(f"the family {family.name} cannot represent a model of type {type(model).__name__}")
    return family.without_head() if is_bare(model.config) else family


def _check_folder(folder: Path) -> None:
    """Whether a folder may be written: what a person has put there is never replaced."""
    if folder == Path.cwd():
        raise ValueError(f"folder={str(folder)!r} must be another than the working folder, which cannot be replaced")
    if not folder.exists() or folder.is_dir() and not any(folder.iterdir()):
        return
    if not folder.is_dir() or not own_format.is_written_in(folder):
        raise ValueError(
            f"folder={str(folder)!r} must not exist, be an empty folder, or hold a model that llm_anatomy has saved"
        )
    others = sorted(
        str(path) for path in (p.relative_to(folder) for p in folder.rglob("*")) if not _belongs_to_checkpoint(path)
    )
    if others:
        raise ValueError(f"folder={str(folder)!r} also holds {others[0]!r:.60}, which is no part of a saved model")


def _belongs_to_checkpoint(path: Path) -> bool:
    """Whether a path within a folder may be that of a part of a checkpoint."""
    patterns = [Path(pattern) for pattern in FILES]
    folders = {pattern.parent for pattern in patterns} - {Path()}
    candidates = [*patterns, *folders]
    return any(len(c.parts) == len(path.parts) and path.match(str(c)) for c in candidates)


def _check_tensors(family: Family, model: LanguageModel) -> None:
    """Whether the model is as its config describes it, so that it can be built again."""
    again = _empty_model(family, model.config, "its config")
    described, here = ({name: t.shape for name, t in _tensors(one).items()} for one in (again, model))
    shared = here.keys() - dict(
        [*model.named_parameters(), *model.named_buffers()]
    )  # in this model, by a tie of its own
    differ = [name for name in {**described, **here} if name in shared or described.get(name) != here.get(name)]
    if differ:
        raise ValueError(f"the model has other tensors than its config describes, such as {differ[0]}")


def _groups(model: LanguageModel, plan: list[Move]):
    """For each move, the sizes of the tensors to write, and a function that makes them."""
    ours, shapes = _tensors(model), _hf_shapes(model, plan)
    for move in plan:
        itemsize = ours[move.ours[0]].element_size()
        sizes = {name: torch.Size(shapes[name]).numel() * itemsize for name in move.hf}

        def make(move: Move = move) -> dict[str, Tensor]:
            with torch.no_grad():
                hf = move.change.to_hf(*(ours[name].detach() for name in move.ours))
            return {name: tensor for name, tensor in zip(move.hf, hf, strict=True)}

        yield sizes, make


def _kept(family: Family) -> set[str]:
    """Hugging Face's fields that are written as they were read."""
    own = {"architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "_name_or_path"}
    return family.harmless_names - own
