"""Every widget as readers use it, driven from its declaration: by mouse, keys and finger, at 390 px, in the dark."""

import random
import re

import pytest
import traitlets
from widget_examples import EXAMPLES

from llm_anatomy.notebook import widgets
from llm_anatomy.notebook.widgets import Choice, Point, Slider, Text, Tick, Widget

pytestmark = pytest.mark.browser

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


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request):
    return EXAMPLES[request.param]()  # made once: its graphs take seconds to trace


@pytest.fixture
def widget(example):
    start = example.values()
    yield example
    for name, value in start.items():
        setattr(example, name, value)


def known(page):
    return page.evaluate(f"{FIGURE}.la.known()")


def close(found, expected):
    """Whether nested lists of numbers agree to single precision; what is not a number agrees with itself."""
    if isinstance(expected, str):
        return found == expected
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if expected != expected:
        return found is None or found != found
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


def randomly(widget, rng):
    """Set all controls to random values that the reader can reach."""
    for name, control in widget.controls.items():
        if isinstance(control, Slider):
            low, high = control.ends_of(widget)
            count = round((high - low) / control.step)
            value = rng.choice(control.values) if control.values else low + control.step * rng.randint(0, count)
        elif isinstance(control, Text):
            value = "".join(rng.choices(TYPED, k=3))[: control.longest]
        elif isinstance(control, Point):
            value = [round(rng.uniform(-control.reach, control.reach), 3) for _ in "xy"]
        else:
            value = rng.choice(ends_and_middle(widget, name) if isinstance(control, Tick) else control.options)
            value = rng.randrange(len(control.options)) if getattr(control, "by_index", False) else value
        try:
            setattr(widget, name, value)
        except traitlets.TraitError:  # an end has moved since
            continue


def test_every_widget_has_an_example():
    classes = {name for name in widgets.__all__ if isinstance(getattr(widgets, name), type)}
    assert {name for name in classes if issubclass(getattr(widgets, name), Widget)} - {"Widget"} == set(EXAMPLES)


def test_the_page_computes_what_python_states(widget, show):
    page, rng = show(widget), random.Random(7)
    start = widget.values()
    for _ in range(10):
        randomly(widget, rng)
        for name, value in widget.values().items():
            page.evaluate(f"([name, value]) => {FIGURE}.la.set(name, value)", [name, value])
        found = known(page)
        for name, expected in widget.outputs().items():
            assert close(found[name], expected), (name, widget.values(), found[name], expected)
        words = page.evaluate(f"{FIGURE}.la.words")
        assert same_words(words, repr(widget)), (words, repr(widget))
    page.get_by_role("button", name="Reset").click(force=True)  # disabled at the start
    assert page.get_by_role("button", name="Reset").is_disabled()
    for name, value in start.items():
        setattr(widget, name, value)
    page.wait_for_function("words => document.querySelector('.la-text').textContent === words", arg=repr(widget))


@pytest.mark.parametrize(
    ("width", "theme"), [pytest.param(1280, "light", marks=pytest.mark.slow), pytest.param(390, "dark")]
)
def test_it_is_sound_wherever_its_controls_are(widget, show, breaches, width, theme):
    page = show(widget, width=width, theme=theme)
    page.wait_for_selector(".la-ready")
    assert not page.evaluate(SOUND)
    assert breaches(page) == []
    for name in widget.controls:
        for value in ends_and_middle(widget, name):
            page.evaluate(f"([name, value]) => {FIGURE}.la.set(name, value)", [name, value])
            assert not page.evaluate(SOUND), (name, value)
        page.get_by_role("button", name="Reset").click(force=True)  # disabled at the start


def reset(page):
    button = page.get_by_role("button", name="Reset")
    if button.is_enabled():
        button.click()


def now(page, name):
    return page.evaluate(f"name => {FIGURE}.la.get(name)", name)


def test_keys_mouse_and_finger_move_each_control(widget, show):
    page = show(widget, width=390, has_touch=True, is_mobile=True)
    page.wait_for_selector(".la-ready")
    finger = page.context.new_cdp_session(page)

    def tap(x, y):
        finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    for name, control in widget.controls.items():
        label = control.label or name
        if isinstance(control, (Slider, Point)):
            node = page.get_by_role("slider", name=label if isinstance(control, Slider) else f"{label} x", exact=True)
            node.scroll_into_view_if_needed()
            first, middle, last = ends_and_middle(widget, name)
            node.focus()
            for key, expected in (("Home", first), ("End", last)):
                page.keyboard.press(key)
                reached = now(page, name)
                assert (reached if isinstance(control, Slider) else reached[0]) == pytest.approx(
                    expected if isinstance(control, Slider) else {"Home": -control.reach, "End": control.reach}[key]
                )
            for press in (page.mouse.click, tap):
                before, box = now(page, name), node.bounding_box()
                press(box["x"] + box["width"] * (0.5 if press is not tap else 0.2), box["y"] + box["height"] / 2)
                assert now(page, name) != before
        elif isinstance(control, Text):
            field = page.get_by_role("textbox", name=label, exact=True)
            warning = page.locator(".la-field", has=field).locator("small").first
            field.scroll_into_view_if_needed()
            box = field.bounding_box()
            tap(box["x"] + 20, box["y"] + 20)
            page.keyboard.press("Control+a")
            page.keyboard.type("two words")
            assert now(page, name) == field.input_value() == "two words"
            field.fill("ab🙂" * control.longest)
            assert now(page, name) == field.input_value() == ("ab🙂" * control.longest)[: control.longest]
            assert warning.inner_text() == f"The text was cut after {control.longest} characters."
            page.keyboard.press("Backspace")
            assert len(now(page, name)) == control.longest - 1 and not warning.inner_text()
        elif isinstance(control, Choice):
            group = page.get_by_role("radiogroup", name=label, exact=True)
            options = group.get_by_role("radio")
            for at, press in ((len(control.options) - 1, "click"), (0, "tap")):
                getattr(options.nth(at), press)(force=True)
                assert now(page, name) == (at if control.by_index else control.options[at])
            options.first.focus()
            page.keyboard.press("ArrowRight")
            assert now(page, name) == (1 if control.by_index else control.options[1])
        else:
            box = page.get_by_role("checkbox", name=label, exact=True)
            before = now(page, name)
            for press, keys, on in (("click", (), not before), ("tap", (), before), ("press", ("Space",), not before)):
                for attempt in range(5):  # on a busy machine a tap becomes a long press, which does nothing
                    getattr(box, press)(*keys)
                    page.wait_for_timeout(50 + 200 * attempt)
                    if now(page, name) == on:
                        break
                assert now(page, name) == on
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
    x, y = now(page, "query")
    assert x > -reach and y < reach and page.evaluate("scrollY") == 0
    handle.focus()
    page.keyboard.press("Shift+ArrowRight")
    assert now(page, "query")[0] == pytest.approx(min(x + 25 * widget.controls["query"].step, reach))
    assert page.evaluate("document.querySelectorAll('.la-widget')[1].la.get('query')") == pytest.approx([0.8, 0.2])


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
