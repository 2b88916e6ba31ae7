"""Chapter 3 as a reader meets it: its widgets on the built page, light and dark, wide and narrow."""

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide and light", "narrow and dark"])
def page(site, visit, answers_shown, request):
    width, scheme = request.param
    address = f"{site}/book/attention/attention.html"
    return visit(address, width=width, color_scheme=scheme, storage_state=answers_shown)


def widget(page, part):
    found = page.locator(f".la-widget:has({part})").first
    found.scroll_into_view_if_needed()
    return found


@pytest.mark.syllabus("UCL-21")
def test_the_trained_heads_look_one_and_two_positions_back(page):
    explorer = widget(page, ".la-sentence")
    explorer.get_by_role("radio", name="dog").focus()
    page.keyboard.press("ArrowLeft")  # from dog, which is chosen at first, to the word before it
    positions = []
    for head in ("first head", "second head"):
        explorer.get_by_role("radio", name=head).check()
        weights = [float(weight) for weight in explorer.locator(".la-keys b").all_inner_texts()]
        positions.append(3 - weights.index(max(weights)))
    assert sorted(positions) == [1, 2]


@pytest.mark.syllabus("UCL-19")
def test_the_width_hardens_the_softmax_until_it_is_scaled(page):
    scaling = widget(page, ".la-bars")
    slider = scaling.get_by_role("slider", name="d_head")
    slider.focus()
    page.keyboard.press("End")
    largest = scaling.locator(".la-facts b").nth(1)
    assert float(largest.inner_text()) > 0.95
    scaling.get_by_text("divide by √d_head").click()
    assert float(largest.inner_text()) < 0.8


@pytest.mark.syllabus("UCL-21")
def test_a_plain_reshape_puts_a_number_into_another_head(page):
    heads = widget(page, ".la-heads-explorer")
    heads.get_by_role("gridcell", name="x[1, 4]").focus()
    assert "heads[2, 1, 0]" in heads.locator(".la-address").inner_text()
    heads.get_by_text("plain reshape").click()
    heads.get_by_role("gridcell", name="x[1, 4]").focus()
    assert "heads[1, 0, 0]" in heads.locator(".la-address").inner_text()


def test_nothing_is_wider_than_the_page(page):
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for picture in page.locator("article img").all():
        assert picture.get_attribute("alt")
