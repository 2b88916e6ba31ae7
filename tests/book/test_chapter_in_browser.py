"""Chapter 3 as a reader meets it: what its widgets show on the built page is what the chapter says."""

import re

import pytest

pytestmark = pytest.mark.browser


CHAPTER = "book/attention/attention"


def widget(page, control):
    found = page.locator(f".la-widget:has([aria-label='{control}']:is([role=radiogroup], input))").first
    found.scroll_into_view_if_needed()
    return found


@pytest.mark.syllabus("UCL-21")
def test_the_trained_heads_look_one_and_two_positions_back(look):
    explorer = widget(look(CHAPTER, 390, "dark", formulas=False), "query")
    explorer.get_by_role("radio", name="chased").check()
    positions = []
    for head in ("first head", "second head"):
        explorer.get_by_role("radio", name=head).check()
        weights = explorer.evaluate("figure => figure.la.known().weights")
        positions.append(2 - weights.index(max(weights)))
    assert sorted(positions) == [1, 2]


@pytest.mark.syllabus("UCL-19")
def test_the_scaling_explorer_agrees_with_the_numbers_printed_above_it(look):
    page = look(CHAPTER, 390, "dark", formulas=False)
    scaling = widget(page, "d_head")
    table = page.locator("article").inner_text().partition("largest weight  scaled")[2]
    printed = re.findall(r"^ +(\d+) +\d+ +(\S+) +(\S+)$", table, re.MULTILINE)
    assert [int(width) for width, _, _ in printed] == [4, 16, 64, 256]
    for width, *largest in printed:
        scaling.evaluate("(figure, width) => figure.la.set('width', width)", int(width))
        for scaled in (False, True):
            scaling.get_by_role("checkbox").set_checked(scaled)
            found = scaling.evaluate("figure => figure.la.known().largest")
            assert found == pytest.approx(float(largest[scaled]), abs=0.0051)
