"""Files are written whole, or not at all."""

import os
import stat
import threading

import pytest

from groundwork import write_whole


def test_a_file_is_replaced_and_has_its_mode(tmp_path):
    path = tmp_path / "key.json"
    path.write_bytes(b"old")
    write_whole(path, b"new", mode=0o600)
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "marks.csv"
    path.write_bytes(b"old")

    def full(descriptor, *_):
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_threads_may_write_the_same_file_at_once(tmp_path):
    path, errors = tmp_path / "file", []

    def write(content):
        try:
            for _ in range(200):
                write_whole(path, content)
        except OSError as e:
            errors.append(e)

    threads = [threading.Thread(target=write, args=(bytes([n]) * 100_000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(set(path.read_bytes())) == 1 and list(tmp_path.iterdir()) == [path]
