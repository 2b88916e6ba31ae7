"""Byte pair encoding of texts without borders between words, in Python, beside Hugging Face's tokenizers.

    python benchmarks/long_words.py [--out FOLDER]

A text that no pre-tokenizer cuts is one long word, so that training and encoding would take quadratic time if each
merge looked at the whole word. Each text is one word for both contestants: equal letters, two letters in turn, white
space, DNA, and Chinese characters of Zipf-like frequency. Both train to the same merges and encode to the same ids,
which is checked first. ``BPE`` merges bytes, ``CharacterBPE`` merges characters, with the same merges in Hugging
Face's model.

In each round both run once, in changing order; what is printed is the median of the ratios of our time to the peer's
(and their quartiles): below 1 is faster. With ``--out``, the table is written to ``FOLDER/long-words-cpu.md`` too.
"""

import argparse
import json
import random
from pathlib import Path

from measure import arguments, row, summary
from tokenization import timed
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from llm_anatomy.tokenizers.bpe import BPE, GPT2_BYTES, CharacterBPE
from llm_anatomy.tokenizers.files import gpt2_bytes
from llm_anatomy.tokenizers.pretokenization import NoSplit

N_TRAINING, N_ENCODING, N_VOCAB, GOAL = 20_000, 200_000, 1000, 3.0


def words(n_characters):
    """The long words by name."""
    rng = random.Random(0)
    chinese = range(0x4E00, 0x4E00 + 500)
    return {
        "equal letters": "a" * n_characters,
        "two letters": "ab" * (n_characters // 2),
        "white space": " \t" * (n_characters // 2),
        "DNA": "".join(rng.choices("ACGT", k=n_characters)),
        "Chinese": "".join(map(chr, rng.choices(chinese, [1 / (i + 1) for i in range(500)], k=n_characters))),
    }


def train_hugging_face(word):
    peer = Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=N_VOCAB, initial_alphabet=alphabet, show_progress=False)
    peer.train_from_iterator([word], trainer)
    return peer


def train(word):
    return BPE.train([word], N_VOCAB, pre_tokenizer=NoSplit(), byte_alphabet=GPT2_BYTES)


def on_characters(ours):
    """Hugging Face's model with the vocabulary and the merges of a ``CharacterBPE``."""
    texts = [f"<0x{i:02X}>" for i in range(256)] + [token.decode() for token in ours.vocabulary[256:]]
    merges = [(texts[left], texts[right]) for left, right in ours.merges]
    return Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, merges, byte_fallback=True))


def compare(name, word, text, rounds):
    """Train on the word and encode the text; print a row for each task, and return the cells of the table."""
    ours, peer = train(word), train_hugging_face(word)
    theirs = [tuple(map(gpt2_bytes, pair)) for pair in json.loads(peer.to_str())["model"]["merges"]]
    assert theirs == [(ours.vocabulary[left], ours.vocabulary[right]) for left, right in ours.merges]
    characters = CharacterBPE.train([word], N_VOCAB, pre_tokenizer=NoSplit())
    its_peer = on_characters(characters)
    assert ours.encode(text) == peer.encode(text).ids
    assert characters.encode(text) == its_peer.encode(text).ids
    tasks = {
        f"training, {N_TRAINING:,} characters": (lambda: train(word), lambda: train_hugging_face(word)),
        f"encoding, {N_ENCODING:,} characters": (lambda: ours.encode(text), lambda: peer.encode(text)),
        "encoding on characters": (lambda: characters.encode(text), lambda: its_peer.encode(text)),
    }
    cells = []
    for task, contestants in tasks.items():
        measured = timed(*[lambda run=run: run for run in contestants], rounds)
        row(f"{name + ': ' + task:44}", measured, GOAL)
        middle, low, high, milliseconds = summary(measured)
        cells.append(f"{middle:.2f} [{low:.2f}, {high:.2f}] of {milliseconds:,.0f} ms")
    return cells


if __name__ == "__main__":
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--out", type=Path, help="folder for the table")
    given = arguments(__doc__, where)
    lines = [
        f"| text | training, {N_TRAINING:,} characters | encoding {N_ENCODING:,}, on bytes | on characters |",
        "| --- | --- | --- | --- |",
    ]
    encoded = words(N_ENCODING)
    print(f"{'':44} ratio  quartiles     peer (ms)")
    for name, word in words(N_TRAINING).items():
        lines.append(f"| {name} | {' | '.join(compare(name, word, encoded[name], given.rounds))} |")
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        head = (
            f"Our time over Hugging Face's: median of {given.rounds} rounds [quartiles] of the peer's median time.\n\n"
        )
        (given.out / "long-words-cpu.md").write_text(head + "\n".join(lines) + "\n")
