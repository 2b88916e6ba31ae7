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


@pytest.fixture
def change(two_pages):
    """A function that changes the first page, after the book was built with it, and builds the book again."""
    store(two_pages, FIRST)
    pages.html(two_pages.root)

    def changed(*replaced):
        text = FIRST
        for old, new in replaced:
            text = text.replace(old, new)
        store(two_pages, text)
        for path in (two_pages.root / "book/small").glob("first.*"):  # as a file that was copied with its time
            os.utime(path, (time.time() - 1e6,) * 2)
        return pages.html(two_pages.root)

    return changed


def test_pages_are_those_of_a_build_that_begins_anew(two_pages, change):
    root = two_pages.root
    out = change(("Words.", "Other words."), ("A section", "Another section"), ("# First", "# The first"))
    assert "Other words." in (out / "book/small/first.html").read_text()
    second = (out / "book/small/second.html").read_text()
    assert "Another section" in second and "The first" in second
    assert html(out) == html(pages.html(root, root / "anew"))


@pytest.mark.slow
def test_a_page_that_shows_nothing_of_a_change_is_not_written_again(two_pages, change):
    page = two_pages.root / kept.FOLDER / "last/_build/html/book/small/second.html"
    written = page.stat().st_mtime_ns
    out = change(("Words.", "Other words."))
    assert "Other words." in (out / "book/small/first.html").read_text()
    assert page.stat().st_mtime_ns == written
