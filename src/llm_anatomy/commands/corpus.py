"""The command ``tokenize``: from documents to shards of tokens."""

import argparse
from pathlib import Path

from llm_anatomy.commands.options import NAMED
from llm_anatomy.models.checkpoints.engine import open_checkpoint
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.loading import is_stored, load
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.training.data.instructions import ConversationEncoder
from llm_anatomy.training.data.sources import END_OF_TEXT, DocumentSource
from llm_anatomy.training.data.tokenization import Encoder, TextEncoder, tokenize, train_tokenizer, with_special_token


def add_tokenize(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "examples: tokenize ./texts --out ./shards --train-tokenizer 8192; tokenize roneneldan/TinyStories "
        "--out ./stories --tokenizer openai-community/gpt2 --workers 8. If it is interrupted, the same command again "
        "continues it."
    )
    command.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder with .txt, .md, .jsonl or .parquet files, such a file, the name of a data set on the Hugging "
        "Face hub, or stories:N for so many generated stories; a text file may hold several documents, "
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
        name = args.tokenizer
        texts = load(name).texts if is_stored(name) else open_checkpoint(name).read_texts()
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
