"""Predictions on the pages of the book: what follows them is folded until the reader has guessed or skips."""

import re

import pytest

pytestmark = pytest.mark.browser

COMMIT, SKIP = "Commit to this guess", "Skip"
BLOCKED = """for (const name of ["getItem", "setItem"]) {
    const native = Storage.prototype[name];
    Storage.prototype[name] = function (key, ...rest) {
        if (key.startsWith("la-")) throw new Error("blocked");  // the theme's own fail
        return native.call(this, key, ...rest);
    };
}"""
FORGET = "Delete my results"
ALL, AGAIN = "Show all answers on all pages", "Fold the answers again"


@pytest.fixture
def chapter(site, visit):
    """``chapter(name)`` opens a chapter; its formulas are not drawn, which takes longer than all else."""

    def open_page(name="attention", fragment="", **options):
        return visit(f"{site}/book/{name}/{name}.html{fragment}", formulas=False, **options)

    return open_page


def stretches(page):
    """For each prediction of the page, whether what follows it is seen; None where no answer follows."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.cell:has(.la-prediction)')].map(cell => {
            let fold = cell.nextElementSibling;
            if (fold?.matches('.la-note')) fold = fold.nextElementSibling;
            return fold?.matches('.la-fold') ? fold.firstElementChild.checkVisibility() : null; })"""
    )


def commit(question):
    if question.get_by_role("radio").count():
        question.get_by_role("radio").first.check()
    question.get_by_role("button", name=COMMIT).click()


def test_an_answer_is_folded_until_the_reader_commits(chapter):
    page = chapter(width=390, color_scheme="dark")
    questions, notes = page.locator(".la-prediction"), page.locator(".la-note")
    page.emulate_media(media="print")  # on paper nothing is folded
    assert stretches(page) == [True] * 4 + [None] * 2 and not notes.first.is_visible()
    page.emulate_media(media="screen")
    assert stretches(page) == [False] * 4 + [None] * 2
    for number in range(4):
        assert (
            "The answer stays folded until you commit to a guess or skip the question."
            in notes.nth(number).inner_text()
        )
        assert questions.nth(number).get_by_text("the answer", exact=True).count() == 0
        commit(questions.nth(number))
        assert questions.nth(number).locator("p").inner_text()
        assert stretches(page)[:4] == [True] * (number + 1) + [False] * (3 - number)
        assert not notes.nth(number).is_visible()
    page.get_by_text("the best key leads the second best").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_questions_are_answered_and_skipped_by_keyboard(chapter):
    page = chapter()
    first, estimate, record = *page.locator(".la-prediction").all()[:2], page.locator(".la-record")
    first.get_by_role("radio").first.focus()
    for key in ("ArrowDown", "Tab", "Enter"):
        page.keyboard.press(key)
    assert stretches(page)[:2] == [True, False]
    assert "your choice was wrong" in record.inner_text()
    record.get_by_role("button", name=FORGET).press("Enter")
    first.get_by_role("radio").first.focus()
    page.keyboard.press("Tab")  # a guess cannot be committed yet
    page.keyboard.press("Enter")
    assert first.get_by_text("The weights are about 0.65").evaluate("words => words === document.activeElement")
    assert first.get_by_text("your guess").count() == 0 and first.get_by_text("the answer", exact=True).count() == 1
    estimate.get_by_role("button", name=SKIP).press("Enter")
    assert estimate.get_by_text("The answer is 0.92.").is_visible()
    assert stretches(page)[:3] == [True, True, False]
    assert "You made 0 of 6 predictions. You skipped 2." in record.inner_text()


def test_all_answers_are_shown_on_all_pages_until_they_are_folded_again(chapter, site):
    page = chapter(width=390, color_scheme="dark")
    page.get_by_role("button", name=ALL).first.press("Enter")
    assert stretches(page) == [True] * 4 + [None] * 2
    assert page.get_by_role("button", name=COMMIT).count() == 0 and page.get_by_text("the answer", exact=True).count()
    assert page.evaluate("document.activeElement.textContent") == AGAIN
    page.goto(f"{site}/book/rotary_position/rotary_position.html")
    assert stretches(page) == [True] * 4 + [None] * 3
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".la-note").nth(2).get_by_role("button", name=AGAIN).click()
    assert stretches(page) == [False] * 4 + [None] * 3
    page.go_back()
    assert stretches(page) == [False] * 4 + [None] * 2


def test_without_scripts_nothing_is_folded(chapter):
    page = chapter(java_script_enabled=False)
    assert page.locator(".la-fold").count() == 4 and page.locator(".la-note, .la-record").count() == 0
    assert page.get_by_text("These are the slide’s numbers").is_visible()
    assert page.get_by_text("Without the scale, wide heads").is_visible()


@pytest.mark.parametrize("older", ["", "delete HTMLElement.prototype.onbeforematch"], ids=["new browser", "older"])
def test_a_link_into_a_fold_opens_it(chapter, older):
    page = chapter("absolute_position", script=older)
    heading = page.get_by_role("heading", name="The full experiment")
    assert not heading.is_visible()
    page.evaluate("location.hash = 'the-full-experiment'")
    for reload in [False] if older else [False, True]:
        if reload:
            page.reload()
        heading.wait_for()
        page.wait_for_function("h => Math.abs(h.getBoundingClientRect().top) < 300", arg=heading.element_handle())
        assert stretches(page) == [False, False, False, False, True, None]
        assert not page.locator(".la-note").nth(4).is_visible()
    assert page.get_by_role("button", name=COMMIT).count() == 6  # the question may still be answered
    if older:
        return
    estimates = page.locator(".la-prediction:has([type=range])")
    for number in range(estimates.count()):
        commit(estimates.nth(number))
    answer = int(re.search(r"the answer is (\d+)", estimates.last.inner_text())[1])
    mark = estimates.last.locator(".la-mark").evaluate("mark => +mark.style.getPropertyValue('--la-at')")
    assert mark == pytest.approx((answer - 1) / (150 - 1), rel=1e-3)
    record = page.locator(".la-record").inner_text()
    assert re.search(
        r"You made 2 of 6 predictions: your estimates were off by \d+ % of their scales on average\.", record
    )


def test_a_search_in_the_page_opens_a_fold(chapter):
    page = chapter(fragment="#:~:text=compare%20all%20seven%20digits")
    page.get_by_text("These are the slide’s numbers").wait_for()
    assert stretches(page)[:2] == [True, False]
    assert not page.locator(".la-note").first.is_visible() and page.locator(".la-note").nth(1).is_visible()
    page.locator(".la-fold").nth(1).dispatch_event("beforematch")  # as the browser's own search does
    assert stretches(page)[:3] == [True, True, False] and not page.locator(".la-note").nth(1).is_visible()


def test_the_record_is_summed_up_and_stays_until_it_is_forgotten(chapter):
    page = chapter()
    record = page.locator(".la-record")
    assert record.inner_text().startswith("This page asks for 6 predictions. Your results will appear here.")
    assert not record.get_by_role("button", name=FORGET).is_visible()
    questions = page.locator(".la-prediction")
    questions.nth(0).get_by_role("radio", name="about (0.3, 1)").check()
    questions.nth(0).get_by_role("button", name=COMMIT).click()
    questions.nth(1).get_by_role("slider").fill("0.62")
    questions.nth(1).get_by_role("button", name=COMMIT).click()
    commit(questions.nth(2))
    questions.nth(3).get_by_role("button", name=SKIP).click()
    words = (
        "You made 3 of 6 predictions: 1 of 2 choices was right; your estimate was off by 30 % of its scale. "
        "You skipped 1. Your results stay in this browser and are sent nowhere."
    )
    assert record.locator("p").first.inner_text() == words
    page.reload()
    assert record.locator("p").first.inner_text() == words
    assert stretches(page) == [True] * 4 + [None] * 2
    assert questions.nth(0).get_by_text("your guess, which is right").is_visible()
    assert questions.nth(1).get_by_text("You guessed 0.62; the answer is 0.92.").is_visible()
    record.get_by_role("button", name=FORGET).press("Enter")
    assert stretches(page) == [False] * 4 + [None] * 2
    assert page.get_by_role("button", name=COMMIT).count() == 6
    assert page.evaluate("localStorage[`la-predictions ${location.pathname}`]") == "{}"
    assert record.locator("p").first.evaluate("words => words === document.activeElement")


def test_a_plain_file_in_a_browser_that_stores_nothing(site_folder, visit):
    page = visit((site_folder / "book/attention/attention.html").as_uri(), script=BLOCKED)
    assert page.evaluate("() => { try { localStorage.getItem('la-answers') } catch (error) { return error.message } }")
    assert stretches(page) == [False] * 4 + [None] * 2
    commit(page.locator(".la-prediction").first)
    page.get_by_role("button", name=ALL).first.click()
    assert stretches(page) == [True] * 4 + [None] * 2
    assert "You made 1 of 6 predictions" in page.locator(".la-record").inner_text()
