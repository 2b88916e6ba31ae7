"""The commands of the package: ``python -m llm_anatomy --help``."""

import argparse
import json
import sys
import textwrap
from pathlib import Path

import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import load, storage
from llm_anatomy.models.costs import costs
from llm_anatomy.models.generation import Sample, Temperature, TopK, TopP, greedy
from llm_anatomy.models.presets import Preset, find, preset, presets
from llm_anatomy.training.experiments import positions

WIDTH = 118
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in storage.DTYPES.values()}


def list_models(args) -> None:
    records = list(presets().values())
    if args.json:
        return _print_json([_summary(record) for record in records])
    rows = [list(_row(record).values()) for record in records]
    _print_table(list(_row(records[0])), rows, right=("layers", "width", "parameters"))
    print("\nA dash means not public, or not applicable. For one model: python -m llm_anatomy models show NAME")


def show(args) -> None:
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


def diff(args) -> None:
    first, second = preset(args.first), preset(args.second)
    changed = first.difference(second)
    if args.json:
        return _print_json({field: {args.first: a, args.second: b} for field, (a, b) in changed.items()})
    rows = [[field, str(a), str(b)] for field, (a, b) in changed.items()]
    rows += [["parameters", f"{_n_parameters(first):,}", f"{_n_parameters(second):,}"]]
    _print_table(["field", args.first, args.second], rows)


def run_positions(args) -> None:
    positions.experiment(args.out, args.seeds, args.steps)
    print(f"The tables are in {args.out}.")


def generate(args) -> None:
    if args.seed is not None and not 0 <= args.seed < 2**63:
        raise ValueError(f"seed={args.seed} must be from 0 to below 2**63")
    if args.tokens < 1:
        raise ValueError(f"tokens={args.tokens} must be at least 1")
    filters = [Temperature(args.temperature)]
    filters += [TopK(args.top_k)] if args.top_k is not None else []
    filters += [TopP(args.top_p)] if args.top_p is not None else []
    checkpoint = load(args.name, dtype=args.dtype and DTYPES[args.dtype], device=args.device)
    generator = torch.Generator(args.device)
    generator = generator.manual_seed(generator.seed() if args.seed is None else args.seed)
    sampler = greedy if args.temperature == 0 else Sample(*filters, generator=generator)
    pieces = checkpoint.texts.write(checkpoint.model, args.prompt, max_new_tokens=args.tokens, sampler=sampler)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _n_parameters(config: ModelConfig) -> int:
    n_source = 1 if config.kind == "encoder-decoder" else None
    return costs(config, n_tokens=1, n_source=n_source).total.n_parameters


def _row(record: Preset) -> dict[str, str]:
    """The row of a model in the list."""
    values = record.values
    heads, kv_heads = values.get("n_heads"), values.get("n_kv_heads", values.get("n_heads"))
    attention = {"latent": f"{heads} latent"}.get(values.get("attention"), f"{heads}/{kv_heads}")
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
        "layers": str(values.get("n_layers", "—")),
        "width": str(values.get("d_model", "—")),
        "parameters": n_parameters or "—",
    }


def _summary(record: Preset) -> dict:
    """Everything that is known about a model."""
    return {
        **{name: value for name, value in vars(record).items() if value is not None},
        "parameters": _n_parameters(record.config()) if record.known else None,
    }


def _print_json(what) -> None:
    print(json.dumps(what, indent=2, ensure_ascii=False))


def _print_table(head: list[str], rows: list[list[str]], right: tuple[str, ...] = ()) -> None:
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    for line in [head, *rows]:
        cells = zip(head, line, widths, strict=True)
        aligned = (cell.rjust(width) if name in right else cell.ljust(width) for name, cell, width in cells)
        print(" ".join(aligned).rstrip() if right else "  ".join(aligned).rstrip())


def _sentence(says: str) -> str:
    return f"{says[0].upper()}{says[1:]}."


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m llm_anatomy",
        description="Look at the models of the lectures, run released weights, and repeat the book's experiments.",
        epilog="examples: models diff gpt-2 llama-3-8b; experiment positions --seeds 0 1",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    says = "list the models of the lectures, with their parts and numbers of parameters"
    models = commands.add_parser(
        "models",
        help=says,
        description=_sentence(says),
        epilog="examples: models; models show gpt-2; models diff gpt-2 llama-3-8b; models --json",
    )
    as_json = dict(action="store_true", help="print JSON in place of a table")
    models.add_argument("--json", **as_json)
    models.set_defaults(action=list_models)
    actions = models.add_subparsers(metavar="ACTION", title="actions; without one, the list")

    def action(function, name: str, says: str, /, **arguments: str) -> None:
        made = actions.add_parser(name, help=says, description=_sentence(says))
        for argument, help_ in arguments.items():
            made.add_argument(argument, metavar=argument.upper(), help=help_)
        made.add_argument("--json", default=argparse.SUPPRESS, **as_json)
        made.set_defaults(action=function)

    named = "a name from the list, such as gpt-2"
    action(show, "show", "show all that is known about one model, and the source of each value", name=named)
    action(diff, "diff", "show what changes from one model to another", first=named, second="such as llama-3-8b")

    says = "go on after a prompt with released weights, piece by piece as they are written"
    writer = commands.add_parser(
        "generate",
        help=says,
        description=_sentence(says),
        epilog="example: generate openai-community/gpt2 'The lake is' --tokens 40 --temperature 0.7 --top-p 0.9",
    )
    writer.add_argument("name", metavar="NAME", help="a folder, or a name on the Hugging Face hub, like owner/model")
    writer.add_argument("prompt", metavar="PROMPT", help="what to go on after, or to answer for an encoder-decoder")
    writer.add_argument("--tokens", type=int, default=50, help="how many at most: %(default)s")
    writer.add_argument("--temperature", type=float, default=1.0, help="0 takes the likeliest token: %(default)s")
    writer.add_argument("--top-k", type=int, help="draw from so many tokens only")
    writer.add_argument("--top-p", type=float, help="draw from the fewest tokens with this probability together")
    writer.add_argument("--seed", type=int, help="one seed gives one text; another each time by default")
    writer.add_argument("--dtype", choices=DTYPES, help="of the weights; that of the file by default")
    writer.add_argument("--device", default="cpu", help="such as cuda: %(default)s")
    writer.set_defaults(action=generate)

    says = "repeat an experiment of the book and write its tables"
    experiments = commands.add_parser("experiment", help=says, description=_sentence(says))
    named = experiments.add_subparsers(required=True, metavar="NAME")
    says = "small decoders with each position scheme, trained on 64 words and tested on up to 512"
    made = named.add_parser(
        "positions",
        help=says,
        description=_sentence(says),
        epilog="With its defaults it trains 50 models, which takes about half an hour on one core.",
    )
    made.add_argument("--seeds", type=int, nargs="+", default=range(5), help="one model per scheme and seed: 0 1 2 3 4")
    made.add_argument("--steps", type=int, default=positions.N_STEPS, help="of each training: %(default)s")
    made.add_argument("--out", type=Path, default=Path("positions"), help="folder for the tables: %(default)s")
    made.set_defaults(action=run_positions)
    return top


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        args.action(args)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped by the keyboard", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
