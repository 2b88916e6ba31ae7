"""The commands of the package: ``python -m llm_anatomy --help``."""

import argparse
import dataclasses
import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from llm_anatomy.arena.command import add_commands as add_arena
from llm_anatomy.config import ModelConfig
from llm_anatomy.data_generation import statistics
from llm_anatomy.data_generation.client import OpenAIServer
from llm_anatomy.data_generation.cost import Price
from llm_anatomy.data_generation.generators import TextGenerator
from llm_anatomy.data_generation.local_model import LocalModel
from llm_anatomy.data_generation.pipeline import Settings, grow
from llm_anatomy.data_generation.pool import Pool, read_tasks, write_conversations
from llm_anatomy.data_generation.server import CompletionServer
from llm_anatomy.evaluation.evaluate import evaluate, items_file
from llm_anatomy.evaluation.tasks import read_task
from llm_anatomy.evaluation.text_model import read_checkpoint
from llm_anatomy.files import first_line
from llm_anatomy.layers.packed_linear import WEIGHTS
from llm_anatomy.models.checkpoints import load, storage
from llm_anatomy.models.checkpoints.conversation import Conversation
from llm_anatomy.models.checkpoints.description import changed, describe
from llm_anatomy.models.checkpoints.engine import open_checkpoint
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.costs import costs
from llm_anatomy.models.generation import GenerativeModel
from llm_anatomy.models.inference import fastest_form
from llm_anatomy.models.presets import Preset, find, preset, presets
from llm_anatomy.models.sampling import LogitsProcessor, Sampler, Temperature, TopK, TopP, greedy
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.training.data.instructions import ConversationEncoder
from llm_anatomy.training.data.sources import END_OF_TEXT, DocumentSource
from llm_anatomy.training.data.tokenization import (
    Encoder,
    TextEncoder,
    tokenize,
    train_tokenizer,
    with_special_token,
)
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
    story_tasks,
    translation,
)
from llm_anatomy.training.lab.command import PROGRAM, read_config

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
    mentioned = ", ".join(record.items) or "no"
    print(f"{record.title} ({record.name}), {record.year}\n{record.paper}\nin the lectures: {mentioned}\n")
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


def run_ablation(args: argparse.Namespace) -> None:
    chosen = dict(rows=args.rows, size=args.size, device=args.device, task=args.task, is_run=not args.tables)
    ablation.experiment(args.out, args.seeds, args.steps, args.workers, **chosen)
    print(f"The tables are in {args.out}.")


def _task(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be I/N, such as 2/13")
    return int(found[1]), int(found[2])


def write_shards(args: argparse.Namespace) -> None:
    is_chat = args.conversations is not None
    field = args.field or ("messages" if is_chat else "text")
    source = DocumentSource(args.source, field=field, kind=list if is_chat else str, subset=args.subset)
    written = tokenize(source, args.out, _encoder(args, source), validation=args.validation, workers=args.workers)
    numbers = ", ".join(f"{written.get(split, 0):,} for {name}" for split, name in SPLITS.items())
    print(f"The shards are in {args.out}: tokens {numbers}.")


SPLITS = {"train": "training", "validation": "validation"}


def _encoder(args: argparse.Namespace, source: DocumentSource) -> Encoder:
    """How the documents become tokens, with the ids that the tokenizer's checkpoint has around a text."""
    if args.train_tokenizer is not None:
        if args.conversations is not None:
            raise ValueError("--conversations needs --tokenizer, with a checkpoint that has a chat template")
        texts = Texts(tokenizer=train_tokenizer(source, args.train_tokenizer))
    elif Path(args.tokenizer).is_file() and args.tokenizer.endswith(".json"):
        texts = Texts(tokenizer=Tokenizer.load(args.tokenizer))
    else:
        texts = open_checkpoint(args.tokenizer).read_texts()
    if texts.tokenizer is None:
        raise ValueError(f"{args.tokenizer} has no tokenizer that can be read: {texts.note}")
    if args.conversations is not None:
        if texts.chat_template is None:
            raise ValueError(f"{args.tokenizer} has no chat template, with which conversations are written")
        padding = (*texts.stop, 0)[0]
        render = texts.chat_template.render
        return ConversationEncoder(texts.tokenizer, render, args.conversations, loss=args.loss, padding=padding)
    if texts.before:
        return TextEncoder(texts.tokenizer, texts.before, texts.after or texts.stop[:1])
    if texts.stop:
        return TextEncoder(texts.tokenizer, texts.stop[:1])
    tokenizer = with_special_token(texts.tokenizer, END_OF_TEXT)
    return TextEncoder(tokenizer, [tokenizer.special_tokens[END_OF_TEXT]])


def generate(args: argparse.Namespace) -> None:
    model, texts, settings = _ready_to_write(args)
    for piece in texts.write(model, args.prompt, **settings):
        print(piece, end="", flush=True)
    print()
    if sys.stderr.isatty():
        _note(settings["sampler"].summary())


def chat(args: argparse.Namespace) -> None:
    model, texts, settings = _ready_to_write(args)
    if texts.chat_template is None:
        raise ValueError(
            f"{args.name} has no chat template, so it was not made for conversations; "
            "the command generate continues a text with it"
        )
    conversation = Conversation(model, texts, system=args.system, **settings)
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
                if interactive:
                    _note(settings["sampler"].summary())
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


class _Timed:
    """A sampler that takes the time of its tokens."""

    def __init__(self, sampler: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]):
        self.sampler, self.times = sampler, list[float]()

    def __call__(self, logits: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        chosen = self.sampler(logits, seen)
        self.times.append(time.perf_counter())
        return chosen

    def summary(self) -> str:
        """Tokens per second of what was generated since the last summary, without the first token: before that, the
        prompt is read."""
        times, self.times = self.times, []
        number = f"{len(times)} token{'s' * (len(times) != 1)}"
        if len(times) < 2 or times[-1] == times[0]:
            return number
        return f"{number}, {(len(times) - 1) / (times[-1] - times[0]):,.1f} tokens per second"


def _ready_to_write(args: argparse.Namespace) -> tuple[GenerativeModel, Texts, dict[str, Any]]:
    """Check the options for generated texts, load the model, and return it with its texts and the settings for both."""
    if args.seed is not None and not 0 <= args.seed < 2**63:
        raise ValueError(f"seed={args.seed} must be from 0 to below 2**63")
    if args.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={args.max_new_tokens} must be at least 1")
    processors: list[LogitsProcessor] = [Temperature(args.temperature)]
    processors += [TopK(args.top_k)] if args.top_k is not None else []
    processors += [TopP(args.top_p)] if args.top_p is not None else []
    checkpoint = load(args.name, dtype=args.dtype, device=args.device)
    model = fastest_form(checkpoint.model, weights=args.weights)
    generator = torch.Generator(args.device)
    generator = generator.manual_seed(generator.seed() if args.seed is None else args.seed)
    return (
        model,
        checkpoint.texts,
        {
            "max_new_tokens": args.max_new_tokens,
            "sampler": _Timed(greedy if args.temperature == 0 else Sampler(*processors, generator=generator)),
            "overflow": args.overflow,
            "allowed_special": "all" if "all" in args.allowed_special else args.allowed_special,
        },
    )


def serve(args: argparse.Namespace) -> None:
    name = args.name or Path(args.checkpoint).name
    model = LocalModel.open(args.checkpoint, dtype=args.dtype, device=args.device, weights=args.weights)
    with CompletionServer(model, name, host=args.host, port=args.port, quiet=args.quiet) as server:
        print(f"{name} is served at {server.url}; Ctrl-C stops it", flush=True)
        server.serve_forever()


def self_instruct(args: argparse.Namespace) -> None:
    price = None if args.price is None else _price(args.price)
    settings = Settings(
        seed=args.seed,
        n_prompts=args.prompts,
        threshold=args.threshold,
        temperature=args.temperature,
        top_p=args.top_p,
        instruction_tokens=args.max_tokens,
        instance_tokens=args.instance_tokens,
    )
    seeds = read_tasks(args.seeds)
    generator, name = _text_generator(args)
    pool = Pool(seeds, args.out, {**settings.to_json(), "generator": name})
    try:
        grow(pool, generator, n_tasks=args.tasks, settings=settings, progress=sys.stderr.isatty())
    finally:  # after Ctrl-C too, since all of this has been paid
        if pool.rounds:
            _print_pool(pool, price)
    if args.conversations is not None:
        n = write_conversations(pool.generated, args.conversations)
        print(f"{n:,} conversations are in {args.conversations}.")


def _text_generator(args: argparse.Namespace) -> tuple[TextGenerator, str]:
    """What writes the tasks, and the name under which the pool remembers it."""
    if args.checkpoint is not None:
        if args.model is not None or args.chat:
            raise ValueError("--model and --chat belong to --server, and not to --checkpoint")
        return LocalModel.open(args.checkpoint, dtype=args.dtype, device=args.device), Path(args.checkpoint).name
    if args.model is None:
        raise ValueError("--server needs --model, the name of the model there")
    server = OpenAIServer(
        args.server,
        args.model,
        chat=args.chat,
        journal=args.out.with_name(f"{args.out.name}.journal"),
        concurrency=args.concurrency,
        requests_per_minute=args.requests_per_minute,
        tokens_per_minute=args.tokens_per_minute,
        timeout=args.timeout,
    )
    return server, args.model


def _price(text: str) -> Price:
    try:
        read, written = (float(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"price={text!r} must be two numbers with a comma, such as 0.15,0.60") from None
    return Price(read, written)


def _print_pool(pool: Pool, price: Price | None) -> None:
    """Print what the pool has, how varied it is, and what it cost."""
    rows = []
    for name, value in statistics.describe(pool).items():
        if name.startswith("words of"):
            value = f"{value['mean']:.1f} on average, {value['least']} to {value['most']}"
        elif isinstance(value, dict):
            value = ", ".join(f"{reason} {n:,}" for reason, n in value.items()) or "none"
        elif isinstance(value, float):
            value = f"{value:.2f}"
        rows.append([name, f"{value:,}" if isinstance(value, int) else value])
    usage = pool.usage
    rows += [["requests", f"{usage.n_requests:,}"]]
    rows += [["tokens", f"{usage.n_prompt_tokens:,} read, {usage.n_tokens:,} written"]]
    if price is not None:
        dollars = price.cost(usage)
        each = f", {100 * dollars / len(pool.generated):.3f} cents for each task" if pool.generated else ""
        rows += [["cost", f"{dollars:.2f} dollars{each}"]]
    _print_table(["pool", ""], rows)


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


def export_run(args: argparse.Namespace) -> None:
    from llm_anatomy.training.lab.export import export  # as in train

    family = export(args.run, args.folder, family=args.family, step=args.step)
    print(f"The model is in {args.folder}, in the layout of {family}.")


def evaluate_checkpoint(args: argparse.Namespace) -> None:
    names = args.tasks or ([] if args.data else list(story_tasks.TASKS))
    if unknown := [name for name in names if name not in story_tasks.TASKS]:
        raise ValueError(f"{unknown[0]!r} is no task; there are {', '.join(story_tasks.TASKS)}, and files with --data")
    tasks = [story_tasks.TASKS[name]() for name in names] + [read_task(path) for path in args.data]
    checkpoint = read_checkpoint(args.name, dtype=args.dtype, device=args.device)
    settings = {name: getattr(args, name) for name in ("batch_size", "few_shot", "limit", "seed", "out", "name")}
    report = evaluate(checkpoint, tasks, **settings)
    if args.json:
        return _print_json(report.as_json())
    head = ["task", "items", "metric", "value", "95% interval"]
    _print_table(head, report.rows())
    if args.out is not None:
        print(f"\nThe report is in {args.out}, and the result of each item beside it, in {items_file(args.out)}.")


def _n_parameters(config: ModelConfig) -> int:
    n_source = 1 if config.kind == "encoder-decoder" else None
    return costs(config, n_tokens=1, n_source=n_source).total.n_parameters


def _row(record: Preset) -> dict[str, str]:
    """The columns of the list for one model, abbreviated so that they fit into a line."""
    values = {field: str(value) for field, value in record.values.items() if value}
    heads, kv_heads = values.get("n_heads"), values.get("n_kv_heads", values.get("n_heads"))
    attention = f"{heads} latent" if values.get("attention") == "latent" else f"{heads}/{kv_heads}"
    feedforward = values.get("feedforward", "—").replace("clamped_swiglu", "swiglu")
    n_parameters = f"{_n_parameters(record.config()):,}" if record.known else record.printed
    return {
        "model": record.name,
        "year": str(record.year),
        "kind": values.get("kind", "—").replace("encoder-decoder", "enc-dec"),
        "position": values.get("position", "—").replace("transformer_xl", "xl"),
        "norm": values.get("norm", "—").replace("unit_offset_rmsnorm", "1+rmsnorm"),
        "placed": values.get("norm_placement", "—") + (", parallel" if values.get("parallel_block") else ""),
        "feed-forward": feedforward + (" experts" if "moe.n_experts" in values else ""),
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
    _add_weights(command)
    command.add_argument("--device", default="cpu", help="such as cuda; default: %(default)s")


def _add_weights(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--weights",
        choices=[kind for kind in WEIGHTS if kind],
        help="store the weight matrices with fewer bits where their sizes allow it, which makes generation faster and "
        "changes its texts",
    )


def _add_tokenize(commands: Any) -> None:
    command = _add_command(
        commands,
        "tokenize",
        "encode a corpus, and write the shards of tokens that models are trained on",
        epilog="examples: tokenize ./texts --out ./shards --train-tokenizer 8192; tokenize roneneldan/TinyStories "
        "--out ./stories --tokenizer openai-community/gpt2 --workers 8. If it is interrupted, the same command again "
        "continues it.",
    )
    command.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder with .txt, .md, .jsonl or .parquet files, such a file, the name of a data set on the Hugging "
        "Face hub, or stories:N for so many of the package's own stories; a text file may hold several documents, "
        f"divided by {END_OF_TEXT}",
    )
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the shards")
    tokenizers = command.add_mutually_exclusive_group(required=True)
    tokenizers.add_argument(
        "--tokenizer", metavar="NAME", help=f"a .json file with a tokenizer, or that of a checkpoint: {NAMED}"
    )
    tokenizers.add_argument(
        "--train-tokenizer",
        type=int,
        metavar="N_VOCAB",
        help="train byte pair encoding on the first 10 million characters",
    )
    command.add_argument(
        "--validation", type=float, default=0.01, help="the part kept for validation; default: %(default)s"
    )
    command.add_argument("--workers", type=int, default=1, help="number of processes; default: %(default)s")
    command.add_argument("--field", help="the key or column with the document; default: text, or messages")
    command.add_argument("--subset", help="of a data set that has several")
    command.add_argument(
        "--conversations",
        type=int,
        metavar="N_TOKENS",
        help="the documents are lists of messages, to be written with the chat template of the checkpoint and packed "
        "into rows of so many tokens, as many as a sequence has in training",
    )
    command.add_argument(
        "--loss",
        choices=("responses", "all"),
        default="responses",
        help="what a model learns of conversations: what the assistant says, or all; default: %(default)s",
    )
    command.set_defaults(action=write_shards)


def _add_serve(commands: Any) -> None:
    command = _add_command(
        commands,
        "serve",
        "serve a model with OpenAI's API, for clients on this computer or in a classroom",
        epilog="examples: serve ./my-model --port 8000; serve story_rope; then the clients' base_url is "
        "http://127.0.0.1:8000/v1, and any text is a key. It answers /v1/models, /v1/completions and "
        "/v1/chat/completions, also as a stream. There are no accounts: --host 0.0.0.0 opens it to everybody in the "
        "network.",
    )
    command.add_argument(
        "checkpoint", metavar="CHECKPOINT", help=f"{NAMED}; or a model that ships with the package, such as story_rope"
    )
    command.add_argument("--name", help="of the model, for its clients; default: the last part of CHECKPOINT")
    command.add_argument("--host", default="127.0.0.1", help="the address to listen at; default: %(default)s")
    command.add_argument("--port", type=int, default=8000, help="0 takes a free one; default: %(default)s")
    command.add_argument("--dtype", help="such as bfloat16; default: that of the files")
    _add_weights(command)
    command.add_argument("--device", default="cpu", help="such as cuda; default: %(default)s")
    command.add_argument("--quiet", action="store_true", help="do not log requests")
    command.set_defaults(action=serve)


def _add_self_instruct(commands: Any) -> None:
    defaults = Settings()
    command = _add_command(
        commands,
        "self-instruct",
        "let a model write instructions with inputs and outputs, from a few seed tasks (Self-Instruct)",
        epilog="examples: self-instruct seeds.jsonl --out pool.jsonl --tasks 100 --server http://127.0.0.1:8000/v1 "
        "--model my-model; self-instruct seeds.jsonl --out pool.jsonl --tasks 100 --checkpoint ./my-model. "
        "The same command continues a pool after an interruption or, with more --tasks, when it is complete; the "
        "answers of a server are written down in a journal beside the pool, so that none of them is paid twice. The "
        "key of a server is read from the environment variable OPENAI_API_KEY. tokenize --conversations reads the "
        "file that --conversations writes.",
    )
    command.add_argument(
        "seeds", metavar="SEEDS", type=Path, help="a JSONL file of at least eight tasks: instruction, instances"
    )
    command.add_argument("--out", type=Path, required=True, help="the file of the pool")
    command.add_argument("--tasks", type=int, required=True, help="how many generated tasks there are at the end")
    by = command.add_mutually_exclusive_group(required=True)
    by.add_argument("--server", metavar="URL", help="an OpenAI-compatible server, with the version of the API")
    by.add_argument("--checkpoint", help=f"a model on this computer: {NAMED}")
    command.add_argument("--model", help="the name of the model on the server")
    command.add_argument("--chat", action="store_true", help="ask a server that has only chats")
    command.add_argument("--conversations", type=Path, metavar="FILE", help="write the instances as messages, too")
    command.add_argument("--price", metavar="READ,WRITTEN", help="dollars for a million tokens, such as 0.15,0.60")
    command.add_argument("--seed", type=int, default=defaults.seed, help="default: %(default)s")
    command.add_argument("--prompts", type=int, default=defaults.n_prompts, help="in each round; default: %(default)s")
    command.add_argument(
        "--threshold", type=float, default=defaults.threshold, help="ROUGE-L of near-duplicates; default: %(default)s"
    )
    command.add_argument("--temperature", type=float, default=defaults.temperature, help="default: %(default)s")
    command.add_argument("--top-p", type=float, default=defaults.top_p, help="default: %(default)s")
    command.add_argument(
        "--max-tokens", type=int, default=defaults.instruction_tokens, help="of new instructions; default: %(default)s"
    )
    command.add_argument(
        "--instance-tokens", type=int, default=defaults.instance_tokens, help="of instances; default: %(default)s"
    )
    command.add_argument("--concurrency", type=int, default=4, help="requests at once; default: %(default)s")
    command.add_argument("--requests-per-minute", type=float, help="default: no limit")
    command.add_argument("--tokens-per-minute", type=float, help="default: no limit")
    command.add_argument("--timeout", type=float, default=120.0, help="seconds for an answer; default: %(default)s")
    command.add_argument("--dtype", help="of a checkpoint, such as bfloat16")
    command.add_argument("--device", default="cpu", help="of a checkpoint; default: %(default)s")
    command.set_defaults(action=self_instruct)


def _add_training(commands: Any) -> None:
    _add_command(commands, "train", f"train a model as a file describes it; {PROGRAM} --help lists what it may say")
    command = _add_command(
        commands,
        "export",
        "write the model of a training run in the layout of Hugging Face's library",
        epilog="examples: export runs/stories my-model; export runs/stories my-model --step 500 --family llama",
    )
    command.add_argument("run", metavar="RUN", type=Path, help="the folder of a run, or of a model")
    command.add_argument("folder", metavar="FOLDER", type=Path, help="must not exist, or be empty")
    command.add_argument("--family", help="such as llama or gpt2; by default the first that can represent the model")
    command.add_argument("--step", type=int, help="of a checkpoint; by default the model at the end of the run")
    command.set_defaults(action=export_run)


def _add_evaluation(commands: Any) -> None:
    command = _add_command(
        commands,
        "evaluate",
        "measure how well a model does on tasks, with intervals",
        epilog="examples: evaluate story_rope; evaluate openai-community/gpt2 --data questions.jsonl --few-shot 5 "
        '--out gpt2.json. A line of a file is like {"context": "The lake is", "choices": ["deep", "loud"], "answer": '
        '0}, or like {"prompt": "Two plus two is", "answers": ["four", "4"]}, or like {"text": "The lake is deep."}; '
        "llm_anatomy.evaluation.tasks says more. If an evaluation with --out is interrupted, the same command again "
        "continues it.",
    )
    command.add_argument("name", metavar="CHECKPOINT", help=f"{NAMED}; or one of {', '.join(story_tasks.STORED)}")
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
    _add_json_option(command, default=False)
    command.set_defaults(action=evaluate_checkpoint)


def _add_experiments(commands: Any) -> None:
    command = _add_command(commands, "experiment", "repeat an experiment of the book and write its tables")
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
    made = _add_command(
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
        description="Look at the models of the lectures, run released weights, tokenize texts and train models on "
        "them, evaluate and compare models, and repeat the book's experiments.",
        epilog="examples: models diff gpt-2 llama-3-8b; train CONFIG.yaml; experiment positions --seeds 0 1",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_models(commands)
    _add_generate(commands)
    _add_chat(commands)
    _add_serve(commands)
    _add_self_instruct(commands)
    _add_tokenize(commands)
    _add_training(commands)
    _add_evaluation(commands)
    _add_experiments(commands)
    add_arena(commands, _add_command)
    return top


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["train"]:  # another library reads its options
            return train(words[1:])
        args = parser().parse_args(words)
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
