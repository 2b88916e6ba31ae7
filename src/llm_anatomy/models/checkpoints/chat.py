r"""Chat templates: how the messages of a conversation become one text, as the model was trained to read it.

A template is a program in the language of Jinja2 that comes with the weights. It is foreign code, and runs in Jinja2's
sandbox: it reaches neither Python's internals nor files, and cannot change what it is given. It may take ``MAX_STEPS``
steps: each character that it writes or joins is one, and a turn of a loop or a call of a macro is ten. A single call of
another function, such as a filter that pads a text, is not bounded.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from llm_anatomy.files import Record, first_line
from llm_anatomy.models.checkpoints.layouts import text_of

FILE = "chat_template.jinja"
FOLDER = "additional_chat_templates"
MAX_STEPS = 10_000_000
STEPS_PER_TURN = 10  # which take about as long as one turn

Message = Mapping[str, Any]
"""What one side said: ``{"role": "user", "content": "…"}``, with other keys where a template knows them."""

# --- Rendering ---


# that of transformers, since a template may count its letters; the space shows whether the template strips messages
END_OF_MESSAGE = "CONTINUE_FINAL_MESSAGE_TAG "


def render(
    template: str,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    tools: Sequence[Mapping[str, Any]] | None = None,
    **variables: Any,
) -> str:
    """Turn a conversation into the text that a model reads.

    The text equals that of ``apply_chat_template(tokenize=False)`` in transformers: keys whose value is None are left
    out of the messages, reasoning is passed under each of its three usual names, and templates have the filters and
    functions that transformers gives them.

    Args:
        template: the program, in the language of Jinja2.
        messages: at least one. They, the tools and the variables consist of JSON's types.
        add_generation_prompt: whether the text ends with the beginning of the assistant's answer.
        continue_final_message: whether the text ends where the last message ends, so that the model continues it.
        tools: descriptions of functions, as JSON schemas.
        variables: what else the template uses, such as ``bos_token`` or ``enable_thinking``.

    Raises:
        ValueError: if Jinja2 is not installed, for other types, for a template that is malformed, fails or takes too
            many steps, and for messages that the template refuses.

    Source: the documentation of transformers, "Chat templates"; of Jinja2, "Sandbox".

    >>> template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if 1 %}<assistant>{% endif %}"
    >>> render(template, [{"role": "user", "content": "Hi"}])
    '<user>Hi<assistant>'
    >>> render("{{ raise_exception('speak first') }}", [{"role": "user", "content": "Hi"}])
    Traceback (most recent call last):
    ValueError: the chat template refuses this conversation: speak first
    """
    if not messages:
        raise ValueError("messages holds no message; it must hold at least one")
    if continue_final_message:
        return _up_to_the_last_word(template, messages, tools=tools, **variables)
    given = {
        "messages": [_message(f"messages[{i}]", message) for i, message in enumerate(messages)],
        "tools": _plain("tools", tools),
        "documents": None,
        "add_generation_prompt": add_generation_prompt,
    }
    given |= {name: _plain(name, value) for name, value in variables.items()}
    environment = _environment_class()()
    try:
        return environment.from_string(environment.counted_steps(template)).render(given)
    except _RefusedByTemplate as error:
        raise ValueError(f"the chat template refuses this conversation: {_reason(error)}") from None
    except Exception as error:  # a template can raise whatever Python can
        says = f"{type(error).__name__}: {_reason(error)}"
        raise ValueError(f"the chat template cannot be rendered: {says}") from None


def _up_to_the_last_word(template: str, messages: Sequence[Message], **settings: Any) -> str:
    """A conversation without what the template writes after the last message."""
    last = messages[-1].get("content")
    if not isinstance(last, str):
        raise ValueError("continue_final_message needs a last message whose content is a text")
    marked = [*messages[:-1], {**messages[-1], "content": last + END_OF_MESSAGE}]
    text = render(template, marked, add_generation_prompt=False, **settings)
    before, found, after = text.rpartition(END_OF_MESSAGE.strip())
    if not found or last.strip() not in text:
        raise ValueError("the chat template does not write the last message, so nobody can continue it")
    return before if after.startswith(" ") else before.rstrip()  # as transformers does if the template strips messages


def _reason(error: Exception) -> str:
    return first_line(error)[:200] or "it gives no reason"


def _message(name: str, message: Message) -> dict:
    if not isinstance(message, Mapping):
        raise ValueError(f"{name} is {message!r:.60}; it must be a dictionary such as {{'role': 'user', 'content': …}}")
    known = {key: _plain(f"{name}[{key!r}]", value) for key, value in message.items() if value is not None}
    reasoning = [known[key] for key in ("reasoning_content", "thinking", "reasoning") if key in known]
    return {"thinking": reasoning[0], **known, "reasoning_content": reasoning[0]} if reasoning else known


def _plain(name: str, value: Any) -> Any:
    """A copy of JSON's types alone: the methods of other objects might do what the sandbox does not know of."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {key: _plain(f"{name}[{key!r}]", entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{name}[{i}]", entry) for i, entry in enumerate(value)]
    raise ValueError(f"{name} is {value!r:.60}, of type {type(value).__name__}; it must be of a type that JSON has")


class _RefusedByTemplate(Exception):
    pass


def _raise_exception(message: str) -> None:
    raise _RefusedByTemplate(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
    """JSON as it is; Jinja2's own filter escapes it for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class _Dict:
    """What a template may do with the type ``dict``, whose own methods would change any dictionary."""

    def __call__(self, *pairs, **named) -> dict:
        return dict(*pairs, **named)

    def fromkeys(self, *arguments) -> dict:
        return dict.fromkeys(*arguments)


@functools.cache
def _environment_class() -> type:
    """The sandbox in which a template runs, made where it is first used, because Jinja2 is optional."""
    try:
        from jinja2 import nodes
        from jinja2.exceptions import SecurityError
        from jinja2.ext import Extension
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        from jinja2.utils import Namespace
    except ImportError:
        raise ValueError("chat templates need jinja2 (pip install 'llm_anatomy[checkpoints]')") from None

    class Generation(Extension):
        """``{% generation %}`` marks what the assistant said, for training; it is written like any other text."""

        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

        def _written(self, caller):
            return caller()

    def check_attribute(name) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace must not have the attribute {name!r}")

    class CheckedNamespace(Namespace):
        """A namespace that refuses names with which Python's internals could be forged."""

        def __init__(*arguments, **named):
            self, *arguments = arguments
            values = dict(*arguments, **named)
            for name in values:
                check_attribute(name)
            Namespace.__init__(self, values)

        def __setitem__(self, name, value):
            check_attribute(name)
            super().__setitem__(name, value)

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("+", "*", "**"))

        def __init__(self):
            super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
            self.filters["tojson"] = _to_json
            self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
            self.globals |= {"namespace": CheckedNamespace, "dict": _Dict()}
            del self.globals["lipsum"]
            self.n_steps = 0

        def counted_steps(self, template: str):
            """The program, to which calls are added that count its steps."""
            program = self.parse(template)
            for block in list(program.find_all((nodes.For, nodes.Macro))):
                turn = self._call("spend", nodes.Const(STEPS_PER_TURN)).set_lineno(block.lineno)
                block.body.insert(0, nodes.ExprStmt(turn).set_lineno(block.lineno))
            written: list[Any] = list(program.find_all((nodes.Output, nodes.Concat)))
            for joined in written:
                joined.nodes = [self._call("count", part).set_lineno(joined.lineno) for part in joined.nodes]
            return program

        def _call(self, method: str, argument):
            return nodes.Call(nodes.EnvironmentAttribute(method), [argument], [], None, None)

        def count(self, value):
            self.spend(1 + len(str(value)))
            return value

        def spend(self, n_steps: int) -> None:
            self.n_steps += n_steps
            if self.n_steps > MAX_STEPS:
                raise OverflowError(f"it takes more than {MAX_STEPS:,} steps")

        def call_binop(self, context, operator, left, right):
            self.spend(_size_of_result(operator, left, right))
            return super().call_binop(context, operator, left, right)

    return Environment


def _size_of_result(operator: str, left: Any, right: Any) -> int:
    """About how many characters, entries or bits a sum, a product or a power has."""
    if operator == "**" and isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * right
    if operator == "*" and isinstance(right, int) and not isinstance(left, int | float):
        return _size(left) * right
    if operator == "*" and isinstance(left, int) and not isinstance(right, int | float):
        return left * _size(right)
    return _size(left) + _size(right)


def _size(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else len(value) if hasattr(value, "__len__") else 1


# --- The templates of a checkpoint ---


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """The chat templates that came with a model.

    Args:
        templates: by name; most models have one, whose name is ``"default"``.
        variables: the special tokens that templates use by name, such as ``bos_token``.

    Source: ``chat_template.jinja`` and the field ``chat_template`` of Hugging Face's ``tokenizer_config.json``.

    >>> written = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    >>> template = ChatTemplate(templates={"default": written}, variables={"bos_token": "<s>"})
    >>> template.render([{"role": "user", "content": "Hi"}])
    '<s>Hi'
    """

    templates: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def template_named(self, name: str | None = None, tools: Sequence[Mapping[str, Any]] | None = None) -> str:
        """Return the template with this name; by default ``"tool_use"`` if there are tools, else ``"default"``.

        Raises:
            ValueError: if there is none of that name.
        """
        if name is None:
            name = "tool_use" if tools is not None and "tool_use" in self.templates else "default"
        if name not in self.templates:
            raise ValueError(f"there is no chat template named {name!r}; there are {', '.join(sorted(self.templates))}")
        return self.templates[name]

    def render(self, messages: Sequence[Message], *, name: str | None = None, **settings: Any) -> str:
        """Turn a conversation into text, as :func:`render` does with the template of this name."""
        return render(self.template_named(name, settings.get("tools")), messages, **{**self.variables, **settings})


def read_chat_template(folder: Path, settings: Mapping[str, Any]) -> ChatTemplate | None:
    """Read the chat templates of a folder; None if it has none.

    Args:
        folder: of the checkpoint. Templates in files of their own, ``chat_template.jinja`` and those in
            ``additional_chat_templates``, replace the one in the settings.
        settings: the fields of ``tokenizer_config.json``.

    Raises:
        ValueError: for a field ``chat_template`` of another form.

    Source: the layout of Hugging Face's tokenizers.

    >>> read_chat_template(Path("no such folder"), {"chat_template": "Hi", "bos_token": "<s>"})
    ChatTemplate(templates={'default': 'Hi'}, variables={'bos_token': '<s>'})
    """
    files = {"default": folder / FILE} | {file.stem: file for file in sorted((folder / FOLDER).glob("*.jinja"))}
    templates = {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}
    templates = templates or _named(settings.get("chat_template"))
    return ChatTemplate(templates=templates, variables=special_tokens(folder, settings)) if templates else None


def _named(value: Any) -> dict[str, str]:
    """Templates by name, from a template or from a list of named ones."""
    try:
        named = {"default": value} if isinstance(value, str) else {t["name"]: t["template"] for t in value or ()}
        if all(isinstance(text, str) for pair in named.items() for text in pair):
            return named
    except (TypeError, KeyError):
        pass
    raise ValueError(
        f"tokenizer_config.json, key 'chat_template': {value!r:.60} must be a template or a list of named templates"
    )


def special_tokens(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that have a name; files before transformers 4.34 have them in a file of their own.

    Args:
        folder: of the checkpoint.
        settings: the fields of ``tokenizer_config.json``.

    Source: the layout of Hugging Face's tokenizers.

    >>> special_tokens(Path("no such folder"), {"bos_token": {"content": "<s>"}, "add_bos_token": True})
    {'bos_token': '<s>'}
    """
    older = folder / "special_tokens_map.json"
    if "added_tokens_decoder" not in settings and older.is_file():
        settings = {**settings, **Record.read(older).fields}
    values = {name: text_of(settings[name]) for name in settings if name.endswith("_token")}
    return {name: value for name, value in values.items() if isinstance(value, str)}


# --- Safety ---


def texts_in(value: Any) -> Iterator[str]:
    """Yield every string in messages or tools, the keys of dictionaries too.

    Args:
        value: of JSON's types.

    Source: RFC 8259, section 2.

    >>> list(texts_in([{"role": "user", "content": ["Hi"]}, 3]))
    ['role', 'user', 'content', 'Hi']
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from texts_in(pair)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from texts_in(entry)
