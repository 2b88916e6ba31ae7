"""How long a chapter takes, as its page says."""

import pytest

from bookbinder import reading

CODE = "```{code-cell}\n%s\n```\n\n"
HIDDEN = "```{code-cell}\n:tags: [hide-input]\n\n%s\n```\n\n"


@pytest.mark.parametrize(
    "text, count",
    [
        ("Rows don't add up; the self-check says so.", 8),
        ("# 3. Attention\n\n:::{admonition} A slip\n:class: erratum\nTwo words.\n:::\n", 3),
        ("The sum $a + bc$ is {ref}`here <there>`, [at home](https://example.org/a/b).\n\n$$\nx y z\n$$\n", 6),
        ("```python\nnot counted\n```\none", 1),
    ],
)
def test_words_are_those_that_are_read(text, count):
    assert reading.words(text) == count


def chapter(book, text):
    page = book.page(text, "book/small/small")
    page.text.write_text(page.text.read_text().replace("---\n\n", "chapter: 3\n---\n\n", 1))
    return page


def test_a_chapter_says_what_it_takes_and_what_was_counted(book):
    words = "word " * 400
    predictions = HIDDEN % 'Prediction("Which?", [])' + HIDDEN % 'Estimate(\n    "How many?"\n)'
    page = chapter(book, words + "\n\n" + CODE % "1" + CODE % "2" + predictions)
    book.write("exercises/small/chapter.yml", "title: small\ncore: [one, two]\noptional: [three]\n")
    for name, minutes in {"one": 10, "two": 25, "three": 40}.items():
        book.write(f"exercises/small/{name}/exercise.md", f"---\nminutes: {minutes}\n---\n")
    assert reading.note(page) == (
        ":::{div} la-reading\n**3 minutes to read**: 400 words at 200 a minute, and 2 cells of code at 2 a minute. "
        "**2 predictions** to make on the way, not counted. "
        "The core of the [exercises](exercises) takes **35 minutes more**.\n:::\n"
    )


def test_what_a_chapter_lacks_is_not_said(book):
    note = reading.note(chapter(book, "word " * 200))
    assert "**1 minute to read**: 200 words" in note
    assert "prediction" not in note and "exercises" not in note


def test_other_pages_say_nothing(book):
    assert reading.note(book.page("word " * 200)) == ""
