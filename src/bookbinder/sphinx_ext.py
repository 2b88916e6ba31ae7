"""What Sphinx is told about this book.

A page is built from the MyST text of ``NAME.nb.md`` with the outputs of ``NAME.ipynb``: when Sphinx reads the notebook,
the words of the text are put back into it. Generated pages and notes on drafts are filled in at the same moment.
Colours come from the package's palette: for the style sheet, for symbols in formulas and for names in code.
"""

import json
import os
import re
import runpy
from base64 import b64decode
from collections.abc import Callable
from functools import cache, partial
from itertools import takewhile
from pathlib import Path

import pybtex.plugin
from docutils import nodes
from pygments.lexer import Lexer
from pygments.lexers import PythonLexer
from pygments.token import Name
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.logging import getLogger

from bookbinder import (
    again,
    anatomy,
    lecture_pages,
    live_cells,
    predictions,
    reading,
    reference,
    sidebar,
    solutions,
    syllabus,
)
from bookbinder.myst import TEXT_SUFFIX
from bookbinder.notebooks import AGAIN, Page, same_code
from bookbinder.plain import Book
from bookbinder.syllabus import Syllabus
from groundwork import Refusal

PALETTE = "src/llm_anatomy/notebook/palette.json"
FRONT_END = "src/llm_anatomy/notebook/front_end.py"  # it needs no PyTorch; the package around it does
# Of MathJax: what every page loads, and what it fetches when a formula or a reader of the page by ear asks for it.
MATHJAX = ["tex-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions", "input/mml.js", "a11y"]
MATHJAX += [f"sre/mathmaps/{name}.json" for name in ("base", "en", "nemeth")]
# The theme draws its icons with a font; this script, half of what a page weighs, draws the same ones again.
SECOND_ICONS = "scripts/fontawesome.js"
DRAWING = re.compile(r'<img class="la-figure" src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)"[^>]*>')
NAMES = {  # in code, the names that have a colour
    "query": ("q", "Q", "query", "queries"),
    "key": ("k", "K", "key", "keys"),
    "value": ("v", "V", "value", "values"),
    "weights": ("weights",),
}
# Extensions that do not say whether several processes may read: these act only before and after.
NOT_SAID_TO_BE_SAFE = {"sphinx-mathjax-offline", "sphinx_multitoc_numbering"}
LOGGER = getLogger(__name__)


class Unbound(SphinxError):
    category = "The book cannot be bound"


def read_source(collect: Callable[[Path], Syllabus], app: Sphinx, docname: str, source: list[str]) -> None:
    root = Path(app.srcdir)
    text = root / f"{docname}{TEXT_SUFFIX}"
    try:
        if docname in lecture_pages.PAGES:
            app.env.note_reread()  # it depends on files that Sphinx does not know
            source[0] = lecture_pages.page(docname, root, collect(root))
        elif docname == anatomy.PAGE:
            app.env.note_reread()
            source[0] = anatomy.filled(source[0], collect(root))
        elif text.exists():
            app.env.note_dependency(str(text))
            page = Page(text, Book(root))
            if syllabus.header(text).get("status") == "draft":
                app.env.note_reread()  # its note says what is missing elsewhere
            notes = f"{reading.note(page)}\n{lecture_pages.draft_note(docname, root)}"
            source[0] = restored(page, source[0], notes)
            if app.config.exercise_solutions and (masters := solutions.masters(text, root)):
                for master in masters:
                    for name in ("exercise.md", "exercise.py"):  # the explanation, and the solution
                        app.env.note_dependency(str(master.folder / name))
                source[0] = solutions.added(source[0], masters)
    except Refusal as refusal:
        raise Unbound(str(refusal)) from None


def restored(page: Page, notebook: str, note: str = "") -> str:
    """The JSON of a notebook with the MyST text of its page in place of the plain words.

    Args:
        page: whose text it is.
        notebook: JSON; its first cell is not on the page.
        note: Markdown that is put after the title.
    """
    import nbformat

    stored = nbformat.reads(notebook, as_version=4)
    kinds = [cell.cell_type for cell in page.cells]
    if [cell.cell_type for cell in stored.cells][1:] != kinds or not same_code(page, stored):
        raise Refusal(f"{page.name} has changed since its notebook was made; {AGAIN} first")
    for cell, written in zip(stored.cells[1:], page.cells, strict=True):
        if cell.cell_type == "markdown":
            cell.source = written.source
        else:
            describe_image(cell)
            inline_drawings(cell)
    if note.strip():
        titled = next(cell for cell in stored.cells if cell.cell_type == "markdown")
        title, _, rest = titled.source.partition("\n")
        titled.source = f"{title}\n\n{note.strip()}\n\n{rest.lstrip()}"
    return nbformat.writes(stored)


def inline_drawings(cell) -> None:
    """Put drawings into the page itself, where they see its colours: a notebook has them as images."""
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data:
            data["text/html"] = DRAWING.sub(lambda image: b64decode(image[1]).decode("utf-8"), data["text/html"])


def describe_image(cell) -> None:
    """An image's plain text is its alternative text: hand it on to the page, with the cell's own options first."""
    for output in cell.outputs:
        data = output.get("data", {})
        if any(mime.startswith("image/") for mime in data):
            options = cell.metadata.setdefault("mystnb", {}).setdefault("image", {})
            options.setdefault("alt", data.get("text/plain", ""))


def palette_css(palette: dict[str, dict[str, str]]) -> str:
    """The palette as custom properties, ``--la-query`` and so on, for the light and the dark page, and as classes."""

    def rules(shade: str) -> str:
        return " ".join(f"--la-{name}: {shades[shade]};" for name, shades in palette.items())

    classes = "".join(
        f"mjx-container .la-{name}, .highlight .n-{name.capitalize()} {{ color: var(--la-{name}); }}\n"
        for name in palette
    )
    return f':root {{ {rules("light")} }}\nhtml[data-theme="dark"] {{ {rules("dark")} }}\n{classes}'


def add_palette(app: Sphinx) -> None:
    palette = json.loads((Path(app.srcdir) / PALETTE).read_text(encoding="utf-8"))
    folder = Path(app.doctreedir) / "bookbinder"
    (folder / "css").mkdir(parents=True, exist_ok=True)
    (folder / "css/palette.css").write_text(palette_css(palette), encoding="utf-8")
    app.config.html_static_path.append(str(folder))
    app.add_css_file("css/palette.css", priority=400)
    macros = {name: [rf"\class{{la-{name}}}{{#1}}", 1] for name in palette}  # \query{Q}
    app.config.mathjax3_config = {"tex": {"macros": macros}}


def coloured(lexer: type[Lexer]) -> type[Lexer]:
    """A lexer of Python that knows queries, keys, values and weights by their names."""
    kinds = {word: getattr(Name, colour.capitalize()) for colour, words in NAMES.items() for word in words}

    class Coloured(lexer):
        def get_tokens_unprocessed(self, text):
            before = ""
            for index, kind, word in super().get_tokens_unprocessed(text):
                yield index, kinds.get(word, kind) if kind is Name and before != "." else kind, word
                before = word

    return Coloured


def set_items_apart(app: Sphinx, document: nodes.document) -> None:
    """The items at the end of a heading, (UCL-18), become words of their own, which the style sheet can make quiet."""
    for title in document.findall(nodes.title):
        last = title.children[-1] if title.children else None
        if isinstance(last, nodes.Text) and (items := syllabus.ITEMS_AT_END.search(last)):
            title.replace(last, nodes.Text(last[: items.start()]))
            title += nodes.inline("", items[0], classes=["la-items"])


END_OF_ANSWER = "end of answer"  # a comment of the text, % end of answer
FOLD = "la-fold"


def wrap_answers(app: Sphinx, document: nodes.document, docname: str) -> None:
    """Put what follows a prediction into an element that the page's script folds until the reader has guessed.

    It ends with the section, before the next prediction, or at the line ``% end of answer``.
    """
    for cell in list(document.findall(_is_prediction)):
        siblings = cell.parent.children[cell.parent.index(cell) + 1 :]
        stretch = list(takewhile(lambda node: not _is_end(node) and not _is_prediction(node), siblings))
        while stretch and isinstance(stretch[-1], nodes.target | nodes.comment):  # a label of the next section
            stretch.pop()
        if stretch:
            fold = nodes.container("", classes=[FOLD])
            cell.parent.insert(cell.parent.index(cell) + 1, fold)
            for node in stretch:
                cell.parent.remove(node)
            fold += stretch
    for mark in list(document.findall(_is_end)):
        before = mark.parent.children[mark.parent.index(mark) - 1] if mark.parent.index(mark) else None
        if not isinstance(before, nodes.container) or FOLD not in before["classes"]:
            LOGGER.warning("`%% %s` ends no answer", END_OF_ANSWER, location=mark)
        mark.parent.remove(mark)


def _is_prediction(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and f"tag_{predictions.TAG}" in node["classes"]


def _is_end(node: nodes.Node) -> bool:
    return isinstance(node, nodes.comment) and node.astext().strip() == END_OF_ANSWER


def enliven(app: Sphinx, page: str, template: str, context: dict, doctree) -> None:
    """The script of all widgets, once on each page that has one: inline, so that it runs from a plain file too."""
    if 'class="la-widget"' in context.get("body", ""):
        context["body"] += front_end(app.srcdir)["script"](context["body"])


@cache
def front_end(root: str) -> dict:
    return runpy.run_path(str(Path(root) / FRONT_END))


def prune(app: Sphinx, error: Exception | None) -> None:
    """Leave out of the site what no page needs."""
    static = Path(app.outdir) / "_static"
    folder = static / "mathjax"
    kept = [folder / name for name in MATHJAX]
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif not any(path == keep or keep in path.parents for keep in kept):
            path.unlink()
    if (static / SECOND_ICONS).exists():  # the theme's pages name it, so it stays, empty
        (static / SECOND_ICONS).write_text("")


def use_all_cores(app: Sphinx) -> None:
    """Read and write pages in as many processes as there are cores."""
    app.parallel = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in NOT_SAID_TO_BE_SAFE & set(app.extensions):
        app.extensions[name].parallel_read_safe = True


def find_plugins_once() -> None:
    """Keep the plugin with which each citation is written: pybtex would look through all packages for each of them."""
    plain = pybtex.plugin.find_plugin("pybtex.backends", "plaintext")
    pybtex.plugin.register_plugin("pybtex.backends", "plaintext", plain, force=True)


def setup(app: Sphinx) -> dict:
    use_all_cores(app)
    find_plugins_once()
    app.add_lexer("python", coloured(PythonLexer))
    app.add_config_value("exercise_solutions", True, "env")
    app.connect("builder-inited", add_palette, priority=400)  # before others that add to the configuration of MathJax
    collect = cache(syllabus.collect)  # several pages show what it finds
    app.connect("source-read", partial(read_source, collect))
    reference.connect(app, collect)
    again.connect(app)
    live_cells.connect(app)
    sidebar.connect(app)
    app.connect("doctree-read", set_items_apart, priority=400)  # before the tables of contents are made
    app.connect("doctree-resolved", wrap_answers)  # after the tables of contents, which look for sections
    app.connect("html-page-context", enliven)
    app.connect("build-finished", prune, priority=900)  # after the extension that copies MathJax
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
