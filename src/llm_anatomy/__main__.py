"""The commands of the package: ``python -m llm_anatomy --help``."""

import argparse
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any, cast

import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import load, storage
from llm_anatomy.models.costs import costs
from llm_anatomy.models.generation import GenerativeModel, LogitsProcessor, Sampler, Temperature, TopK, TopP, greedy
from llm_anatomy.models.presets import Preset, find, preset, presets
from llm_anatomy.training.experiments import positions

WIDTH = 118
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in storage.DTYPES.values()}


def list_models(args: argparse.Namespace) -> None:
    records = list(presets().values())
    if args.json:
        return _print_json([_summary(record) for record in records])
    rows = [list(_row(record).values()) for record in records]
    _print_table(list(_row(records[0])), rows, right=("layers", "width", "parameters"))
    print("\nA dash means not public or not applicable. Details of a model: python -m llm_anatomy models show NAME")


def show(args: argparse.Namespace) -> None:
    record = find(args.name)
    if args.json:
        return _print_json(_summary(record))
    print(
        f"{record.title} ({record.name}), {record.year}\n{record.paper}\nin the lectures: {', '.join(record.items)}\n"
    )
    _print_table(["field", "value", "source"], [[f, str(v), record.sources[f]] for f, v in record.values.items()])
    sentences = [record.notes, record.difference]
    if record.unknown:
        sentences.insert(0, f"Not public: {', '.join(record.unknown)}. It cannot be built.")
    if record.builder:
        sentences.insert(0, f"Built by {record.builder}.")
    print()
    if record.known:
        print(f"parameters, counted:    {_n_parameters(record.config()):,}")
    if record.exact:
        print(f"parameters, exactly:    {record.exact:,} ({record.exact_source})")
    if record.printed:
        print(f"parameters, as printed: {record.printed} ({record.printed_source})")
    print(*(textwrap.fill(sentence, WIDTH) for sentence in sentences if sentence), sep="\n")


def diff(args: argparse.Namespace) -> None:
    first, second = preset(args.first), preset(args.second)
    changed = first.difference(second)
    if args.json:
        return _print_json({field: {args.first: a, args.second: b} for field, (a, b) in changed.items()})
    rows = [[field, str(a), str(b)] for field, (a, b) in changed.items()]
    rows += [["parameters", f"{_n_parameters(first):,}", f"{_n_parameters(second):,}"]]
    _print_table(["field", args.first, args.second], rows)


def run_positions(args: argparse.Namespace) -> None:
    positions.experiment(args.out, args.seeds, args.steps, args.workers)
    print(f"The tables are in {args.out}.")


def generate(args: argparse.Namespace) -> None:
    if args.seed is not None and not 0 <= args.seed < 2**63:
        raise ValueError(f"seed={args.seed} must be from 0 to below 2**63")
    if args.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={args.max_new_tokens} must be at least 1")
    processors: list[LogitsProcessor] = [Temperature(args.temperature)]
    processors += [TopK(args.top_k)] if args.top_k is not None else []
    processors += [TopP(args.top_p)] if args.top_p is not None else []
    checkpoint = load(args.name, dtype=args.dtype and DTYPES[args.dtype], device=args.device)
    generator = torch.Generator(args.device)
    generator = generator.manual_seed(generator.seed() if args.seed is None else args.seed)
    sampler = greedy if args.temperature == 0 else Sampler(*processors, generator=generator)
    model = cast(GenerativeModel, checkpoint.model)  # every family builds one
    for piece in checkpoint.texts.write(model, args.prompt, max_new_tokens=args.max_new_tokens, sampler=sampler):
        print(piece, end="", flush=True)
    print()


def _n_parameters(config: ModelConfig) -> int:
    n_source = 1 if config.kind == "encoder-decoder" else None
    return costs(config, n_tokens=1, n_source=n_source).total.n_parameters


def _row(record: Preset) -> dict[str, str]:
    """The columns of the list for one model, abbreviated so that they fit into a line."""
    values = {field: str(value) for field, value in record.values.items() if value}
    heads, kv_heads = values.get("n_heads"), values.get("n_kv_heads", values.get("n_heads"))
    attention = f"{heads} latent" if values.get("attention") == "latent" else f"{heads}/{kv_heads}"
    n_parameters = f"{_n_parameters(record.config()):,}" if record.known else record.printed
    return {
        "model": record.name,
        "year": str(record.year),
        "kind": values.get("kind", "—").replace("encoder-decoder", "enc-dec"),
        "position": values.get("position", "—").replace("transformer_xl", "xl"),
        "norm": values.get("norm", "—").replace("unit_offset_rmsnorm", "1+rmsnorm"),
        "placed": values.get("norm_placement", "—") + (", parallel" if values.get("parallel_block") else ""),
        "feed-forward": values.get("feedforward", "—") + (" experts" if "moe.n_experts" in values else ""),
        "heads/kv": attention if heads else "—",
        "layers": values.get("n_layers", "—"),
        "width": values.get("d_model", "—"),
        "parameters": n_parameters or "—",
    }


def _summary(record: Preset) -> dict[str, Any]:
    """Everything that is known about a model."""
    return {
        **{name: value for name, value in vars(record).items() if value is not None},
        "parameters": _n_parameters(record.config()) if record.known else None,
    }


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _print_table(head: list[str], rows: list[list[str]], right: tuple[str, ...] = ()) -> None:
    """Print columns, those named in ``right`` aligned to the right."""
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    for line in [head, *rows]:
        cells = zip(head, line, widths, strict=True)
        aligned = (cell.rjust(width) if name in right else cell.ljust(width) for name, cell, width in cells)
        print(" ".join(aligned).rstrip() if right else "  ".join(aligned).rstrip())


def _add_command(commands: Any, name: str, summary: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Add a command whose help is its summary."""
    return commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=epilog)


def _add_json_option(command: argparse.ArgumentParser, default: Any) -> None:
    command.add_argument("--json", action="store_true", default=default, help="print JSON instead of a table")


def _add_models(commands: Any) -> None:
    models = _add_command(
        commands,
        "models",
        "list the models of the lectures with their parts and their numbers of parameters",
        epilog="examples: models; models show gpt-2; models diff gpt-2 llama-3-8b; models --json",
    )
    _add_json_option(models, default=False)
    models.set_defaults(action=list_models)
    actions = models.add_subparsers(metavar="ACTION", title="actions; without one, the list")
    named = "a name from the list, such as gpt-2"

    one = _add_command(actions, "show", "show all that is known of one model, and the source of each value")
    one.add_argument("name", metavar="NAME", help=named)
    one.set_defaults(action=show)

    two = _add_command(actions, "diff", "show how two models differ")
    two.add_argument("first", metavar="FIRST", help=named)
    two.add_argument("second", metavar="SECOND", help="such as llama-3-8b")
    two.set_defaults(action=diff)
    for action in (one, two):
        _add_json_option(action, default=argparse.SUPPRESS)  # keeps the value of "models --json show"


def _add_generate(commands: Any) -> None:
    command = _add_command(
        commands,
        "generate",
        "continue a prompt with released weights, and print the text while it is generated",
        epilog="example: generate openai-community/gpt2 'The lake is' --max-new-tokens 40 --temperature 0.7",
    )
    command.add_argument("name", metavar="NAME", help="a folder, or a name on the Hugging Face hub, like owner/model")
    command.add_argument("prompt", metavar="PROMPT", help="the text to continue or, for an encoder-decoder, its source")
    command.add_argument("--max-new-tokens", type=int, default=50, help="stop after so many; default: %(default)s")
    command.add_argument("--temperature", type=float, default=1.0, help="0 is greedy decoding; default: %(default)s")
    command.add_argument("--top-k", type=int, help="draw from the k most likely tokens only")
    command.add_argument("--top-p", type=float, help="draw from the fewest tokens that together have this probability")
    command.add_argument("--seed", type=int, help="reproduces a text; by default, each run draws another")
    command.add_argument("--dtype", choices=DTYPES, help="of the weights; by default that of the file")
    command.add_argument("--device", default="cpu", help="such as cuda; default: %(default)s")
    command.set_defaults(action=generate)


def _add_experiments(commands: Any) -> None:
    command = _add_command(commands, "experiment", "repeat an experiment of the book and write its tables")
    named = command.add_subparsers(required=True, metavar="NAME")
    made = _add_command(
        named,
        "positions",
        "train small decoders with each position scheme on 64 tokens, and test them on up to 512",
        epilog="With its defaults it trains 50 models to choose learning rates and 55 for the tables: about 45 "
        "minutes on two cores with --workers 2.",
    )
    made.add_argument("--seeds", type=int, nargs="+", default=range(5), help="one model per scheme and seed: 0 1 2 3 4")
    made.add_argument("--steps", type=int, default=positions.N_STEPS, help="of each training; default: %(default)s")
    made.add_argument("--workers", type=int, default=1, help="number of processes; default: %(default)s")
    made.add_argument("--out", type=Path, default=Path("positions"), help="folder for the tables; default: %(default)s")
    made.set_defaults(action=run_positions)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m llm_anatomy",
        description="Look at the models of the lectures, run released weights, and repeat the book's experiments.",
        epilog="examples: models diff gpt-2 llama-3-8b; experiment positions --seeds 0 1",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_models(commands)
    _add_generate(commands)
    _add_experiments(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        args.action(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has left, such as head; Python will try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped by the keyboard", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
