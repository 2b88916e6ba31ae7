"""JSON files that are read field by field, files that are written completely or not at all, and lines of JSON."""

import json
import random
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from llm_anatomy import files
from llm_anatomy.files import JsonLines, Record, write_atomically
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


# --- Lines of JSON ---

VALUE = {"text": "ü\u2028\x85\r\n", "n": 1.5}


def test_an_unfinished_line_is_not_read_and_the_next_one_replaces_it(tmp_path):
    lines = JsonLines(tmp_path / "a.jsonl")
    for _ in range(2):
        lines.append(VALUE)
    whole = lines.path.read_bytes()
    line = f"{json.dumps(VALUE, ensure_ascii=False)}\n".encode()
    assert whole == 2 * line
    for n in range(len(line)):
        for known in (0, 2):
            cut_off = known * line + line[:n]
            lines.path.write_bytes(cut_off)
            assert lines.read() == known * [VALUE] and lines.path.read_bytes() == cut_off
            lines.append(VALUE)
            assert lines.path.read_bytes() == known * line + line


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[" * 100_000, b'{"n": []}', b'{"m": 1}', b"3", b""])
def test_a_line_that_cannot_be_read_is_named(tmp_path, line):
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n' + line + b'\n{"n": 2}\n')
    with pytest.raises(ValueError, match="^a.jsonl, line 2: it has no n$"):
        JsonLines(tmp_path / "a.jsonl").read(lambda value: 3 // value["n"], problem="it has no n")


def test_files_of_people_may_have_empty_lines_and_no_line_break_at_the_end(tmp_path):
    (tmp_path / "a.jsonl").write_text("1\n\n  \n2")
    assert JsonLines(tmp_path / "a.jsonl").read(by_hand=True) == [1, 2]


def test_threads_may_append_to_the_same_file(tmp_path):
    lines, interval = JsonLines(tmp_path / "a.jsonl", exclusive=True), sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lines.append, range(1000)))
    finally:
        sys.setswitchinterval(interval)
    assert sorted(lines.read()) == list(range(1000))


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    lines, limits = JsonLines(tmp_path / "a.jsonl"), resource.getrlimit(resource.RLIMIT_FSIZE)
    lines.append(1)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))  # the system then writes less than it was given
        with pytest.raises(OSError, match="File too large: .*a.jsonl"):
            lines.append("a" * 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert lines.path.read_bytes() == b"1\n"


ENDLESS = """
import sys
from itertools import count
from llm_anatomy.files import JsonLines

lines = JsonLines(sys.argv[1])
for n in count(len(lines.read())):
    lines.append([n, "ü" * 500_000])
    print(n, flush=True)
"""


def test_after_a_kill_at_any_moment_every_line_whose_append_has_returned_is_there(tmp_path):
    (tmp_path / "a.jsonl").touch()
    draw = random.Random(0)
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", ENDLESS, tmp_path / "a.jsonl"], stdout=subprocess.PIPE) as program:
            try:
                returned = [int(program.stdout.readline()) for _ in range(draw.randint(1, 9))]
                size, until = (tmp_path / "a.jsonl").stat().st_size, time.monotonic() + draw.uniform(0, 0.02)
                while time.monotonic() < until and (tmp_path / "a.jsonl").stat().st_size == size:
                    pass  # a kill just after the file has begun to grow leaves an unfinished line
            finally:
                program.kill()
            returned += [int(line) for line in program.stdout if line.endswith(b"\n")]
        assert program.returncode == -signal.SIGKILL
        found = [n for n, _ in JsonLines(tmp_path / "a.jsonl").read()]
        assert found == list(range(len(found))) and returned[-1] + 1 <= len(found) <= returned[-1] + 2
