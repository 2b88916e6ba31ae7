"""The drawing on the front page, from the list of chapters."""

import json
import re

import pytest
from bs4 import BeautifulSoup

from bookbinder import ROOT, anatomy, syllabus
from bookbinder.sphinx_ext import PALETTE
from bookbinder.syllabus import Chapter


@pytest.fixture
def book(tmp_path):
    """The lectures of this book, with no chapter written."""
    (tmp_path / syllabus.DATA).parent.mkdir(parents=True)
    (tmp_path / syllabus.DATA).symlink_to(ROOT / syllabus.DATA)
    return syllabus.collect(tmp_path)


def write(book, number, status="finished"):
    path = f"book/subject/chapter_{number}.nb.md"
    book.chapters[number] = Chapter(number, anatomy.titles(book)[number], path, status, [], {})


def drawn(book):
    return BeautifulSoup(anatomy.drawing(book), "html.parser")


def test_each_chapter_has_one_part_with_a_colour_of_the_palette(book):
    assert sorted(part.chapter for part in anatomy.PARTS) == sorted(anatomy.titles(book))
    assert {part.colour for part in anatomy.PARTS} <= set(json.loads((ROOT / PALETTE).read_text()))


def test_a_written_chapter_lights_up_and_the_others_are_to_come(book):
    write(book, 3)
    write(book, 10, "draft")
    drawing = drawn(book)
    assert {link["aria-label"]: link["href"] for link in drawing.find_all("a")} == {
        "Chapter 3: Attention: from dictionary to multi-head": "subject/chapter_3.html",
        "Chapter 10: Feed-forward: activations and gating (draft)": "subject/chapter_10.html",
    }
    waiting = drawing.select(".la-to-come")
    assert len(waiting) == len(anatomy.PARTS) - 2
    assert all(part["aria-label"].endswith(" (to come)") and part["role"] == "img" for part in waiting)
    assert "dashed parts are still to come" in drawing.figcaption.get_text()


def test_when_all_is_written_nothing_is_to_come(book):
    for number in anatomy.titles(book):
        write(book, number)
    drawing = drawn(book)
    assert len(drawing.find_all("a")) == len(anatomy.PARTS)
    assert "to come" not in str(drawing) + anatomy.contents(book)


def test_the_drawing_has_a_name_and_says_what_it_shows(book):
    svg = drawn(book).svg
    named = [svg.find(id=name) for name in svg["aria-labelledby"].split()]
    assert [node.name for node in named] == ["title", "desc"] and all(node.get_text() for node in named)
    scenery = [node for node in svg.find_all(recursive=False) if "la-part" not in node.get("class", [])]
    assert scenery[:2] == named and [node["aria-hidden"] for node in scenery[2:]] == ["true"]


def test_parts_stay_inside_and_apart():
    for part in anatomy.PARTS:
        assert part.x >= 0 and part.x + part.width <= anatomy.WIDTH
        assert part.y >= 0 and part.y + part.height <= anatomy.HEIGHT
        assert part.height >= 26  # a finger's 24 px where the drawing is 358 px wide
        for other in anatomy.PARTS:
            beside = part.x + part.width <= other.x or other.x + other.width <= part.x
            upper, lower = sorted((part, other), key=lambda box: box.y)
            assert part is other or beside or upper.y + upper.height + 5 <= lower.y


@pytest.mark.parametrize(
    ("chapters", "says"),
    [
        ({}, "**0 of 16 chapters** are here; "),
        ({3: "draft"}, "**1 of 16 chapters** is here, as a draft; "),
        ({3: "finished"}, "**1 of 16 chapters** is here; "),
        ({3: "draft", 4: "finished"}, "**2 of 16 chapters** are here, 1 as a draft; "),
        ({3: "draft", 4: "draft"}, "**2 of 16 chapters** are here, all as a draft; "),
    ],
)
def test_the_list_says_how_much_is_here(book, chapters, says):
    for number, status in chapters.items():
        write(book, number, status)
    text = anatomy.contents(book)
    assert text.startswith(says)
    assert text.count("<a href=") == len(chapters) and text.count("*draft*") == list(chapters.values()).count("draft")
    assert [int(n) for n in re.findall(r"^(\d+)\. ", text, re.MULTILINE)] == list(range(1, 17))


def test_markers_are_filled_in_and_the_rest_stays(book):
    page = anatomy.filled("# Title\n\n<!-- anatomy -->\n\n<!-- chapters -->\n\n<!-- a note -->\n", book)
    assert page.startswith('# Title\n\n<figure class="la-anatomy">') and page.endswith(":::\n\n<!-- a note -->\n")
    assert "\n\n" not in anatomy.drawing(book)  # an empty line would end the HTML
    index = (ROOT / "book/index.md").read_text()
    assert all(f"<!-- {name} -->" in index for name in anatomy.MARKERS)
