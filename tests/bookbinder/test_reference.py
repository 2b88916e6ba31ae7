"""The API reference: what it describes, how it shows it, and where its links lead."""

import ast
import posixpath
import re
from functools import cache

import pytest
from docutils.nodes import make_id

from bookbinder import ROOT, myst, notebooks, pages, syllabus
from bookbinder.reference import FOLDER, OVERVIEW, PACKAGE, Reference
from groundwork import Refusal

CHAPTER = """\
---
chapter: 3
status: draft
---

# 3. Attention

## Soft lookup (UCL-18)
"""
MODULE = '''\
"""Lookup, hard and soft."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from llm_anatomy.layers.tables import Table
from llm_anatomy.shapes import Float, Tensor

LARGEST = 7
"""How many keys there may be."""

unexplained = 8

Seconds = float
"""A type with a name of its own."""


def soft_lookup(
    q, key: Float[Tensor, "batch *keys"], *, table: Table | None = None, device: torch.device = "cpu", s: Seconds = 1
) -> tuple[Float[Tensor, "rows"], Table]:
    r"""A mean of values.

    .. math:: \\mathrm{softmax}(q K^\\top)

    Args:
        q, key: what is compared.

    Raises:
        ValueError: if they do not fit.

    Source: Vaswani et al. (2017); UCL-18,
        UCL-19.

    >>> soft_lookup(1, 2)
    3
    """


def _hidden():
    """Not public."""


class Found(NamedTuple):
    """What a lookup finds."""

    index: int
    weight: float = 1.0


class Lookup(nn.Module):
    """A lookup that is learned, unlike :func:`soft_lookup`."""

    def __init__(self, n_keys: int):
        super().__init__()

    @property
    def width(self) -> int:
        """Of a key."""

    @classmethod
    def like(cls, other: "Lookup"):
        """A second one."""

    def forward(self, x):
        return x


class WarmLookup(Lookup):
    """The same, warmer."""
'''


@pytest.fixture
def small(whole_book):
    whole_book.write("src/llm_anatomy/__init__.py", '"""A small package."""\n')
    whole_book.write("src/llm_anatomy/layers/__init__.py", '"""The layers, in\none package.\n\nMore."""\n')
    whole_book.write("src/llm_anatomy/layers/lookup.py", MODULE)
    whole_book.write("src/llm_anatomy/layers/tables.py", '"""Tables."""\n\n\nclass Table:\n    """A table."""\n')
    whole_book.write("src/llm_anatomy/layers/_private.py", '"""Not public."""\n')
    whole_book.write("src/llm_anatomy/layers/generated/check.py", '"""In no package."""\n')
    whole_book.write("book/attention/attention.nb.md", CHAPTER)
    return whole_book


@pytest.fixture
def page(small):
    return Reference(small.root).page(f"{FOLDER}/layers/lookup", syllabus.collect(small.root))


def test_public_is_what_has_a_docstring_and_no_underscore(small):
    names = {name.removeprefix("llm_anatomy.layers.") for name in Reference(small.root).objects}
    assert names >= {"lookup", "tables", "lookup.LARGEST", "lookup.soft_lookup", "lookup.Lookup", "lookup.Lookup.like"}
    assert not any(
        word in name for name in names for word in ("unexplained", "idden", "forward", "private", "generated", "index")
    )


def test_a_book_without_a_package_has_no_reference(book):
    reference = Reference(book.root)
    assert reference.pages == {} and reference.overview("A\n\n<!-- modules -->\n") == "A\n\n\n"


def test_shapes_are_shown_without_their_tensor_and_what_is_ours_is_linked(page):
    assert (
        ".. py:function:: soft_lookup(q, key: Float['batch *keys'], *, "
        "table: ~llm_anatomy.layers.tables.Table | None = None, device: torch.device = 'cpu', s: Seconds = 1) -> "
        "tuple[Float['rows'], ~llm_anatomy.layers.tables.Table]\n"
    ) in page
    assert ".. py:data:: LARGEST\n   :value: 7\n" in page


def test_a_class_shows_what_it_is_made_from_and_what_it_extends(page):
    assert ".. py:class:: Lookup(n_keys: int)\n" in page
    assert ".. py:class:: Found(index: int, weight: float = 1.0)\n" in page
    warm = page.partition(".. py:class:: WarmLookup(n_keys: int)\n")[2]
    assert warm.strip().startswith(":Extends: :py:class:`~llm_anatomy.layers.lookup.Lookup`\n")
    assert "   .. py:property:: width\n      :type: int\n" in page
    assert "   .. py:method:: like(other: 'Lookup')\n      :classmethod:" in page


def test_the_source_is_a_field_whose_items_lead_to_their_sections(page):
    lines = [line.strip() for line in page.splitlines()]
    link = "`UCL-18 <../../attention/attention.html#soft-lookup-ucl-18>`__"
    assert f":Source: Vaswani et al. (2017); {link}, UCL-19." in lines
    assert ":Chapter: :doc:`/book/attention/attention`" in lines
    assert ":Part of: :py:mod:`layers <llm_anatomy.layers>`" in lines
    assert ":Parameters: **q, key** -- what is compared." in lines


def test_a_module_deep_down_shares_the_page_of_its_package(small):
    for folder in ("layers/sorts", "layers/sorts/many"):
        small.write(f"src/llm_anatomy/{folder}/__init__.py", '"""A package."""\n')
    small.write("src/llm_anatomy/layers/sorts/many/quick.py", '"""Quick."""\n\n\ndef sort():\n    """Sort."""\n')
    reference = Reference(small.root)
    docname, anchor = reference.locate("llm_anatomy.layers.sorts.many.quick.sort")
    assert (docname, anchor) == (f"{FOLDER}/layers/sorts/many", "llm_anatomy.layers.sorts.many.quick.sort")
    page = reference.page(docname, syllabus.collect(small.root))
    assert "\nquick\n-----\n\n.. py:module:: llm_anatomy.layers.sorts.many.quick\n" in page
    assert reference.locate("llm_anatomy.layers.sorts") == (
        f"{FOLDER}/layers/sorts",
        "module-llm_anatomy.layers.sorts",
    )


def test_a_name_that_is_not_described_is_refused(small):
    with pytest.raises(Refusal, match="^'llm_anatomy.layers.lookup._hidden' is not in the API reference"):
        Reference(small.root).locate("llm_anatomy.layers.lookup._hidden")


def test_a_notebook_has_links_to_the_site(small):
    page = small.page("{py:func}`~llm_anatomy.layers.lookup.soft_lookup` {py:mod}`tables <llm_anatomy.layers.tables>`")
    api = f"https://someone.github.io/a-book/{FOLDER}/layers"
    small.write("_config.yml", "repository: {url: 'https://github.com/someone/a-book'}")
    small.store(page)
    assert page.stored().cells[1].source == (
        f"[`soft_lookup()`]({api}/lookup.html#llm_anatomy.layers.lookup.soft_lookup) "
        f"[`tables`]({api}/tables.html#module-llm_anatomy.layers.tables)"
    )
    gone = small.page("A {py:class}`~llm_anatomy.layers.lookup.Gone`.")
    with pytest.raises(Refusal, match="^book/small/page.nb.md:.* 'llm_anatomy.layers.lookup.Gone' is not in the API"):
        small.store(gone)


def test_the_pages_are_built_and_those_of_modules_that_are_gone_are_not(small):
    small.write(f"{OVERVIEW}.md", "# API reference\n\n<!-- modules -->\n")
    toc = "chapters:\n  - file: book/small/page\n"
    toc += f"  - file: {OVERVIEW}\n    sections:\n      - glob: {FOLDER}/*\n"
    small.write("_toc.yml", f"format: jb-book\nroot: book/index\n{toc}  - file: book/attention/attention\n")
    small.write("book/index.md", "# A small book\n")
    text = "# A page\n\n{py:class}`~llm_anatomy.layers.lookup.Lookup`\n\n```{code-cell}\n1\n```\n"
    small.store(small.page(text))
    chapter = next(page for page in notebooks.pages(small.root) if page.docname == "book/attention/attention")
    small.store(chapter)

    out = pages.html(small.root) / FOLDER
    html = (out / "layers/lookup.html").read_text()
    assert 'id="llm_anatomy.layers.lookup.Lookup"' in html and "\\mathrm{softmax}" in html
    assert '<a class="reference internal" href="tables.html#llm_anatomy.layers.tables.Table"' in html
    assert '<span class="gp">&gt;&gt;&gt; </span>' in html and "<dt class=" in html
    assert "blob/main/src/llm_anatomy/layers/lookup.py#L" in html
    assert 'title="next page"' in html  # the way through the package
    assert "The layers, in one package." in (out.parent / "api_reference.html").read_text()
    assert "layers/lookup.html#llm_anatomy.layers.lookup.Lookup" in (out.parent / "small/page.html").read_text()

    (small.root / "src/llm_anatomy/layers/tables.py").unlink()
    small.write("src/llm_anatomy/layers/lookup.py", MODULE.replace("A lookup that", "A look that"))
    out = pages.html(small.root) / FOLDER
    assert "A look that" in (out / "layers/lookup.html").read_text()
    assert not (out / "layers/tables.html").exists() and not (small.root / FOLDER / "layers/tables.rst").exists()


# The book's own


@pytest.fixture(scope="module")
def reference():
    return Reference(ROOT)


@pytest.fixture(scope="module")
def collected():
    return syllabus.collect(ROOT)


@pytest.fixture(scope="module")
def texts(reference, collected):
    return {docname: reference.page(docname, collected) for docname in reference.pages if docname != OVERVIEW}


def public_modules():
    """Full name and syntax tree of each module that can be imported by names without a leading underscore."""
    for path in sorted((ROOT / "src" / PACKAGE).rglob("*.py")):
        folders = [folder for folder in path.parents if folder.is_relative_to(ROOT / "src" / PACKAGE)]
        names = path.relative_to(ROOT / "src").with_suffix("").parts
        names = names[:-1] if names[-1] == "__init__" else names
        if all((folder / "__init__.py").exists() for folder in folders) and not any(n[0] == "_" for n in names):
            yield ".".join(names), syllabus.parse(path)


def test_every_public_module_and_what_it_defines_has_a_page(reference, texts):
    overview = reference.overview((ROOT / f"{OVERVIEW}.md").read_text())
    missing = []
    for module, tree in public_modules():
        docname, _ = reference.locate(module)
        if f".. py:module:: {module}\n" not in texts.get(docname, overview):
            missing.append(module)
        for node in tree.body:
            if isinstance(node, syllabus.DEFINITIONS) and node.name[0] != "_" and ast.get_docstring(node):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                if not re.search(rf"^\.\. py:{kind}:: {node.name}\b", texts.get(docname, overview), re.MULTILINE):
                    missing.append(f"{module}.{node.name}")
    assert missing == [] and len(texts) > 50


@cache
def anchors(docname):
    text = (ROOT / f"{docname}.nb.md").read_text(encoding="utf-8")
    return {make_id(myst.words(node)) for _, node in myst.blocks(text) if node.type == "heading"}


def test_every_link_of_a_component_leads_to_a_section_of_a_chapter(texts, collected):
    chapters = {chapter.docname for chapter in collected.chapters.values()}
    reached = set()
    for page, text in texts.items():
        for link in re.findall(r"`[A-Z]+-\d+ <(\S+)>`__", text):
            docname, _, anchor = posixpath.normpath(posixpath.join(posixpath.dirname(page), link)).partition(".html#")
            assert docname in chapters and anchor in anchors(docname), f"{page}: {link}"
            assert f":doc:`/{docname}`" in text, f"{page} names a section of {docname} and not the chapter"
            reached.add(docname)
    assert reached == chapters


def test_every_chapter_links_to_what_it_shows_and_is_linked_from_there(reference, collected):
    for chapter in collected.chapters.values():
        section = (ROOT / chapter.path).read_text().partition("\n## From the package\n")[2].partition("\n## ")[0]
        shown = {name.rpartition(".")[2] for name in re.findall(r"^source\((\S+)\)$", section, re.MULTILINE)}
        linked = re.findall(r"\{py:\w+\}`~?([\w.]+)`", section)
        assert shown and shown <= {name.rpartition(".")[2] for name in linked}, chapter.path
        for name in linked:
            docname, _ = reference.locate(name)
            assert chapter.docname in reference.chapters(docname, collected), f"{docname} does not name {chapter.path}"
