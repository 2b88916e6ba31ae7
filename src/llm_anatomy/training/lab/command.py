"""The command line of a training run: each field of its config is an option, and a file in YAML may give the others."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from llm_anatomy.config import Config, nested_config
from llm_anatomy.training.lab.config import TrainConfig

PROGRAM = "python -m llm_anatomy train"


def read_config(words: Sequence[str]) -> TrainConfig:
    """Read the config of a run from the words of a command line.

    Args:
        words: the name of a file in YAML or JSON, options such as ``--optimizer.max_lr 1e-3``, which change it, or
            both. ``--help`` explains every field, and ``--print_config`` prints what was understood.

    Raises:
        ValueError: for an option or a value that is not allowed, or a key that a file has twice, in one sentence; and
            without jsonargparse.
        SystemExit: after ``--help`` and ``--print_config``.

    Source: the documentation of jsonargparse, "Configuration files"; GT-37.

    >>> words = ["--out", "run", "--n_steps", "9", "--data.path", "a", "--data.n_tokens", "8", "--model.d_model", "6"]
    >>> config = read_config([*words, "--model.n_layers", "1", "--model.n_heads", "2", "--model.d_ff", "7"])
    >>> config.n_steps, config.model["d_ff"]
    (9, 7)
    >>> read_config([*words, "--optimizer.max_rl", "1"])
    Traceback (most recent call last):
    ValueError: there is no option --optimizer.max_rl; close to it is --optimizer.max_lr
    """
    parser = _parser()
    words = list(words)
    if words and not words[0].startswith("-"):
        words.insert(0, "--config")
    _check_options(words)
    _check_keys(words)
    parsed = _parse(parser, words)
    values = {name: value for name, value in parsed.as_dict().items() if name not in ("config", "print_config")}
    return TrainConfig.of(values)


def _parser() -> Any:
    try:
        from jsonargparse import ArgumentParser
    except ImportError:
        raise ValueError(
            "the command train needs jsonargparse and PyYAML; run pip install 'llm_anatomy[training]'"
        ) from None
    parser = ArgumentParser(
        prog=PROGRAM,
        usage="%(prog)s [CONFIG.yaml] [--optimizer.max_lr 1e-3 …]",
        description="Train a model as a config describes it, or go on with the run that its folder holds. "
        "With several processes: torchrun --nproc-per-node 2 -m llm_anatomy train CONFIG.yaml",
        epilog="The run exits with status 0 at its end, 75 where a signal has stopped it after a checkpoint (the same "
        "command goes on), 1 where a spike has, and 2 if something is wrong with the config, the data or the machine.",
        exit_on_error=False,
    )
    parser.add_argument("--config", action="config", help="the file in YAML or JSON; --config may be left out")
    for field, name, _, meaning in options(TrainConfig):
        required = field.default is dataclasses.MISSING
        given: dict[str, Any] = {"required": True} if required else {"default": field.default}
        parser.add_argument(f"--{name}", type=field.type, help=meaning, **given)
    return parser


def options(cls: type[Config]) -> Iterator[tuple[dataclasses.Field, str, type[Config], str]]:
    """Each field of a config and of those nested in it: the field, its dotted name, its class and its meaning.

    Args:
        cls: the class of the config, whose docstring explains its fields.

    Source: :mod:`llm_anatomy.training.lab.config`, whose classes it reads.

    >>> [name for _, name, _, _ in options(TrainConfig)][:3]
    ['out', 'n_steps', 'seed']
    """
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(cls) or "", re.MULTILINE))
    for field in dataclasses.fields(cls):
        nested = nested_config(field.type)
        if nested:
            yield from options(nested)
        else:
            yield field, cls.prefix + field.name, cls, " ".join(meanings[field.name].split())


def _check_options(words: Sequence[str]) -> None:
    """Refuse an option that there is none of, and name those that are close to it."""
    known = ["--config", "--help", "--print_config", *(f"--{name}" for _, name, _, _ in options(TrainConfig))]
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("--") and option not in known and not option.startswith("--model."):
            raise ValueError(f"there is no option {option}; {_hint(option, known)}")


def _check_keys(words: Sequence[str]) -> None:
    """Refuse a file that has a key twice, also as ``a.b: 1`` and ``a: {b: 1}``; YAML would take one of them."""
    import yaml

    values = [after for word, after in pairwise(words) if word == "--config"]
    for value in [*values, *(word.partition("=")[2] for word in words if word.startswith("--config="))]:
        try:
            nodes = [("", yaml.compose(Path(value).read_bytes(), Loader=yaml.SafeLoader))]
        except (OSError, ValueError, yaml.YAMLError):  # the parser says what is wrong
            continue
        lines, looked_at = {}, set()
        for before, node in nodes:  # which grow
            if not isinstance(node, yaml.MappingNode) or id(node) in looked_at:
                continue
            looked_at.add(id(node))
            for key, inner in node.value:
                name, line = f"{before}{key.value}", key.start_mark.line + 1
                if name in lines:
                    last = max(line, lines[name])
                    raise ValueError(f"{Path(value).name}, line {last}: the key {name} is given twice")
                lines[name] = line
                nodes.append((f"{name}.", inner))


def _hint(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"close to it is {close[0]}" if close else f"{PROGRAM} --help lists them"


def _parse(parser: Any, words: Sequence[str]) -> Any:
    from jsonargparse import ArgumentError

    try:
        return parser.parse_args(words)
    except ArgumentError as error:
        raise ValueError(_sentence(str(error.message))) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"the file of the config is not UTF-8 ({error.reason})") from None


def _sentence(message: str) -> str:
    """What jsonargparse says, in one line that names the field, its value and what is allowed."""
    message = " ".join(message.split())
    wrong = re.search(r'[Pp]arser key "([^"]+)": (?:Expected a|Does not validate).*', message)
    value = re.search(r"(?:Got|Given) value: (.*)$", message)
    kinds = {name: field.type for field, name, _, _ in options(TrainConfig)}
    if wrong and value and wrong[1] in kinds:
        kind = kinds[wrong[1]]
        return f"{wrong[1]}={value[1]!s:.80} must be {kind.__name__ if isinstance(kind, type) else kind}"
    unknown = re.search(r"Option '([^']+)' is not accepted", message)
    if unknown:
        return f"there is no field {unknown[1]}; {_hint(unknown[1], list(kinds))}"
    absent = re.search(r'[Pp]arser key "config": (File does not exist|Path is not a file): (.*)$', message)
    if absent:
        what = "does not exist" if absent[1] == "File does not exist" else "is a folder"
        return f"the file of the config {what}: {absent[2].strip(chr(39))}"
    if message.startswith("Problems parsing config:"):
        found = message.partition(":")[2].replace(' in "<unicode string>",', ",").strip()
        return f"the file of the config is not valid YAML: {found}"
    if message.startswith("Unexpected config:"):
        found = message.partition(":")[2].strip()
        return f"the file of the config must hold fields, such as n_steps: 100, not {found[:80] or 'nothing'}"
    missing = re.search(r"arguments are required: (.*)$", message)
    return f"missing fields {missing[1]}" if missing else message
