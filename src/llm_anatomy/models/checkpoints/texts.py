"""The texts of a checkpoint: its tokenizer, the special tokens around a text, and generation from a prompt."""

import json
import os
import shutil
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from llm_anatomy.files import Record, write_atomically
from llm_anatomy.models.checkpoints import chat
from llm_anatomy.models.checkpoints.chat import ChatTemplate, Message, read_chat_template, special_tokens
from llm_anatomy.models.checkpoints.layouts import LAYOUTS, around, read_layout, template_around, with_added_tokens
from llm_anatomy.models.checkpoints.writing import Written, in_pieces
from llm_anatomy.models.generation import GenerativeModel, stream
from llm_anatomy.tokenizers.base import HUGGING_FACE, PieceTokenizer, Tokenizer
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer, read_hugging_face

OURS = "llm_anatomy_tokenizer.json"
"""The file of a tokenizer in a checkpoint of our own format."""

FILES = (
    OURS,
    HUGGING_FACE,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    *sorted({name for layout in LAYOUTS.values() for name in layout.files}),
    chat.FILE,
    f"{chat.FOLDER}/*.jinja",
)
"""The files of a tokenizer, or patterns for them: they are downloaded with the weights, and saved with a checkpoint."""


GENERATION = "generation_config.json"


@dataclass(frozen=True, kw_only=True)
class Texts:
    """How a text becomes ids, and where generation begins and ends.

    Args:
        tokenizer: None if there is none that can be read.
        note: why there is no tokenizer.
        before, after: ids that the model expects before and after a text.
        start: the first id of the target of an encoder-decoder.
        bos: the id that begins a text, whether or not it is added before each; None if the tokenizer names none.
        stop: ids that end a text.
        stop_strings: what ends an answer in a conversation besides; it is not part of the answer.
        chat_template: how a conversation becomes one text; None if the model was not made for conversations.

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
    bos: int | None = None
    stop: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    chat_template: ChatTemplate | None = None
    _folder: Path | None = field(default=None, init=False, repr=False, compare=False)  # from which they were read

    def encode(
        self, text: str, whole: bool = True, *, allowed_special: Collection[str] | Literal["all"] = ()
    ) -> list[int]:
        """Encode a text with the ids around it, but without those after it if ``whole`` is False.

        The text may contain the special tokens in ``allowed_special``, as for ``Tokenizer.encode``.
        """
        ids = self._known_tokenizer().encode(text, allowed_special=allowed_special)
        return [*self.before, *ids, *(self.after if whole else ())]

    def encode_prompt(self, prompt: str, *, allowed_special: Collection[str] | Literal["all"] = ()) -> list[int]:
        """Encode a text that a model is to continue, with the ids before it.

        Raises:
            ValueError: as :meth:`encode`, and for a prompt without tokens.
        """
        ids = self.encode(prompt, whole=False, allowed_special=allowed_special)
        if not ids:
            raise ValueError(f"{prompt=} has no tokens; it must have one")
        return ids

    def encode_chat(
        self, messages: Sequence[Message], *, allowed_special: Collection[str] | Literal["all"] = (), **settings: Any
    ) -> list[int]:
        """Encode a conversation as the chat template writes it, special tokens included; nothing is added around it.

        The template alone writes special tokens: if a message contains one, nobody can tell whether the text after it
        was said by the user, by the assistant or by the system. Therefore, each string in the messages and in the
        settings is first encoded by itself, as an ordinary text, and refused if it contains a special token that is not
        allowed, or another added token with which the template marks the turns. A template that puts special tokens
        together from pieces, such as ``'<|' + role + '|>'``, is not seen through: roles must not come from a user.

        Args:
            messages: each with its ``role`` and its ``content``.
            allowed_special: the special tokens that messages may contain, or "all".
            settings: of :meth:`~llm_anatomy.models.checkpoints.chat.ChatTemplate.render`, such as ``tools``.

        Raises:
            ValueError: if there is no tokenizer or no chat template, for a special token in a message, and for a
                conversation that the template refuses.
        """
        tokenizer = self._known_tokenizer()
        if self.chat_template is None:
            raise ValueError("the model has no chat template, and so was not made for conversations")
        for text in chat.texts_in([messages, settings]):
            tokenizer.encode(text, allowed_special=allowed_special)
            self._check_turns(text, allowed_special)
        return tokenizer.encode(self.chat_template.render(messages, **settings), allowed_special="all")

    def _known_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError(f"a text cannot be read: {self.note}")
        return self.tokenizer

    def write(
        self,
        model: GenerativeModel,
        prompt: str,
        *,
        allowed_special: Collection[str] | Literal["all"] = (),
        stop_strings: Collection[str] = (),
        **settings: Any,
    ) -> Generator[str, None, Written]:
        """Generate the continuation of a prompt, or the target of an encoder-decoder, piece by piece.

        Args:
            model: a decoder or encoder-decoder.
            prompt: any text.
            allowed_special: the special tokens that the prompt may contain, or "all".
            stop_strings: the text ends before the first of these.
            settings: of :func:`~llm_anatomy.models.generation.stream`; ``max_new_tokens`` must be among them.

        Raises:
            ValueError: if there is no tokenizer, for a prompt without tokens, and as ``stream`` does.
        """
        if model.config.kind == "encoder-decoder":
            settings["sources"] = [self.encode(prompt, allowed_special=allowed_special)]
            ids = [0 if self.start is None else self.start]
            known = []
        else:
            ids = known = self.encode_prompt(prompt, allowed_special=allowed_special)
        steps = stream(model, [ids], stop_token_ids=self.stop, **settings)
        return in_pieces(steps, self._known_tokenizer(), known, stop_strings=stop_strings)

    def reply(
        self,
        model: GenerativeModel,
        messages: Sequence[Message],
        *,
        allowed_special: Collection[str] | Literal["all"] = (),
        variables: Mapping[str, Any] | None = None,
        stop_strings: Collection[str] | None = None,
        **settings: Any,
    ) -> Generator[str, None, Written]:
        """Generate the assistant's answer to a conversation, piece by piece, without special tokens.

        Args:
            model: a decoder.
            messages, allowed_special: as in :meth:`encode_chat`.
            variables: the settings of :meth:`encode_chat`, such as ``{"tools": […]}``.
            stop_strings: the answer ends before the first of these; by default, those of the model.
            settings: of :func:`~llm_anatomy.models.generation.stream`; ``max_new_tokens`` must be among them.

        Raises:
            ValueError: as ``encode_chat`` and ``stream`` do.
        """
        ids = self.encode_chat(messages, allowed_special=allowed_special, **(variables or {}))
        steps = stream(model, [ids], stop_token_ids={*self.stop, *self._end_of_answer()}, **settings)
        tokenizer = self._known_tokenizer()
        skipped = set(tokenizer.special_tokens.values())
        stop_strings = self.stop_strings if stop_strings is None else stop_strings
        return in_pieces(steps, tokenizer, [], skipped=skipped, stop_strings=stop_strings)

    def _check_turns(self, text: str, allowed_special: Collection[str] | Literal["all"]) -> None:
        """Some files do not call a token special although a turn begins or ends with it."""
        for token in self._known_tokenizer().added_tokens if allowed_special != "all" else ():
            if token in text and not token.isspace() and token in self._turns() and token not in allowed_special:
                raise ValueError(f"the text contains {token!r}, with which the chat template marks a turn; remove it")

    def _end_of_answer(self) -> list[int]:
        """The token that the template writes after an answer. Some checkpoints name as their stop token only the one
        that they had before they learned to chat."""
        after, ids = self._turns().partition("Answer")[2].lstrip(), self._known_tokenizer().added_tokens
        return [ids[token] for token in sorted(ids, key=len) if after.startswith(token) and not token.isspace()][-1:]

    def _turns(self) -> str:
        """What the template writes around the messages of a short conversation; nothing if it refuses that one."""
        turns = [("user", "Question"), ("assistant", "Answer"), ("user", "Question")]
        messages = [{"role": role, "content": content} for role, content in turns]
        try:
            return self.chat_template.render(messages, add_generation_prompt=False) if self.chat_template else ""
        except ValueError:  # a template may insist on messages of another kind
            return ""


def read_texts(folder: str | os.PathLike, fields: dict) -> Texts:
    """Read what a folder contains about texts.

    The ids are those of the library that runs the file: ``tokenizer.json`` as it is written, with the tokens that
    ``tokenizer_config.json`` and older files add; without it, SentencePiece's for its models, and transformers' for
    other files. In a text with special tokens, SentencePiece's prefix is added to each part between them;
    a model of SentencePiece with ``legacy: false``, where only the first part gets it, is refused.

    transformers 5 takes only vocabulary and merges from ``tokenizer.json`` or a SentencePiece model if it has a class
    of the name in ``tokenizer_config.json``, and does all else as that class says. Where the file says something else,
    its ids differ from ours, as with files for GPT-4o that name ``GPT2Tokenizer``; there, ours are tiktoken's.

    Args:
        folder: of the checkpoint.
        fields: of its ``config.json``.

    Raises:
        ValueError: for a JSON file that is malformed, but not for a tokenizer that is not supported.

    Source: tokenizer.json, tokenizer_config.json and generation_config.json of Hugging Face.

    >>> texts = read_texts("no such folder", {"eos_token_id": 3})
    >>> texts.stop, texts.note
    ((3,), 'there is no tokenizer beside the weights')
    """
    folder = Path(folder)
    settings = _fields_of(folder / "tokenizer_config.json")
    tokenizer, note, (before, after) = _read_tokenizer(folder, settings, fields.get("model_type"))
    generation = _fields_of(folder / GENERATION)
    stop = generation.get("eos_token_id", fields.get("eos_token_id"))
    start = generation.get("decoder_start_token_id", fields.get("decoder_start_token_id"))
    start = fields.get("pad_token_id") if start is None else start  # as in T5
    stop = tuple(stop) if isinstance(stop, list) else () if stop is None else (stop,)
    template = read_chat_template(folder, settings)
    bos = special_tokens(folder, settings).get("bos_token")
    texts = Texts(
        tokenizer=tokenizer,
        note=note,
        before=before,
        after=after,
        start=start,
        bos=None if tokenizer is None or bos is None else tokenizer.added_tokens.get(bos),
        stop=stop,
        chat_template=template,
    )
    object.__setattr__(texts, "_folder", folder)
    return texts


Around = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids before and after a text."""


def _read_tokenizer(folder: Path, settings: dict, model_type: str | None) -> tuple[Tokenizer | None, str, Around]:
    """The tokenizer, or a note that says why there is none. Where tokenizer.json is, nothing else is tried."""
    try:
        if (folder / OURS).is_file():
            tokenizer = Tokenizer.load(folder / OURS)
            return tokenizer, "", _around_ours(tokenizer, settings)
        if "added_tokens_decoder" not in settings:  # as older versions of transformers wrote it
            settings = settings | _fields_of(folder / "special_tokens_map.json")
        if (folder / HUGGING_FACE).is_file():
            tokenizer = with_added_tokens(read_hugging_face(folder / HUGGING_FACE), folder, settings)
            return tokenizer, "", _around_at_the_end(tokenizer)
        found = read_layout(folder, settings, model_type)
    except ValueError as error:
        return None, str(error), ((), ())
    if found is None:
        return None, "there is no tokenizer beside the weights", ((), ())
    tokenizer, settings = found
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return tokenizer, "", _around_at_the_end(tokenizer)
    ids = tokenizer.special_tokens
    before, after = (tuple(ids[text] for text in side if text in ids) for side in around(settings))
    return tokenizer, "", (before, after)


def _fields_of(path: Path) -> dict:
    return Record.read(path).fields if path.is_file() else {}


def _around_ours(tokenizer: Tokenizer, settings: dict) -> Around:
    before, after = (settings.get(name, []) for name in ("before", "after"))
    for ids in (before, after):
        if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < tokenizer.n_vocab for i in ids):
            raise ValueError(f"tokenizer_config.json: {ids!r:.60} must be a list of ids below {tokenizer.n_vocab}")
    return tuple(before), tuple(after)


def _around_at_the_end(tokenizer: HuggingFaceTokenizer) -> Around:
    last = tokenizer.post_processor
    for step in last.get("processors", [last] if last else []):
        if step["type"] == "TemplateProcessing":
            return _around_in_template(step)
        if step["type"] in ("BertProcessing", "RobertaProcessing"):
            return (step["cls"][1],), (step["sep"][1],)
    return (), ()


def _around_in_template(step: dict) -> Around:
    sides, side = ([], []), 0
    for part in step["single"]:
        if "Sequence" in part:
            side = 1
        else:
            sides[side].extend(step["special_tokens"][part["SpecialToken"]["id"]]["ids"])
    return tuple(sides[0]), tuple(sides[1])


# --- Writing ---


def write_texts(texts: Texts, folder: str | os.PathLike, *, ours: bool = False) -> None:
    """Write the files of a tokenizer, from which :func:`read_texts` and Hugging Face's library read the same texts.

    Texts that were read from a folder keep their files as they are. For others, the files are made: ``tokenizer.json``
    with the ids around a text, the names of special tokens, chat templates, and where generation begins and ends.

    Args:
        texts: of a checkpoint.
        folder: must exist.
        ours: whether a tokenizer of this package is written in our own format, which represents all of them.

    Raises:
        ValueError: if the format of Hugging Face's tokenizers cannot represent the tokenizer.

    Source: the layout of Hugging Face's tokenizers.

    >>> import tempfile
    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> texts = Texts(tokenizer=ByteTokenizer(["<|end|>"]), stop=(256,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_texts(texts, folder)
    ...     read_texts(folder, {}).stop, sorted(path.name for path in Path(folder).iterdir())
    ((256,), ['generation_config.json', 'tokenizer.json', 'tokenizer_config.json'])
    """
    folder = Path(folder)
    if texts._folder and (ours or not (texts._folder / OURS).is_file()):
        copied = copy_files((*FILES, GENERATION), texts._folder, folder)
        if copied or not texts.tokenizer:
            return
    if ours and isinstance(texts.tokenizer, PieceTokenizer):
        texts.tokenizer.save(folder / OURS)
        settings = {"before": list(texts.before), "after": list(texts.after)}
        first = [text for text, i in texts.tokenizer.added_tokens.items() if i == texts.bos]
        settings |= {"bos_token": first[0]} if first else {}
        _write_json(folder / "tokenizer_config.json", settings | _write_chat_template(texts.chat_template, folder))
    elif texts.tokenizer:
        _write_for_hugging_face(texts, texts.tokenizer, folder)
    ids = {"eos_token_id": list(texts.stop) if len(texts.stop) != 1 else texts.stop[0]} if texts.stop else {}
    ids |= {} if texts.start is None else {"decoder_start_token_id": texts.start}
    if ids:
        _write_json(folder / GENERATION, ids)


def copy_files(patterns: Iterable[str], source: Path, folder: Path) -> int:
    """Copy files into another folder, and return how many there were.

    Args:
        patterns: their names, or patterns for them, relative to the folder.
        source: the folder in which they are.
        folder: the other one.

    Source: the layout of Hugging Face's checkpoints.

    >>> copy_files(FILES, Path("no/such/folder"), Path("."))
    0
    """
    files = sorted({file for pattern in patterns for file in source.glob(pattern)})
    for file in files:
        copy = folder / file.relative_to(source)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
    return len(files)


def _write_for_hugging_face(texts: Texts, tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json, with the special tokens that the texts name."""
    names = {i: text for text, i in tokenizer.special_tokens.items()}
    _write_tokenizer(tokenizer, (texts.before, texts.after), names, folder / HUGGING_FACE)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    first = texts.before if texts.bos is None else (texts.bos,)
    for name, ids in {"bos_token": first, "eos_token": texts.stop}.items():
        settings |= {name: names[ids[0]]} if ids and ids[0] in names else {}
    variables = _write_chat_template(texts.chat_template, folder)
    settings |= {name: text for name, text in variables.items() if text in names.values()}  # others would be added
    _write_json(folder / "tokenizer_config.json", settings)


def _write_tokenizer(tokenizer: Tokenizer, around: Around, names: Mapping[int, str], path: Path) -> None:
    """Write tokenizer.json, with the ids around a text in its post-processor."""
    tokenizer.save(path)
    if around == (_around_at_the_end(tokenizer) if isinstance(tokenizer, HuggingFaceTokenizer) else ((), ())):
        return
    sides = [[(names.get(i, f"id {i}"), i) for i in side] for side in around]
    _write_json(path, Record.read(path).fields | {"post_processor": template_around(*sides)})


def _write_chat_template(template: ChatTemplate | None, folder: Path) -> dict[str, str]:
    """Write each template to a file of its own, and return the tokens that they use by name."""
    if template is None:
        return {}
    for name, text in template.templates.items():
        path = folder / (chat.FILE if name == "default" else f"{chat.FOLDER}/{name}.jinja")
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, text)
    return dict(template.variables)


def _write_json(path: Path, fields: dict) -> None:
    write_atomically(path, json.dumps(fields, indent=2, ensure_ascii=False) + "\n")
