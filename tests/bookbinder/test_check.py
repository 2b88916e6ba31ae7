"""Everything for which a notebook is refused, each on a page of its own."""

import pytest
from nbformat.v4 import new_output

from bookbinder import ROOT, notebooks

AGAIN = "run `python -m bookbinder notebooks`"
TEXT = """\
# A page

```{code-cell}
a = 1
```

:::{note}
Words.
:::

```{code-cell}
:tags: [hide-input]

a
```
"""


@pytest.fixture
def page(book):
    made = book.page(TEXT)
    book.store(made, [], [new_output("execute_result", {"text/plain": "1"}, execution_count=3)])
    assert notebooks.problems(made) == []
    return made


def test_missing(book):
    assert notebooks.problems(book.page(TEXT)) == [f"book/small/page.ipynb is missing; {AGAIN}"]


def test_not_a_notebook(page):
    page.notebook.write_text("{")
    assert notebooks.problems(page) == [f"book/small/page.ipynb is not a notebook; {AGAIN}"]


def test_no_text(book, page):
    assert notebooks.orphans(book.root) == []
    page.text.rename(page.text.with_name("other.nb.md"))
    assert notebooks.orphans(book.root) == ["book/small/page.ipynb has no text page.nb.md beside it"]


def test_a_text_that_has_no_plain_form(book, page):
    assert notebooks.problems(book.page(TEXT.replace("{note}", "{mermaid}"))) == [
        "book/small/page.nb.md:13: the directive 'mermaid' has no plain form, so a notebook would show it raw; "
        "use another"
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("a = 1", "a = 2", "cell 2 is not that of book/small/page.nb.md:10"),
        ("[hide-input]", "[hide-output]", "cell 3 is not that of book/small/page.nb.md:20"),
        ("# A page", "# A page\n\n```{code-cell}\n0\n```", "cell 2 is not that of book/small/page.nb.md:10"),
        (":::{note}", "```{code-cell}\na\n```\n\n:::{note}", "cell 3 is not that of book/small/page.nb.md:14"),
        ("Words.", "Other words.", "its Markdown is not that of its text"),
        ("{note}", "{tip}", "its Markdown is not that of its text"),
        ("\n:::\n", "\n:::\n\n+++\n\nMore.\n", "its Markdown is not that of its text"),
    ],
)
def test_inputs_that_differ_from_the_text(book, page, old, new, problem):
    [found] = notebooks.problems(book.page(TEXT.replace(old, new)))
    assert found == f"book/small/page.ipynb: {problem}; {AGAIN}"


@pytest.mark.parametrize(("more", "less"), [("\n```{code-cell}\nb = 1\n```\n", "more"), (None, "fewer")])
def test_more_or_fewer_cells(book, page, more, less):
    text = TEXT + more if more else TEXT[: TEXT.rindex("```{code-cell}")]
    assert notebooks.problems(book.page(text)) == [
        f"book/small/page.ipynb: its text has {less} code cells than the notebook; {AGAIN}"
    ]


def test_glued_text_that_changed(book):
    mime = "application/papermill.record/"
    page = book.page("```{code-cell}\n1\n```\n\nIt is {glue:text}`x`.\n")
    kept = new_output("display_data", {f"{mime}text/plain": "'1.50'"})
    kept.metadata = {"scrapbook": {"name": "x", "mime_prefix": mime}}
    book.store(page, [kept])
    assert notebooks.problems(page) == []
    book.edit(page, lambda nb: nb["cells"][1]["outputs"][0]["data"].update({f"{mime}text/plain": "'2.50'"}))
    assert notebooks.problems(page) == [f"book/small/page.ipynb: its Markdown is not that of its text; {AGAIN}"]


def test_saved_by_another_program(book, page):
    book.edit(page, lambda nb: nb["metadata"].update(colab={"provenance": []}))
    assert notebooks.problems(page) == [f"book/small/page.ipynb: it was not written by bookbinder; {AGAIN} --force"]


def test_another_first_cell(book, page):
    book.edit(page, lambda nb: nb["cells"][0].update(source="%pip install torch"))
    assert notebooks.problems(page) == [
        f"book/small/page.ipynb: cell 1 is not the cell that installs the package; {AGAIN}"
    ]


def test_no_first_cell(book, page):
    book.edit(page, lambda nb: nb["cells"].pop(0))
    assert f"book/small/page.ipynb: cell 1 is not the cell that installs the package; {AGAIN}" in notebooks.problems(
        page
    )


@pytest.mark.parametrize(
    ("count", "problem"), [(None, f"was not run; {AGAIN}"), (7, f"was run out of order; {AGAIN} --force")]
)
def test_not_run(book, page, count, problem):
    book.edit(page, lambda nb: nb["cells"][2].update(execution_count=count))
    assert f"book/small/page.nb.md:10: cell 2 {problem}" in notebooks.problems(page)


def stored(book, code, *outputs):
    page = book.page(f"```{{code-cell}}\n{code}\n```\n")
    book.store(page, list(outputs))
    return [line.removeprefix("book/small/page.nb.md:8: cell 2 ") for line in notebooks.problems(page)]


def html(text):
    return new_output("display_data", {"text/html": text, "text/plain": "words"})


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (new_output("error", ename="ValueError", evalue="x", traceback=[]), "stores an error, ValueError"),
        (new_output("stream", name="stderr", text="x"), "writes to stderr"),
        (
            new_output("stream", text="short\n" + "n" * 47),
            f"prints a line of 47 characters, '{'n' * 47}'; a phone shows 46",
        ),
        (
            new_output("execute_result", {"text/plain": "m" * 50}),
            f"prints a line of 50 characters, '{'m' * 50}'; a phone shows 46",
        ),
        (new_output("stream", text="<f at 0x7f12ab>"), "prints a memory address, at 0x7f12ab"),
        (new_output("stream", text="id 0x7f12ab001234"), "prints a memory address, 0x7f12ab001234"),
        (html("&lt;object at 0x7f12ab00&gt;"), "prints a memory address, at 0x7f12ab00"),
        (new_output("stream", text="/home/me/x"), "prints a path of this machine, /home/"),
        (new_output("stream", text="in '/tmp/x'"), "prints a path of this machine, /tmp/"),
        (new_output("stream", text="C:\\Users\\me"), "prints a path of this machine, C:\\"),
        (html("lib/site-packages/x.py"), "prints a path of this machine, site-packages"),
        (new_output("stream", text=f"={ROOT}/x"), f"prints a path of this machine, {ROOT}"),
        (new_output("display_data", {"image/png": "AA=="}), "shows an image without alternative text"),
        (
            new_output("display_data", {"image/png": "AA==", "text/plain": "<Figure size 640x480>"}),
            "shows an image without alternative text",
        ),
        (html('<p><img src="a.png"></p>'), 'shows <img src="a.png"> without alternative text'),
        (html('<img src="a.png" alt="">'), 'shows <img src="a.png" alt=""> without alternative text'),
        (
            new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "words"}),
            "stores a live widget, which does not work on the page",
        ),
    ],
)
def test_outputs(book, output, problem):
    assert stored(book, "1", output) == [problem]


@pytest.mark.parametrize(
    "output",
    [
        new_output("stream", text="0x10, https://x.org/home/ and\na/tmp/b at 3 o'clock"),
        html('<img alt="A line." src="data:image/png;base64,/tmp/at0x7f12ab00">'),
        new_output("display_data", {"image/png": "AA==", "text/plain": "A line."}),
        new_output("stream", text="n" * 46),
        new_output("display_data", {"text/html": "<p>words</p>", "text/plain": "read out, and not shown " * 9}),
    ],
)
def test_outputs_that_are_well(book, output):
    assert stored(book, "1", output) == []


def test_an_error_that_is_expected(book):
    error = new_output("error", ename="ValueError", evalue="x", traceback=["/home/me/x.py"])
    assert stored(book, ":tags: [raises-exception]\n\n1", error) == []


def test_a_semicolon(book):
    assert stored(book, "a = 1;") == ["ends with a semicolon; write `_ = …` to hide a value"]


def test_a_long_cell(book):
    assert stored(book, "\n".join(["a = 1"] * 40)) == []
    assert stored(book, "\n".join(["a = 1"] * 41)) == ["has 41 lines of code; at most 40 are allowed"]


def test_outputs_that_are_not_compared(book):
    cells = [
        "```{code-cell}\n:tags: [nbval-ignore-output]\n\n1\n```\n",
        "```{code-cell}\n:tags: [nbval-skip]\n\n1\n```\n",
        "```{code-cell}\n# NBVAL_IGNORE_OUTPUT\n1\n```\n",
    ]
    for number, expected in [
        (2, []),
        (
            3,
            [
                "book/small/page.ipynb: 3 cells are not compared (nbval-ignore-output, nbval-skip); at most 2 may be",
            ],
        ),
    ]:
        page = book.page("\n".join(cells[:number]))
        book.store(page)
        assert notebooks.problems(page) == expected


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (":::{note}\nWords.", "a reader of the notebook would see `:::{note}`"),
        ("```{note}\nWords.\n```", "a reader of the notebook would see ```` ```{note} ````"),
        ("See {ref}`x`.", "a reader of the notebook would see `` {ref}`x` ``"),
        ("![ ](a.png)", "the image ![ ](a.png) has no alternative text"),
        ('<img src="a.png">', 'the image <img src="a.png"> has no alternative text'),
    ],
)
def test_words_that_a_notebook_must_not_hold(book, page, source, problem):
    book.edit(page, lambda nb: nb["cells"][1].update(source=source))
    found = notebooks.problems(page)
    assert found[0] == f"book/small/page.ipynb: its Markdown is not that of its text; {AGAIN}"
    assert f"book/small/page.ipynb: {problem}" in found[1:]
