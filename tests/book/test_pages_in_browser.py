"""What pages show on a wide, light screen and on a phone in the dark.

Of each kind of page, one is looked at in both. The articles of the others are put into one page on a phone, which takes
a tenth of the time; the slow tests open these pages too.
"""

import pytest
import yaml

from bookbinder import ROOT, notebooks
from llm_anatomy.notebook import DataFlow
from llm_anatomy.notebook.figures import PALETTE
from llm_anatomy.notebook.front_end import PAPER

pytestmark = pytest.mark.browser

LOOKS = [(1280, "light"), (390, "dark")]
TEXTS = [page.docname for page in notebooks.pages(ROOT) if not page.docname.endswith("/exercises")]
HEADS = {name: yaml.safe_load((ROOT / f"{name}.nb.md").read_text("utf-8").split("---")[1]) for name in TEXTS}
CHAPTERS = [name for name, head in HEADS.items() if "status" in head]
FINISHED = [name for name, head in HEADS.items() if head.get("status") == "finished"]
OTHERS = ["book/attention/exercises", "book/api/layers/attention"]
OTHERS += sorted(f"book/{path.stem}" for path in ROOT.glob("book/*.md"))
KINDS = ["book/attention/attention", "book/attention/exercises", "book/api/layers/attention"]
KINDS += [f"book/{name}" for name in ["index", "lecture_map", "errata", "notation", "bibliography", "api_reference"]]
REST = sorted({*TEXTS, *OTHERS} - {*KINDS})
CHAPTER = KINDS[0]


# Figures, printed outputs, widgets

FIGURES = """svgs => svgs.map(svg => ({
    fills: [svg.querySelector("path"), svg.querySelector("text")].map(part => getComputedStyle(part).fill),
    shown: [...svg.querySelectorAll("image")].map(image => getComputedStyle(image).display),
    panel: getComputedStyle(svg.closest(".output")).backgroundColor,
    width: svg.getBoundingClientRect().width,
}))"""
PRINTED = ".cell_output :is(.stream, .text_plain, .text_markdown) pre"
CUT = "all => all.filter(pre => pre.scrollWidth > pre.clientWidth).map(pre => pre.innerText)"
PAINTED_OVER = """nodes => nodes.flatMap(node => {
    const style = getComputedStyle(node), given = name => node.getAttribute(name);
    const wanted = ['stroke', 'fill'].filter(name =>
        given(name) && (given(name) === 'none') !== (style[name] === 'none'));
    if (Math.abs(parseFloat(given('stroke-width')) - parseFloat(style.strokeWidth)) > .01) wanted.push('width');
    if (node.localName === 'text' && style.fontWeight !== '400') wanted.push('font-weight');
    return wanted.map(name => `${name} of ${node.outerHTML}`);
})"""


def check_figures(page, width, scheme):
    """They stand on the ground of the page."""
    ground = "rgb({}, {}, {})".format(*bytes.fromhex(PAPER[scheme].removeprefix("#")))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    assert not page.locator("img.la-figure").count()
    figures = page.locator("svg.la-figure").evaluate_all(FIGURES)
    for figure in figures:
        behind, ink = figure["fills"]
        assert behind == ground and ink != ground
        shown = figure["shown"]
        assert shown == (["inline", "none"] if scheme == "light" else ["none", "inline"]) * (len(shown) // 2)
        assert figure["panel"] in ("rgba(0, 0, 0, 0)", ground)
        assert figure["width"] <= width
    return figures


def check_drawings(page):
    """They can be read and lead to sections."""
    flows = page.locator(".la-flow").all()
    for flow in flows:
        assert faults(flow.evaluate(MEASURE)) == []
        assert flow.evaluate("flow => flow.parentElement.scrollWidth <= flow.parentElement.clientWidth")
    return flows


def check_width(page):
    """With all folds open, nothing is wider than the screen."""
    page.evaluate("for (const fold of document.querySelectorAll('.bd-article details')) fold.open = true")
    page.evaluate("Promise.all(document.getAnimations().map(motion => motion.finished))")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def check_article(page, name, width, scheme):
    figures, printed = check_figures(page, width, scheme), page.locator(PRINTED)
    assert name not in CHAPTERS or (figures and printed.count() > 20)
    if width < 400:
        assert printed.evaluate_all(CUT) == []  # a phone shows whole lines
    flows = check_drawings(page)
    assert flows or name not in FINISHED
    check_width(page)
    assert not page.locator("article img:is(:not([alt]), [alt=''])").count()


LEND = """async address => {
    const text = await (await fetch(address)).text();
    const article = new DOMParser().parseFromString(text, "text/html").querySelector("article");
    for (const widget of article.querySelectorAll(".la-widget")) widget.remove();
    for (const code of article.querySelectorAll(".cell_input pre")) code.textContent = code.textContent;
    for (const image of article.querySelectorAll("img")) image.src = new URL(image.getAttribute("src"), address);
    document.querySelector("article").replaceWith(article);
    await Promise.all([...article.querySelectorAll("img")].map(image => image.decode().catch(() => {})));
}"""


@pytest.mark.parametrize("name", REST)
def test_an_article_can_be_read_on_a_phone(look, site, name):
    """Its widgets are left out, which other tests show on a page as narrow, and so are the colours of its code."""
    page = look("book/glossary", 390, "dark", formulas=False)
    page.evaluate(LEND, f"{site}/{name}.html")
    check_article(page, name, 390, "dark")


# The data-flow drawing of a finished chapter

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


def test_the_keyboard_leads_from_a_drawing_to_a_section(look):
    page = look(CHAPTER)
    last = page.locator(".la-flow").first.locator("a").last
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


# Type, and the rules of WCAG 2.2


def test_a_chapter_says_how_long_it_takes_and_is_set_to_be_read(look):
    page = look(CHAPTER)
    said = page.locator(".la-reading").inner_text()
    assert "minutes to read" in said and "predictions" in said and "exercises" in said
    code = page.locator(".cell_input pre").first
    size = "it => parseFloat(getComputedStyle(it).fontSize)"
    assert 15 <= code.evaluate(size) <= 16  # nearly as large as prose
    assert 18 <= page.locator(".bd-article section > p").first.evaluate(size) <= 19
    assert code.evaluate("it => getComputedStyle(it).backgroundAttachment") == "local, local, scroll, scroll"
    line_of_code, line_of_text = page.evaluate(
        """() => { const pre = document.querySelector('.cell_input pre'), style = getComputedStyle(pre);
            const probe = document.createElement('span'); probe.textContent = '0'.repeat(84); pre.append(probe);
            const room = pre.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
            const wide = probe.getBoundingClientRect().width; probe.remove();
            const text = [...document.querySelectorAll('.bd-article section > p:not(:has(.math))')].find(
                p => p.clientHeight > 120);
            const room_of_text = text.clientWidth;
            text.style = 'white-space: nowrap; width: max-content; max-width: none';
            const letter = text.clientWidth / text.textContent.length;
            text.style = '';
            return [room / wide, room_of_text / letter] }"""
    )
    assert line_of_code >= 72 / 84  # characters
    assert 65 <= line_of_text <= 81  # if lines were full: some five fewer stand on one


ALIKE = """() => {
    const met = new Set(), first = kind => !met.has(kind) && met.add(kind);
    for (const formula of document.querySelectorAll("article mjx-container")) {
        const colours = [...formula.querySelectorAll("[class*=la-]")].map(part => part.className);
        if (!first([formula.getAttribute("display"), ...new Set(colours)].join())) formula.remove();
    }
    const like = node => [node.localName, node.className.baseVal ?? node.className, node.getAttribute("style"),
        node.getAttributeNames(), !node.textContent.trim()].join(" ");
    const above = node => node.matches("article") ? [] : [...above(node.parentElement), like(node)];
    for (const block of document.querySelectorAll("article :is(p, li, tbody tr):not(summary *)")) {
        if (!block.isConnected) continue;
        const parts = [...above(block), "has", ...[...block.querySelectorAll("*")].map(like)];
        if (!first([...new Set(parts)].join(";"))) block.remove();
    }
    for (const word of document.querySelectorAll(".highlight pre span[class]"))
        if (!first(word.className)) word.replaceWith(...word.childNodes);
}"""


WIDE_ONES_TAKE_THE_FOCUS = """[...document.querySelectorAll("pre")].every(
    pre => pre.tabIndex === 0 || pre.scrollWidth <= pre.clientWidth)"""


FORMULAS = {  # they are drawn in a text and in a docstring
    CHAPTER: ["section > p mjx-math"],
    "book/api/layers/attention": ["dl.py mjx-container[display=true] mjx-math"],
}


def cases():
    """Each kind of page, in one of the looks by the rules; the other look and the other pages are slow."""
    fast = [(CHAPTER, LOOKS), *((name, [LOOKS[n % 2]]) for n, name in enumerate(KINDS[1:]))]
    slow = [(name, [LOOKS[1 - n % 2]]) for n, name in enumerate(KINDS[1:])] + [(name, LOOKS) for name in REST]
    return fast + [pytest.param(*case, marks=pytest.mark.slow) for case in slow]


@pytest.mark.parametrize(("name", "looks"), cases())
def test_a_page_can_be_read_and_breaks_no_rule(look, breaches, name, looks):
    """Of formulas with the same colours, of paragraphs, items and rows with the same parts, and of words of code with
    the same colour, the rules are applied to one."""
    page = look(name)
    for part in [".la-plot path"] * (name in CHAPTERS) + FORMULAS.get(name, []):
        page.wait_for_selector(part, state="attached")
    for width, scheme in LOOKS:
        look(name, width, scheme)
        check_article(page, name, width, scheme)
        plots = page.locator(".la-plot svg :is(path, circle, text)")
        assert plots.evaluate_all(PAINTED_OVER)[:3] == []  # the page's own style is not for its widgets
    page.evaluate(ALIKE)
    for width, scheme in looks:
        look(name, width, scheme)
        page.wait_for_function(WIDE_ONES_TAKE_THE_FOCUS, polling=100)  # the theme notices a new width after a while
        assert breaches(page) == []


def test_a_breach_is_seen(visit, breaches, tmp_path):
    file = tmp_path / "bad.html"
    file.write_text('<!doctype html><html lang="en"><title>A</title><p style="color: #aaa">Pale</p><img src="x:">')
    assert {line.split()[0] for line in breaches(visit(file.as_uri()))} == {"color-contrast", "image-alt"}
