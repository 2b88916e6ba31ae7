"""The commands of the package: ``python -m llm_anatomy --help``."""

import argparse
import dataclasses
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, suppress
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import Checkpoint, load, storage
from llm_anatomy.models.checkpoints.conversation import Conversation
from llm_anatomy.models.checkpoints.description import changed, describe
from llm_anatomy.models.costs import costs
from llm_anatomy.models.generation import GenerativeModel
from llm_anatomy.models.presets import Preset, find, preset, presets
from llm_anatomy.models.sampling import LogitsProcessor, Sampler, Temperature, TopK, TopP, greedy
from llm_anatomy.training.experiments import (
    before_transformers,
    feedforward,
    kv_cache,
    memory,
    norm_placement,
    normalization,
    positions,
    story_models,
    translation,
)

WIDTH = 118
NAMED = "a folder, a GGUF file, or a name on the Hugging Face hub, like owner/model"


def list_models(args: argparse.Namespace) -> None:
    records = list(presets().values())
    if args.json:
        return _print_json([_summary(record) for record in records])
    rows = [list(_row(record).values()) for record in records]
    _print_table(list(_row(records[0])), rows, right=("layers", "width", "parameters"))
    print("\nA dash means not public or not applicable. Details of a model: python -m llm_anatomy models show NAME")


def show(args: argparse.Namespace) -> None:
    if args.name not in presets() and Path(args.name).exists():
        return show_checkpoint(args)
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


def show_checkpoint(args: argparse.Namespace) -> None:
    found = describe(args.name)
    if args.json:
        return _print_json({**found, "config": dataclasses.asdict(found["config"])})
    tokenizer = found["tokenizer"] and "{kind}, {n_vocab:,} tokens".format(**found["tokenizer"])
    n_bytes, n_files = sum(found["files"].values()), len(found["files"])
    lines = {
        "path": found["path"],
        "family": found["family"] + (f" ({found['architecture']})" if found["architecture"] else ""),
        "model": found["model"],
        "parameters": f"{found['parameters']:,}",
        "stored as": ", ".join(f"{n:,} {kind}" for kind, n in found["dtypes"].items()),
        "files": f"{n_files}, {n_bytes / 1e6:,.1f} MB",
        "tokenizer": tokenizer or f"none: {found['tokenizer_note']}",
    }
    if found["pooling"] or found["pooling_note"]:
        lines["pooling"] = ", then ".join(found["pooling"] or ()) or f"none: {found['pooling_note']}"
    print(*(f"{name + ':':12s}{value}" for name, value in lines.items()), "", sep="\n")
    rows = [[part["part"], part["module"], f"{part['parameters']:,}"] for part in found["parts"]]
    _print_table(["part", "module", "parameters"], rows, right=("parameters",))
    print()
    _print_table(["field", "value"], [[name, str(value)] for name, value in changed(found["config"])])
    print("\nFields that are not listed have their defaults.")


def diff(args: argparse.Namespace) -> None:
    first, second = preset(args.first), preset(args.second)
    changed = first.difference(second)
    if args.json:
        return _print_json({field: {args.first: a, args.second: b} for field, (a, b) in changed.items()})
    rows = [[field, str(a), str(b)] for field, (a, b) in changed.items()]
    rows += [["parameters", f"{_n_parameters(first):,}", f"{_n_parameters(second):,}"]]
    _print_table(["field", args.first, args.second], rows)


def run_experiment(args: argparse.Namespace) -> None:
    args.experiment.experiment(args.out, args.seeds, args.steps, args.workers)
    print(f"The tables are in {args.out}.")


def generate(args: argparse.Namespace) -> None:
    checkpoint, settings = _ready_to_write(args)
    model = cast(GenerativeModel, checkpoint.model)  # every family builds one
    for piece in checkpoint.texts.write(model, args.prompt, **settings):
        print(piece, end="", flush=True)
    print()


def chat(args: argparse.Namespace) -> None:
    checkpoint, settings = _ready_to_write(args)
    if checkpoint.texts.chat_template is None:
        raise ValueError(
            f"{args.name} has no chat template, so it was not made for conversations; "
            "the command generate continues a text with it"
        )
    model = cast(GenerativeModel, checkpoint.model)
    conversation = Conversation(model, checkpoint.texts, system=args.system, **settings)
    interactive = sys.stdin.isatty()
    for line in _typed_lines() if interactive else sys.stdin:
        message = line.strip()
        try:
            if message == "/quit":
                break
            elif message == "/reset":
                conversation.reset()
                _note("the conversation begins anew")
            elif re.fullmatch(r"/\w+", message):
                _note(f"{message} is no command; there are /reset and /quit")
            elif message:
                _answer(conversation, message)
        except (ValueError, KeyboardInterrupt) as error:  # this answer ends, and the conversation goes on
            if not interactive:
                raise
            print() if isinstance(error, KeyboardInterrupt) else _note(str(error))


def _typed_lines() -> Iterator[str]:
    """What is typed at a prompt, until Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401  (with it, input() can edit a line and recall earlier ones)
    _note("Ctrl-C stops an answer, /reset begins a new conversation, and /quit or Ctrl-D leaves")
    while True:
        try:
            yield input("> ")
        except (KeyboardInterrupt, EOFError) as left:
            print()
            if isinstance(left, EOFError):
                return


def _answer(conversation: Conversation, message: str) -> None:
    """Print the answer to a message while it is generated, without characters that would control the terminal."""
    with closing(conversation.ask(message)) as answer:  # closed at Ctrl-C too, so that the part said is kept
        if conversation.n_left_out:
            _note(f"the context is full: the oldest {conversation.n_left_out} messages were left out")
        for piece in answer:
            print(re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", piece), end="", flush=True)
    print("\n")
    if conversation.finish_reason == "length":
        _note("the answer was cut: it reached --max-new-tokens or the end of the context")


def _note(text: str) -> None:
    print(f"({text})", file=sys.stderr, flush=True)


def _ready_to_write(args: argparse.Namespace) -> tuple[Checkpoint, dict[str, Any]]:
    """Check the options for generated texts, load the model, and return it with the settings for it."""
    if args.seed is not None and not 0 <= args.seed < 2**63:
        raise ValueError(f"seed={args.seed} must be from 0 to below 2**63")
    if args.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={args.max_new_tokens} must be at least 1")
    processors: list[LogitsProcessor] = [Temperature(args.temperature)]
    processors += [TopK(args.top_k)] if args.top_k is not None else []
    processors += [TopP(args.top_p)] if args.top_p is not None else []
    checkpoint = load(args.name, dtype=args.dtype, device=args.device)
    generator = torch.Generator(args.device)
    generator = generator.manual_seed(generator.seed() if args.seed is None else args.seed)
    return checkpoint, {
        "max_new_tokens": args.max_new_tokens,
        "sampler": greedy if args.temperature == 0 else Sampler(*processors, generator=generator),
        "overflow": args.overflow,
        "allowed_special": "all" if "all" in args.allowed_special else args.allowed_special,
    }


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
        epilog="examples: models; models show gpt-2; models show FOLDER; models diff gpt-2 llama-3-8b; models --json",
    )
    _add_json_option(models, default=False)
    models.set_defaults(action=list_models)
    actions = models.add_subparsers(metavar="ACTION", title="actions; without one, the list")
    named = "a name from the list, such as gpt-2"

    one = _add_command(actions, "show", "show all that is known of one model, and the source of each value")
    one.add_argument("name", metavar="NAME", help=f"{named}, or a folder or file with the weights of a model")
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
    command.add_argument("name", metavar="NAME", help=NAMED)
    command.add_argument("prompt", metavar="PROMPT", help="the text to continue or, for an encoder-decoder, its source")
    _add_options_of_texts(command, max_new_tokens=50, temperature=1.0, overflow="stop")
    command.set_defaults(action=generate)


def _add_chat(commands: Any) -> None:
    command = _add_command(
        commands,
        "chat",
        "talk with a model that was made for conversations, or answer each line of the input",
        epilog="examples: chat HuggingFaceTB/SmolLM2-135M-Instruct --system 'Answer briefly.'; "
        "echo 'What is a lake?' | python -m llm_anatomy chat ./my-model",
    )
    command.add_argument("name", metavar="NAME", help=NAMED)
    command.add_argument("--system", metavar="TEXT", help="what the model is told before the first message")
    _add_options_of_texts(command, max_new_tokens=512, temperature=0.7, overflow="slide")
    command.set_defaults(action=chat)


def _add_options_of_texts(
    command: argparse.ArgumentParser, max_new_tokens: int, temperature: float, overflow: str
) -> None:
    number, default = "stop after so many; default: %(default)s", "0 is greedy decoding; default: %(default)s"
    command.add_argument("--max-new-tokens", type=int, default=max_new_tokens, help=number)
    command.add_argument("--temperature", type=float, default=temperature, help=default)
    command.add_argument("--top-k", type=int, help="draw from the k most likely tokens only")
    command.add_argument("--top-p", type=float, help="draw from the fewest tokens that together have this probability")
    command.add_argument("--seed", type=int, help="reproduces a text; by default, each run draws another")
    command.add_argument(
        "--overflow",
        choices=("slide", "stop"),
        default=overflow,
        help="when the context is full, leave out the oldest text and go on, or stop; default: %(default)s",
    )
    command.add_argument(
        "--allowed-special",
        metavar="TOKEN",
        action="append",
        default=[],
        help="a special token that you may type, such as '<s>', or all; may be given several times",
    )
    command.add_argument("--dtype", choices=storage.NAMES.values(), help="of the weights; by default that of the file")
    command.add_argument("--device", default="cpu", help="such as cuda; default: %(default)s")


def _add_experiments(commands: Any) -> None:
    command = _add_command(commands, "experiment", "repeat an experiment of the book and write its tables")
    named = command.add_subparsers(required=True, metavar="NAME")
    _add_experiment(
        named,
        before_transformers,
        "train bigram, Bengio's, recurrent, Mamba and byte models on the same text, and compare them in bits per byte",
        "With its defaults it trains 70 models to choose learning rates and 50 for the tables: about 20 minutes of one "
        "core.",
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
        positions,
        "train small decoders with each position scheme on 64 tokens, and test them on up to 512",
        "With its defaults it trains 50 models to choose learning rates and 55 for the tables: about 45 "
        "minutes on two cores with --workers 2.",
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


def _add_experiment(named: Any, module: ModuleType, summary: str, epilog: str) -> None:
    name = module.__name__.rpartition(".")[2]
    seeds = signature(module.experiment).parameters["seeds"].default
    made = _add_command(named, name, summary, epilog=epilog)
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


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m llm_anatomy",
        description="Look at the models of the lectures, run released weights, and repeat the book's experiments.",
        epilog="examples: models diff gpt-2 llama-3-8b; experiment positions --seeds 0 1",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_models(commands)
    _add_generate(commands)
    _add_chat(commands)
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
