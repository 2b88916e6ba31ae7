"""The widgets of relative position as readers use them: by mouse, finger and keys, light and dark."""

import re
from pathlib import Path

import pytest
import torch

from llm_anatomy.layers.positions.buckets import T5Buckets, T5CausalBuckets
from llm_anatomy.layers.positions.relative import alibi_slopes
from llm_anatomy.notebook import BucketExplorer, SchemeExplorer, SlopesExplorer, TermMixer
from llm_anatomy.notebook.figures import PALETTE
from llm_anatomy.notebook.widgets.base import fixed
from llm_anatomy.notebook.widgets.scheme_explorer import SCHEMES
from llm_anatomy.notebook.widgets.score_map import written

pytestmark = pytest.mark.browser

SCRIPTS = Path(__file__).parents[2] / "src/llm_anatomy/notebook/widgets"
WORDS = ["once", "the", "dog", "chased", "the", "pig"]


def terms():
    positions = torch.arange(6)
    content = 2 * torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    return {
        "content by content": content,
        "content by position": content[:, :1] * (positions - positions[:, None]).cos(),
        "bias by position": -0.3 * (positions - positions[:, None]).abs(),
    }


def mixer(**changes):
    return TermMixer(terms(), WORDS, **changes)


def everything():
    return SchemeExplorer(caption="Look."), mixer(caption="Look."), BucketExplorer(caption="Look."), SlopesExplorer(12)


def says(page, sentence):
    page.wait_for_function("words => document.querySelector('.la-text').textContent === words", arg=sentence)


def row(page):
    return page.locator(".la-values b").all_inner_texts()


def in_script(visit, name, call, cases):
    script = (SCRIPTS / f"{name}.js").read_text("utf-8")
    return visit("about:blank").evaluate(f"cases => {{ {script}; return cases.map({call}) }}", cases)


# Schemes


@pytest.mark.syllabus("IITD-16", "IITD-21", "CMU-26", "GT-30")
@pytest.mark.parametrize("n", [2, 24])
def test_the_pages_scores_are_those_of_the_packages_hooks(visit, n):
    widget = SchemeExplorer(n)
    which = [(name, part) for name in SCHEMES for part in range(len(widget.parts(name)))]
    script = (SCRIPTS / "scheme_explorer.js").read_text("utf-8")
    found = visit("about:blank").evaluate(
        f"""([which, data]) => {{ {script}; const positions = [...Array(data.n).keys()]; return which.flatMap(
            ([name, part]) => positions.flatMap(i => positions.map(j => score({{ name, part }}, i, j, data)))) }}""",
        [which, widget.data()],
    )
    wanted = [score for name, part in which for line in widget.scores(name, part) for score in line]
    assert found == pytest.approx(wanted, abs=1e-6)
    assert [fixed(score, 2) for score in found] == [fixed(score, 2) for score in wanted]


@pytest.mark.syllabus("IITD-16", "IITD-21", "CMU-26", "GT-30")
def test_schemes_heads_mask_and_softmax(show):
    widget = SchemeExplorer(7)
    page = show(widget)
    says(page, widget.text())
    for name in SCHEMES:
        page.get_by_role("radio", name=name, exact=True).check()
        assert row(page) == [written(score) for score in widget._shown(name, 0, False, name != "none")[4]]
        last = len(widget.parts(name)) - 1
        if last:
            page.get_by_role("radio", name=widget.parts(name)[last], exact=True).check()
        for masked, soft in ((False, False), (True, False), (True, True), (False, True)):
            page.get_by_label("causal mask").set_checked(masked)
            page.get_by_label("softmax").set_checked(soft)
            assert row(page) == [written(score) for score in widget._shown(name, last, masked, soft)[4]]
        says(page, widget._sentence(name, last, 4, False, True))


def test_mouse_goes_through_the_queries_and_drags(show):
    page, widget = show(SchemeExplorer(7)), SchemeExplorer(7)
    rows = page.locator(".la-rows > div:not(.la-strip)")
    for query in (2, 0, 6):
        rows.nth(query).locator("i").nth(5).hover()
        assert row(page) == [fixed(score, 2) for score in widget.scores("ALiBi")[query]]
        assert page.locator(".la-chosen span").inner_text() == str(query)
    strip = page.get_by_role("slider", name="query").bounding_box()
    middle = [(strip["x"] + 10, strip["y"] + strip["height"] * (query + 0.5) / 7) for query in range(7)]
    page.mouse.move(*middle[6])
    page.mouse.down()
    page.mouse.move(*middle[1])
    assert page.locator(".la-chosen span").inner_text() == "1"
    page.mouse.move(middle[0][0], strip["y"] - 200)  # beyond the end
    page.mouse.up()
    assert page.locator(".la-chosen span").inner_text() == "0"
    page.mouse.move(*middle[5])
    assert page.locator(".la-chosen span").inner_text() == "0"


def test_keys_move_query_scheme_and_boxes(show):
    page, widget = show(SchemeExplorer(7)), SchemeExplorer(7)
    for key in (
        "Tab",
        "ArrowRight",
        "Tab",
        "ArrowUp",
        "ArrowLeft",
        "Tab",
        "ArrowRight",
        "Tab",
        "Space",
        "Tab",
        "Space",
    ):
        page.keyboard.press(key)
    says(page, widget._sentence("RoPE", 1, 2, True, True))
    query = page.get_by_role("slider", name="query")
    query.press("End")
    query.press("ArrowDown")
    says(page, widget._sentence("RoPE", 1, 6, True, True))
    assert query.get_attribute("aria-valuetext") == "6"
    assert query.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"


def test_finger_picks_scheme_head_and_query(show):
    page, widget = show(SchemeExplorer(7), width=390, has_touch=True, is_mobile=True), SchemeExplorer(7)
    page.get_by_role("radiogroup", name="scheme").locator("label").nth(4).tap()
    page.get_by_role("radiogroup", name="head").locator("label").nth(2).tap()
    page.locator(".la-rows > div").nth(1).locator("i").nth(3).tap()
    says(page, widget._sentence("T5", 2, 1, False, False))
    strip = page.get_by_role("slider", name="query").bounding_box()
    page.touchscreen.tap(strip["x"] + 10, strip["y"] + strip["height"] * 5.5 / 7)
    page.get_by_text("causal mask").tap()
    says(page, widget._sentence("T5", 2, 5, True, False))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cells_and_bars_follow_the_scores(show, theme):
    page, widget = show(SchemeExplorer(7, scheme="clipped bias"), theme=theme), SchemeExplorer(7)
    cells = """() => [...document.querySelectorAll('.la-rows i')].map(cell => [
        getComputedStyle(cell).getPropertyValue('--la-hue').trim(),
        parseFloat(cell.style.getPropertyValue('--la-share')), cell.className])"""
    scores = [score for line in widget.scores("clipped bias") for score in line]
    ends = ("negative" if score < 0 else "positive" for score in scores)
    found = page.evaluate(cells)
    assert [hue for hue, *_ in found] == [PALETTE[end][theme] for end in ends]
    assert [share for _, share, _ in found] == pytest.approx([abs(score) / 2 * 100 for score in scores], abs=0.051)
    zero, full = (page.locator(".la-rows i").nth(scores.index(score)) for score in (0, 2))
    painted = "node => getComputedStyle(node).backgroundColor"
    canvas = """colour => { const paint = document.createElement('canvas').getContext('2d');
        paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data]; }"""
    ground = page.evaluate(canvas, page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert page.evaluate(canvas, zero.evaluate(painted)) == pytest.approx(ground, abs=1)  # zero is the page's colour
    teal = [int(PALETTE["positive"][theme][at : at + 2], 16) for at in (1, 3, 5)]
    assert page.evaluate(canvas, full.evaluate(painted)) == pytest.approx([*teal, 255], abs=1)
    bars = page.evaluate(
        """() => { const zero = document.querySelector('.la-bars hr').getBoundingClientRect().top;
        return [...document.querySelectorAll('.la-bars i')].map(bar => { const box = bar.getBoundingClientRect();
            return box.top < zero - 2 ? box.height : -box.height; }) }"""
    )
    height = page.locator(".la-bars").evaluate("node => node.clientHeight") / 3.5  # the made-up numbers: −1.5 to 2
    assert bars == pytest.approx([score * height for score in widget.scores("clipped bias")[4]], abs=1.5)
    page.get_by_label("causal mask").check()
    assert page.locator(".la-rows .la-hidden").count() == 21
    page.get_by_label("softmax").check()
    weights = torch.tensor(widget._shown("clipped bias", 0, True, True)).flatten()
    found = page.evaluate(cells)
    assert {(hue, kind) for hue, _, kind in found} == {(PALETTE["weights"][theme], "la-soft")}
    assert [share for _, share, _ in found] == pytest.approx((100 * weights).tolist(), abs=0.051)


# Terms


@pytest.mark.syllabus("IITD-20", "IITD-23")
def test_ticked_terms_are_added(show):
    page, widget, names = show(mixer()), mixer(), list(terms())
    says(page, widget.text())
    for ticked in ((0, 1), (1,), (), (2,), (0, 2)):
        for t, name in enumerate(names):
            page.get_by_label(name).set_checked(t in ticked)
        chosen = [names[t] for t in ticked]
        assert row(page) == [fixed(score, 2) for score in widget.mix(chosen)[5]]
        assert page.locator(".la-off").count() == 3 - len(ticked)
        says(page, widget._sentence(chosen, 5, False, False))
    page.get_by_label("causal mask").check()
    page.get_by_label("softmax").check()
    page.locator(".la-thumb").nth(1).locator("div").nth(3).hover()
    says(page, widget._sentence([names[0], names[2]], 3, True, True))
    assert page.locator(".la-thumb .la-chosen").count() == 3


@pytest.mark.syllabus("IITD-20", "IITD-23")
def test_terms_by_keys_and_by_finger(show):
    page, widget, names = show(mixer(causal=True)), mixer(causal=True), list(terms())
    for key in ("Tab", "Tab", "Space", "Tab", "Tab", "ArrowUp", "Tab", "Tab", "Space"):
        page.keyboard.press(key)
    says(page, widget._sentence([names[0], names[2]], 4, True, True))
    page = show(mixer(), width=390, has_touch=True, is_mobile=True)
    page.get_by_text(names[0], exact=True).tap()
    page.locator(".la-rows > div").nth(2).locator("i").nth(0).tap()
    says(page, widget._sentence(names[1:], 2, False, False))


def test_terms_apart_share_one_scale(show):
    page, each = show(mixer()), torch.stack(list(terms().values()))
    shares = page.locator(".la-thumb i").evaluate_all(
        "cells => cells.map(c => parseFloat(c.style.getPropertyValue('--la-share')))"
    )
    wanted = 100 * each.abs() / each.abs().max()
    assert shares == pytest.approx(wanted.flatten().tolist(), abs=0.1)
    minus = page.locator(".la-thumb i").evaluate_all("cells => cells.map(c => c.className === 'la-minus')")
    assert minus == [round(score, 3) < 0 for score in each.flatten().tolist()]


# Buckets


@pytest.mark.syllabus("IITD-21")
def test_the_pages_buckets_are_the_packages(visit):
    offsets = [*range(-300, 301), -5000, 5000]
    sizes = [(n, f) for n in (4, 8, 14, 32, 64) for f in (n // 4 + 1, n // 2 + 1, 17, 31, 100, 128, 256)]
    sizes += [(10, 160), (18, 128), (34, 27), (38, 196)]  # where double precision takes the other side of a border
    runs = [(n, f, False) for n, f in sizes if f > n // 4] + [(n, f, True) for n, f in sizes if f > n // 2]
    found = in_script(
        visit,
        "bucket_explorer",
        "([n, max, causal, offsets]) => offsets.map(r => bucket(r, { n, max, causal }))",
        [[*run, offsets] for run in runs],
    )
    for (n, farthest, causal), page in zip(runs, found, strict=True):
        scheme = (T5CausalBuckets if causal else T5Buckets)(n, farthest)
        assert page == scheme(torch.tensor(offsets)).tolist(), (n, farthest, causal)


@pytest.mark.syllabus("IITD-21")
def test_buckets_by_mouse_and_sizes(show):
    page, widget = show(BucketExplorer()), BucketExplorer()
    says(page, widget.text())
    page.get_by_role("radio", name="24 8 … 11").check()  # the nearest of its offsets
    says(page, widget._sentence(8, False))
    assert page.get_by_role("radio", name="16 –").is_disabled()
    assert page.get_by_text("Never used: 16.").is_visible()
    chart = page.locator(".la-chart svg").bounding_box()
    page.mouse.move(chart["x"] + chart["width"] / 2, chart["y"] + 50)
    page.mouse.down()
    page.mouse.move(chart["x"] + 2, chart["y"] + 50)  # beyond the end
    page.mouse.up()
    says(page, widget._sentence(-160, False))
    page.get_by_role("radio", name="past only").check()
    says(page, widget._sentence(-160, True))
    page.get_by_role("slider", name="buckets").fill("8")
    page.get_by_role("slider", name="farthest").fill("20")
    says(page, BucketExplorer(8, 20)._sentence(-25, True))
    page.get_by_role("slider", name="farthest").fill("2")  # below what is told apart: 4
    says(page, BucketExplorer(8, 5)._sentence(-7, True))
    page.get_by_role("radio", name="both directions").check()
    page.get_by_role("slider", name="offset").fill("3")
    says(page, BucketExplorer(8, 5)._sentence(3, False))


@pytest.mark.syllabus("IITD-21")
def test_buckets_by_keys_and_by_finger(show):
    page, widget = show(BucketExplorer()), BucketExplorer()
    for key in ("Tab", "ArrowRight", "ArrowRight", "Tab", "ArrowLeft"):
        page.keyboard.press(key)
    says(page, widget._sentence(-12, False))  # from bucket 10 to the nearest offset of bucket 9
    page = show(BucketExplorer(), width=390, has_touch=True, is_mobile=True)
    page.locator(".la-boxes label").nth(12).tap()
    says(page, widget._sentence(-32, False))


def test_a_finger_picks_on_the_chart_and_a_scroll_moves_nothing(show):
    page = show(BucketExplorer(), width=390, has_touch=True, is_mobile=True)
    cdp, chart = page.context.new_cdp_session(page), page.locator(".la-chart").bounding_box()
    right, high = chart["x"] + chart["width"] - 14, chart["y"] + 150
    middle = (chart["x"] + 46 + right) / 2

    def touch(kind, *points):
        cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    page.touchscreen.tap(right, high)
    says(page, BucketExplorer()._sentence(160, False))
    touch("touchStart", (middle, high))
    for up in (30, 60, 90):
        touch("touchMove", (middle, high - up))
    touch("touchEnd")
    page.wait_for_function("scrollY > 20")
    assert page.get_by_role("slider", name="offset").input_value() == "160"
    page.evaluate("scrollTo(0, 0)")
    touch("touchStart", (right, high))
    for left in (20, 60, right - middle):
        touch("touchMove", (right - left, high))
    touch("touchEnd")
    says(page, BucketExplorer()._sentence(0, False))


def test_the_band_holds_the_offsets_that_share(show):
    page = show(BucketExplorer(8, 20))
    page.get_by_role("slider", name="offset").fill("-3")
    first, last = BucketExplorer(8, 20).shared(-3)
    band, spot = (page.locator(f".la-chart {name}").first.bounding_box() for name in (".la-band", "circle"))
    pixels = (page.locator(".la-chart svg").bounding_box()["width"] - 60) / 50  # offsets −25 to 25
    assert band["width"] == pytest.approx((last - first + 1) * pixels, abs=0.5)
    assert band["x"] < spot["x"] + spot["width"] / 2 < band["x"] + band["width"]
    assert page.locator(".la-step.la-now").count() == 1


# Slopes


def test_the_pages_slopes_are_the_packages(visit):
    found = in_script(visit, "slopes_explorer", "slopes", list(range(1, 129)))
    for n, page in enumerate(found, 1):
        assert page == pytest.approx(alibi_slopes(n, dtype=torch.float64).tolist(), rel=1e-12)


def test_slopes_by_slider_keys_and_mouse(show):
    page = show(SlopesExplorer())
    says(page, SlopesExplorer().text())
    for n, head in ((12, 9), (1, 1), (128, 128), (100, 65), (16, 2)):
        page.get_by_role("slider", name="heads").fill(str(n))
        page.get_by_role("slider", name="head", exact=True).fill(str(head))
        says(page, SlopesExplorer(n)._sentence(head))
        assert page.locator(".la-line").count() == n + 1
    for key in ("ArrowRight", "ArrowRight", "Shift+Tab", "ArrowLeft"):
        page.keyboard.press(key)
    says(page, SlopesExplorer(15)._sentence(4))
    chart = page.locator(".la-chart svg").nth(1).bounding_box()
    page.mouse.click(chart["x"] + chart["width"] - 14, chart["y"] + 60)
    says(page, SlopesExplorer(15)._sentence(15))


def test_slopes_by_finger_and_where_the_head_is_no_more(show):
    page = show(SlopesExplorer(12), width=390, has_touch=True, is_mobile=True)
    box = page.get_by_role("slider", name="head", exact=True).bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    says(page, SlopesExplorer(12)._sentence(12))
    page.get_by_role("slider", name="heads").fill("5")
    says(page, SlopesExplorer(5)._sentence(5))


# All of them


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_fit_and_can_be_read_and_touched(show, width, theme):
    page = show(*everything(), width=width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.la-widget div, .la-option span')]
            .filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.className)"""
    )
    assert cut == []
    outside = page.evaluate(
        """() => [...document.querySelectorAll('.la-chart text')].filter(word => {
            const [a, b] = [word, word.closest('svg')].map(node => node.getBoundingClientRect());
            return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
        }).map(word => word.textContent)"""
    )
    assert outside == []
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.la-widget *')].filter(node => node.textContent)
            .map(node => parseFloat(getComputedStyle(node).fontSize))"""
    )
    assert min(sizes) >= 12
    targets = page.evaluate(
        """() => [...document.querySelectorAll('.la-option, .la-tick-box, .la-rows > div')]
            .flatMap(node => [node.getBoundingClientRect().width, node.getBoundingClientRect().height])"""
    )
    assert min(targets) >= 24


def test_copies_are_independent_and_leak_no_name(show):
    names = "Object.keys(window).sort()"
    page = show(*everything(), *everything())
    page.get_by_role("radio", name="T5").first.check()
    assert page.get_by_role("radio", name="ALiBi").nth(0).is_checked() is False
    assert page.get_by_role("radio", name="ALiBi").nth(1).is_checked() is True
    assert page.evaluate(names) == show().evaluate(names)


def test_without_scripts_the_words_are_shown(show):
    page = show(*everything(), java_script_enabled=False)
    for widget in everything():
        assert page.get_by_text(re.compile(re.escape(widget.text()))).first.is_visible()
