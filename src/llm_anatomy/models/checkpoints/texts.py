"""The texts of a checkpoint: its tokenizer, the special tokens around a text, and generation from a prompt."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from llm_anatomy.files import Record
from llm_anatomy.models.generation import GenerativeModel, stream
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.files import read_gpt2, read_hugging_face, read_sentencepiece

FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
)
"""The files of a tokenizer, which are downloaded with the weights and copied when a checkpoint is saved."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """How a text becomes ids, and where generation begins and ends.

    Args:
        tokenizer: None if there is none that can be read.
        note: why there is no tokenizer.
        before, after: ids that the model expects before and after a text.
        start: the first id of the target of an encoder-decoder.
        stop: ids that end a text.

    Source: tokenizer.json, tokenizer_config.json and generation_config.json of Hugging Face; GT-40.

    >>> Texts(note="there is no tokenizer").encode("a")
    Traceback (most recent call last):
    ValueError: a text cannot be read: there is no tokenizer
    """

    tokenizer: Tokenizer | None = None
    note: str = ""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    start: int | None = None
    stop: tuple[int, ...] = ()

    def encode(self, text: str, whole: bool = True) -> list[int]:
        """Encode a text with the ids around it, but without those after it if ``whole`` is False."""
        return [*self.before, *self._known_tokenizer().encode(text), *(self.after if whole else ())]

    def _known_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError(f"a text cannot be read: {self.note}")
        return self.tokenizer

    def write(self, model: GenerativeModel, prompt: str, **settings) -> Iterator[str]:
        """Generate the continuation of a prompt, or the target of an encoder-decoder, piece by piece.

        Args:
            model: a decoder or encoder-decoder.
            prompt: any text.
            settings: of :func:`~llm_anatomy.models.generation.stream`; ``max_new_tokens`` must be among them.

        Raises:
            ValueError: if there is no tokenizer, for a prompt without tokens, and as ``stream`` does.
        """
        if model.config.kind == "encoder-decoder":
            settings["sources"] = [self.encode(prompt)]
            ids = [0 if self.start is None else self.start]
            known = []
        else:
            ids = known = self.encode(prompt, whole=False)
        if not ids:
            raise ValueError(f"{prompt=} has no tokens; it must have one")
        steps = stream(model, [ids], stop_token_ids=self.stop, **settings)
        return self._pieces(steps, known)

    def _pieces(self, steps, known: list[int]) -> Iterator[str]:
        """The text that each step adds; a character is held back until all of its bytes are there."""
        tokenizer, ids = self._known_tokenizer(), list(known)
        said = len(tokenizer.decode(known))
        for step in steps:
            if step.ids[0] in self.stop:
                break
            if step.ids[0] < tokenizer.n_vocab:  # embeddings often have more rows than there are tokens
                ids.append(step.ids[0])
            text = tokenizer.decode(ids)
            if not text.endswith("\N{REPLACEMENT CHARACTER}"):
                yield text[said:]
                said = len(text)
        yield tokenizer.decode(ids)[said:]


def read_texts(folder: str | os.PathLike, fields: dict) -> Texts:
    """Read what a folder contains about texts.

    Args:
        folder: of the checkpoint.
        fields: of its ``config.json``.

    Raises:
        ValueError: for a JSON file that is malformed, but not for a tokenizer that is not supported.

    Source: tokenizer.json, tokenizer_config.json and generation_config.json of Hugging Face.

    >>> read_texts("no such folder", {"eos_token_id": 3})
    Texts(tokenizer=None, note='there is no tokenizer beside the weights', before=(), after=(), start=None, stop=(3,))
    """
    folder = Path(folder)
    tokenizer, notes, settings = None, [], _fields_of(folder / "tokenizer_config.json")
    t5 = _t5_settings(settings)
    readers: dict[tuple[str, ...], Callable[..., Tokenizer]] = {
        ("tokenizer.json",): read_hugging_face,
        ("vocab.json", "merges.txt"): lambda vocab, merges: read_gpt2(
            vocab, merges, _made_by_no_merge(folder, settings)
        ),
        ("tokenizer.model",): read_sentencepiece,
        ("spiece.model",): lambda path: read_sentencepiece(path, t5.get("additional_special_tokens", ())),
    }
    for needed, reader in readers.items():
        if tokenizer is None and all((folder / name).is_file() for name in needed):
            try:
                tokenizer = reader(*(folder / name for name in needed))
            except ValueError as error:
                notes.append(str(error))
    note = "" if tokenizer else "; ".join(notes) or "there is no tokenizer beside the weights"
    generation = _fields_of(folder / "generation_config.json")
    stop = generation.get("eos_token_id", fields.get("eos_token_id"))
    start = generation.get("decoder_start_token_id", fields.get("decoder_start_token_id"))
    start = fields.get("pad_token_id") if start is None else start  # as in T5
    before, after = _around(folder, tokenizer, settings | t5)
    stop = tuple(stop) if isinstance(stop, list) else () if stop is None else (stop,)
    return Texts(tokenizer=tokenizer, note=note, before=before, after=after, start=start, stop=stop)


def _fields_of(path: Path) -> dict:
    return Record.read(path).fields if path.is_file() else {}


def _made_by_no_merge(folder: Path, settings: dict) -> list[str]:
    """Entries of a vocabulary that result from no merge: special tokens in the settings, and OPT's fillers."""
    settings = _fields_of(folder / "special_tokens_map.json") | settings
    named = [value for name, value in settings.items() if name.endswith("_token")] + ["<|endoftext|>"]
    texts = {value.get("content") if isinstance(value, dict) else value for value in named if value}
    words: list[str] = list(_fields_of(folder / "vocab.json"))
    return [word for word in words if word in texts or word.startswith("madeupword")]


def _t5_settings(settings: dict) -> dict:
    """The defaults of the tokenizer class of T5 and mT5; empty for other classes."""
    if not str(settings.get("tokenizer_class")).removesuffix("Fast").endswith("T5Tokenizer"):
        return {}
    extra = [f"<extra_id_{i}>" for i in reversed(range(settings.get("extra_ids", 100)))]
    return {"eos_token": "</s>", "add_eos_token": True, "additional_special_tokens": extra}


def _around(folder: Path, tokenizer: Tokenizer | None, settings: dict) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids before and after a text, from the post-processor in tokenizer.json or from the settings."""
    if tokenizer is None:
        return (), ()
    if (folder / "tokenizer.json").is_file():
        try:
            return _around_at_the_end(_fields_of(folder / "tokenizer.json").get("post_processor") or {})
        except (AttributeError, KeyError, IndexError, TypeError):
            raise ValueError("tokenizer.json, key 'post_processor': it is of no known form") from None
    # the defaults of their classes: T5 adds a token after each text, Llama before it
    usual = {"bos": (folder / "tokenizer.model").is_file(), "eos": (folder / "spiece.model").is_file()}
    ids = tokenizer.special_tokens

    def named(which: str) -> tuple[int, ...]:
        token = settings.get(f"{which}_token")
        token = token.get("content") if isinstance(token, dict) else token
        return (ids[token],) if settings.get(f"add_{which}_token", usual[which]) and token in ids else ()

    return named("bos"), named("eos")


def _around_at_the_end(last: dict) -> tuple[tuple[int, ...], tuple[int, ...]]:
    for step in last.get("processors", [last]):
        if step.get("type") == "TemplateProcessing":
            return _around_in_template(step)
        if step.get("type") in ("BertProcessing", "RobertaProcessing"):
            return (step["cls"][1],), (step["sep"][1],)
    return (), ()


def _around_in_template(step: dict) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sides, side = ([], []), 0
    for part in step["single"]:
        if "Sequence" in part:
            side = 1
        else:
            sides[side].extend(step["special_tokens"][part["SpecialToken"]["id"]]["ids"])
    return tuple(sides[0]), tuple(sides[1])
