"""The widget that CONTRIBUTING shows as a skeleton moves as it stands."""

import re
from pathlib import Path

import pytest

TEXT = Path(__file__).parents[2].joinpath("CONTRIBUTING.md").read_text(encoding="utf-8")
*_, WIDGET = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def thing():
    names: dict = {}
    exec(WIDGET, names)
    return names["Thing"](2.5)


def test_it_has_at_most_sixty_lines_and_says_what_it_shows(thing):
    assert len(WIDGET.splitlines()) <= 60
    thing.number = 4
    assert repr(thing) == "Twice 4.0 is 8.0."


@pytest.mark.browser
def test_it_moves_on_a_page(thing, show):
    page = show(thing)
    slider = page.get_by_role("slider", name="number", exact=True)
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "2.6"
    page.wait_for_function("document.querySelector('.la-text').textContent === 'Twice 2.6 is 5.2.'")
