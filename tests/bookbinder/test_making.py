"""Text to executed notebook: what is run, what is written, what is left alone."""

import base64
import io
import json
import os

import nbformat
import pytest
import torch
from PIL import Image

from bookbinder import notebooks
from bookbinder.address import first_cell
from groundwork import Refusal
from llm_anatomy.notebook.widgets.graph import export

TEXT = """\
# A page

:::{note}
See {ref}`below`.
:::

```{code-cell} ipython3
import os, sys
print(os.environ["LLM_ANATOMY_STATIC"], os.path.basename(os.getcwd()), sys.executable == PYTHON)
```

```{code-cell} ipython3
:tags: [raises-exception, hide-input]


from IPython.display import display
glue = "application/papermill.record/"
display({glue + "text/plain": "'1.50'"}, raw=True, metadata={"scrapbook": {"name": "half", "mime_prefix": glue}})
1 / 0
```

(below)=
## Below

The value is {glue:text}`half`.

+++

The same again.

+++

The same again.
""".replace("PYTHON", repr(os.sys.executable))


def test_a_notebook_is_made_twice_to_the_byte(book, monkeypatch):
    monkeypatch.delenv("LLM_ANATOMY_STATIC")
    monkeypatch.setenv("JUPYTER_PATH", str(book.root / "kernels"))
    book.write(
        "kernels/kernels/python3/kernel.json",
        json.dumps({"argv": ["false", "{connection_file}"], "display_name": "Another python3", "language": "python"}),
    )
    page = book.page(TEXT)
    assert notebooks.make(page).startswith("run in")
    before = page.notebook.read_bytes()
    assert notebooks.make(page, force=True).endswith(", unchanged")
    assert page.notebook.read_bytes() == before
    assert notebooks.problems(page) == []

    made = nbformat.reads(before.decode(), as_version=4)
    assert [cell.source for cell in made.cells if cell.cell_type == "markdown"] == [
        "# A page\n\n> **Note**\n>\n> See [Below](https://someone.github.io/a-book/book/small/page.html#below).",
        "## Below\n\nThe value is 1.50.",
        "The same again.",
        "The same again.",
    ]
    first, environment, error = (cell for cell in made.cells if cell.cell_type == "code")
    assert first.source == first_cell(root=book.root)
    assert (first.metadata, first.outputs) == ({"tags": ["remove-cell"]}, [])
    assert environment.outputs[0].text == "1 small True\n"
    assert error.source.startswith("from IPython")
    assert error.metadata == {"tags": ["raises-exception", "hide-input"]}
    assert error.outputs[-1].traceback == ["ZeroDivisionError: division by zero"]
    assert len({cell.id for cell in made.cells}) == len(made.cells)
    assert not any(path.suffix == ".part" for path in page.text.parent.iterdir())


@pytest.fixture
def kernel(monkeypatch):
    """Counts the runs in place of a kernel."""
    ran = []

    def run(page):
        ran.append(page)
        cells = [nbformat.v4.new_code_cell(execution_count=n) for n in range(1, len(page.code) + 2)]
        cells[-1].outputs = [nbformat.v4.new_output("stream", text=f"run {len(ran)}\n")]
        return cells

    monkeypatch.setattr(notebooks, "run", run)
    return ran


CELL = "```{code-cell}\na = 1\n```\n"


def test_only_a_change_of_code_runs_it_again(book, kernel):
    assert notebooks.make(book.page(f"# A\n\n{CELL}")).startswith("run in")
    assert notebooks.make(book.page(f"# A\n\n{CELL}")) is None
    page = book.page(f"# Another title\n\n{CELL}")
    assert notebooks.make(page) == "text updated, code not run"
    assert len(kernel) == 1
    assert page.stored().cells[1].source == "# Another title"
    assert page.stored().cells[2].outputs[0].text == "run 1\n"
    notebooks.make(book.page(f"# Another title\n\n{CELL.replace('1', '2')}"))
    notebooks.make(
        book.page(f"# Another title\n\n{CELL.replace('a = 1', ':tags: [hide-input]' + chr(10) * 2 + 'a = 2')}")
    )
    assert len(kernel) == 3


def test_what_was_not_run_is_run(book, kernel):
    page = book.page(CELL)
    book.store(page)
    book.edit(page, lambda stored: stored["cells"][1].update(execution_count=None))
    notebooks.make(page)
    assert len(kernel) == 1


def test_a_failing_cell_is_one_sentence_and_leaves_the_old_notebook(book):
    page = book.page("```{code-cell}\na = 1\n```\n")
    book.store(page)
    before = page.notebook.read_bytes()
    page = book.page(
        "```{code-cell}\na = 1\n```\n\nWords.\n\n```{code-cell}\nraise ValueError('too large\\nby far')\n```\n"
    )
    with pytest.raises(Refusal) as refusal:
        notebooks.make(page)
    assert str(refusal.value) == (
        "book/small/page.nb.md:14: cell 3 fails with ValueError: too large; the old notebook stays as it was."
    )
    assert page.notebook.read_bytes() == before
    assert sorted(path.name for path in page.text.parent.iterdir()) == ["page.ipynb", "page.nb.md"]


def test_a_kernel_that_ends_is_one_sentence(book):
    with pytest.raises(Refusal, match=r"page\.nb\.md:8: cell 2 ends the kernel; the old notebook stays as it was\.$"):
        notebooks.make(book.page("```{code-cell}\nimport os\nos._exit(1)\n```\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```{code-cell}\n:name: here\n\n1\n```\n", "the cell has the option 'name'; allowed are tags and mystnb"),
        ("```{raw-cell}\n1\n```\n", "a raw cell has no place in the book"),
    ],
)
def test_a_text_that_cannot_be_a_notebook_is_refused(book, text, message):
    with pytest.raises(Refusal, match=f"^book/small/page.nb.md:[0-9]+: {message}$"):
        _ = book.page(text).cells


def test_pages_are_found_by_text_notebook_and_folder(book):
    one, two = book.page("# One"), book.page("# Two", name="book/other/page")
    for paths, expected in [([], [two, one]), ([one.notebook], [one]), ([two.text.parent], [two]), ([one.text], [one])]:
        assert {p.text for p in notebooks.pages(book.root, paths)} == {p.text for p in expected}
    with pytest.raises(Refusal, match="nothing is not a page: name a text"):
        notebooks.pages(book.root, [book.root / "nothing"])


def test_a_second_run_that_prints_something_else_is_named(book, kernel):
    page = book.page(f"{CELL}\n{CELL}")
    notebooks.make(page)
    assert notebooks.differences(page) == [
        "book/small/page.nb.md:12: cell 3 now prints something else; "
        "run `python -m bookbinder notebooks` --force and look at what changed"
    ]


@pytest.fixture
def shows(kernel, monkeypatch):
    """Make a run of ``CELL`` show these data."""

    def show(data):
        cells = [nbformat.v4.new_code_cell(execution_count=n) for n in (1, 2)]
        cells[1].outputs = [nbformat.v4.new_output("display_data", data)]
        monkeypatch.setattr(notebooks, "run", lambda page: cells)

    return show


def png(*pixels):
    content = io.BytesIO()
    picture = Image.new("RGB", (1, len(pixels)))
    picture.putdata([(value, 0, 255) for value in pixels])
    picture.save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


def svg(path, pixels):
    drawing = (
        f'<svg><path id="p{abs(hash(path))}" d="{path}"/><image href="data:image/png;base64,{png(*pixels)}"/></svg>'
    )
    return f'<img alt="a" src="data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}">'


def test_a_figure_may_differ_a_little_and_in_its_names(book, shows):
    def picture(path="M0 0L460.25 99.5", pixels=(7, 200), alt="A line."):
        shows({"text/plain": alt, "text/html": svg(path, pixels)})

    page = book.page(CELL)
    picture()
    notebooks.make(page)
    for same in (
        {"path": "M0 0L455.5 99.1"},
        {"path": "M0 0L460 99.5"},
        {"path": "M0 0L1.0 1.0L460.25 99.5"},
        {"pixels": (9, 190)},
    ):
        picture(**same)
        assert notebooks.differences(page) == [], same
    others = ({"alt": "Another line."}, {"path": "M0 0L460.25 39.5"})
    for other in (*others, {"pixels": (7, 150)}, {"pixels": (7, 200, 0)}):
        picture(**other)
        assert len(notebooks.differences(page)) == 1, other


def test_a_figure_of_times_is_compared_by_its_alternative_text(book, shows):
    def times(path, alt="Times, measured on the machine that ran the notebook."):
        shows({"text/plain": alt, "text/html": svg(path, (7,))})

    page = book.page(CELL)
    times("M0 0L460.25 99.5")
    notebooks.make(page)
    times("M0 0L20.5 3.5")
    assert notebooks.differences(page) == []
    times("M0 0L460.25 99.5", alt="Times, measured on this machine.")
    assert len(notebooks.differences(page)) == 1


@pytest.mark.parametrize(("height", "kind"), [(3, "f"), (2048, "q")])
def test_the_numbers_of_a_widget_may_differ_a_little(book, shows, height, kind):
    def widget(weight=0.5, width=2, sentence="It doubles."):
        pool, weights = [], torch.full((height, width), weight)
        graph = export(lambda x: {"y": x @ weights}, {"x": torch.zeros(height)}, pool)
        assert pool[0][0] == kind
        script = json.dumps({"pool": pool, "graph": graph})
        shows({"text/plain": sentence, "text/html": f'<figure data-la="la-{pool[0][2][4:8]}">{script}</figure>'})

    page = book.page(CELL)
    widget()
    notebooks.make(page)
    widget(0.51)
    assert notebooks.differences(page) == []
    for change in ({"weight": 0.44}, {"width": 4}, {"sentence": "It halves."}):
        widget(**change)
        assert len(notebooks.differences(page)) == 1, change
