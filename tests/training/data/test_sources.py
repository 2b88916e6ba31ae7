"""Sources: the same documents from every format, in a fixed order; what is malformed is a sentence with its line."""

import gzip
import json
import os
import sys

import pytest

from llm_anatomy.training.data import sources
from llm_anatomy.training.data.sources import DocumentSource

DOCUMENTS = ["Mia has a kite.\n", "Zwei Zeilen:\nund grün.", "", "🙂 last"]


def jsonl(path, documents, field="text"):
    path.write_text("".join(json.dumps({field: d, "n": i}) + "\n" for i, d in enumerate(documents)), "utf-8")


def parquet(path, documents, field="text"):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"n": list(range(len(documents))), field: documents})
    parquet.write_table(table, path, row_group_size=2)


def saved(path, documents, field="text"):
    pytest.importorskip("datasets").Dataset.from_dict({field: documents}).save_to_disk(path)


def saved_with_splits(path, documents, field="text"):
    datasets = pytest.importorskip("datasets")
    splits = {"train": documents, "test": ["not this"]}
    datasets.DatasetDict({s: datasets.Dataset.from_dict({field: d}) for s, d in splits.items()}).save_to_disk(path)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a"])
def test_a_text_file_is_divided_at_end_of_text(tmp_path, name, monkeypatch):
    (tmp_path / name).write_text("<|endoftext|>".join(DOCUMENTS), "utf-8")
    for block in (1, 5, 13, 1 << 20):  # characters and the token itself are cut anywhere
        monkeypatch.setattr(sources, "BLOCK", block)
        assert list(DocumentSource(tmp_path / name)) == DOCUMENTS
    (tmp_path / name).write_text("a <|endoftext| b", "utf-8")
    assert list(DocumentSource(tmp_path / name)) == ["a <|endoftext| b"]


@pytest.mark.parametrize("write", [jsonl, parquet, saved, saved_with_splits])
@pytest.mark.parametrize("field", ["text", "content"])
def test_every_format_gives_the_documents(tmp_path, write, field):
    path = tmp_path / f"data.{write.__name__}"
    write(path, DOCUMENTS, field)
    found = DocumentSource(path, field=field)
    assert list(found) == DOCUMENTS == list(found)


def test_a_folder_is_read_in_the_order_of_its_files(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b/z.txt").write_text("3")
    (tmp_path / "b/c.md").write_text("2")
    jsonl(tmp_path / "a.jsonl", ["0", "1"])
    parquet(tmp_path / "c.parquet", ["4"])
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write('{"text": "5"}\n\n{"text": "6"}')
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert list(DocumentSource(tmp_path)) == list("0123456")


def test_the_position_goes_from_nothing_to_all_bytes(tmp_path):
    (tmp_path / "a.txt").write_text("x" * 50_000 + "<|endoftext|>y")
    jsonl(tmp_path / "b.jsonl", ["word " * 5_000] * 20)
    parquet(tmp_path / "c.parquet", [str(i) * 9 for i in range(3000)])
    with gzip.open(tmp_path / "d.txt.gz", "wt") as file:
        file.write("z")
    parquet(tmp_path / "e.parquet", [])
    found = DocumentSource(tmp_path)
    positions = [found.position for _ in found]
    assert positions == sorted(positions) and len(set(positions)) > 20 and positions[-1] <= found.n_bytes
    assert found.position == found.n_bytes == sum(f.stat().st_size for f in tmp_path.iterdir())


def test_conversations_are_lists(tmp_path):
    messages = [[{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Ho"}]]
    for write in (jsonl, parquet, saved):
        write(tmp_path / f"data.{write.__name__}", messages, "messages")
        assert list(DocumentSource(tmp_path / f"data.{write.__name__}", field="messages", kind=list)) == messages
    (tmp_path / "a.txt").write_text("Hi")
    with pytest.raises(ValueError, match="a.txt holds text files, which have no key 'messages'"):
        DocumentSource(tmp_path / "a.txt", field="messages", kind=list)


class Hub:
    """In place of the library, and of a network."""

    def __init__(self, error=None):
        self.error = error

    def load_dataset(self, *names, **options):
        self.asked = names, options
        if self.error:
            raise self.error
        return iter([{"text": "one"}, {"text": "two"}])


def test_a_name_that_is_no_path_is_streamed_from_the_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", hub := Hub())
    assert list(DocumentSource("owner/stories", subset="short")) == ["one", "two"]
    assert hub.asked == (("owner/stories", "short"), {"split": "train", "streaming": True})
    monkeypatch.setitem(sys.modules, "datasets", Hub(ConnectionError("no network\nand so on")))
    with pytest.raises(ValueError) as error:
        DocumentSource("owner/stories")
    sentence = "owner/stories is no file or folder here, and no data set that can be read: ConnectionError: no network"
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"text": "a"', "line 3, column 13: Expecting ',' delimiter"),
        (b"plain", "line 3, column 1: Expecting value"),
        (b'{"text": "\xff"}', r"line 3: not UTF-8 \(invalid start byte\)"),
        (b'["text"]', r"line 3: it must be an object with the key 'text', not \['text'\]"),
        (b'{"body": "a", "id": 3}', "line 3: there is no key 'text'; there are body, id"),
        (b'{"text": null}', "line 3: the value of 'text' must be a text, not None"),
        (b"[" * 100_000, "line 3: it is nested too deeply to be read"),
    ],
)
def test_a_bad_line_is_one_sentence(tmp_path, line, sentence):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n\n' + line + b"\n")
    found = iter(DocumentSource(tmp_path))
    assert next(found) == "good"
    with pytest.raises(ValueError, match="a.jsonl, " + sentence) as error:
        next(found)
    assert len(str(error.value)) < 300 and "\n" not in str(error.value)


def test_a_text_that_is_not_utf_8_is_said_with_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("grün\n<|endoftext|>\nzwei\n".encode() + "grün".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a.txt, line 4: not UTF-8 \(invalid"):
        list(DocumentSource(tmp_path))


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"a text" * 99)[:-12]], ids=["other", "cut"])
def test_a_damaged_gzip_file_is_named(tmp_path, content):
    (tmp_path / "a.txt.gz").write_bytes(content)
    with pytest.raises(ValueError, match="a.txt.gz is no whole file of gzip: ") as error:
        list(DocumentSource(tmp_path))
    assert "\n" not in str(error.value)


def test_a_bad_table_is_one_sentence(tmp_path):
    parquet(tmp_path / "a.parquet", ["one", None])
    with pytest.raises(ValueError, match="a.parquet, row 1: the value of 'text' must be a text, not None"):
        list(DocumentSource(tmp_path))
    with pytest.raises(ValueError, match="a.parquet has no column 'body'; it has n, text"):
        list(DocumentSource(tmp_path, field="body"))
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-3])
    with pytest.raises(ValueError, match="a.parquet, row 0: ") as error:
        list(DocumentSource(tmp_path))
    assert "\n" not in str(error.value)


def test_a_damaged_data_set_is_one_sentence(tmp_path):
    saved(tmp_path / "data", ["a"])
    (tmp_path / "data/dataset_info.json").write_text("{")
    with pytest.raises(ValueError, match="data cannot be read: "):
        DocumentSource(tmp_path / "data")


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "a.pdf").touch()
    with pytest.raises(ValueError, match="holds no file that ends in .txt, .md, .jsonl, .parquet, or .gz"):
        DocumentSource(tmp_path)


@pytest.mark.parametrize(("library", "name"), [("pyarrow.parquet", "a.parquet"), ("datasets", "owner/stories")])
def test_a_missing_library_is_one_sentence(tmp_path, monkeypatch, library, name):
    (tmp_path / "a.parquet").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=r"install \w+ \(pip install 'llm_anatomy\[training\]'\)") as error:
        list(DocumentSource(name))
    assert os.fspath(name) in str(error.value)
