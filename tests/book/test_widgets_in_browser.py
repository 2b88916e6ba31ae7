"""Every widget as readers use it, driven from its declaration: by mouse, keys and finger, at 390 px, in the dark."""

import gzip
import json
import random
import re
from contextlib import suppress
from functools import partial

import pytest
import traitlets
from book.conftest import PAGE
from chromium import Tab
from widget_examples import EXAMPLES

from llm_anatomy.notebook import front_end, widgets
from llm_anatomy.notebook.widgets import Choice, Point, Slider, Text, Widget

pytestmark = pytest.mark.browser

CARRIED = {"EmbeddingPlane": 20_000, "TransformerExplorer": 270_000}  # bytes of widgets that carry trained weights
TYPED = ["", "déjà vu 🙂 ", "東京 {2} नमस्ते\n\tthe cat's 1234 ", "مرحبا ", "a" * 30 + " "]
FIGURE = "document.querySelector('.la-widget')"
SOUND = """() => {
    const figure = document.querySelector('.la-widget'), faults = [], all = css => [...figure.querySelectorAll(css)];
    const shown = node => node.getClientRects().length > 0, page = document.documentElement;
    const drawn = all('svg *').flatMap(node => [...node.attributes].map(a => `${node.tagName} ${a.name}=${a.value}`));
    faults.push(...drawn.filter(text => /NaN|undefined|Infinity/.test(text)).slice(0, 3));
    faults.push(...(figure.innerText.match(/.{0,20}(NaN|undefined|\\[object|[{}]).{0,20}/g) ?? []));
    if (page.scrollWidth > innerWidth) faults.push(`the page is ${page.scrollWidth} wide`);
    for (const svg of all('svg')) {
        const texts = [...svg.querySelectorAll('text')].filter(shown);
        const boxes = texts.map(node => [node.textContent, node.getBoundingClientRect()]);
        boxes.forEach(([a, p], i) => {
            if (p.left < -1 || p.right > innerWidth + 1) faults.push(`"${a}" leaves the page`);
            for (const [b, q] of boxes.slice(i + 1)) {
                const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
                const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
                if (across > 2 && down > 4) faults.push(`"${a}" lies on "${b}"`);
            }
        });
    }
    for (const node of all('text, small, span, b, output, p, figcaption').filter(shown))
        if (parseFloat(getComputedStyle(node).fontSize) < 12) faults.push(`"${node.textContent}" is too small`);
    for (const node of all('button, textarea, [type=range], .la-option, .la-tick-box, .la-handle').filter(shown))
        if (node.getBoundingClientRect().height < 43.5) faults.push(`a ${node.className || node.type} is too low`);
    return faults;
}"""


EACH_KIND = {  # widgets whose controls are, together, of every kind and have every option
    "AttentionExplorer",
    "CostCalculator",
    "EncodingExplorer",
    "FlowExplorer",
    "RougeL",
    "SoftDictionary",
    "TieModel",
}
PARTS = """() => [...document.querySelectorAll('.la-widget :is(text, .la-cell, :not(svg *))')].map(node => [
    node.localName, node.getAttribute('class'), node.getAttribute('style')?.match(/--la-[a-z]+/g),
    node.getAttributeNames().filter(name => /^(role|aria|tabindex)/.test(name)).sort()].join(' '))"""
RESET = f"[...{FIGURE}.querySelectorAll('button')].find(button => button.textContent === 'Reset').click()"
STATES = f"""states => {{
    const seen = states.map(values => {{
        for (const name in values) {FIGURE}.la.set(name, values[name]);
        return [{FIGURE}.la.known(), {FIGURE}.la.words];
    }});
    return JSON.stringify(seen, (_, x) => typeof x === "number" && !isFinite(x) ? String(x) : x);
}}"""
PUT = """([html, theme]) => {
    document.documentElement.dataset.theme = theme;
    document.querySelector("main").innerHTML = html;
    llmAnatomy.start();
}"""


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request):
    return EXAMPLES[request.param]()  # made once: its graphs take seconds to trace


@pytest.fixture
def widget(example):
    start = example.values()
    yield example
    for name, value in start.items():
        setattr(example, name, value)


@pytest.fixture(scope="module")
def tabs():
    opened = []
    yield opened
    for tab in opened:
        tab.close()


@pytest.fixture(scope="module")
def judged():
    """The kinds of parts that widgets have shown and that break no rule."""
    return set()


@pytest.fixture
def stage(profile, tabs, tmp_path):
    """``stage(widget)`` shows a widget alone in a tab that all tests of this file share, as Jupyter shows an output."""

    def put(widget, width=390, theme="dark"):
        if not tabs or not tabs[-1].page.context.browser.is_connected():
            file = tmp_path / "page.html"
            file.write_text(PAGE.format(theme=theme, body=f"<main></main>{front_end.script()}"), "utf-8")
            tabs.append(Tab(profile(has_touch=True)))
            tabs[-1].open(file.as_uri())
        page = tabs[-1].page
        page.set_viewport_size({"width": width, "height": 844})
        page.evaluate(PUT, [widget.html(alone=False), theme])
        return page

    yield put
    for tab in tabs[-1:]:
        try:
            tab.check()
        finally:
            tab.errors.clear()


def close(found, expected):
    """Whether nested lists of numbers agree to single precision; what is not a number agrees with itself."""
    if isinstance(expected, str):
        return found == expected
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    found = float(found)
    if expected != expected:
        return found != found
    return found == expected or abs(found - expected) <= max(2e-5, 2e-4 * abs(expected))


def same_words(found, expected):
    """Whether two sentences agree but for the last digit of their numbers."""
    number = re.compile(r"[-−]?\d+(?:\.\d+)?")
    pairs = zip(number.findall(found), number.findall(expected), strict=False)
    digits = all(
        abs(float(a.replace("−", "-")) - float(b.replace("−", "-"))) <= 1.1 * 10.0 ** -len(b.partition(".")[2])
        for a, b in pairs
    )
    return number.sub("#", found) == number.sub("#", expected) and digits


def ends_and_middle(widget, name):
    """The extreme values of a control and one between them."""
    control = widget.controls[name]
    if isinstance(control, Slider):
        if control.values:
            return [control.values[0], control.values[len(control.values) // 2], control.values[-1]]
        low, high = control.ends_of(widget)
        middle = (low + high) / 2
        return [low, control.tensor(middle).item() if control.whole else middle, high]
    if isinstance(control, Text):
        return ["", "the cat's déjà vu 🙂 "[: control.longest], ("東京 नमस्ते\n" * control.longest)[: control.longest]]
    if isinstance(control, Point):
        return [[-control.reach, control.reach], [0.0, 0.0], [control.reach, -control.reach]]
    options = control.options if not getattr(control, "by_index", False) else list(range(len(control.options)))
    return [options[0], options[len(options) // 2], options[-1]]


def at_random(widget, name, rng):
    """A random value of a control that the reader can reach."""
    control = widget.controls[name]
    if isinstance(control, Slider):
        low, high = control.ends_of(widget)
        count = round((high - low) / control.step)
        return rng.choice(control.values) if control.values else low + control.step * rng.randint(0, count)
    if isinstance(control, Text):
        return "".join(rng.choices(TYPED, k=3))[: control.longest]
    if isinstance(control, Point):
        return [round(rng.uniform(-control.reach, control.reach), 3) for _ in "xy"]
    return rng.choice(control.options if not getattr(control, "by_index", False) else range(len(control.options)))


def states(widget, n_random):
    """Set all controls to their first values, to their last ones, and then to random ones; yield what they are."""
    rng, ends = random.Random(7), [lambda name, at=at: ends_and_middle(widget, name)[at] for at in (0, -1)]
    for choose in [*ends, *[lambda name: at_random(widget, name, rng)] * n_random]:
        for name in widget.controls:
            with suppress(traitlets.TraitError):  # an end has moved since
                setattr(widget, name, choose(name))
        yield widget.values()


def test_every_widget_has_an_example():
    classes = {name for name in widgets.__all__ if isinstance(getattr(widgets, name), type)}
    assert {name for name in classes if issubclass(getattr(widgets, name), Widget)} - {"Widget"} == set(EXAMPLES)


def test_markup_asks_nobody_and_is_light(example):
    markup = example.html(alone=False)
    assert not re.search(r"https?://|\b(src|href)=|url\(|@import|fetch\(|import\(", markup)
    assert len(gzip.compress(markup.encode())) < CARRIED.get(type(example).__name__, 12_000)


@pytest.mark.parametrize("n_random", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_the_page_computes_what_python_states(widget, stage, n_random):
    page, start = stage(widget), widget.values()
    stated = [(values, widget.outputs(), repr(widget)) for values in states(widget, n_random)]
    seen = json.loads(page.evaluate(STATES, [values for values, *_ in stated]))
    for (values, outputs, sentence), (found, words) in zip(stated, seen, strict=True):
        for name, expected in outputs.items():
            assert close(found[name], expected), (name, values, found[name], expected)
        assert same_words(words, sentence), (words, sentence)
    button = page.get_by_role("button", name="Reset")
    button.click(force=True)  # disabled at the start
    assert button.is_disabled()
    for name, value in start.items():
        setattr(widget, name, value)
    page.wait_for_function("words => document.querySelector('.la-text').textContent === words", arg=repr(widget))


def test_each_control_goes_to_an_end_by_a_key_and_the_picture_is_sound(widget, stage, breaches, judged):
    """The rules are applied to widgets that have parts of a kind that no other has shown before."""
    page = stage(widget)
    assert not page.evaluate(SOUND)
    parts = set(page.evaluate(PARTS))
    if parts - judged:
        assert breaches(page, ".la-widget") == []
        judged |= parts
    for name, control in widget.controls.items():
        label, (first, _, last) = control.label or name, ends_and_middle(widget, name)
        goal = first if now(page, name) == last else last
        if isinstance(control, Slider):
            page.get_by_role("slider", name=label, exact=True).press("End" if goal == last else "Home")
        elif isinstance(control, Point):
            for way in ("x", "y"):
                page.get_by_role("slider", name=f"{label} {way}", exact=True).press("End" if way == "x" else "Home")
        elif isinstance(control, Text):
            page.get_by_role("textbox", name=label, exact=True).fill(goal)
        elif isinstance(control, Choice):
            group = page.get_by_role("radiogroup", name=label, exact=True)
            group.get_by_role("radio").nth(-1 if goal == last else 0).press("Space")
        else:
            page.get_by_role("checkbox", name=label, exact=True).press("Space")
        assert now(page, name) == pytest.approx(goal), name
        assert not page.evaluate(SOUND), name
        page.evaluate(RESET)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_it_is_sound_wherever_its_controls_are(widget, stage, breaches, width, theme):
    page = stage(widget, width, theme)
    assert not page.evaluate(SOUND)
    assert breaches(page) == []
    for name in widget.controls:
        for value in ends_and_middle(widget, name):
            page.evaluate(f"([name, value]) => {FIGURE}.la.set(name, value)", [name, value])
            assert not page.evaluate(SOUND), (name, value)
        page.get_by_role("button", name="Reset").click(force=True)  # disabled at the start


def now(page, name):
    return page.evaluate(f"name => {FIGURE}.la.get(name)", name)


@pytest.mark.parametrize(
    "example",
    [pytest.param(name, marks=() if name in EACH_KIND else pytest.mark.slow) for name in EXAMPLES],
    indirect=True,
    scope="module",
)
def test_keys_mouse_and_finger_move_each_control(widget, stage):
    from playwright.sync_api import TimeoutError

    page = stage(widget)

    def press(node, how, at=0.5):
        """Where it stands once it stands still: a sentence that gets another line moves what is below it."""
        box = node.bounding_box()
        getattr(node, how)(position={"x": box["width"] * at, "y": box["height"] / 2})

    def reach(act, compare, name, value):
        """Act until it has an effect: Chromium takes no second tap that comes too soon after the first."""
        both = f"JSON.stringify({FIGURE}.la.get(name)) {compare} JSON.stringify(value)"
        for timeout in (15_000, 30_000, 60_000):  # one that only comes late must not be repeated
            act()
            with suppress(TimeoutError):
                page.wait_for_function(f"([name, value]) => {both}", arg=[name, value], timeout=timeout)
                return
        pytest.fail(f"{name} does not become {compare} {value!r}")

    for name, control in widget.controls.items():
        label = control.label or name
        if isinstance(control, (Slider, Point)):
            node = page.get_by_role("slider", name=label if isinstance(control, Slider) else f"{label} x", exact=True)
            first, _, last = ends_and_middle(widget, name)
            for key, expected in (("Home", first), ("End", last)):
                node.press(key)
                reached = now(page, name)
                assert (reached if isinstance(control, Slider) else reached[0]) == pytest.approx(
                    expected if isinstance(control, Slider) else {"Home": -control.reach, "End": control.reach}[key]
                )
            for how, at in (("click", 0.5), ("tap", 0.2)):
                reach(partial(press, node, how, at), "!==", name, now(page, name))
        elif isinstance(control, Text):
            field = page.get_by_role("textbox", name=label, exact=True)
            warning = page.locator(".la-field", has=field).locator("small").first
            press(field, "tap", 0.1)
            page.wait_for_function("label => document.activeElement.ariaLabel === label", arg=label)
            page.keyboard.press("Control+a")
            page.keyboard.type("two words")
            assert now(page, name) == field.input_value() == "two words"
            field.fill("ab🙂" * control.longest)
            assert now(page, name) == field.input_value() == ("ab🙂" * control.longest)[: control.longest]
            assert warning.inner_text() == f"The text was cut after {control.longest} characters."
            page.keyboard.press("Backspace")
            assert len(now(page, name)) == control.longest - 1 and not warning.inner_text()
        elif isinstance(control, Choice):
            options = page.get_by_role("radiogroup", name=label, exact=True).get_by_role("radio")
            values = range(len(control.options)) if control.by_index else control.options
            reach(partial(press, options.last, "click"), "===", name, values[-1])
            reach(partial(press, options.first, "tap"), "===", name, values[0])
            options.first.press("ArrowRight")
            assert now(page, name) == values[1]
        else:
            box, before = page.get_by_role("checkbox", name=label, exact=True), now(page, name)
            reach(partial(press, box, "click"), "===", name, not before)
            reach(partial(press, box, "tap"), "===", name, before)
            box.press("Space")
            assert now(page, name) != before
        page.get_by_role("button", name="Reset").click(force=True)  # disabled at the start
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_point_is_dragged_by_mouse_and_finger_and_the_page_stays(show):
    widget = EXAMPLES["SoftDictionary"]()
    page = show(widget, widget, width=390, has_touch=True, is_mobile=True)
    handle = page.locator(".la-handle").first
    box = handle.bounding_box()
    page.mouse.move(box["x"] + 22, box["y"] + 22)
    page.mouse.down()
    page.mouse.move(5, 5, steps=3)
    page.mouse.up()
    reach = widget.controls["query"].reach
    assert now(page, "query") == [-reach, reach]
    finger = page.context.new_cdp_session(page)
    box = handle.bounding_box()
    for kind, points in [("touchStart", [0]), ("touchMove", [40]), ("touchMove", [80]), ("touchEnd", [])]:
        at = [{"x": box["x"] + 22 + d, "y": box["y"] + 22 + d} for d in points]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})
    page.wait_for_function(f"{FIGURE}.la.get('query')[0] > {-reach}")
    x, y = now(page, "query")
    assert x > -reach and y < reach and page.evaluate("scrollY") == 0
    handle.focus()
    page.keyboard.press("Shift+ArrowRight")
    assert now(page, "query")[0] == pytest.approx(min(x + 25 * widget.controls["query"].step, reach))
    assert page.evaluate("document.querySelectorAll('.la-widget')[1].la.get('query')") == pytest.approx([0.8, 0.2])


def test_a_finger_moves_the_choice_of_a_plot_sideways(show):
    widget = EXAMPLES["TieModel"]()
    page = show(widget, width=390, has_touch=True, is_mobile=True)
    box, before = page.locator(".la-picked").first.bounding_box(), now(page, "lead")
    finger, y = page.context.new_cdp_session(page), box["y"] + box["height"] / 2
    for kind, x in (("touchStart", 0.7), ("touchMove", 0.8), ("touchMove", 0.9)):
        finger.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": box["x"] + box["width"] * x, "y": y}]}
        )
    page.wait_for_function(f"before => {FIGURE}.la.get('lead') > before", arg=before)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_slider_of_squares_a_whole_one_and_the_words_that_are_read_out(show):
    widget, whole = EXAMPLES["SoftDictionary"](), EXAMPLES["RotorExplorer"]()
    page = show(widget, whole)
    text, before = page.locator(".la-text").first, repr(widget)
    assert text.get_attribute("aria-live") == "polite"
    page.get_by_role("slider", name="temperature", exact=True).fill("800")  # of 1000 steps
    low, high = widget.controls["temperature"].ends_of(widget)
    assert now(page, "temperature") == pytest.approx(low + (high - low) * 0.64)
    page.wait_for_function("before => document.querySelector('.la-text').textContent !== before", arg=before)
    assert text.inner_text() == page.evaluate(f"{FIGURE}.la.words")
    second = "document.querySelectorAll('.la-widget')[1].la"
    assert page.evaluate(f"[7.4, 7.6].map(v => {{ {second}.set('query', v); return {second}.get('query'); }})") == [
        7,
        8,
    ]


def test_colours_follow_the_theme_and_its_switch(show):
    page = show(EXAMPLES["SoftDictionary"]())
    colour = "getComputedStyle(document.querySelector('.la-plot path[style]')).fill"
    light = page.evaluate(colour)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert page.evaluate(colour) != light


def test_a_script_that_comes_again_and_copies_do_no_harm(show):
    """Jupyter inserts the markup of each output with its own copy of the script."""
    page = show(EXAMPLES["SoftDictionary"]())
    page.evaluate(
        """html => { for (const _ of [1, 2]) {
            const place = document.body.appendChild(document.createElement('div'));
            place.innerHTML = html;
            for (const old of place.querySelectorAll('script[type=module]')) {
                const script = document.createElement('script');
                script.type = 'module';
                script.textContent = old.textContent;
                old.replaceWith(script);
            } } }""",
        EXAMPLES["SlopesExplorer"]().html(),
    )
    page.wait_for_function("document.querySelectorAll('.la-ready').length === 3")
    assert page.locator("style[data-la]").count() == 1
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(ids) == len(set(ids)) == 3


def test_it_is_drawn_in_a_shadow_tree_and_with_a_model_alone(show):
    """MyST's pages put a widget into a shadow tree, and give it a model as Jupyter does."""
    page = show(EXAMPLES["SoftDictionary"]())
    page.evaluate(
        """() => {
            const place = document.body.appendChild(document.createElement('div')), values = {};
            const el = place.attachShadow({ mode: 'open' }).appendChild(document.createElement('div'));
            values._spec = document.querySelector('.la-widget > [type="application/json"]').textContent;
            for (const { name, start } of JSON.parse(values._spec).controls) values[name] = start;
            const model = { get: name => values[name], set: (name, value) => { values[name] = value; } };
            globalThis.llmAnatomy.render({ el, model: { ...model, on() {}, save_changes() {} } });
            globalThis.shadow = el.getRootNode();
        }"""
    )
    assert page.evaluate("shadow.querySelectorAll('style[data-la]').length") == 1
    assert page.locator("div >> .la-plot path").count() > 0
    assert page.evaluate("getComputedStyle(shadow.querySelector('.la-text')).position") == "absolute"


def test_without_scripts_the_words_are_shown(show):
    widget = EXAMPLES["SoftDictionary"]()
    page = show(widget, java_script_enabled=False)
    assert page.get_by_text(repr(widget)).is_visible()
