"""The command ``experiment``: repeat an experiment of the book."""

import argparse
import re
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from llm_anatomy.commands.options import add_command
from llm_anatomy.training.experiments import (
    ablation,
    before_transformers,
    benchmarks,
    feedforward,
    instructions,
    kv_cache,
    memory,
    norm_placement,
    normalization,
    optimization,
    positions,
    story_llama,
    story_models,
    translation,
)


def add_experiments(command: argparse.ArgumentParser) -> None:
    named = command.add_subparsers(required=True, metavar="NAME")
    _add_ablation(named)
    _add_experiment(
        named,
        before_transformers,
        "train bigram, Bengio's, recurrent, Mamba and byte models on the same text, and compare them in bits per byte",
        "With its defaults it trains 70 models to choose learning rates and 50 for the tables: about 20 minutes of one "
        "core.",
    )
    _add_experiment(
        named,
        benchmarks,
        "plant the questions of a benchmark in the training text, decide them by several scores, and change the order "
        "of examples",
        "With its defaults it trains 40 models: up to an hour of one core.",
    )
    _add_experiment(
        named,
        feedforward,
        "train small decoders that differ in their feed-forward layers: activations, gates, and mixtures of experts",
        "With its defaults it trains 48 models to choose learning rates and 166 for the tables: about 15 minutes of "
        "one core.",
    )
    _add_experiment(
        named,
        instructions,
        "train a small story model to follow instructions that a pipeline has made, and test it with exact checks",
        "With its defaults it trains the story model, 40 models to choose learning rates and 85 for the tables: about "
        "80 minutes.",
    )
    _add_experiment(
        named,
        kv_cache,
        "convert small decoders to fewer key-value heads, and let them read with sliding windows and a cut cache",
        "With its defaults it trains 42 models to choose learning rates and 249 for the tables, most of them for a few "
        "steps: about 15 minutes of one core.",
    )
    _add_experiment(
        named,
        memory,
        "train recurrent cells and Mamba to remember one symbol over 10 to 40 tokens",
        "With its defaults it trains 210 models: about 5 minutes on one core.",
    )
    _add_experiment(
        named,
        norm_placement,
        "train small decoders with different placements of the norms, with learning rates from too small to too large",
        "With its defaults it measures 237 models before training, and trains 516 for 250 steps and 12 for 1,000: "
        "about 40 minutes of one core.",
    )
    _add_experiment(
        named,
        normalization,
        "train a deep network with and without normalization, and measure how its layers' inputs shift and how smooth "
        "its loss is",
        "With its defaults it trains 109 networks to choose learning rates and 125 for the tables: about 10 minutes of "
        "one core.",
    )
    _add_experiment(
        named,
        optimization,
        "train small decoders with Adam and AdamW over a grid of rates and decays, and with other batch sizes and "
        "schedules; and make losses spike and repair them",
        "With its defaults it trains 551 models, 70 of them in runs that spike or are repaired: about 12 minutes of "
        "one core.",
    )
    _add_experiment(
        named,
        positions,
        "train small decoders with each position scheme on 64 tokens, and test them on up to 512",
        "With its defaults it trains 50 models to choose learning rates and 55 for the tables: about 45 "
        "minutes on two cores with --workers 2.",
    )
    _add_experiment(
        named,
        story_llama,
        "train a small decoder with the parts of SmolLM2-135M, which stands in for a released checkpoint, and store it",
        "With its defaults it trains one model: about three minutes of one core.",
    )
    _add_experiment(
        named,
        story_models,
        "train two small decoders that write stories and differ in their position scheme, and store them",
        "With its defaults it trains 6 models: about 15 minutes of one core.",
    )
    _add_experiment(
        named,
        translation,
        "train an encoder-decoder Transformer and LSTMs to translate, and compare them by the length of the sentence",
        "With its defaults it trains 12 models to choose learning rates and 24 for the tables, and stores one "
        "Transformer: about 15 minutes of one core. It needs the package sacrebleu.",
    )


def _add_ablation(named: Any) -> None:
    made = add_command(
        named,
        "ablation",
        "train the rows of Narang et al.'s table beside the same baseline, and test which modifications help",
        "With its defaults it trains 156 models to choose learning rates and 265 for the tables: about 40 minutes of "
        "two cores with --workers 2. Each run is a file in the folder: a command that was stopped goes on when it is "
        "started again, and several processes or machines may share the folder. The folder's plan.json says what is "
        "run; a command with another plan is refused. examples: experiment ablation --workers 2; experiment ablation "
        "--rows geglu --out ablation; experiment ablation --task 3/13",
    )
    rows = ", ".join(ablation.MODIFICATIONS)
    made.add_argument(
        "--rows", nargs="+", default=[], metavar="ROW", help=f"run these and the baseline: {rows}; default: all"
    )
    default = " ".join(map(str, ablation.SEEDS))
    made.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=ablation.SEEDS,
        help=f"one run of each row per seed, and as many more of the baseline; default: {default}",
    )
    steps = ", ".join(f"{size.n_steps} ({name})" for name, size in ablation.SIZES.items())
    made.add_argument("--steps", type=int, default=None, help=f"of each run; default: {steps}")
    made.add_argument("--workers", type=int, default=1, help="number of processes; default: %(default)s")
    made.add_argument("--device", default="cpu", help="where the models are trained; default: %(default)s")
    made.add_argument("--size", choices=ablation.SIZES, default="small", help="of all models; default: %(default)s")
    made.add_argument("--task", type=_task, default=(1, 1), metavar="I/N", help="run the I-th of N shares of the rows")
    made.add_argument("--tables", action="store_true", help="run nothing, and make the tables of what is there")
    made.add_argument("--out", type=Path, default=Path("ablation"), help="folder of it all; default: %(default)s")
    made.set_defaults(action=run_ablation)


def _add_experiment(named: Any, module: ModuleType, summary: str, epilog: str) -> None:
    name = module.__name__.rpartition(".")[2]
    seeds = signature(module.experiment).parameters["seeds"].default
    made = add_command(named, name, summary, epilog=epilog)
    made.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=seeds,
        help=f"one run of each model per seed: {' '.join(map(str, seeds))}",
    )
    made.add_argument("--steps", type=int, default=module.N_STEPS, help="of each training; default: %(default)s")
    made.add_argument("--workers", type=int, default=1, help="number of processes; default: %(default)s")
    made.add_argument("--out", type=Path, default=Path(name), help="folder for the tables; default: %(default)s")
    made.set_defaults(action=run_experiment, experiment=module)


def run_experiment(args: argparse.Namespace) -> None:
    args.experiment.experiment(args.out, args.seeds, args.steps, args.workers)
    print(f"The tables are in {args.out}.")


def run_ablation(args: argparse.Namespace) -> None:
    chosen = dict(rows=args.rows, size=args.size, device=args.device, task=args.task, is_run=not args.tables)
    ablation.experiment(args.out, args.seeds, args.steps, args.workers, **chosen)
    print(f"The tables are in {args.out}.")


def _task(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be I/N, such as 2/13")
    return int(found[1]), int(found[2])
