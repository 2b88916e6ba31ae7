"""A build that goes on from the last one makes the same pages as one that begins anew."""

import os
import time

import pytest

from bookbinder import kept, pages

FIRST = "# First\n\n(here)=\n\n## A section\n\nWords.\n\n```{code-cell}\n1\n```\n"
SECOND = "# Second\n\nSee {ref}`here` and {doc}`first`.\n"


@pytest.fixture
def two_pages(whole_book):
    toc = "format: jb-book\nroot: book/index\nchapters:\n  - file: book/small/first\n  - file: book/small/second\n"
    whole_book.write("_toc.yml", toc)
    whole_book.write("book/small/second.md", SECOND)
    return whole_book


def store(book, text):
    book.store(book.page(text, "book/small/first"))


def html(folder):
    return {path.relative_to(folder): path.read_text() for path in sorted(folder.rglob("*.html"))}


def test_pages_are_those_of_a_build_that_begins_anew(two_pages):
    root, out = two_pages.root, two_pages.root / "_build/html"
    store(two_pages, FIRST)
    pages.html(root)
    page = root / kept.FOLDER / "last/_build/html/book/small/second.html"
    written = page.stat().st_mtime_ns

    changed = FIRST.replace("Words.", "Other words.")  # nothing that another page says
    store(two_pages, changed)
    for path in (root / "book/small").glob("first.*"):  # as a file that was copied with its time
        os.utime(path, (time.time() - 1e6,) * 2)
    pages.html(root)
    assert "Other words." in (out / "book/small/first.html").read_text()
    assert page.stat().st_mtime_ns == written

    store(two_pages, changed.replace("A section", "Another section").replace("# First", "# The first"))
    pages.html(root)
    second = (out / "book/small/second.html").read_text()
    assert "Another section" in second and "The first" in second
    assert html(out) == html(pages.html(root, root / "anew"))
