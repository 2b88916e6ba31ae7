"""Each finished chapter's data-flow drawing on the built page can be read, on a phone too, and its boxes lead on."""

import pytest
import yaml

from bookbinder import ROOT
from llm_anatomy.notebook import DataFlow
from llm_anatomy.notebook.figures import PALETTE

pytestmark = pytest.mark.browser

TEXTS = [path for path in sorted(ROOT.glob("book/*/*.nb.md")) if path.stem != "exercises.nb"]
HEADS = {path.parent.name: yaml.safe_load(path.read_text("utf-8").split("---")[1]) for path in TEXTS}
CHAPTERS = [name for name, head in HEADS.items() if head.get("status") == "finished"]

MEASURE = """flow => {
    const boxOf = element => {
        const { left, top, right, bottom } = element.getBoundingClientRect();
        return { left, top, right, bottom, what: element.textContent || element.parentNode.textContent };
    };
    const all = chosen => [...flow.querySelectorAll(chosen)];
    const scale = flow.querySelector("svg").getScreenCTM().a;
    return {
        texts: all("text").map(boxOf),
        labels: all("g text").map(boxOf),
        boxes: all("rect").map(boxOf),
        inside: all("a text").map(text => [boxOf(text), boxOf(text.parentNode.querySelector("rect"))]),
        sizes: all("text").map(text => scale * parseFloat(getComputedStyle(text).fontSize)),
        svg: boxOf(flow.querySelector("svg")),
        gone: all("a").map(a => a.getAttribute("href")).filter(link => !document.getElementById(link.slice(1))),
    };
}"""


def overlap(one, other, gap=0):
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return across > gap and down > gap


def holds(outer, inner, gap=0):
    signs = {"left": 1, "top": 1, "right": -1, "bottom": -1}
    return all(sign * (inner[side] - outer[side]) >= gap for side, sign in signs.items())


def faults(measured):
    """One line for each label that cannot be read."""
    texts, labels, boxes = (measured[name] for name in ("texts", "labels", "boxes"))
    pairs = [(a, b) for i, a in enumerate(texts) for b in texts[i + 1 :]]
    pairs += [(label, box) for label in labels for box in boxes]
    pairs += [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :]]
    found = [f"{a['what']!r} and {b['what']!r} overlap" for a, b in pairs if overlap(a, b, gap=0.5)]
    found += [f"{text['what']!r} leaves its box" for text, box in measured["inside"] if not holds(box, text, 1)]
    found += [f"{text['what']!r} leaves the drawing" for text in texts if not holds(measured["svg"], text)]
    found += [f"a text of {size:.1f} pixels" for size in measured["sizes"] if size < 12]
    return found + [f"no section {link}" for link in measured["gone"]]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_drawing_can_be_read_and_leads_to_its_sections(site, visit, chapter, width):
    page = visit(f"{site}/book/{chapter}/{chapter}.html", width=width)
    flow = page.locator(".la-flow")
    assert flow.count() == 1
    measured = flow.evaluate(MEASURE)
    assert faults(measured) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert flow.evaluate("flow => flow.parentElement.scrollWidth <= flow.parentElement.clientWidth")
    last = flow.locator("a").last
    last.press("Enter")
    page.wait_for_url(f"**{last.get_attribute('href')}")


def drawing(first="queries"):
    return DataFlow(
        "How do two become one?",
        "ab cc",
        {"a": (first, "query", "#q"), "b": ("keys", "key", "#k"), "c": ("scores\nQ Kᵀ", "weights", "#s")},
        [("a", "c", (3, 5, 2)), ("b", "c", (3, 5, 2))],
        alt="Queries and keys flow into the scores.",
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme_and_the_focus_is_seen(show, theme):
    page = show(drawing(), theme=theme)
    stroke = "rect => [getComputedStyle(rect).stroke, getComputedStyle(rect).strokeWidth]"
    first = page.locator(".la-flow rect").first
    shade = PALETTE["query"][theme].removeprefix("#")
    colour = f"rgb({', '.join(str(int(shade[i : i + 2], 16)) for i in (0, 2, 4))})"
    assert first.evaluate(stroke) == [colour, "1.5px"]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#q"
    assert first.evaluate(stroke) == [colour, "3px"]
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert page.locator(".la-flow text").first.evaluate("text => getComputedStyle(text).fill") == ink


def test_faults_are_seen(show):
    page = show(drawing())
    flow = page.locator(".la-flow")
    assert faults(flow.evaluate(MEASURE)) == ["no section #q", "no section #k", "no section #s"]
    page.add_style_tag(content=".la-flow .la-shape { font-size: 40px !important }")
    assert "'(3, 5, 2)' and '(3, 5, 2)' overlap" in faults(flow.evaluate(MEASURE))
    page.add_style_tag(content=".la-flow .la-name { font-size: 60px !important }")
    assert "'queries' leaves its box" in faults(flow.evaluate(MEASURE))
    page.add_style_tag(content=".la-flow svg { max-width: 200px !important } .la-flow .la-line { font-size: 14px }")
    assert any(line.startswith("a text of 8.") for line in faults(flow.evaluate(MEASURE)))
