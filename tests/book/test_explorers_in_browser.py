"""The explorers of attention, scaling and heads as readers use them: by mouse, finger and keys, light and dark."""

import math
import re
from pathlib import Path

import pytest
import torch
from einops import rearrange

from llm_anatomy.notebook import AttentionExplorer, HeadsExplorer, ScalingExplorer
from llm_anatomy.notebook.figures import PALETTE

pytestmark = pytest.mark.browser

SCRIPTS = Path(__file__).parents[2] / "src/llm_anatomy/notebook/widgets"
WORDS = ["the", "pig", "chased", "a", "dog"]
SCORES = [round(score, 4) for score in torch.randn(16, generator=torch.Generator().manual_seed(0)).tolist()]


def attend(tokens, masked):
    """The first head looks one position back, the second looks two positions back, roughly."""
    positions = torch.arange(len(tokens))
    scores = torch.stack([-2.5 * (positions[:, None] - positions - back).abs() + positions.cos() for back in (1, 2)])
    may_attend = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril(0 if masked else len(tokens))
    return scores.masked_fill(~may_attend, -math.inf).softmax(-1)


def attention(**changes):
    return AttentionExplorer(WORDS, attend, **{"heads": ["one back", "two back"], "caption": "Look."} | changes)


def everything():
    return attention(), ScalingExplorer(SCORES), HeadsExplorer(caption="Look."), HeadsExplorer(8, 12, 1)


def says(page, sentence):
    page.wait_for_function("words => document.querySelector('.la-text').textContent === words", arg=sentence)


# Attention


def shown(page):
    return [float(weight) for weight in page.locator(".la-keys b").all_inner_texts()]


def expected(query, head=0, masked=True):
    return pytest.approx(attend(WORDS, masked)[head, query].tolist(), abs=0.0051)


def chosen(page):
    return page.get_by_role("radiogroup", name="query").get_by_role("radio", checked=True).get_attribute("value")


@pytest.mark.syllabus("UCL-20")
def test_mouse_goes_through_the_queries(show):
    page = show(attention())
    assert shown(page) == expected(4)
    for query in (2, 0, 3):
        page.locator(".la-sentence .la-option").nth(query).hover()
        assert shown(page) == expected(query)
        assert page.locator(".la-chosen").inner_text() == WORDS[query]
        looked_at = attend(WORDS, True)[0, query] >= 0.005
        assert page.locator(".la-sentence path").count() == looked_at.sum()
    page.locator(".la-map > div").nth(2).hover()
    assert shown(page) == expected(1)
    assert chosen(page) == "1"


def test_a_mouse_at_rest_leaves_the_choice_to_the_keys(show):
    page = show(attention())
    page.locator(".la-sentence .la-option").nth(2).hover()
    page.get_by_role("radio", name="chased").focus()
    page.keyboard.press("ArrowRight")
    page.evaluate(
        """() => {  // another word comes to lie under the mouse
            const [from, to] = [4, 2].map(i => document.querySelectorAll('.la-option')[i].getBoundingClientRect());
            document.body.style.transform = `translateX(${to.x - from.x}px)`; }"""
    )
    page.wait_for_timeout(200)
    assert page.locator(".la-sentence .la-option").nth(4).evaluate("node => node.matches(':hover')")
    assert chosen(page) == "3"


def test_arrow_keys_go_through_the_queries_and_tab_to_heads_and_mask(show):
    page = show(attention())
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert shown(page) == expected(3)
    ring = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert page.evaluate(ring) == "solid"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert shown(page) == expected(3, head=1)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert shown(page) == expected(3, head=1, masked=False)


@pytest.mark.syllabus("UCL-21")
def test_finger_picks_queries_heads_and_mask(show):
    page = show(attention(), width=390, has_touch=True, is_mobile=True)
    page.locator(".la-sentence .la-option").nth(1).tap()
    assert shown(page) == expected(1)
    page.locator(".la-map > div").nth(4).tap()
    assert shown(page) == expected(3)
    page.get_by_role("radiogroup", name="head").locator("label").nth(1).tap()
    page.get_by_text("mask: no looking ahead").tap()
    assert shown(page) == expected(3, head=1, masked=False)


def test_lines_and_shades_follow_the_weights(show):
    page = show(attention())
    page.get_by_role("radio", name="pig").check()
    page.get_by_label("mask").uncheck()
    weights = attend(WORDS, False)[0]
    drawn = page.locator(".la-sentence path").evaluate_all(
        "lines => lines.map(line => [+line.getAttribute('stroke-width'), line.getBBox().width])"
    )
    assert [width for width, _ in drawn] == pytest.approx(
        [1 + 9 * w for w in weights[1].tolist() if w >= 0.005],
        abs=9 * 5e-4,  # written to three decimals
    )
    middles = page.evaluate(
        """() => ['.la-sentence .la-option', '.la-keys > div'].map(css =>
            [...document.querySelectorAll(css)].map(node => {
            const box = node.getBoundingClientRect(); return box.x + box.width / 2; }))"""
    )
    reach = [abs(middles[1][i] - middles[0][1]) for i, weight in enumerate(weights[1]) if weight >= 0.005]
    assert [width for _, width in drawn] == pytest.approx(reach, abs=1)
    shares = page.locator(".la-map i").evaluate_all(
        "cells => cells.map(c => parseFloat(c.style.getPropertyValue('--la-share')))"
    )
    assert shares == pytest.approx([100 * w for w in weights.flatten().tolist()], abs=0.051)


def test_words_of_attention_are_pythons(show):
    page, widget = show(attention()), attention()
    says(page, widget.text())
    page.get_by_role("radio", name="two back").check()
    page.get_by_role("radio", name="chased").check()
    page.get_by_label("mask").uncheck()
    says(page, widget._sentence(WORDS, widget.weights[False], 2, 1, False))


def test_one_head_leaves_no_choice_of_heads(show):
    page = show(AttentionExplorer(WORDS, lambda *asked: attend(*asked)[:1]))
    assert page.get_by_role("radiogroup", name="head").count() == 0
    assert shown(page) == expected(4)


# Scaling


def numbers(page):
    return page.locator(".la-facts b").all_inner_texts()


@pytest.mark.syllabus("UCL-19")
def test_scaling_by_slider_and_box(show):
    page, widget = show(ScalingExplorer(SCORES)), ScalingExplorer(SCORES)
    for index, scaled in ((0, False), (9, False), (9, True), (4, True), (4, False)):
        page.get_by_role("slider", name="d_head").fill(str(index))
        page.get_by_label("divide by √d_head").set_checked(scaled)
        weights, deviation, slope = widget.soften(2**index, scaled)
        assert numbers(page) == [f"{deviation:.2f}", f"{max(weights):.4f}", f"{slope:.4f}"]
        heights = page.locator(".la-bars i").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.height) / 100)")
        assert heights == pytest.approx(sorted(weights, reverse=True), abs=1e-6)
        says(page, widget._sentence(2**index, scaled))


def test_scaling_by_keys(show):
    page = show(ScalingExplorer(SCORES))
    for key in ("Tab", "ArrowRight", "Tab", "Space"):
        page.keyboard.press(key)
    says(page, ScalingExplorer(SCORES)._sentence(64, True))
    assert page.get_by_role("slider").get_attribute("aria-valuetext") == "64"


def test_scaling_by_finger(show):
    page = show(ScalingExplorer(SCORES), width=390, has_touch=True, is_mobile=True)
    box = page.get_by_role("slider").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    page.get_by_text("divide by √d_head").last.tap()
    says(page, ScalingExplorer(SCORES)._sentence(512, True))


@pytest.mark.parametrize("scores", [SCORES, [3, 0, 0, -1]])  # the second curve only falls
def test_marker_stands_on_the_curve_that_is_chosen(show, scores):
    page = show(ScalingExplorer(scores))
    for scaled in (False, True):
        page.get_by_label("divide by").set_checked(scaled)
        on_it = page.evaluate(
            """() => { const spot = document.querySelector('circle'), at = spot.ownerSVGElement.createSVGPoint();
            Object.assign(at, { x: +spot.getAttribute('cx'), y: +spot.getAttribute('cy') });
            return [...document.querySelectorAll('.la-slope')].map(curve => curve.isPointInStroke(at)); }"""
        )
        assert on_it == [not scaled, scaled]
    inside = page.evaluate(
        """() => [...document.querySelectorAll('.la-chart text')].every(word => {
            const [a, b] = [word, word.closest('svg')].map(node => node.getBoundingClientRect());
            return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom; })"""
    )
    assert inside


@pytest.mark.syllabus("UCL-19")
def test_the_pages_softmax_and_its_jacobian_are_torchs(visit):
    generator = torch.Generator().manual_seed(3)
    cases = [
        [(size * torch.randn(n, generator=generator, dtype=torch.float64)).tolist(), width, scaled]
        for n in (2, 5, 16)
        for size in (0.1, 1, 30)
        for width in (0.5, 1, 8, 512)
        for scaled in (False, True)
    ]
    script = (SCRIPTS / "scaling_explorer.js").read_text("utf-8")
    found = visit("about:blank").evaluate(f"cases => {{ {script}; return cases.map(c => soften(...c)) }}", cases)
    for (z, width, scaled), page in zip(cases, found, strict=True):
        scores = torch.tensor(z, dtype=torch.float64) * (1 if scaled else math.sqrt(width))
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), scores)
        assert page["weights"] == pytest.approx(scores.softmax(0).tolist(), abs=1e-6)
        assert page["largest"] == pytest.approx(scores.softmax(0).max().item(), abs=1e-6)
        assert page["deviation"] == pytest.approx(scores.std().item(), rel=1e-6)
        assert page["slope"] == pytest.approx(jacobian.abs().max().item(), abs=1e-6)


# Heads


def cell(page, name):
    return page.get_by_role("gridcell", name=name, exact=True)


def marked(page):
    return page.locator(".la-same").evaluate_all("cells => cells.map(cell => cell.getAttribute('aria-label'))")


def address(page):
    return page.locator(".la-address code").inner_text()


@pytest.mark.syllabus("UCL-21")
def test_the_pages_positions_are_those_of_einops_and_torch(visit):
    script = (SCRIPTS / "heads_explorer.js").read_text("utf-8")
    page = visit("about:blank")
    for tokens, heads, d_head in ((5, 3, 2), (1, 4, 3), (7, 1, 5), (4, 6, 1), (8, 2, 6)):
        width = heads * d_head
        x = torch.arange(tokens * width).view(tokens, width)
        for plain in (False, True):
            split = rearrange(x, "t (h d) -> h t d", h=heads)
            wanted = torch.reshape(x, (heads, tokens, d_head)) if plain else split
            cases = [[t, c, tokens, width, heads, plain] for t in range(tokens) for c in range(width)]
            found = page.evaluate(f"cases => {{ {script}; return cases.map(c => position(...c)) }}", cases)
            assert [wanted[tuple(at)].item() for at in found] == x.flatten().tolist()


@pytest.mark.syllabus("UCL-21", "CMU-09")
def test_mouse_marks_the_same_number_in_both_layouts(show):
    page = show(HeadsExplorer())
    assert marked(page) == ["x[1, 3]", "heads[1, 1, 1]"]
    cell(page, "x[4, 5]").hover()
    assert marked(page) == ["x[4, 5]", "heads[2, 4, 1]"]
    assert address(page) == "x[4, 2·2 + 1] ↔ heads[2, 4, 1]"
    assert page.locator(".la-same").all_inner_texts() == ["4,5", "4,5"]
    cell(page, "heads[0, 3, 1]").hover()
    assert marked(page) == ["x[3, 1]", "heads[0, 3, 1]"]


@pytest.mark.syllabus("UCL-21")
def test_a_plain_reshape_mixes_the_tokens(show):
    page = show(HeadsExplorer())
    page.get_by_label("plain reshape").check()
    assert marked(page) == ["x[1, 3]", "heads[0, 4, 1]"]
    says(page, HeadsExplorer()._sentence(1, 3, plain=True))
    row = [cell(page, f"heads[{h}, 1, {i}]").inner_text() for h in range(3) for i in range(2)]
    assert row == ["0,2", "0,3", "2,0", "2,1", "3,4", "3,5"]
    page.get_by_role("radio", name="3 attend").check()
    assert "should mix column 3 of every token" in page.locator(".la-address").inner_text()
    page.get_by_role("radio", name="4 join").check()
    assert marked(page) == ["attended[0, 4, 1]", "joined[1, 3]"]


def test_arrow_keys_go_through_a_grid(show):
    page = show(HeadsExplorer())
    cell(page, "heads[1, 1, 1]").focus()
    for key, at in (
        ("ArrowRight", "[2, 1, 0]"),
        ("ArrowDown", "[2, 2, 0]"),
        ("ArrowLeft", "[1, 2, 1]"),
        ("ArrowUp", "[1, 1, 1]"),
        ("ArrowUp", "[1, 0, 1]"),
        ("ArrowUp", "[1, 0, 1]"),
    ):
        page.keyboard.press(key)
        assert marked(page)[1] == f"heads{at}"
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"heads{at}"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.locator("[role=gridcell][tabindex='0']").count() == 2  # one stop for Tab in each grid


@pytest.mark.syllabus("UCL-21")
def test_steps_lead_from_projection_to_join(show):
    page = show(HeadsExplorer())
    for step, addresses, grids in (
        ("1 project", "x[1, 1·2 + 1]", ["x"]),
        ("2 split", "x[1, 1·2 + 1] ↔ heads[1, 1, 1]", ["x", "heads"]),
        ("3 attend", "attended[1, 1, 1] = Σₛ α[1, 1, s] · heads[1, s, 1]", ["heads", "attended"]),
        ("4 join", "attended[1, 1, 1] ↔ joined[1, 1·2 + 1]", ["attended", "joined"]),
    ):
        page.get_by_role("radio", name=step).check()
        assert address(page) == addresses
        names = page.get_by_role("grid").evaluate_all("grids => grids.map(grid => grid.getAttribute('aria-label'))")
        assert names == grids
    page.get_by_role("radio", name="3 attend").check()
    mixed = page.locator(".la-mixed").evaluate_all("cells => cells.map(cell => cell.getAttribute('aria-label'))")
    assert mixed == [f"heads[1, {s}, 1]" for s in range(5)]


def test_heads_that_divide_the_width_by_finger(show):
    page = show(HeadsExplorer(), width=390, has_touch=True, is_mobile=True)
    group = page.get_by_role("radiogroup", name="heads")
    assert group.locator("label").all_inner_texts() == ["1", "2", "3", "6"]
    group.locator("label").nth(1).tap()
    cell(page, "x[2, 4]").tap()
    assert address(page) == "x[2, 1·3 + 1] ↔ heads[1, 2, 1]"
    says(page, HeadsExplorer(5, 2, 3)._sentence(2, 4, plain=False))


# All of them


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_fit_and_can_be_read_and_touched(show, width, theme):
    page = show(*everything(), width=width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.la-widget div')]
            .filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.className)"""
    )
    assert cut == []
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.la-widget *')].filter(node => node.textContent)
            .map(node => parseFloat(getComputedStyle(node).fontSize))"""
    )
    assert min(sizes) >= 12
    targets = page.evaluate(
        """() => [...document.querySelectorAll('.la-option, .la-tick-box, .la-cell, .la-map > div + div')]
            .flatMap(node => [node.getBoundingClientRect().width, node.getBoundingClientRect().height])"""
    )
    assert min(targets) >= 24


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(show, theme):
    page = show(*everything(), theme=theme)
    names = {".la-sentence > .la-query": "query", ".la-sentence > .la-key": "key"}
    for css, name in names.items():
        colour = PALETTE[name][theme]
        rgb = f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"
        assert page.locator(css).evaluate("node => getComputedStyle(node).color") == rgb
    assert page.locator(".la-cell").first.evaluate("node => getComputedStyle(node).color") == page.evaluate(
        "getComputedStyle(document.body).color"
    )


def test_copies_are_independent_and_leak_no_name(show):
    names = "Object.keys(window).sort()"
    page = show(*everything(), *everything())
    page.get_by_role("radio", name="pig").first.check()
    assert page.get_by_role("radio", name="dog").nth(0).is_checked() is False
    assert page.get_by_role("radio", name="dog").nth(1).is_checked() is True
    assert page.evaluate(names) == show().evaluate(names)


def test_without_scripts_the_words_are_shown(show):
    page = show(*everything(), java_script_enabled=False)
    for widget in everything():
        assert page.get_by_text(re.compile(re.escape(widget.text()))).first.is_visible()
