"""Data-flow drawings: what they hold, and what they refuse."""

import re
from xml.etree import ElementTree

import pytest
import torch

from llm_anatomy.notebook import DataFlow
from llm_anatomy.notebook.figures import PALETTE
from llm_anatomy.notebook.front_end import DARK

BOXES = {
    "a": ("query", "query", "#q"),
    "b": ("key <k>", "key", "#k"),
    "c": ("score\nq · k", "weights", "#s"),
    "d": ("sum", "residual", "#sum"),
}
ARROWS = [("a", "c", torch.zeros(4, 5).shape), ("b", "d", "a text\nof two lines"), ("c", "d", (5,))]


def drawing(**changes):
    usual = {"title": "How do two become one?", "mosaic": "ab c. dd", "boxes": BOXES, "arrows": ARROWS}
    return DataFlow(**(usual | {"alt": 'Query and key\nflow into the "score".'} | changes))


def svg(flow):
    return ElementTree.fromstring(re.search("<svg.*</svg>", flow.html(), re.DOTALL)[0])


def test_the_plain_text_is_the_alternative_text():
    flow, words = drawing(), 'Query and key flow into the "score".'
    bundle = flow._repr_mimebundle_()
    assert list(bundle) == ["text/plain", "text/html"] and bundle["text/plain"] == repr(flow) == words
    assert svg(flow).attrib["aria-label"] == words and "<figcaption>How do two become one?<" in bundle["text/html"]
    assert "<script" not in bundle["text/html"] and "http" not in bundle["text/html"]


def test_each_box_is_a_link_of_its_colour():
    links = svg(drawing()).findall("a")
    assert [(link.attrib["href"], link.attrib["class"], "\n".join(link.itertext())) for link in links] == [
        (link, f"la-{colour}", text) for text, colour, link in BOXES.values()
    ]


@pytest.mark.parametrize(("shade", "where"), [("light", ""), ("dark", f":is({DARK}) ")])
def test_colours_are_the_palettes_also_where_the_page_has_none(shade, where):
    text = drawing().html()
    for _, colour, _ in BOXES.values():
        assert f"\n{where}.la-flow .la-{colour}{{--c:var(--la-{colour},{PALETTE[colour][shade]})}}" in text
    assert "--la-position" not in text


def test_arrows_carry_shapes_and_run_straight_down():
    arrows = svg(drawing()).find("g")
    assert [text.text for text in arrows.findall("text")] == ["(4, 5)", "a text", "of two lines", "(5,)"]
    shafts = [path.attrib["d"] for path in arrows.findall("path")[::2]]
    points = [list(map(float, re.findall(r"[\d.]+", shaft))) for shaft in shafts]
    assert [x for x, *_ in points] == [86, 258, 86]  # the middles of two columns of 172
    for x, start, label, again, after, end in points:
        assert x == again and start < label < after < end
    boxes = {link.attrib["href"]: link.find("rect").attrib for link in svg(drawing()).findall("a")}
    assert points[1][1] == float(boxes["#q"]["y"]) + float(boxes["#q"]["height"])  # from the row of query and key
    assert 0 < float(boxes["#sum"]["y"]) - points[1][-1] < 10  # the head takes the rest


@pytest.mark.parametrize(
    ("mosaic", "columns"),
    [("xxx mm. yyy", (2, 3)), ("xxx .mm yyy", (0, 1)), ("xxx .m. yyy", (0, 1)), ("xxxx m... yyyy", (1, 4))],
)
def test_an_arrow_runs_in_the_middle_of_the_first_free_columns(mosaic, columns):
    boxes = {name: (name, "residual", f"#{name}") for name in "xmy"}
    shaft = svg(drawing(mosaic=mosaic, boxes=boxes, arrows=[("x", "y", "(4,)")])).find("g/path").attrib["d"]
    middle = 344 * sum(columns) / 2 / mosaic.index(" ")
    assert float(re.findall(r"[\d.]+", shaft)[0]) == pytest.approx(middle, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"title": " "}, "title=' '; it must be a sentence"),
        ({"alt": ""}, "alt=''; it must be a sentence"),
        ({"boxes": BOXES | {"a": ("query", "blue", "#q")}}, "box 'a' has the colour 'blue'; it must be one of query, "),
        ({"boxes": BOXES | {"a": ("query", "query", "q.html")}}, "box 'a' has the link 'q.html'; it must be an anchor"),
        ({"boxes": BOXES | {"a": ("query", "query", "#")}}, "box 'a' has the link '#'; it must be an anchor"),
        ({"boxes": BOXES | {"a": ("", "query", "#q")}}, "'' must have 1 to 19 letters"),
        ({"boxes": BOXES | {"a": ("a" * 20, "query", "#q")}}, "'aaaaaaaaaaaaaaaaaaaa' must have 1 to 19 letters"),
        ({"arrows": [("a", "e", "(4,)")]}, "the arrow 'a' to 'e' names an unknown box 'e'"),
        ({"arrows": [("c", "a", "(4,)")]}, "the arrow 'c' to 'a' must run down a column that no other box stands in"),
        ({"arrows": [("b", "c", "(4,)")]}, "the arrow 'b' to 'c' must run down a column that no other box stands in"),
        ({"arrows": [("a", "d", "(4,)")]}, "the arrow 'a' to 'd' must run down a column that no other box stands in"),
        ({"arrows": [("a", "c", "")]}, "'' must have 1 to 22 letters"),
        ({"arrows": [("a", "c", "(n_heads, n_queries, n_keys)")]}, "n_keys)' must have 1 to 22 letters"),
        ({"mosaic": ""}, "mosaic=''; its rows must be equally long"),
        ({"mosaic": "ab c. d"}, "mosaic='ab c. d'; its rows must be equally long"),
        ({"mosaic": "ab .. c. dd"}, "mosaic='ab .. c. dd'; its rows must be equally long"),
        ({"mosaic": "ab c. .."}, "its rows must be equally long"),
        ({"mosaic": "ab cc"}, "box 'd' must be in boxes, and in one row without a gap"),
        ({"mosaic": "ab c. dd ee"}, "box 'e' must be in boxes, and in one row without a gap"),
        ({"mosaic": "ab ca dd"}, "box 'a' must be in boxes, and in one row without a gap"),
        ({"mosaic": "aba c.. ddd"}, "box 'a' must be in boxes, and in one row without a gap"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(changes, message):
    with pytest.raises(ValueError) as refusal:
        drawing(**changes)
    assert message in str(refusal.value) and "\n" not in str(refusal.value)
