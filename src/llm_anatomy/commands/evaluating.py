"""The command ``evaluate``."""

import argparse
from pathlib import Path

from llm_anatomy.commands.options import NAMED, add_json_option, print_json, print_table
from llm_anatomy.evaluation.evaluate import evaluate, items_file
from llm_anatomy.evaluation.tasks import read_task
from llm_anatomy.models.checkpoints import storage
from llm_anatomy.models.loading import load
from llm_anatomy.training.experiments import story_tasks


def add_evaluation(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "examples: evaluate story_rope; evaluate openai-community/gpt2 --data questions.jsonl --few-shot 5 "
        '--out gpt2.json. A line of a file is like {"context": "The lake is", "choices": ["deep", "loud"], "answer": '
        '0}, or like {"prompt": "Two plus two is", "answers": ["four", "4"]}, or like {"text": "The lake is deep."}; '
        "llm_anatomy.evaluation.tasks says more. If an evaluation with --out is interrupted, the same command again "
        "continues it."
    )
    command.add_argument("name", metavar="CHECKPOINT", help=NAMED)
    command.add_argument(
        "--tasks",
        nargs="+",
        metavar="TASK",
        default=[],
        help=f"of {', '.join(story_tasks.TASKS)}; all of these if there is no --data",
    )
    command.add_argument(
        "--data",
        nargs="+",
        type=Path,
        metavar="FILE.jsonl",
        default=[],
        help="files with multiple choice, prompts with short answers, or texts, one JSON object in each line",
    )
    command.add_argument("--limit", type=int, metavar="N", help="only the first items of each task")
    command.add_argument("--batch-size", type=int, default=32, help="texts in a forward pass; default: %(default)s")
    command.add_argument(
        "--few-shot", type=int, default=0, metavar="K", help="solved items before each other one; default: %(default)s"
    )
    command.add_argument("--seed", type=int, default=0, help="of the solved items; default: %(default)s")
    command.add_argument("--out", type=Path, metavar="FILE.json", help="for the report, and what is needed to continue")
    command.add_argument("--dtype", choices=storage.NAMES.values(), help="of the weights; by default that of the file")
    command.add_argument("--device", default="cpu", help="such as cuda; default: %(default)s")
    add_json_option(command, default=False)
    command.set_defaults(action=evaluate_checkpoint)


def evaluate_checkpoint(args: argparse.Namespace) -> None:
    names = args.tasks or ([] if args.data else list(story_tasks.TASKS))
    if unknown := [name for name in names if name not in story_tasks.TASKS]:
        raise ValueError(f"{unknown[0]!r} is no task; there are {', '.join(story_tasks.TASKS)}, and files with --data")
    tasks = [story_tasks.TASKS[name]() for name in names] + [read_task(path) for path in args.data]
    checkpoint = load(args.name, dtype=args.dtype, device=args.device)
    settings = {name: getattr(args, name) for name in ("batch_size", "few_shot", "limit", "seed", "out", "name")}
    report = evaluate(checkpoint, tasks, **settings)
    if args.json:
        return print_json(report.as_json())
    head = ["task", "items", "metric", "value", "95% interval"]
    print_table(head, report.rows())
    if args.out is not None:
        print(f"\nThe report is in {args.out}, and the result of each item beside it, in {items_file(args.out)}.")
