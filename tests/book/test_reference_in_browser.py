"""The API reference in a browser: it fits a phone, its formulas are drawn, and the search finds it and the chapters."""

import pytest

from bookbinder import ROOT, syllabus
from bookbinder.reference import OVERVIEW, Reference

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def widest():
    """Pages that are hard to fit: the overview, and those with the most text, the longest line and the longest name."""
    reference, collected = Reference(ROOT), syllabus.collect(ROOT)
    pages = {docname: reference.page(docname, collected) for docname in reference.pages if docname != OVERVIEW}
    longest = max(pages, key=lambda docname: max(map(len, pages[docname].splitlines())))
    return {OVERVIEW, longest, max(pages, key=lambda docname: len(pages[docname])), max(pages, key=len)}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_page_is_wider_than_the_screen(site, visit, widest, width, scheme):
    for docname in widest:
        page = visit(f"{site}/{docname}.html", width=width, color_scheme=scheme)
        page.evaluate("window.MathJax?.startup?.promise")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, docname
        cut_off = "all => all.filter(sig => sig.scrollWidth > sig.clientWidth + 1).map(sig => sig.innerText)"
        assert page.locator("dt.sig").evaluate_all(cut_off) == []


def test_a_formula_of_a_docstring_is_drawn(site, visit):
    page = visit(f"{site}/book/api/layers/attention.html")
    page.locator("dl.py mjx-container[display=true] mjx-math").first.wait_for()


def test_the_search_finds_a_component_and_the_chapter_that_shows_it(site, visit):
    page = visit(f"{site}/search.html?q=MultiHeadAttention")
    for docname in ("book/api/layers/attention", "book/attention/attention"):
        page.locator(f"#search-results a[href*='{docname}.html']").first.wait_for()
