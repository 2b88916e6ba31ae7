"""Byte pair encoding in Python beside Hugging Face's tokenizers and tiktoken: training, encoding, memory.

    python benchmarks/tokenization.py

The text is 5 MB of real English, the docstrings of the standard library, numpy and torch, read in the order of their
names; a generated text has too few distinct words. The vocabulary has 8192 tokens and GPT-4's splitting pattern. All
contestants train to the same merges and encode to the same ids, which is checked first.

In each round every contestant runs once, in changing order; what is printed is the median of the ratios of the rounds
(and their quartiles) of our time to the peer's: below 1 is faster. Within 5 % counts as equal. Memory is the peak of
what Python allocates in training, over the bytes of the text.
"""

import ast
import importlib.util
import json
import sysconfig
import time
import tracemalloc
import warnings
from pathlib import Path

import tiktoken
from measure import arguments, row
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from llm_anatomy.tokenizers.bpe import BPE, GPT2_BYTES
from llm_anatomy.tokenizers.files import gpt2_bytes
from llm_anatomy.tokenizers.pretokenization import GPT4

N_BYTES, N_VOCAB = 5_000_000, 8192
TRAINING_GOAL, ENCODING_GOAL, MEMORY_GOAL = 3.0, 1 / 2.5, 10.0


def docstrings(n_bytes):
    """The docstrings of installed packages until there are enough, each a text."""
    folders = [Path(sysconfig.get_paths()["stdlib"])]
    folders += [Path(importlib.util.find_spec(name).origin).parent for name in ("numpy", "torch")]
    texts, size = [], 0
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if folder == folders[0] and "site-packages" in path.parts:
                continue
            try:
                with warnings.catch_warnings(action="ignore"):
                    tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    text = (ast.get_docstring(node) or "").encode(errors="ignore").decode()
                    texts += [text] * bool(text)
                    size += len(text.encode())
                    if size >= n_bytes:
                        return texts
    return texts


def train_hugging_face(texts):
    pattern = GPT4.pattern.replace("{1,3}+", "{1,3}").replace("$", r"\z")  # the same, as its engine writes it
    peer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    peer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=N_VOCAB, initial_alphabet=alphabet, show_progress=False)
    peer.train_from_iterator(texts, trainer)
    return peer


def train(texts):
    return BPE.train(texts, N_VOCAB, byte_alphabet=GPT2_BYTES)


def timed(ours, peer, rounds):
    """Our time over the peer's and the peer's seconds, in changing order. Each contestant is made anew by a first call,
    which is not counted, so that nothing is remembered from one round to the next."""
    result = []
    for i in range(rounds):
        seconds = {}
        for make in (ours, peer) if i % 2 else (peer, ours):
            run = make()
            start = time.perf_counter()
            run()
            seconds[make] = time.perf_counter() - start
        result.append((seconds[ours] / seconds[peer], seconds[peer]))
    return result


if __name__ == "__main__":
    given = arguments(__doc__)
    texts = docstrings(N_BYTES)
    text = "\n".join(texts)
    ours, peer = train(texts), train_hugging_face(texts)
    theirs = [tuple(map(gpt2_bytes, pair)) for pair in json.loads(peer.to_str())["model"]["merges"]]
    assert theirs == [(ours.vocabulary[left], ours.vocabulary[right]) for left, right in ours.merges]
    compiled = BPE(ours.vocabulary, ours.merges, backend="tiktoken")
    bare = tiktoken.Encoding(
        "bare", pat_str=GPT4.pattern, mergeable_ranks={t: i for i, t in enumerate(ours.vocabulary)}, special_tokens={}
    )
    assert ours.encode(text) == peer.encode(text).ids == bare.encode_ordinary(text) == compiled.encode(text)

    def fresh():
        tokenizer = BPE(ours.vocabulary, ours.merges, ignore_merges=True)
        return lambda: tokenizer.encode(text)

    def fresh_peer():
        tokenizer = Tokenizer.from_str(peer.to_str())
        return lambda: tokenizer.encode(text)

    print(f"{len(texts)} texts, {len(text.encode()):,} bytes, vocabulary {N_VOCAB}")
    print(f"{'':44} ratio  quartiles     peer (ms)")
    measured = timed(lambda: lambda: train(texts), lambda: lambda: train_hugging_face(texts), given.rounds)
    row(f"{'training / Hugging Face':44}", measured, TRAINING_GOAL)
    row(f"{'encoding, nothing remembered / Hugging Face':44}", timed(fresh, fresh_peer, given.rounds), ENCODING_GOAL)
    measured = timed(lambda: lambda: ours.encode(text), lambda: lambda: peer.encode(text), given.rounds)
    row(f"{'encoding, words remembered / Hugging Face':44}", measured, ENCODING_GOAL)
    measured = timed(lambda: lambda: ours.encode(text), lambda: lambda: bare.encode_ordinary(text), given.rounds)
    row(f"{'encoding, words remembered / tiktoken':44}", measured)
    measured = timed(lambda: lambda: compiled.encode(text), lambda: lambda: bare.encode_ordinary(text), given.rounds)
    row(f"{'backend=tiktoken / tiktoken':44}", measured, 1.0)

    tracemalloc.start()
    train(texts)
    memory = tracemalloc.get_traced_memory()[1] / len(text.encode())
    tracemalloc.stop()
    print(f"memory of training: {memory:.1f} × the text{'  above the goal' if memory > MEMORY_GOAL else ''}")
