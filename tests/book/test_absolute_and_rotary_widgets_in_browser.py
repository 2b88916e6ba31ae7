"""The widgets of chapters 5 and 7 as readers use them: by mouse, finger and keys, light and dark, on a phone."""

import math
import re
from pathlib import Path

import pytest
import torch

from llm_anatomy.layers.positions.absolute import BinaryCounter, Sinusoidal
from llm_anatomy.layers.positions.rotary import decay_bound, rotate_complex
from llm_anatomy.notebook import CounterAndSinusoids, DecayExplorer, EncodingExplorer, RotorExplorer
from llm_anatomy.notebook.figures import PALETTE

pytestmark = pytest.mark.browser

SCRIPTS = Path(__file__).parents[2] / "src/llm_anatomy/notebook/widgets"


def everything():
    return EncodingExplorer(caption="Look."), RotorExplorer(), DecayExplorer(), CounterAndSinusoids()


def says(page, sentence):
    page.wait_for_function("words => document.querySelector('.la-text').textContent === words", arg=sentence)


def facts(page):
    return page.locator(".la-facts b").all_inner_texts()


def slide(page, name, value):
    page.get_by_role("slider", name=name, exact=True).fill(str(value))


def evaluate(visit, script, call, cases):
    source = (SCRIPTS / script).read_text("utf-8")
    return visit("about:blank").evaluate(f"cases => {{ {source}; return cases.map(c => {call}) }}", cases)


def speeds(width, base):
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def middle(page, css, nth=0):
    box = page.locator(css).nth(nth).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page, start, *ends):
    page.mouse.move(*start)
    page.mouse.down()
    for end in ends:
        page.mouse.move(*end, steps=3)
    page.mouse.up()


# The scripts' arithmetic against the package's


@pytest.mark.syllabus("IITD-08", "IITD-14")
def test_the_pages_encoding_is_the_packages(visit):
    cases = [
        [position, j, width]
        for width in (2, 6, 128, 512)
        for position in (0, 1, 49, 199)
        for j in {0, 1, width // 2, width - 1}
    ]
    found = evaluate(visit, "encoding_explorer.js", "entry(...c)", cases)
    for (position, j, width), value in zip(cases, found, strict=True):
        expected = Sinusoidal(width).encoding(torch.tensor([position]), torch.float64)[0, j].item()
        assert value == pytest.approx(expected, abs=1e-9)
    cases = [[distance, width] for width in (2, 6, 128, 512) for distance in (0, 1, 44, 199)]
    found = evaluate(visit, "encoding_explorer.js", "compare(...c)", cases)
    for (distance, width), both in zip(cases, found, strict=True):
        one, other = Sinusoidal(width).encoding(torch.tensor([7, 7 + distance]), torch.float64)
        assert both["product"] == pytest.approx((one @ other).item(), abs=1e-9)
        assert both["apart"] == pytest.approx((one - other).view(-1, 2).norm(dim=-1).tolist(), abs=1e-9)


@pytest.mark.syllabus("IITD-26", "CMU-29")
def test_the_pages_rotation_is_the_packages(visit):
    generator = torch.Generator().manual_seed(2)
    cases = [
        [torch.randn(2, width, generator=generator).tolist(), m, n, base]
        for width in (2, 8, 16)
        for m, n in ((0, 0), (2, 5), (100, 1))
        for base in (10000, 50)
    ]
    found = evaluate(visit, "rotor_explorer.js", "turn(...c)", cases)
    for (vectors, m, n, base), planes in zip(cases, found, strict=True):
        vectors = torch.tensor(vectors, dtype=torch.float64)
        angles = torch.tensor([[m], [n]]) * speeds(vectors.shape[1], base)
        query, key = rotate_complex(vectors, angles).view(2, -1, 2)
        for plane, q, k in zip(planes, query, key, strict=True):
            assert plane["q"] + plane["k"] == pytest.approx([*q.tolist(), *k.tolist()], abs=1e-9)
            assert plane["share"] == pytest.approx((q @ k).item(), abs=1e-9)
            turned = math.atan2(k[1], k[0]) - math.atan2(q[1], q[0]) - plane["angle"]
            assert math.cos(turned) == pytest.approx(1)


@pytest.mark.syllabus("IITD-29")
def test_the_pages_curve_bound_and_product_are_the_packages(visit):
    widget = DecayExplorer()
    data = widget.data()
    settings = [(w, b, kind) for w in (4, 22, 128, 256) for b in (100.0, 10000.0, 500000.0) for kind in range(6)]
    cases = [[r, w, b, kind, data["drawn"], data["aim"]] for w, b, kind in settings for r in (0, 1, 40, 256)]
    call = "(h => [decay(c[0], c[1], c[2], h), largestStep(c[1], h)])(pairs(c[3], c[1], c[2], c[4], c[5]))"
    found = evaluate(visit, "decay_explorer.js", call, cases)
    for (r, width, base, kind, *_), (values, step) in zip(cases, found, strict=True):
        curve = decay_bound(speeds(width, base), torch.tensor([r])).item()
        query, key = widget.vectors(width, base, kind)
        product = (rotate_complex(query, r * speeds(width, base)[None]) @ key.T).item()
        assert values["curve"] == pytest.approx(curve, abs=1e-9)
        assert values["product"] == pytest.approx(product, abs=1e-9)
        assert values["curve"] * width / 2 * step == pytest.approx(widget.measure(width, base, kind)[1][r], abs=1e-9)


@pytest.mark.syllabus("IITD-07", "IITD-08")
def test_the_pages_counter_and_hands_are_the_packages(visit):
    cases = [
        [number, k, bits, paper]
        for bits in (2, 4, 6)
        for number in (0, 1, 6, 37)
        for k in range(bits)
        for paper in (False, True)
    ]
    found = evaluate(visit, "counter_and_sinusoids.js", "[digit(c[0], c[1]), period(...c.slice(1)), hand(...c)]", cases)
    for (number, k, bits, paper), (digit, period, hand) in zip(cases, found, strict=True):
        widget = CounterAndSinusoids(bits)
        assert digit == BinaryCounter(bits).encoding(torch.tensor([number]))[0, k]
        assert period == pytest.approx(widget.periods(paper)[k])
        assert hand == pytest.approx(widget.hands(number, paper)[k], abs=1e-9)


# Encoding


@pytest.mark.syllabus("IITD-10", "IITD-12")
def test_encoding_by_sliders_and_width(show):
    page, widget = show(EncodingExplorer()), EncodingExplorer()
    for first, second, width in ((4, 9, 128), (40, 12, 512), (0, 0, 4), (0, 49, 32)):
        page.get_by_role("radio", name=str(width), exact=True).check()
        slide(page, "first place", first)
        slide(page, "second position", second)
        says(page, widget._sentence(first, second, width))
        apart = [facts(page)[2], facts(page)[3]]
        assert [float(x) for x in apart] == pytest.approx(
            [widget.differences(first, second, width)[i] for i in (0, -1)], abs=5e-5
        )
        heights = re.findall(r" 2v(-?[\d.e-]+)h", page.locator(".la-apart path").get_attribute("d"))
        assert [-float(x) for x in heights] == pytest.approx(widget.differences(first, second, width), abs=1e-6)


@pytest.mark.syllabus("IITD-14")
def test_two_rows_that_move_together_keep_their_dot_product(show):
    page = show(EncodingExplorer())
    before = facts(page)
    page.get_by_label("move both").check()
    slide(page, "first place", 30)
    says(page, EncodingExplorer(first=30, second=35).text())
    slide(page, "first place", 49)  # the second stops at the end, and so does the first
    says(page, EncodingExplorer(first=44, second=49).text())
    assert facts(page) == before


def test_encoding_by_mouse(show):
    page = show(EncodingExplorer())
    box = page.locator(".la-encoding").bounding_box()

    def row(position):
        return box["x"] + 200, box["y"] + (position + 0.5) / 50 * box["height"]

    drag(page, row(8), row(20))  # nearer to the second
    says(page, EncodingExplorer(first=4, second=20).text())
    drag(page, row(4), row(-30))  # out of the picture
    says(page, EncodingExplorer(first=0, second=20).text())
    drag(page, middle(page, ".la-tag", 1), row(33))
    says(page, EncodingExplorer(first=0, second=33).text())
    outlines = page.locator(".la-mark").evaluate_all("nodes => nodes.map(node => node.getBoundingClientRect().top)")
    assert outlines == pytest.approx([box["y"] - 2, box["y"] + 33 / 50 * box["height"] - 2], abs=1)


def test_encoding_by_finger_and_a_scroll_moves_nothing(show):
    page = show(EncodingExplorer(), width=390, has_touch=True, is_mobile=True)
    cdp = page.context.new_cdp_session(page)

    def touch(kind, *points):
        cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    box = page.locator(".la-encoding").bounding_box()
    x, y = middle(page, ".la-tag", 1)
    touch("touchStart", (x, y))
    for position in (12, 20, 29):
        touch("touchMove", (x, box["y"] + (position + 0.5) / 50 * box["height"]))
    touch("touchEnd")
    says(page, EncodingExplorer(second=29).text())
    assert page.evaluate("scrollY") == 0
    page.touchscreen.tap(box["x"] + 80, box["y"] + 10.5 / 50 * box["height"])
    says(page, EncodingExplorer(first=10, second=29).text())
    touch("touchStart", (box["x"] + 80, box["y"] + 200))
    for up in (40, 80, 120):
        touch("touchMove", (box["x"] + 80, box["y"] + 200 - up))
    touch("touchEnd")
    page.wait_for_function("scrollY > 20")
    assert page.locator(".la-tag").all_inner_texts() == ["10", "29"]


@pytest.mark.syllabus("IITD-12")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_shades_of_the_encoding_follow_its_values(show, theme):
    page, encoding = show(EncodingExplorer(20, 4), theme=theme), EncodingExplorer(20, 4).encoding(4)
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    shades = page.evaluate(
        """([positions, width]) => { const svg = document.querySelector('.la-encoding svg'), at = svg.createSVGPoint();
        const share = cell => parseFloat(cell.style.getPropertyValue('--la-share'));
        return [...Array(positions * width).keys()].map(n => {
            Object.assign(at, { x: n % width + .5, y: Math.floor(n / width) + .5 });
            const cell = [...svg.children].find(path => path.isPointInFill(at));
            return cell ? [cell.getAttribute('class'), share(cell)] : ['', 0]; }); }""",
        [20, 4],
    )
    for (sign, share), value in zip(shades, encoding.flatten().tolist(), strict=True):
        assert {"": 0, "la-minus": -share, "la-plus": share}[sign] == pytest.approx(
            100 * value, abs=4.2
        )  # of 25 shades


def test_columns_stay_apart_on_a_phone(show):
    page = show(EncodingExplorer(d_model=512), width=390)
    assert "one pair in 4 is drawn" in page.locator(".la-heading").first.inner_text()
    box, columns = (
        page.locator(".la-encoding svg").bounding_box(),
        page.locator(".la-encoding svg").get_attribute("viewBox"),
    )
    assert box["width"] / int(columns.split()[2]) >= 2
    page.set_viewport_size({"width": 1280, "height": 844})
    page.wait_for_function("document.querySelector('.la-heading').innerText.includes('one pair in 2 is drawn')")


# Rotor


@pytest.mark.syllabus("CMU-29", "GT-34", "IITD-27")
def test_rotor_together_and_apart(show):
    page, widget = show(RotorExplorer()), RotorExplorer()
    says(page, widget.text())
    drawn = page.locator(".la-rotor-explorer path.la-query:not(.la-start)")
    page.get_by_role("radio", name="unlike").check()
    says(page, widget._sentence(2, 5, False))
    before, arrow = page.locator(".la-rotor-explorer").inner_text(), drawn.first.get_attribute("d")
    page.get_by_label("move both together").check()
    slide(page, "query at", 40)
    says(page, widget._sentence(40, 43, False))
    assert page.locator(".la-rotor-explorer").inner_text() == before
    assert drawn.first.get_attribute("d") != arrow
    slide(page, "query at", 100)  # the key stops at the end, and so does the query
    says(page, widget._sentence(97, 100, False))
    page.get_by_label("move both together").uncheck()
    slide(page, "key at", 13)
    says(page, widget._sentence(97, 13, False))
    assert page.locator(".la-rotor-explorer").inner_text() != before


@pytest.mark.syllabus("IITD-25", "CMU-28")
def test_arrows_bars_and_arcs_follow_the_planes(show):
    page, widget = show(RotorExplorer(6, 100)), RotorExplorer(6, 100)
    page.get_by_role("radio", name="unlike").check()
    slide(page, "key at", 3)
    planes, _ = widget.turn(2, 3, False)
    reach = max(math.hypot(*arrow) for plane in planes for arrow in plane[:2])
    for i, (query, key, angle, share) in enumerate(planes):
        dial = page.locator(".la-rotor-explorer > div").nth(i)
        for name, (x, y) in (("query", query), ("key", key)):
            path = dial.locator(f"path.la-{name}:not(.la-start)").get_attribute("d")
            tip = [float(v) for v in re.match(r"M0 0L(\S+) ([-\d.e]+)", path).groups()]
            assert tip == pytest.approx([x / reach, -y / reach], abs=1e-6)
        sweep = re.search(r"0 0 ([01]) ", dial.locator("path.la-arc").get_attribute("d")).group(1)
        assert sweep == ("0" if angle > 0 else "1")
        bar = dial.locator(".la-share i")
        assert ("la-minus" in (bar.get_attribute("class") or "")) == (share < 0)
        most = max(math.hypot(*q) * math.hypot(*k) for q, k, *_ in planes)
        assert float(bar.evaluate("bar => parseFloat(bar.style.width)")) == pytest.approx(
            50 * abs(share) / most, abs=1e-3
        )


def test_rotor_by_keys_and_finger(show):
    page = show(RotorExplorer())
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    says(page, RotorExplorer(query_position=3, key_position=4).text())
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.get_by_label("move both together").is_checked()
    phone = show(RotorExplorer(), width=390, has_touch=True, is_mobile=True)
    phone.get_by_role("radiogroup", name="q and k").locator("label").nth(1).tap()
    box = phone.get_by_role("slider", name="key at").bounding_box()
    phone.touchscreen.tap(box["x"] + 4, box["y"] + box["height"] / 2)
    says(phone, RotorExplorer()._sentence(2, 0, False))


# Decay


@pytest.mark.syllabus("IITD-29", "GT-36")
def test_decay_by_choices_and_slider(show):
    page, widget = show(DecayExplorer()), DecayExplorer()
    for width, base, kind, distance in (
        (128, 10000, 0, 200),
        (16, 500000, 3, 0),
        (256, 100, 5, 40),
        (64, 10000, 1, 256),
    ):
        for group, value in (("d_head", width), ("base", base)):
            page.get_by_role("radiogroup", name=group).get_by_role("radio", name=str(value), exact=True).check()
        page.get_by_role("radiogroup", name="q and k").get_by_role("radio").nth(kind).check()
        slide(page, "distance", distance)
        says(page, widget._sentence(width, float(base), kind, distance))
    page.get_by_role("radiogroup", name="q and k").get_by_role("radio").first.focus()
    page.keyboard.press("ArrowLeft")  # round to the last
    says(page, widget._sentence(64, 10000.0, 5, 256))


@pytest.mark.syllabus("IITD-29")
def test_marks_stand_where_the_curves_first_rise_and_dots_on_the_curves(show):
    page = show(DecayExplorer())
    slide(page, "distance", 77)
    assert page.locator(".la-early").all_text_contents() == ["first rises at 19", "first rises at 12"]
    positions = page.evaluate(
        """() => [...document.querySelectorAll('.la-chart')].map(chart => {
            const spot = chart.querySelector('circle'), curve = chart.querySelector('path.la-curve, path.la-product');
            const points = curve.getAttribute('d').slice(1).split('L').map(point => point.split(' ').map(Number));
            const rise = parseFloat(chart.querySelector('.la-rise').getAttribute('d').slice(1));
            const [cx, cy] = ['cx', 'cy'].map(name => spot.getAttribute(name));
            return [points.findIndex(([x]) => Math.abs(x - rise) < .06),
                points.findIndex(([x, y]) => Math.hypot(x - cx, y - cy) < .1)]; })"""
    )
    assert positions == [[19, 77], [12, 77]]


def test_decay_by_mouse_and_finger_on_the_curve(show):
    page = show(DecayExplorer())
    box = page.locator(".la-chart").nth(1).bounding_box()
    right = box["x"] + box["width"] - 14
    drag(page, middle(page, ".la-chart", 1), (right, box["y"] + 50))
    says(page, DecayExplorer()._sentence(128, 10000.0, 0, 256))
    phone = show(DecayExplorer(), width=390, has_touch=True, is_mobile=True)
    box = phone.locator(".la-chart").first.bounding_box()
    phone.touchscreen.tap(box["x"] + 46, box["y"] + 60)
    says(phone, DecayExplorer()._sentence(128, 10000.0, 0, 0))


# Counter


@pytest.mark.syllabus("IITD-07")
def test_counter_by_slider_box_mouse_and_keys(show):
    page, widget = show(CounterAndSinusoids()), CounterAndSinusoids()
    for number, paper in ((0, False), (31, False), (22, True), (11, True)):
        slide(page, "number", number)
        page.get_by_label("the paper's periods").set_checked(paper)
        says(page, widget._sentence(number, paper))
        assert page.locator(".la-digit > div b").all_inner_texts() == [str(digit) for digit in widget.digits(number)]
        tips = page.locator(".la-hand").evaluate_all("hands => hands.map(hand => hand.getAttribute('d'))")
        for tip, (sine, cosine) in zip(tips, widget.hands(number, paper), strict=True):
            assert [float(v) for v in tip[5:].split()] == pytest.approx([cosine, -sine], abs=1e-9)
    page.get_by_label("the paper's periods").uncheck()
    box = page.locator(".la-digit > svg").nth(1).bounding_box()
    drag(page, (box["x"] + 3, box["y"] + 9), (box["x"] + 17.5 / 32 * box["width"], box["y"] + 90))
    says(page, widget._sentence(17, False))
    page.get_by_role("slider", name="number").focus()
    page.keyboard.press("ArrowLeft")
    says(page, widget._sentence(16, False))


@pytest.mark.syllabus("IITD-07")
@pytest.mark.parametrize("paper", [False, True])
def test_strips_and_curves_pass_through_the_numbers(show, paper):
    page, widget = show(CounterAndSinusoids(3)), CounterAndSinusoids(3)
    page.get_by_label("the paper's periods").set_checked(paper)
    found = page.evaluate(
        """() => [...document.querySelectorAll('.la-digit:not(.la-heads)')].map(row => {
            const ones = row.querySelector('.la-ones'), at = ones.ownerSVGElement.createSVGPoint();
            const curves = ['.la-sine', '.la-cosine'].map(css =>
                row.querySelector(css).getAttribute('d').slice(1).split('L'));
            return [...Array(16).keys()].map(number => {
                Object.assign(at, { x: number + .5, y: .5 });
                return [+ones.isPointInFill(at), ...curves.map(points => {
                    const [x, y] = points[16 * number + 8].split(' ').map(Number);
                    return x === number + .5 ? -y : NaN; })]; }); })"""
    )
    for k, row in enumerate(found):
        for number, (one, *curves) in enumerate(row):
            assert one == widget.digits(number)[k]
            assert curves == pytest.approx(widget.hands(number, paper)[k], abs=6e-4)


# All of them


@pytest.mark.parametrize("theme, width", [("light", 1280), ("dark", 390)])
def test_fit_and_can_be_read_and_touched(show, width, theme):
    page = show(
        *everything(),
        EncodingExplorer(200, 512, 0, 199),
        RotorExplorer(16),
        CounterAndSinusoids(6),
        width=width,
        theme=theme,
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.la-widget div')]
            .filter(node => node.scrollWidth > node.clientWidth + 5).map(node => node.className)"""
    )
    assert cut == []
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.la-widget *')].filter(node => node.textContent)
            .map(node => parseFloat(getComputedStyle(node).fontSize))"""
    )
    assert min(sizes) >= 12
    inside = page.evaluate(
        """() => [...document.querySelectorAll('.la-chart text')].filter(word => {
            const [a, b] = [word, word.closest('svg')].map(node => node.getBoundingClientRect());
            return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1; })
            .map(word => word.textContent)"""
    )
    assert inside == []
    for target in page.locator(".la-option, .la-tick-box, .la-tag, .la-widget input[type=range]").all():
        assert target.bounding_box()["height"] >= 40
    hues = {
        ".la-rotor-explorer path.la-query": "query",
        ".la-rotor-explorer path.la-key": "key",
        "path.la-curve": "position",
    }
    for css, name in hues.items():
        colour = PALETTE[name][theme]
        rgb = f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"
        assert page.locator(css).first.evaluate("node => getComputedStyle(node).stroke") == rgb


def test_copies_are_independent_and_leak_no_name(show):
    names = "Object.keys(window).sort()"
    page = show(*everything(), *everything())
    page.get_by_role("slider", name="query at").first.fill("50")
    assert page.get_by_role("slider", name="query at").nth(1).input_value() == "2"
    page.get_by_role("radio", name="unlike").first.check()
    assert not page.get_by_role("radio", name="unlike").nth(1).is_checked()
    assert page.evaluate(names) == show().evaluate(names)


def test_without_scripts_the_words_are_shown(show):
    page = show(*everything(), java_script_enabled=False)
    for widget in everything():
        assert page.get_by_text(widget.text()).is_visible()
