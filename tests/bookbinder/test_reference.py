"""The API reference: what it describes, how it shows it, and where its links lead."""

import pytest

from bookbinder import notebooks, pages, syllabus
from bookbinder.reference import FOLDER, OVERVIEW, Reference
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
