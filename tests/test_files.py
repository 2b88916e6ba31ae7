"""JSON files that are read field by field, and files that are written completely or not at all."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from llm_anatomy import files
from llm_anatomy.files import Record, write_atomically
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.simple import ByteTokenizer

MALFORMED = {
    "not JSON": (b'{\n "kind": "BPE",\n oops', "t.json, line 3, column 2"),
    "no object": (b"[1]", "t.json, line 1: the file must hold a JSON object, not list"),
    "duplicate key": (b'{"kind": 1, "kind": 2}', "t.json, key 'kind': the key occurs twice"),
    "duplicate key inside": (b'{"a": {"b": 1, "c": 2, "b": 3}}', "t.json, key 'b': the key occurs twice"),
    "not UTF-8": (b'{\n"kind": "\xff"}', "t.json, line 2: not UTF-8"),
    "nested too deeply": (b'{"a":' * 100_000, "t.json: the file is nested too deeply to be read"),
}


@pytest.mark.parametrize("read", [Record.read, BPE.load], ids=["record", "tokenizer"])
@pytest.mark.parametrize(("content", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_refused_with_the_line_or_key(tmp_path, read, content, problem):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        read(tmp_path / "t.json")


def test_fields_are_taken_by_key_and_type():
    record = Record("t.json", {"n": 3, "yes": True, "x": 0.5, "texts": ["a"]})
    assert record.take("n", int) == 3 and record.take("yes", bool) is True and record.take("texts", list) == ["a"]
    with pytest.raises(ValueError, match="t.json: key 'm' is missing"):
        record.take("m", int)
    for key, kind in (("n", str), ("n", bool), ("yes", int), ("x", int), ("texts", dict)):
        with pytest.raises(ValueError, match=f"t.json, key '{key}': it must be of type {kind.__name__}, not "):
            record.take(key, kind)
    with pytest.raises(ValueError, match="^t.json, key 'n': 3 is odd$"):
        record.refuse("n", "3 is odd")


def test_errors_in_the_context_name_the_file_once():
    record = Record("t.json", {})
    message = "^t.json: the model does not fit together: n=3 is odd$"
    with pytest.raises(ValueError, match=message), record.name_in_errors("the model"):
        raise ValueError("n=3 is odd")
    with pytest.raises(ValueError, match="^t.json, key 'n': 3 is odd$"), record.name_in_errors("the model"):
        record.refuse("n", "3 is odd")


@pytest.mark.parametrize("content", [b"\xff\r\n", "é\r\n"], ids=["bytes", "text"])
def test_what_is_written_replaces_the_old_file(tmp_path, content):
    path = tmp_path / "a.txt"
    for _ in range(2):
        write_atomically(path, content)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
        write_atomically(str(path), "another, longer content")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    ByteTokenizer().save(path)
    before = path.read_bytes()

    def fail(*paths):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", fail)
    for write in (lambda: BPE.train(["aa"], 257).save(path), lambda: write_atomically(path, b"new")):
        with pytest.raises(OSError, match="disk full"):
            write()
        assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_threads_may_write_the_same_file(tmp_path):
    path, contents = tmp_path / "a.json", [letter * 20_000 for letter in "abcd"]

    def write(content):
        for _ in range(100):
            write_atomically(path, content)

    with ThreadPoolExecutor(len(contents)) as pool:
        list(pool.map(write, contents))
    assert path.read_text() in contents and list(tmp_path.iterdir()) == [path]
