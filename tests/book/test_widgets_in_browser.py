"""The widgets as readers use them: by mouse, finger and keys, light and dark, on a phone, without a network."""

import math
import random
import re
from pathlib import Path

import pytest

from llm_anatomy.notebook import Estimate, Prediction, SoftDictionary
from llm_anatomy.notebook.figures import PALETTE

pytestmark = pytest.mark.browser

KEYS, VALUES = [[1, 0], [0, 1]], [[1, 1], [-1, 1]]


def soft_dictionary(**changes):
    return SoftDictionary(**{"keys": KEYS, "values": VALUES, "caption": "Look at the output."} | changes)


def prediction():
    return Prediction("What do ten times the scores do?", ["Nothing.", "They harden."], answer=1, explanation="Look.")


def weights(page, nth=0):
    return page.locator(".la-widget").nth(nth).locator(".la-bar b").all_inner_texts()


def output(page, nth=0):
    return page.locator(".la-widget").nth(nth).get_by_text(re.compile(r"^output \(")).inner_text()


def spot(page, x, y, reach=1.5, nth=0):
    """Where a point of the plane of keys lies on the screen."""
    box = page.locator(".la-plane:has(.la-handle)").nth(nth).locator("svg").bounding_box()
    return box["x"] + (x / reach + 1) * box["width"] / 2, box["y"] + (1 - y / reach) * box["height"] / 2


def slide(page, name, value, nth=0):
    page.get_by_role("slider", name=name, exact=True).nth(nth).fill(str(value))


def assert_no_sideways_scroll(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.syllabus("UCL-18")
def test_opens_with_the_lectures_numbers(show):
    page = show(soft_dictionary())
    assert weights(page) == ["0.6457", "0.3543"]
    assert output(page) == "output (0.2913, 1.0000)"


def test_mouse_drags_the_query(show):
    page = show(soft_dictionary())
    page.mouse.move(*spot(page, 0.8, 0.2))
    page.mouse.down()
    page.mouse.move(*spot(page, 0, 0), steps=4)
    page.mouse.move(*spot(page, -0.5, 0.5), steps=4)
    page.mouse.up()
    page.mouse.move(*spot(page, 1, 1))  # let go: it stays
    expected = soft_dictionary().look_up((-0.5, 0.5), 1)[1]
    assert [float(w) for w in weights(page)] == pytest.approx(expected, abs=0.01)
    assert page.get_by_role("slider", name="query", exact=True).get_attribute("aria-valuetext") == "(−0.50, 0.50)"


def test_drag_ends_at_the_frame(show):
    page = show(soft_dictionary())
    page.mouse.move(*spot(page, 0.8, 0.2))
    page.mouse.down()
    page.mouse.move(5, 5, steps=3)
    page.mouse.up()
    assert page.get_by_role("slider", name="query", exact=True).get_attribute("aria-valuetext") == "(−1.50, 1.50)"


def test_finger_drags_the_query_and_the_page_stays(show):
    page = show(soft_dictionary(), soft_dictionary(), width=390, has_touch=True, is_mobile=True)
    cdp = page.context.new_cdp_session(page)

    def touch(kind, *points):
        at = [{"x": x, "y": y} for x, y in points]
        cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    touch("touchStart", spot(page, 0.8, 0.2))
    for y in (0.4, 0.6, 0.8, 1.0):
        touch("touchMove", spot(page, 0.4, y))
    touch("touchEnd")
    value = page.get_by_role("slider", name="query", exact=True).first.get_attribute("aria-valuetext")
    assert value == "(0.40, 1.00)"
    assert page.evaluate("scrollY") == 0


def test_arrow_keys_move_the_query(show):
    page = show(soft_dictionary())
    query = page.get_by_role("slider", name="query", exact=True)
    page.keyboard.press("Tab")
    assert query.evaluate("node => node === document.activeElement")
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp", "Shift+ArrowDown"):
        page.keyboard.press(key)
    assert query.get_attribute("aria-valuetext") == "(0.70, 0.00)"
    expected = soft_dictionary().look_up((0.7, 0), 1)[1]
    assert [float(w) for w in weights(page)] == pytest.approx(expected, abs=5e-5)


def test_sliders_move_the_query_and_reset_brings_it_back(show):
    page = show(soft_dictionary())
    slide(page, "query x", -1.2)
    slide(page, "query y", 0.4)
    expected = soft_dictionary().look_up((-1.2, 0.4), 1)[1]
    assert [float(w) for w in weights(page)] == pytest.approx(expected, abs=5e-5)
    page.get_by_role("button", name="Reset").click()
    assert weights(page) == ["0.6457", "0.3543"]


@pytest.mark.syllabus("UCL-17", "UCL-18")
def test_temperature_leads_from_hard_to_soft(show):
    page = show(soft_dictionary())
    slide(page, "temperature", 0)
    assert weights(page) == ["1.0000", "0.0000"]
    assert output(page) == "output (1.0000, 1.0000)"
    slide(page, "temperature", 10)
    assert [float(w) for w in weights(page)] == pytest.approx(soft_dictionary().look_up((0.8, 0.2), 0.25)[1], abs=5e-5)
    slide(page, "temperature", 40)
    assert [float(w) for w in weights(page)] == pytest.approx(soft_dictionary().look_up((0.8, 0.2), 4)[1], abs=5e-5)


def test_words_for_screen_readers_follow_and_are_pythons(show):
    page = show(soft_dictionary())
    words = page.locator(".la-text")
    slide(page, "query x", -0.5)
    expected = soft_dictionary(query=(-0.5, 0.2)).text()
    page.wait_for_function("words => document.querySelector('.la-text').textContent === words", arg=expected)
    assert words.get_attribute("aria-live") == "polite"
    described = page.get_by_role("group").first.get_attribute("aria-describedby")
    assert page.locator(f"[id='{described}']").inner_text() == expected


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme_and_its_switch(show, theme):
    def colours(page):
        script = """() => [['.la-key', 'stroke'], ['.la-value', 'fill'], ['.la-bar i', 'backgroundColor'],
            ['.la-output', 'stroke']].map(([css, name]) => getComputedStyle(document.querySelector(css))[name])"""
        return page.evaluate(script)

    def rgb(colour):
        return f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"

    page = show(soft_dictionary(), theme=theme)
    ink = {"light": "#222832", "dark": "#ced6dd"}
    for now in (theme, {"light": "dark", "dark": "light"}[theme]):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", now)
        named = [PALETTE[name][now] for name in ("key", "value", "weights")]
        assert colours(page) == [rgb(colour) for colour in (*named, ink[now])]


@pytest.mark.parametrize("width", [390, 1280])
def test_fits_and_can_be_read_and_touched(show, width):
    page = show(
        soft_dictionary(), soft_dictionary(query=(-100, 30), keys=[[10, -90], [-40, 3]]), prediction(), width=width
    )
    assert_no_sideways_scroll(page)
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.la-widget :is(text, small, span, b, output, legend, figcaption)')]
            .map(node => parseFloat(getComputedStyle(node).fontSize))"""
    )
    assert min(sizes) >= 12
    for target in page.locator(".la-handle, .la-widget input[type=range], .la-widget button, fieldset > label").all():
        assert target.bounding_box()["height"] >= 44
    inside = page.evaluate(
        """() => [...document.querySelectorAll('.la-plane text')].every(word => {
            const [a, b] = [word, word.closest('svg')].map(node => node.getBoundingClientRect());
            return a.left >= b.left && a.right <= b.right && a.top >= b.top - 2 && a.bottom <= b.bottom + 2; })"""
    )
    assert inside


def test_drawing_follows_a_change_of_width(show):
    page = show(soft_dictionary())
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.querySelector('.la-plane svg').viewBox.baseVal.width < 200")
    handle = page.locator(".la-handle").bounding_box()
    x, y = spot(page, 0.8, 0.2)
    assert (handle["x"] + 22, handle["y"] + 22) == pytest.approx((x, y), abs=1.5)
    assert_no_sideways_scroll(page)


def test_copies_on_one_page_are_independent(show):
    page = show(soft_dictionary(), soft_dictionary(), soft_dictionary(query=(0.1, 0.3)))
    slide(page, "query x", -1, nth=1)
    assert weights(page) == ["0.6457", "0.3543"]
    assert weights(page, 1) != ["0.6457", "0.3543"]
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(ids) == len(set(ids)) == 3


def test_no_name_leaks_into_the_page(show):
    names = "Object.keys(window).sort()"
    assert show(soft_dictionary(), prediction()).evaluate(names) == show().evaluate(names)


def test_lives_in_a_notebook_that_runs_scripts_elsewhere(show):
    """Jupyter inserts the markup first and runs copies of the scripts afterwards, some from the head of the page."""
    page = show(prediction())
    page.evaluate(
        """html => {
            const make = (name, content) => Object.assign(document.createElement(name), content);
            for (const _ of [1, 2]) document.body.append(make('div', {innerHTML: html}));
            for (const old of document.querySelectorAll('div script:not([type])'))
                document.head.append(make('script', {textContent: old.textContent}));
        }""",
        soft_dictionary().html(),
    )
    slide(page, "query x", -1, nth=1)
    assert weights(page, 1) == ["0.6457", "0.3543"]
    assert weights(page, 2) != ["0.6457", "0.3543"]


def test_without_scripts_the_words_are_shown(show):
    page = show(soft_dictionary(), prediction(), java_script_enabled=False)
    assert page.get_by_text("weight 0.6457").is_visible()
    assert page.get_by_text("a) Nothing.").is_visible()
    folded = page.locator("details")
    assert "They harden." not in folded.inner_text()
    folded.locator("summary").click()
    assert "Answer: They harden. Look." in folded.inner_text()


@pytest.mark.syllabus("UCL-18")
def test_the_pages_arithmetic_is_the_packages(visit):
    """The closed form of the script against the attention of the package, large scores and the hard end included."""
    script = Path(__file__).parents[2] / "src/llm_anatomy/notebook/widgets/soft_dictionary.js"
    rng = random.Random(7)

    def points(n, size):
        return [[rng.uniform(-size, size), rng.uniform(-size, size)] for _ in range(n)]

    cases = [
        (points(1, size)[0], points(n, size), points(n, 3), temperature)
        for n in (1, 2, 3, 7)
        for size in (0.5, 3, 32)  # scores up to 2000
        for temperature in (0, 0.0025, 0.3, 1, 4)
        for _ in range(3)
    ]
    cases.append(([1, 1], [[0.5, 0.5], [1, 0], [0, 1]], points(3, 1), 0))  # a tie, won by the first
    cases.append(([1000, 0], [[1, 0], [0.999, 0]], points(2, 1), 1))
    call = f"cases => {{ {script.read_text('utf-8')}; return cases.map(c => attend(...c)) }}"
    for case, found in zip(cases, visit("about:blank").evaluate(call, [list(c) for c in cases]), strict=True):
        query, keys, values, temperature = case
        scores, weights, output = SoftDictionary(keys, values).look_up(query, temperature)
        assert found["scores"] == pytest.approx(scores, rel=1e-6)
        assert found["weights"] == pytest.approx(weights, abs=1e-6)
        assert found["output"] == pytest.approx(output, abs=1e-6)
        assert math.fsum(found["weights"]) == pytest.approx(1)


def test_a_choice_is_made_before_the_answer_shows(show):
    page = show(prediction())
    commit = page.get_by_role("button", name="Commit")
    assert commit.is_disabled()
    assert not page.get_by_text("Look.").is_visible()
    page.get_by_label("Nothing.").check()
    assert not page.get_by_text("the answer").is_visible()
    commit.click()
    assert page.get_by_text("Not as you predicted. Look.").is_visible()
    assert page.locator("fieldset > label").all_inner_texts() == ["Nothing.\nyour guess", "They harden.\nthe answer"]
    assert page.get_by_label("They harden.").is_disabled()


def test_a_choice_is_made_by_keyboard(show):
    page = show(prediction(), prediction())
    for key in ("Tab", "ArrowDown", "Tab", "Enter"):
        page.keyboard.press(key)
    assert page.get_by_text("As you predicted. Look.").count() == 1
    assert page.get_by_text("As you predicted. Look.").evaluate("node => node === document.activeElement")
    assert page.get_by_role("radio", disabled=False).count() == 2  # the second question waits


def test_an_estimate_is_shown_beside_the_answer(show):
    page = show(Estimate("How large is it?", answer=0.6457, low=0, high=1, explanation="So it is."), width=390)
    assert not page.get_by_text("0.65").is_visible()
    slide(page, "your guess", 0.3)
    page.get_by_role("button", name="Commit").click()
    assert page.get_by_text("You guessed 0.30; the answer is 0.65. So it is.").is_visible()
    box, mark = page.get_by_role("slider").bounding_box(), page.locator(".la-mark").bounding_box()
    assert mark["x"] == pytest.approx(box["x"] + 11 + 0.6457 * (box["width"] - 22), abs=2)
    assert_no_sideways_scroll(page)


def test_the_guard_sees_a_foreign_request(visit, tmp_path):
    file = tmp_path / "bad.html"
    file.write_text('<img src="https://example.org/pixel.png">', "utf-8")
    visit(file.as_uri())
    assert visit.foreign == ["https://example.org/pixel.png"]
    visit.foreign.clear()


# The same widgets on the page of the book.


@pytest.fixture
def chapter(site, visit):
    return lambda **options: visit(f"{site}/book/attention/attention.html", **options)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_chapter_soft_dictionary_moves(chapter, scheme, width):
    page = chapter(width=width, color_scheme=scheme)
    widget = page.locator(".la-widget:has(.la-soft-dictionary)").first
    widget.scroll_into_view_if_needed()
    before = widget.locator(".la-bar b").all_inner_texts()
    widget.get_by_role("slider", name="query", exact=True).focus()
    page.keyboard.press("Shift+ArrowLeft")
    assert widget.locator(".la-bar b").all_inner_texts() != before
    x, y = spot(page, 0, 0)
    handle = widget.locator(".la-handle").bounding_box()
    page.mouse.move(handle["x"] + 22, handle["y"] + 22)
    page.mouse.down()
    page.mouse.move(x, y, steps=3)
    page.mouse.up()
    assert widget.get_by_role("slider", name="query", exact=True).get_attribute("aria-valuetext") == "(0.00, 0.00)"
    widget.get_by_role("slider", name="temperature").fill("0")
    assert widget.locator(".la-bar b").first.inner_text() == "1.0000"
    assert_no_sideways_scroll(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chapter_widgets_stand_on_the_pages_ground(chapter, scheme):
    page = chapter(color_scheme=scheme)
    page.locator(".la-soft-dictionary").first.wait_for()
    grounds = page.evaluate(
        """() => {
            const grounds = [];
            for (let node = document.querySelector('.la-widget'); node; node = node.parentElement)
                grounds.push(getComputedStyle(node).backgroundColor);
            return grounds.filter(colour => colour !== 'rgba(0, 0, 0, 0)'); }"""
    )
    assert set(grounds) == {page.evaluate("getComputedStyle(document.body).backgroundColor")}
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    ink = page.evaluate("getComputedStyle(document.querySelector('.la-widget')).color")
    assert ink == page.evaluate("getComputedStyle(document.querySelector('.bd-article')).color")
