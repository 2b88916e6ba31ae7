"""What the chapters' pages show besides widgets: figures, code and printed outputs, on a wide screen and on a phone."""

import pytest

from bookbinder import ROOT, notebooks

pytestmark = pytest.mark.browser

CHAPTERS = [page.docname for page in notebooks.pages(ROOT) if not page.docname.endswith("/exercises")]
PAINTED = """svg => [svg.querySelector("path"), svg.querySelector("text")].map(part => getComputedStyle(part).fill)"""
CUT = """pre => pre.scrollWidth > pre.clientWidth"""


@pytest.mark.parametrize("scheme, ground", [("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 24, 29)")])
@pytest.mark.parametrize("docname", CHAPTERS)
def test_figures_stand_on_the_ground_of_the_page(site, visit, docname, scheme, ground):
    page = visit(f"{site}/{docname}.html", color_scheme=scheme)
    figures = page.locator("svg.la-figure")
    assert figures.count() >= 4
    assert not page.locator("img.la-figure").count()
    for figure in figures.all():
        behind, ink = figure.evaluate(PAINTED)
        assert behind == ground and ink != ground
        shown = [picture.evaluate("it => getComputedStyle(it).display") for picture in figure.locator("image").all()]
        assert shown == (["inline", "none"] if scheme == "light" else ["none", "inline"]) * (len(shown) // 2)
        panel = figure.evaluate("it => getComputedStyle(it.closest('.output')).backgroundColor")
        assert panel in ("rgba(0, 0, 0, 0)", ground)


@pytest.mark.parametrize("docname", CHAPTERS)
def test_a_phone_cuts_nothing_that_is_printed(site, visit, docname):
    page = visit(f"{site}/{docname}.html", width=390)
    printed = page.locator(".cell_output :is(.stream, .text_plain, .text_markdown) pre")
    assert printed.count() > 20
    assert not [pre.inner_text() for pre in printed.all() if pre.evaluate(CUT)]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for figure in page.locator("svg.la-figure").all():
        assert figure.bounding_box() is None or figure.bounding_box()["width"] <= 390


def test_code_is_nearly_as_large_as_prose_and_shows_where_it_goes_on(site, visit):
    page = visit(f"{site}/{CHAPTERS[0]}.html")
    code = page.locator(".cell_input pre").first
    size = "it => parseFloat(getComputedStyle(it).fontSize)"
    assert 15 <= code.evaluate(size) <= 16
    assert 18 <= page.locator(".bd-article section > p").first.evaluate(size) <= 19
    assert code.evaluate("it => getComputedStyle(it).backgroundAttachment") == "local, local, scroll, scroll"


def test_a_chapter_says_how_long_it_takes(site, visit):
    page = visit(f"{site}/{CHAPTERS[0]}.html")
    said = page.locator(".la-reading").inner_text()
    assert "minutes to read" in said and "predictions" in said and "exercises" in said


@pytest.mark.parametrize("docname", CHAPTERS)
def test_the_page_does_not_paint_over_its_widgets(site, visit, answers_shown, docname):
    """Their classes and those of the page's own style are apart: lines, dots and words look as they ask for."""
    page = visit(f"{site}/{docname}.html", storage_state=answers_shown)
    page.wait_for_selector(".la-plot path", state="attached")
    faults = page.evaluate(
        """() => [...document.querySelectorAll('.la-plot svg :is(path, circle, text)')].flatMap(node => {
            const style = getComputedStyle(node), given = name => node.getAttribute(name);
            const wanted = ['stroke', 'fill'].filter(name =>
                given(name) && (given(name) === 'none') !== (style[name] === 'none'));
            if (Math.abs(parseFloat(given('stroke-width')) - parseFloat(style.strokeWidth)) > .01) wanted.push('width');
            if (node.localName === 'text' && style.fontWeight !== '400') wanted.push('font-weight');
            return wanted.map(name => `${name} of ${node.outerHTML}`);
        })"""
    )
    assert not faults[:3]
