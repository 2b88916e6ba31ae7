"""The commands ``generate`` and ``chat``."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import torch

from llm_anatomy.commands.options import NAMED, add_quantize
from llm_anatomy.models.checkpoints import storage
from llm_anatomy.models.checkpoints.conversation import Conversation
from llm_anatomy.models.checkpoints.engine import Checkpoint
from llm_anatomy.models.loading import load
from llm_anatomy.models.sampling import make_sampler


def add_generate(command: argparse.ArgumentParser) -> None:
    command.epilog = "example: generate openai-community/gpt2 'The lake is' --max-new-tokens 40 --temperature 0.7"
    command.add_argument("name", metavar="NAME", help=NAMED)
    command.add_argument("prompt", metavar="PROMPT", help="the text to continue or, for an encoder-decoder, its source")
    _add_options_of_texts(command, max_new_tokens=50, temperature=1.0, overflow="stop")
    command.set_defaults(action=generate)


def add_chat(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "examples: chat HuggingFaceTB/SmolLM2-135M-Instruct --system 'Answer briefly.'; "
        "echo 'What is a lake?' | python -m llm_anatomy chat ./my-model"
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
    add_quantize(command)
    command.add_argument("--device", default="cpu", help="such as cuda; default: %(default)s")


def generate(args: argparse.Namespace) -> None:
    checkpoint, settings = _ready_to_write(args)
    for piece in checkpoint.stream(args.prompt, **settings):
        print(piece, end="", flush=True)
    print()
    if sys.stderr.isatty():
        _note(settings["sampler"].summary())


def chat(args: argparse.Namespace) -> None:
    checkpoint, settings = _ready_to_write(args)
    if checkpoint.texts.chat_template is None:
        raise ValueError(
            f"{args.name} has no chat template, so it was not made for conversations; "
            "the command generate continues a text with it"
        )
    conversation = checkpoint.conversation(system=args.system, **settings)
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


def _ready_to_write(args: argparse.Namespace) -> tuple[Checkpoint, dict[str, Any]]:
    """Check the options for generated texts, load the model, and return it with the settings."""
    if args.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={args.max_new_tokens} must be at least 1")
    numbers = {"temperature": args.temperature, "top_k": args.top_k, "top_p": args.top_p, "seed": args.seed}
    make_sampler(**numbers)  # refuses wrong numbers before the model is loaded
    checkpoint = load(args.name, dtype=args.dtype, device=args.device).for_inference(quantize=args.quantize)
    sampler = make_sampler(**numbers, device=args.device)
    return checkpoint, {
        "max_new_tokens": args.max_new_tokens,
        "sampler": _Timed(sampler),
        "overflow": args.overflow,
        "allowed_special": "all" if "all" in args.allowed_special else args.allowed_special,
    }
