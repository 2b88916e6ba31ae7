"""The chapter that CONTRIBUTING shows as a skeleton passes the checks as it stands."""

import re

from bookbinder import ROOT, lecture_pages, notebooks, syllabus

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
(CHAPTER,) = re.findall(r"^````markdown\n(.*?)^````$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_chapter_runs_and_is_not_refused(whole_book):
    text = whole_book.write("book/counting/counting.nb.md", CHAPTER)
    (page,) = notebooks.pages(whole_book.root, [text])
    notebooks.make(page)
    assert notebooks.problems(page) == [] and syllabus.problems(whole_book.root) == []
    assert (
        "CMU-21" not in lecture_pages.draft_note("book/counting/counting", whole_book.root).partition("not complete")[0]
    )
