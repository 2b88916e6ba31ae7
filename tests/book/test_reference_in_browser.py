"""The API reference in a browser: it fits a phone, and the search finds it and the chapters."""

import re

import pytest

from bookbinder.reference import OVERVIEW

pytestmark = pytest.mark.browser


SIGNATURE = re.compile(r"<dt class=.sig .*?</dt>", re.DOTALL)


@pytest.fixture(scope="module")
def widest(site_folder):
    """Pages that are hard to fit: the overview, that with the most text, and that with the longest signature."""
    texts = {path: path.read_text("utf-8") for path in sorted(site_folder.glob("book/api/**/*.html"))}
    signatures = {path: map(len, SIGNATURE.findall(text)) for path, text in texts.items()}
    longest = {path: max(lengths, default=0) for path, lengths in signatures.items()}
    found = {max(texts, key=lambda path: len(texts[path])), max(longest, key=longest.get)}
    return [OVERVIEW, *(path.relative_to(site_folder).with_suffix("").as_posix() for path in sorted(found))]


def test_no_page_is_wider_than_the_screen(look, widest):
    for name in widest:
        for width in (1280, 390):
            page = look(name, width, formulas=False)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            cut_off = "all => all.filter(sig => sig.scrollWidth > sig.clientWidth + 1).map(sig => sig.innerText)"
            assert page.locator("dt.sig").evaluate_all(cut_off) == []


def test_the_search_finds_a_component_and_the_chapter_that_shows_it(site, visit):
    page = visit(f"{site}/search.html?q=MultiHeadAttention")
    for docname in ("book/api/layers/attention", "book/attention/attention"):
        page.locator(f"#search-results a[href*='{docname}.html']").first.wait_for()
