"""The commands of the package: ``llm-anatomy --help``, or ``python -m llm_anatomy --help``.

Of a command, only what it needs is imported, so that help comes at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "models": (
        "commands.models:add_models",
        "list the models of the lectures with their parts and their numbers of parameters",
    ),
    "generate": (
        "commands.texts:add_generate",
        "continue a prompt with released weights, and print the text while it is generated",
    ),
    "chat": ("commands.texts:add_chat", "chat with an instruction-tuned model, or answer each line of the input"),
    "serve": (
        "commands.serving:add_serve",
        "serve a model with OpenAI's API, for clients on this computer or in a classroom",
    ),
    "self-instruct": (
        "commands.self_instruct:add_self_instruct",
        "let a model write instructions with inputs and outputs, from a few seed tasks (Self-Instruct)",
    ),
    "tokenize": (
        "commands.corpus:add_tokenize",
        "encode a corpus, and write the shards of tokens that models are trained on",
    ),
    "train": ("", "train a model as a file describes it; train --help lists what it may say"),
    "export": (
        "commands.training:add_export",
        "write the model of a training run in the layout of Hugging Face's library",
    ),
    "evaluate": ("commands.evaluating:add_evaluation", "measure how well a model does on tasks, with intervals"),
    "experiment": ("commands.experiments:add_experiments", "repeat an experiment of the book and write its tables"),
    "arena": (
        "arena.command:add_commands",
        "let a class compare anonymous outputs of models in a web page, and rate the models by the votes",
    ),
}
"""For each command, the function that adds its options, and what it does."""


def parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows all commands, and the options of the one that the words begin with."""
    top = argparse.ArgumentParser(
        prog="llm-anatomy" if os.path.basename(sys.argv[0]).startswith("llm-anatomy") else "python -m llm_anatomy",
        description="Look at the models of the lectures, run released weights, tokenize texts and train models on "
        "them, evaluate and compare models, and repeat the book's experiments.",
        epilog="examples: models diff gpt-2 llama-3-8b; train CONFIG.yaml; experiment positions --seeds 0 1",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name, (home, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in words[:1] and home:
            module, _, function = home.partition(":")
            getattr(import_module(f"llm_anatomy.{module}"), function)(command)
    return top


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["train"]:  # another library reads its options
            return import_module("llm_anatomy.commands.training").train(words[1:])
        args = parser(words).parse_args(words)
        args.action(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has left, such as head; Python will try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        rank = os.environ.get("RANK", "0")
        print(error if rank == "0" else f"rank {rank}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped by the keyboard", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
