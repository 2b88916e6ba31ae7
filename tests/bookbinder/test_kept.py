"""What one build leaves to the next."""

from typing import NamedTuple

import pytest
from docutils import nodes

from bookbinder import kept


@pytest.fixture
def root(book):
    (book.root / kept.FOLDER).mkdir(parents=True)
    return book.root


def test_what_is_kept_is_made_again_for_another_key(root):
    assert [kept.once(root, "a", key, lambda made=made: [made]) for key, made in ("k1", "k2", "m3")] == [
        ["1"],
        ["1"],
        ["3"],
    ]
    (root / kept.FOLDER / "a.json").write_text("{")
    assert kept.once(root, "a", "m", lambda: "new") == "new"


def test_without_a_folder_nothing_is_kept(book):
    assert [kept.once(book.root, "a", "k", lambda made=made: made) for made in (1, 2)] == [1, 2]
    passed = kept.Passed(book.root)
    assert passed.problems("k", list) == []
    passed.save()
    assert not (book.root / kept.FOLDER).exists()


def test_what_passed_is_not_looked_at_again_and_what_failed_is(root):
    first = kept.Passed(root)
    assert first.problems("good", list) == [] and first.problems("bad", lambda: ["no"]) == ["no"]
    first.save()
    second = kept.Passed(root)
    assert second.problems("good", lambda: pytest.fail("again")) == []
    assert second.problems("bad", lambda: ["still no"]) == ["still no"]


@pytest.mark.parametrize(
    "name",
    ["_config.yml", "src/llm_anatomy/a.py", "exercises/a/b/exercise.md", "book/_static/a.css", "book/references.bib"],
)
def test_the_foundation_is_all_but_the_pages(book, name):
    book.write("book/small/page.nb.md", "old")
    book.write(name, "old")
    before = kept.foundation(book.root)
    book.write("book/small/page.nb.md", "new")
    book.write("book/api/generated.rst", "new")
    assert kept.foundation(book.root) == before
    book.write(name, "new")
    assert kept.foundation(book.root) != before


def test_a_page_more_is_another_foundation(book):
    before = kept.foundation(book.root)
    book.write("book/small/page.nb.md", "")
    assert kept.foundation(book.root) != before


class Reference(NamedTuple):
    key: str
    line: int


class Other:
    def __init__(self, value):
        self.value, self.myself, self.lineno = value, self, id(value)


@pytest.mark.parametrize(
    ("one", "same", "another"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}),
        ({"a", "b"}, {"b", "a"}, {"a"}),
        ([1, 2], (1, 2), [2, 1]),
        (Reference("a", 1), Reference("a", 2), Reference("b", 1)),
        (nodes.Text("a"), nodes.Text("a"), nodes.Text("b")),
        (Other([1]), Other([1]), Other([2])),
    ],
)
def test_values_are_compared_without_order_and_lines(one, same, another):
    assert kept.plain(one) == kept.plain(same) != kept.plain(another)
