"""Tokenization: the same files for any number of workers and after any interruption; each document begins alike."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer
from llm_anatomy.training.data import tokenization
from llm_anatomy.training.data.shards import ShardWriter, TokenShards
from llm_anatomy.training.data.sources import DocumentSource
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.data.tokenization import TextEncoder, tokenize, train_tokenizer, with_special_token

END = "<|endoftext|>"
TEXTS = list(stories(n=40))


@pytest.fixture(scope="module")
def tokenizer():
    return BPE.train(TEXTS, 600, special_tokens=[END, "<|user|>"])


@pytest.fixture
def source(tmp_path):
    (tmp_path / "stories.txt").write_text(END.join(TEXTS), "utf-8")
    return DocumentSource(tmp_path / "stories.txt")


def encoder(tokenizer):
    return TextEncoder(tokenizer, [tokenizer.special_tokens[END]])


def documents(folder, split):
    """The documents of a split, as lists of ids."""
    shards = TokenShards(folder, split)
    ids, numbers = shards.ids(0, shards.n_tokens), shards.documents(0, shards.n_tokens)
    return [part.tolist() for part in np.split(ids, np.flatnonzero(np.diff(numbers)) + 1)]


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.syllabus("GT-03")
def test_each_document_is_there_once_after_the_end_of_the_one_before(tmp_path, source, tokenizer):
    n = tokenize(source, tmp_path / "out", encoder(tokenizer), validation=0.1)
    of_splits = {split: documents(tmp_path / "out", split) for split in ("train", "validation")}
    expected = [[tokenizer.special_tokens[END], *tokenizer.encode(text)] for text in TEXTS]
    assert sorted(of_splits["train"] + of_splits["validation"]) == sorted(expected)
    assert of_splits["train"] == [d for d in expected if d in of_splits["train"]]  # in the order of the source
    assert n == {split: sum(map(len, found)) for split, found in of_splits.items()}
    assert n["validation"] / sum(n.values()) == pytest.approx(0.1, abs=0.03)
    saved = Tokenizer.load(TokenShards(tmp_path / "out", "train").tokenizer)
    assert saved.decode(of_splits["train"][0][1:]) == TEXTS[0]


def test_the_files_are_the_same_for_any_number_of_workers(tmp_path, source, tokenizer, monkeypatch):
    monkeypatch.setattr(tokenization, "CHUNK", 3000)
    for workers in (1, 2):
        tokenize(source, tmp_path / str(workers), encoder(tokenizer), workers=workers, shard_tokens=2000)
    assert files(tmp_path / "1") == files(tmp_path / "2") and len(files(tmp_path / "1")) > 8


@pytest.mark.parametrize("n_written", [0, 1, 3])
def test_an_interrupted_run_is_continued_to_the_same_files(tmp_path, source, tokenizer, monkeypatch, n_written):
    monkeypatch.setattr(tokenization, "CHUNK", 3000)
    tokenize(source, tmp_path / "whole", encoder(tokenizer), shard_tokens=2000)
    original, written = ShardWriter._write, []

    def stops(self, *, complete):
        if len(written) == n_written:
            raise KeyboardInterrupt
        written.append(1)
        original(self, complete=complete)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ShardWriter, "_write", stops)
        tokenize(source, tmp_path / "part", encoder(tokenizer), shard_tokens=2000)
    assert len(written) == n_written
    encoded, original = [], TextEncoder.__call__
    monkeypatch.setattr(TextEncoder, "__call__", lambda self, texts: encoded.extend(texts) or original(self, texts))
    tokenize(source, tmp_path / "part", encoder(tokenizer), shard_tokens=2000)
    assert files(tmp_path / "part") == files(tmp_path / "whole")
    assert len(encoded) == 40 if n_written == 0 else len(encoded) < 40 - 2 * n_written  # the rest is not done again


def test_another_source_or_encoder_does_not_continue_what_was_begun(tmp_path, source, tokenizer, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tokenization, "CHUNK", 3000)
        calls = iter(range(9))
        original = ShardWriter.read

        def stops(self, n):
            if next(calls) == 5:
                raise KeyboardInterrupt
            original(self, n)

        patch.setattr(ShardWriter, "read", stops)
        tokenize(source, tmp_path / "out", encoder(tokenizer), shard_tokens=2000)
    with pytest.raises(ValueError, match="holds a part of another corpus .settings was"):
        tokenize(source, tmp_path / "out", TextEncoder(tokenizer, [5]))
    (tmp_path / "stories.txt").write_text(END.join(TEXTS) + "more", "utf-8")
    with pytest.raises(ValueError, match="holds a part of another corpus .settings was"):
        tokenize(DocumentSource(tmp_path / "stories.txt"), tmp_path / "out", encoder(tokenizer))


def test_special_tokens_in_a_text_are_left_out_and_an_empty_text_too(tokenizer):
    texts = ["One <|user|>two", "", f"{END}", f"a{END}"]
    found = [document.ids.tolist() for (document,) in encoder(tokenizer)(texts)]
    end = tokenizer.special_tokens[END]
    assert found == [[end, *tokenizer.encode("One "), *tokenizer.encode("two")], [end, *tokenizer.encode("a")]]


def test_the_ids_around_a_text_are_the_callers(tokenizer):
    ((document,),) = TextEncoder(tokenizer, [7, 8], [9])(["a"])
    assert document.ids.tolist() == [7, 8, *tokenizer.encode("a"), 9] and document.targets is None


@pytest.mark.parametrize(("validation", "n_train"), [(0.25, 9), (0.0, 12), (0.01, 12), (0.999, 2)])
def test_of_a_single_document_the_end_is_kept_for_validation(tmp_path, validation, n_train):
    (tmp_path / "a.txt").write_text("hello world")
    encode = TextEncoder(ByteTokenizer([END]), [256])
    n = tokenize(DocumentSource(tmp_path / "a.txt"), tmp_path / "out", encode, validation=validation)
    expected = [256, *b"hello world"]
    assert documents(tmp_path / "out", "train") == [expected[:n_train]] and n["train"] == n_train
    if n_train < 12:
        assert documents(tmp_path / "out", "validation") == [[256, *expected[n_train:]]]
    else:
        assert "validation" not in n


@pytest.mark.parametrize("workers", [1, 2])
def test_a_document_that_cannot_be_encoded_is_named(tmp_path, workers, monkeypatch):
    monkeypatch.setattr(tokenization, "CHUNK", 3)
    (tmp_path / "a.jsonl").write_text('{"text": "aa"}\n{"text": "ab"}\n{"text": "ac"}\n{"text": "a"}\n')
    encode = TextEncoder(CharacterTokenizer("ab"))
    with pytest.raises(ValueError, match="document 2: .*'c'"):
        tokenize(DocumentSource(tmp_path), tmp_path / "out", encode, workers=workers)


def test_a_bad_line_and_an_empty_source_are_said(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n')
    encode = TextEncoder(ByteTokenizer())
    with pytest.raises(ValueError, match="holds no text: none of its documents has a token"):
        tokenize(DocumentSource(tmp_path), tmp_path / "out", encode)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    with pytest.raises(ValueError, match="a.jsonl, line 2: the value of 'text' must be a text, not 1"):
        tokenize(DocumentSource(tmp_path), tmp_path / "out", encode, workers=2)


class Killed(TextEncoder):
    def __call__(self, texts):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_one_sentence(tmp_path, source):
    with pytest.raises(ChildProcessError, match="a worker was ended from outside.* the same command again continues"):
        tokenize(source, tmp_path / "out", Killed(ByteTokenizer()), workers=2)


class Slow(TextEncoder):
    """Says in which process it is, and stays there."""

    def __call__(self, texts):
        Path(texts[0]).write_text(str(os.getpid()))
        time.sleep(600)


SCRIPT = """
from test_tokenization import ByteTokenizer, DocumentSource, Slow, sys, tokenize
if __name__ == "__main__":
    tokenize(DocumentSource(sys.argv[1]), sys.argv[2], Slow(ByteTokenizer()), workers=2)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux which processes run")
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "a.txt").write_text(str(tmp_path / "pid"))
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = [str(Path(tokenization.__file__).parents[3]), str(Path(__file__).parent)]
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "a.txt"), str(tmp_path / "out")]
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    try:
        assert waits_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    finally:
        parent.kill()
        parent.wait()
    assert waits_for(lambda: not is_running(int((tmp_path / "pid").read_text())))


def waits_for(condition):
    end = time.monotonic() + 120
    while time.monotonic() < end and not condition():
        time.sleep(0.05)
    return condition()


def is_running(process):
    """A process that has ended may still be listed until its new parent has asked for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("options", "sentence"), [({"validation": 1.0}, "validation=1.0 must be"), ({"workers": 0}, "workers=0 must be")]
)
def test_bad_options_are_refused_before_anything_is_written(tmp_path, source, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        tokenize(source, tmp_path / "out", TextEncoder(ByteTokenizer()), **options)
    assert not (tmp_path / "out").exists()


# --- The tokenizer ---


def test_a_trained_tokenizer_has_read_the_beginning_alone(source):
    expected = BPE.train(TEXTS[:3], 400, special_tokens=[END])
    n = len(TEXTS[0]) + len(TEXTS[1]) + 1
    assert train_tokenizer(source, 400, n_characters=n).vocabulary == expected.vocabulary


def hugging_face():
    pytest.importorskip("tokenizers")
    vocab = {"[UNK]": 0, "hello": 1, "world": 2}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}
    return HuggingFaceTokenizer.from_json({"model": model, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": []})


@pytest.mark.parametrize(
    "make",
    [ByteTokenizer, lambda: ByteTokenizer(["<s>"]), lambda: BPE.train(TEXTS[:2], 300), hugging_face],
    ids=["bytes", "with another", "bpe", "hugging face"],
)
def test_a_special_token_is_added_after_all_others(make):
    before = make()
    tokenizer = with_special_token(before, END)
    assert tokenizer.special_tokens == {**before.special_tokens, END: before.n_vocab}
    assert tokenizer.n_vocab == before.n_vocab + 1 and type(tokenizer) is type(before)
    assert tokenizer.encode("hello world") == before.encode("hello world")
    assert tokenizer.encode(f"hello{END}", allowed_special="all") == [*before.encode("hello"), before.n_vocab]
    assert with_special_token(tokenizer, END) is tokenizer
