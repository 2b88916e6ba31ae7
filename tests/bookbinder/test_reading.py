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
    predictions = HIDDEN % 'Prediction("Which?", [])' + HIDDEN % 'nb.Estimate(\n    "How many?"\n)'
    page = chapter(book, words + "\n\n" + CODE % "1" + CODE % "2" + predictions)
    book.write("exercises/small/chapter.yml", "title: small\ncore: [one, two]\noptional: [three]\n")
    for name, minutes in {"one": 10, "two": 25, "three": 40}.items():
        book.write(f"exercises/small/{name}/exercise.md", f"---\nminutes: {minutes}\n---\n")
    assert reading.note(page) == (
        ":::{div} la-reading\n**3 minutes to read**: 400 words at 200 words a minute "
        "and 2 code cells at 2 cells a minute. "
        "The time for the **2 predictions** on the way is not included. "
        "The core [exercises](exercises) take **35 minutes more**.\n:::\n"
    )


def test_what_a_chapter_lacks_is_not_said(book):
    note = reading.note(chapter(book, "word " * 200))
    assert "**1 minute to read**: 200 words" in note
    assert "prediction" not in note and "exercises" not in note


def test_other_pages_say_nothing(book):
    assert reading.note(book.page("word " * 200)) == ""


def test_a_finished_chapter_is_not_too_long(book):
    book.write("exercises/small/chapter.yml", "title: small\ncore: [one]\noptional: [two]\n")

    def problems(text, minutes, status="finished"):
        for name, n in {"one": minutes, "two": 40}.items():
            book.write(f"exercises/small/{name}/exercise.md", f"---\nminutes: {n}\n---\n")
        page = chapter(book, text)
        page.text.write_text(page.text.read_text().replace("chapter: 3\n", f"chapter: 3\nstatus: {status}\n"))
        return reading.problems(page)

    text = "word " * 3500 + "\n\n" + CODE % "1" * 28 + HIDDEN % "2" * 27
    longer = text + "One more.\n\n" + CODE % "3"
    where = "book/small/small.nb.md: the chapter has"
    assert problems(text, 90) == problems(longer, 91, "draft") == []
    assert problems(longer, 91) == [
        f"{where} 3502 words; at most 3500 are allowed",
        f"{where} 56 code cells; at most 55 are allowed",
        f"{where} 91 minutes of core exercises; at most 90 are allowed",
    ]
