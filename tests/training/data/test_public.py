"""Public corpora: fetched once, checked, kept whole; a plain word where there is no network. None is used here."""

import hashlib
import io
from contextlib import nullcontext

import pytest

from llm_anatomy.training.data import public
from llm_anatomy.training.data.public import CORPORA, PublicCorpus, public_text

CONTENT = "To be, or not to be – that is the question.\n".encode()


@pytest.fixture
def corpus(monkeypatch):
    corpus = PublicCorpus("https://example.org/a.txt", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), "a line")
    monkeypatch.setitem(CORPORA, "line", corpus)


def network(monkeypatch, content):
    """A network that gives this, or raises it; the list of what was asked."""
    asked = []

    def urlopen(url, timeout):
        asked.append((url, timeout))
        if isinstance(content, Exception):
            raise content
        return nullcontext(io.BytesIO(content))

    monkeypatch.setattr(public, "urlopen", urlopen)
    return asked


def test_a_text_is_fetched_once(corpus, monkeypatch, tmp_path):
    asked = network(monkeypatch, CONTENT)
    for _ in range(2):
        assert public_text("line", tmp_path / "new", timeout=3.0) == CONTENT.decode()
    assert asked == [("https://example.org/a.txt", 3.0)]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["line.txt"]


@pytest.mark.parametrize("error", [OSError("no route to host"), TimeoutError("timed out")])
def test_without_a_network_the_error_says_so(corpus, monkeypatch, tmp_path, error):
    network(monkeypatch, error)
    with pytest.raises(ConnectionError, match=f"line is not in .*{error}.* Without a network, .*stories"):
        public_text("line", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x", b"<html>not found</html>", b""])
def test_other_bytes_are_refused_and_not_kept(corpus, monkeypatch, tmp_path, content):
    network(monkeypatch, content)
    with pytest.raises(ValueError, match="SHA-256 .*example.org"):
        public_text("line", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_kept_text_that_was_changed_is_refused(corpus, monkeypatch, tmp_path):
    network(monkeypatch, OSError("off"))
    (tmp_path / "line.txt").write_bytes(CONTENT[:10])
    with pytest.raises(ValueError, match="line.txt; delete it"):
        public_text("line", tmp_path)


def test_a_failure_while_writing_leaves_nothing(corpus, monkeypatch, tmp_path):
    network(monkeypatch, CONTENT)
    monkeypatch.setattr(public.os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        public_text("line", tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_is_named_is_named_fully():
    for corpus in CORPORA.values():
        assert corpus.url.startswith("https://") and corpus.n_bytes > 0 and corpus.about
        assert len(bytes.fromhex(corpus.sha256)) == 32
    with pytest.raises(ValueError, match="name='bible'.*tiny_shakespeare"):
        public_text("bible")
