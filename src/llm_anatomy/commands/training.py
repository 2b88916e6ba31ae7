"""The commands ``train`` and ``export``."""

import argparse
import os
import re
import sys
from pathlib import Path

from llm_anatomy.files import first_line
from llm_anatomy.training.lab.command import read_config


def train(words: list[str]) -> int:
    config = read_config(words)
    from llm_anatomy.training.lab.loop import run  # slow to import, and not needed by other commands

    try:
        result = run(config)
    except ImportError as error:  # of what the config asks for
        raise ValueError(error) from None
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not re.search("(allocate|enough|out of) memory", str(error)):
            raise
        what = "; make data.micro_batch_size, data.n_tokens or the model smaller"
        raise ValueError(f"there is not enough memory ({first_line(error)}){what}") from None
    if os.environ.get("RANK", "0") == "0":  # one of all processes says it for all
        print(result.message, file=sys.stderr if result.status else sys.stdout)
    return result.status


def add_export(command: argparse.ArgumentParser) -> None:
    command.epilog = "examples: export runs/stories my-model; export runs/stories my-model --step 500 --family llama"
    command.add_argument("run", metavar="RUN", type=Path, help="the folder of a run, or of a model")
    command.add_argument("folder", metavar="FOLDER", type=Path, help="must not exist, or be empty")
    command.add_argument("--family", help="such as llama or gpt2; by default the first that can represent the model")
    command.add_argument("--step", type=int, help="of a checkpoint; by default the model at the end of the run")
    command.set_defaults(action=export_run)


def export_run(args: argparse.Namespace) -> None:
    from llm_anatomy.training.lab.export import export  # as in train

    family = export(args.run, args.folder, family=args.family, step=args.step)
    print(f"The model is in {args.folder}, in the layout of {family}.")
