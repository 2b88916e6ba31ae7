"""The front page's drawing by keyboard, finger and eye, and the type of every page."""

import pytest

from bookbinder import ROOT, anatomy, syllabus

pytestmark = pytest.mark.browser


@pytest.fixture
def front(site, visit):
    return lambda **options: visit(f"{site}/book/index.html", **options)


@pytest.fixture(scope="module")
def written():
    headers = map(syllabus.header, ROOT.glob("book/*/*.nb.md"))
    return sorted(header["chapter"] for header in headers if "chapter" in header)


def focused(page):
    return page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")


def test_tab_reaches_the_written_parts_and_no_other(front, written):
    page = front()
    page.locator("section > h1").click()  # from here the Tab key goes on
    reached = []
    for _ in range(len(anatomy.PARTS) + 2):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.la-part')"):
            reached.append(focused(page))
    assert [int(name.split(":")[0].removeprefix("Chapter ")) for name in reached] == [
        part.chapter for part in anatomy.PARTS if part.chapter in written
    ]
    assert page.locator("g.la-to-come").count() == len(anatomy.PARTS) - len(written)
    assert page.locator("g.la-to-come").evaluate_all("parts => parts.every(part => part.tabIndex < 0)")


def test_a_focused_part_has_a_ring_and_enter_opens_its_chapter(front, written):
    page = front()
    link = page.locator("a.la-part").first
    ring = link.locator(".la-ring")
    assert ring.evaluate("ring => getComputedStyle(ring).stroke") == "none"
    page.locator("section > h1").click()
    for _ in range(3):  # the title has a link of its own
        page.keyboard.press("Tab")
        if name := focused(page):
            break
    assert name.startswith("Chapter ")
    assert ring.evaluate("ring => getComputedStyle(ring).stroke") != "none"
    page.keyboard.press("Enter")
    page.wait_for_url("**/book/*/*.html", wait_until="commit")
    assert page.locator("section > h1").inner_text().split(".")[0] == name.split(":")[0].removeprefix("Chapter ")


def test_a_phone_shows_it_all_in_readable_letters(front):
    page = front(width=390, color_scheme="dark", has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    sizes = page.evaluate(
        """() => { const svg = document.querySelector('.la-anatomy svg');
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
            return [...svg.querySelectorAll('text, tspan')].map(
                word => parseFloat(getComputedStyle(word).fontSize) * scale) }"""
    )
    assert min(sizes) >= 12
    outside = page.evaluate(
        """() => [...document.querySelectorAll('.la-part')].filter(part => {
            const [word, box] = [part.querySelector('text:last-of-type'), part.querySelector('rect')].map(
                node => node.getBoundingClientRect());
            return word.right > box.right - 2 }).map(part => part.getAttribute('aria-label'))"""
    )
    assert outside == []
    page.locator("a.la-part").first.tap()
    page.wait_for_url("**/book/*/*.html", wait_until="commit")


def test_symbols_and_names_have_the_colours_of_figures(look):
    symbol = look("book/notation").locator("mjx-container .la-query").first
    symbol.wait_for()
    colour = "node => [getComputedStyle(node).color, getComputedStyle(node).getPropertyValue('--la-query')]"
    shown, meant = symbol.evaluate(colour)
    red, green, blue = (int(meant.lstrip("# ")[i : i + 2], 16) for i in (0, 2, 4))
    assert shown == f"rgb({red}, {green}, {blue})"
    page = look("book/attention/attention", formulas=False)
    assert page.locator(".cell_input .n-Query").first.evaluate(colour)[0] == shown
