"""What several commands share: tables, JSON, and options that mean the same everywhere."""

import argparse
import json
import warnings
from typing import Any

from llm_anatomy.layers.packed_linear import WEIGHTS

WIDTH = 118
NAMED = (
    "a folder, a GGUF file, the folder of a training run, a name on the Hugging Face hub, like owner/model, or a model "
    "that ships with the package, such as story_rope"
)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(head: list[str], rows: list[list[str]], right: tuple[str, ...] = ()) -> None:
    """Print columns, those named in ``right`` aligned to the right."""
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    for line in [head, *rows]:
        cells = zip(head, line, widths, strict=True)
        aligned = (cell.rjust(width) if name in right else cell.ljust(width) for name, cell, width in cells)
        print(" ".join(aligned).rstrip() if right else "  ".join(aligned).rstrip())


def add_command(commands: Any, name: str, summary: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Add a command whose help is its summary."""
    return commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=epilog)


def add_json_option(command: argparse.ArgumentParser, default: Any) -> None:
    command.add_argument("--json", action="store_true", default=default, help="print JSON instead of a table")


def add_quantize(command: argparse.ArgumentParser) -> None:
    kinds = [kind for kind in WEIGHTS if kind]
    command.add_argument(
        "--quantize",
        choices=kinds,
        help="store the weight matrices with fewer bits where their sizes allow it, which makes generation faster and "
        "changes its texts",
    )
    command.add_argument("--weights", dest="quantize", choices=kinds, help=argparse.SUPPRESS, action=_Renamed)


class _Renamed(argparse.Action):
    """The former name of an option."""

    def __call__(self, parser, namespace, values, option_string=None):
        warnings.warn(f"{option_string} is now called --{self.dest}", DeprecationWarning, stacklevel=2)
        setattr(namespace, self.dest, values)
