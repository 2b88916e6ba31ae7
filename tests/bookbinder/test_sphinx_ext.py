"""The text of a page put back into its notebook when Sphinx reads it."""

import json
import re
from types import SimpleNamespace

import nbformat
import pytest
from docutils import nodes
from docutils.utils import new_document
from nbformat.v4 import new_output
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from bookbinder import ROOT, sphinx_ext
from groundwork import Refusal

TEXT = """\
# A page

See {cite}`one2001`.

```{code-cell}
1
```

:::{note}
Words.
:::
"""


@pytest.fixture
def page(book):
    made = book.page(TEXT)
    image = new_output(
        "display_data", {"image/png": "AA==", "text/plain": "A line."}, metadata={"image/png": {"width": 5}}
    )
    book.store(made, [image])
    return made


def restored(page, note=""):
    return nbformat.reads(sphinx_ext.restored(page, page.notebook.read_text(), note), as_version=4)


def test_the_words_are_those_of_the_text_and_the_outputs_those_of_the_notebook(page):
    first, title, code, note = restored(page).cells
    assert title.source == "# A page\n\nSee {cite}`one2001`."
    assert note.source == ":::{note}\nWords.\n:::"
    assert first.source == page.stored().cells[0].source
    assert code.outputs == page.stored().cells[2].outputs
    assert code.metadata.mystnb == {"image": {"alt": "A line."}}
    assert page.stored().cells[2].metadata == {}


def test_a_cell_may_describe_its_image_itself(book):
    page = book.page("```{code-cell}\n---\nmystnb:\n  image: {alt: 'Mine.'}\n---\n1\n```\n")
    book.store(page, [new_output("display_data", {"image/png": "AA==", "text/plain": "A line."})])
    assert restored(page).cells[1].metadata.mystnb == {"image": {"alt": "Mine."}}


def test_drawings_are_put_into_the_page_and_other_html_is_left(book):
    page = book.page("```{code-cell}\n1\n```\n")
    image = '<img class="la-figure" src="data:image/svg+xml;base64,PHN2Zz7DpDwvc3ZnPg==" alt="A line." width="5">'
    other = '<img alt="A dot." src="data:image/png;base64,AA==">'
    outputs = [new_output("display_data", {"text/html": html, "text/plain": "A."}) for html in (image, other)]
    book.store(page, outputs)
    assert [output.data["text/html"] for output in restored(page).cells[1].outputs] == ["<svg>ä</svg>", other]


def test_the_note_of_a_draft_follows_the_title(page):
    source = restored(page, ":::{note}\nA draft.\n:::\n").cells[1].source
    assert source == "# A page\n\n:::{note}\nA draft.\n:::\n\nSee {cite}`one2001`."


@pytest.mark.parametrize("change", [TEXT + "\n+++\n\nMore.\n", TEXT.replace("\n1\n", "\n2\n"), "# A page\n"])
def test_a_notebook_of_another_text_is_refused(book, page, change):
    with pytest.raises(Refusal, match="^book/small/page.nb.md has changed since its notebook was made; run"):
        restored(book.page(change))


def test_the_palette_has_light_and_dark_colours():
    css = sphinx_ext.palette_css({"query": {"light": "#111", "dark": "#eee"}, "key": {"light": "#222", "dark": "#ddd"}})
    assert css == (
        ':root { --la-query: #111; --la-key: #222; }\nhtml[data-theme="dark"] { --la-query: #eee; --la-key: #ddd; }\n'
        "mjx-container .la-query, .highlight .n-Query { color: var(--la-query); }\n"
        "mjx-container .la-key, .highlight .n-Key { color: var(--la-key); }\n"
    )
    palette = json.loads((ROOT / sphinx_ext.PALETTE).read_text())
    assert sphinx_ext.palette_css(palette).count("--la-") == 3 * len(palette)
    assert set(sphinx_ext.NAMES) <= set(palette)


def test_names_of_notions_in_code_have_their_colours():
    lexer = sphinx_ext.coloured(PythonLexer)()
    html = highlight("keys = K.values()  # key\nf(query, value=v)", lexer, HtmlFormatter())
    assert re.findall(r'class="n n-(\w+)">(\w+)', html) == [
        ("Key", "keys"),
        ("Key", "K"),
        ("Query", "query"),
        ("Value", "value"),
        ("Value", "v"),
    ]


def test_items_at_the_end_of_a_heading_are_set_apart():
    titles = [nodes.title("", "", nodes.Text(text)) for text in ("Soft lookup (UCL-18, CMU-09)", "Lookup (UCL-1) on")]
    document = new_document("")
    document += titles
    sphinx_ext.set_items_apart(None, document)
    apart, whole = (list(title.children) for title in document.findall(nodes.title))
    assert (apart[0], apart[1].astext(), apart[1]["classes"]) == ("Soft lookup", " (UCL-18, CMU-09)", ["la-items"])
    assert whole == ["Lookup (UCL-1) on"]


def section_with(*marks):
    """A section: "ask" is a prediction, "end" the mark, "label" a label, and any other word a paragraph."""
    kinds = {
        "ask": lambda: nodes.container("", nodes.paragraph("", "ask"), classes=["cell", "tag_prediction"]),
        "end": lambda: nodes.comment("", "end of answer"),
        "label": lambda: nodes.target("", "", refid="label"),
    }
    document = new_document("")
    document += nodes.section("", *(kinds.get(mark, lambda mark=mark: nodes.paragraph("", mark))() for mark in marks))
    return document


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("before ask a b", ["a b"]),
        ("ask a end b", ["a"]),
        ("ask a ask b", ["a", "b"]),
        ("ask ask", []),
        ("ask a label", ["a"]),
        ("a b", []),
    ],
)
def test_what_follows_a_prediction_is_wrapped(written, folded):
    document = section_with(*written.split())
    sphinx_ext.wrap_answers(None, document, "page")
    folds = [node for node in document.findall(nodes.container) if "la-fold" in node["classes"]]
    assert [" ".join(node.astext() for node in fold.children) for fold in folds] == folded
    assert document.astext().split() == [word for word in written.split() if word not in ("end", "label")]


def test_a_mark_that_ends_no_answer_is_a_warning(monkeypatch):
    warnings = []
    monkeypatch.setattr(sphinx_ext.LOGGER, "warning", lambda words, *args, **_: warnings.append(words % args))
    sphinx_ext.wrap_answers(None, section_with("end", "ask", "end"), "page")
    assert warnings == ["`% end of answer` ends no answer"] * 2


def test_icons_are_drawn_once(tmp_path):
    script = tmp_path / "_static/scripts/fontawesome.js"
    script.parent.mkdir(parents=True)
    script.write_text("draw()")
    sphinx_ext.prune(SimpleNamespace(outdir=tmp_path), None)
    assert script.read_text() == ""


def test_of_mathjax_what_pages_ask_for_stays(tmp_path):
    kept = ["tex-chtml.js", "output/chtml/fonts/woff-v2/a.woff", "input/tex/extensions/cancel.js", "a11y/sre.js"]
    gone = ["tex-svg.js", "output/svg/fonts/a.js", "input/asciimath.js", "sre/mathmaps/de.json", "a11y.js"]
    for name in kept + gone:
        path = tmp_path / "_static/mathjax" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    sphinx_ext.prune(SimpleNamespace(outdir=tmp_path), None)
    left = [path for path in (tmp_path / "_static/mathjax").rglob("*")]
    assert {str(path.relative_to(tmp_path / "_static/mathjax")) for path in left if path.is_file()} == set(kept)
    assert not (tmp_path / "_static/mathjax/output/svg").exists()
