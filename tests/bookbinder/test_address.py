"""The address of the repository: one line, and all that follows from it."""

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bookbinder import address, notebooks
from groundwork import Refusal

NEW = "https://github.com/new-owner/fork"


def test_what_follows_from_it(book):
    here = address.read(book.root)
    assert here.url == "https://github.com/someone/a-book"
    assert here.site == "https://someone.github.io/a-book"
    assert here.blob == "https://github.com/someone/a-book/blob/main"
    assert here.archive == "https://github.com/someone/a-book/archive/refs/heads/main.zip"
    notebooks.move("https://github.com/Someone/someone.github.io", book.root)
    assert address.read(book.root).site == "https://someone.github.io"


@pytest.mark.parametrize("given", [NEW, f"{NEW}/", f"{NEW}.git", f" {NEW}\n"])
def test_moving_changes_one_line_first_cells_and_links_and_runs_nothing(book, given, monkeypatch):
    monkeypatch.setattr(notebooks, "run", lambda page: pytest.fail("it was run"))
    config = book.root / "_config.yml"
    before = config.read_bytes()
    config.write_bytes(before.replace(b"\n", b"\r\n"))
    page = book.page("See {doc}`page`.\n\n```{code-cell}\n1\n```\n")
    book.store(page)
    old = page.notebook.read_text()

    assert notebooks.move(given, book.root) == [config, page.notebook]
    assert config.read_bytes() == before.replace(b"\n", b"\r\n").replace(
        b"https://github.com/someone/a-book", NEW.encode()
    )
    new = page.stored()
    assert new.cells[0].source == address.first_cell(NEW) != address.first_cell("https://github.com/someone/a-book")
    assert "https://new-owner.github.io/fork/book/small/page.html" in new.cells[1].source
    [page] = notebooks.pages(book.root)
    assert notebooks.problems(page) == []

    assert notebooks.move("https://github.com/someone/a-book", book.root) == [config, page.notebook]
    assert page.notebook.read_text() == old
    assert notebooks.move("https://github.com/someone/a-book", book.root) == []


@pytest.mark.parametrize(
    "url",
    ["", "github.com/a/b", "http://github.com/a/b", "https://example.org/a/b", "https://github.com/a"]
    + ["https://github.com/a/b/c", "https://github.com/a/b?x=1", "https://github.com/a/b c", 'https://github.com/a/b"'],
)
def test_a_bad_address_is_one_sentence_and_changes_nothing(book, url):
    before = (book.root / "_config.yml").read_bytes()
    with pytest.raises(Refusal) as refusal:
        notebooks.move(url, book.root)
    assert str(refusal.value) == (
        f"The address {url!r} cannot be used: it must be https://github.com/ORGANISATION/REPOSITORY, "
        "from where Colab opens notebooks."
    )
    assert (book.root / "_config.yml").read_bytes() == before


def test_a_notebook_older_than_its_text_is_refused_before_anything_changes(book):
    page = book.page("```{code-cell}\n1\n```\n")
    book.store(page)
    book.page("```{code-cell}\n2\n```\n")
    before = page.notebook.read_bytes(), (book.root / "_config.yml").read_bytes()
    with pytest.raises(
        Refusal, match=r"^book/small/page.nb.md has changed since its notebook was made; run .* first\.$"
    ):
        notebooks.move(NEW, book.root)
    assert (page.notebook.read_bytes(), (book.root / "_config.yml").read_bytes()) == before


def test_a_page_that_cannot_be_bound_leaves_the_old_address(book):
    page = book.page("Words.\n")
    book.store(page)
    book.page(":::{mermaid}\n:::\n")
    before = (book.root / "_config.yml").read_bytes()
    with pytest.raises(Refusal, match="mermaid"):
        notebooks.move(NEW, book.root)
    assert (book.root / "_config.yml").read_bytes() == before


@pytest.mark.parametrize("config", ["title: A\n", "repository:\n  branch: main\n", "repository: {url: 3}\n"])
def test_no_address_is_one_sentence(book, config):
    book.write("_config.yml", config)
    with pytest.raises(Refusal, match="must say where the repository is, under repository: url"):
        address.read(book.root)


def run_first_cell(monkeypatch, found, code=0):
    """Run the cell in a world with or without the package; gives the commands that it ran."""
    commands = []

    def run(command, **options):
        assert options == {"capture_output": True}
        commands.append(command)
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found if name == "llm_anatomy" else pytest.fail(name))
    exec(address.first_cell(NEW), {})
    return commands


def test_the_first_cell_does_nothing_where_the_package_is(monkeypatch):
    assert run_first_cell(monkeypatch, found=object()) == []


def test_the_first_cell_fetches_the_package_alone(monkeypatch, capsys):
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    assert run_first_cell(monkeypatch, found=None) == [[*pip, f"git+{NEW}"]]
    assert capsys.readouterr() == ("", "")


def test_the_first_cell_says_what_to_do_when_it_cannot(monkeypatch):
    with pytest.raises(SystemExit) as said:
        run_first_cell(monkeypatch, found=None, code=1)
    assert str(said.value) == (
        f"The book's package could not be fetched from {NEW}: connect to the internet and run this cell again."
    )


def test_the_first_cell_has_three_lines():
    assert len(address.first_cell(NEW).splitlines()) == 3


SOURCES = {
    "file:///home/me/clone": "git+file:///home/me/clone",
    "https://github.com/you/your-fork": "git+https://github.com/you/your-fork",
    "https://gitlab.example.edu/course/llm.git@v1": "git+https://gitlab.example.edu/course/llm.git@v1",
    "git+ssh://git@example.edu/llm.git": "git+ssh://git@example.edu/llm.git",
    "https://example.edu/llm_anatomy-0.1.0-py3-none-any.whl": "https://example.edu/llm_anatomy-0.1.0-py3-none-any.whl",
    "https://github.com/a/b/archive/refs/heads/main.zip": "https://github.com/a/b/archive/refs/heads/main.zip",
    "/content/drive/My Drive/llm_anatomy.whl": "/content/drive/My Drive/llm_anatomy.whl",
    "llm_anatomy-0.1.0-py3-none-any.whl": "llm_anatomy-0.1.0-py3-none-any.whl",
    "llm_anatomy": "llm_anatomy",
    "llm-anatomy==0.1.0": "llm-anatomy==0.1.0",
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_the_first_cell_installs_from_what_is_named(source, monkeypatch):
    assert address.requirement(source) == SOURCES[source]
    assert f'"--no-deps", "{SOURCES[source]}"]' in address.first_cell(source)
    assert f"could not be fetched from {source}:" in address.first_cell(source)
    compile(address.first_cell(source), "first cell", "exec")


@pytest.mark.parametrize(
    "source",
    ["", " ", "--index-url=x", "two words", "https://", "ftp://example.edu/a.whl", "javascript:alert(1)", "a/b", "../a",
     "C:\\a.whl", 'x"); import os; ("', "a.whl\n", "https://example.edu/{a}.whl", " llm_anatomy", "llm_anatomy>=1"],
)  # fmt: skip
def test_nonsense_is_no_source(source):
    with pytest.raises(
        Refusal, match="cannot be installed from .*: name the https address of a git repository"
    ) as said:
        address.first_cell(source)
    assert "\n" not in str(said.value)
