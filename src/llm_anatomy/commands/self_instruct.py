"""The command ``self-instruct``."""

import argparse
import sys
from pathlib import Path

from llm_anatomy.commands.options import NAMED, print_table
from llm_anatomy.data_generation import statistics
from llm_anatomy.data_generation.client import OpenAIServer
from llm_anatomy.data_generation.cost import Price
from llm_anatomy.data_generation.generators import TextGenerator
from llm_anatomy.data_generation.local_model import LocalModel
from llm_anatomy.data_generation.pipeline import Settings, grow
from llm_anatomy.data_generation.pool import Pool, read_tasks, write_conversations


def add_self_instruct(command: argparse.ArgumentParser) -> None:
    defaults = Settings()
    command.epilog = (
        "examples: self-instruct seeds.jsonl --out pool.jsonl --tasks 100 --server http://127.0.0.1:8000/v1 "
        "--model my-model; self-instruct seeds.jsonl --out pool.jsonl --tasks 100 --checkpoint ./my-model. "
        "The same command continues a pool after an interruption or, with more --tasks, when it is complete; the "
        "answers of a server are written down in a journal beside the pool, so that none of them is paid twice. The "
        "key of a server is read from the environment variable OPENAI_API_KEY. tokenize --conversations reads the "
        "file that --conversations writes."
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
    command.add_argument("--price", metavar="INPUT,OUTPUT", help="dollars for a million tokens, such as 0.15,0.60")
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
    print_table(["pool", ""], rows)
