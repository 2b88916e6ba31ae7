"""The arena as a voter sees it: with the mouse, the keyboard, a screen reader, a phone, and without scripts."""

import re

import pytest
from arena.conftest import OUTPUTS

from llm_anatomy.arena import app
from llm_anatomy.arena.votes import Vote

pytestmark = pytest.mark.browser
SIZES = [
    (1280, "light"),
    (390, "dark"),
    *(pytest.param(*size, marks=pytest.mark.slow) for size in ((1280, "dark"), (390, "light"))),
]


def follow(page, name, url):
    """Click a link and wait for the page that it leads to."""
    page.get_by_role("link", name=name).click()
    page.wait_for_url(url)


def fill(votes):
    models = OUTPUTS.models
    sequence = [(a, b, w) for a in models for b in models if a < b for w in ("a", "a", "b", "tie")]
    for number, (a, b, winner) in enumerate(sequence):
        votes.record(Vote("v", number, a, b, winner, "", 1, 1, ""))
    votes.record(Vote("v", 99, models[0], "winner", "b", "", 1, 1, ""))


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_pages_are_accessible_and_fit(arena, votes, visit, breaches, width, scheme):
    fill(votes)
    page = visit(arena, width=width, color_scheme=scheme, bypass_csp=True)  # axe-core is a script from elsewhere

    def look():
        assert breaches(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.title() != "broken"

    look()
    page.get_by_role("button", name="A is better").click()
    page.wait_for_url("**/battles/0")
    look()
    page.goto(f"{arena}/board")
    look()
    assert page.get_by_role("row").count() == 5
    page.goto(f"{arena}/none")
    look()


def test_a_battle_is_decided_with_the_keyboard_alone(arena, votes, visit):
    page = visit(arena)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.value") == "a"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/battles/0")
    page.wait_for_function("document.activeElement.textContent === 'Next battle'")  # focused once the page is drawn
    page.keyboard.press("Enter")
    page.wait_for_url(f"{arena}/")
    assert "Battle 2." in page.inner_text("main") and [vote.winner for vote in votes] == ["b"]


def test_keys_vote_only_if_the_voter_wants_it(arena, votes, visit):
    page = visit(arena)
    page.keyboard.press("3")
    page.get_by_label("Vote with the keys 1 to 4").check()
    held = "new KeyboardEvent('keydown', { key: '3', repeat: true })"
    count = "let n = 0; addEventListener('submit', event => { event.preventDefault(); n++; }, { once: true });"
    assert page.evaluate(f"() => {{ {count} document.dispatchEvent({held}); return n; }}") == 0
    page.reload()
    assert page.url == f"{arena}/" and votes.n_votes() == 0
    page.keyboard.press("3")
    page.wait_for_url("**/battles/0")
    follow(page, "Next battle", f"{arena}/")
    assert page.get_by_label("Vote with the keys 1 to 4").is_checked()
    page.keyboard.press("4")
    page.wait_for_url("**/battles/1")
    assert [vote.winner for vote in votes] == ["tie", "both_bad"]


def test_everything_works_without_scripts(arena, votes, visit):
    page = visit(arena, java_script_enabled=False)
    for number, name in enumerate(["A is better", "They are equally good"]):
        page.get_by_role("button", name=name).click()
        page.wait_for_url(f"**/battles/{number}")
        follow(page, "Next battle", f"{arena}/")
    follow(page, "Board", f"{arena}/board")
    assert page.locator("tbody tr").count() == 3 and votes.n_votes() == 2
    assert page.locator("#pause").is_hidden()


def test_outputs_are_shown_as_text_and_run_nothing(arena, votes, visit):
    page = visit(arena)
    for number in range(3):
        assert "<script>document.title" in page.inner_text(".pair") and page.locator("main img").count() == 0
        page.get_by_role("button", name="Both are bad").click()
        page.wait_for_url(f"**/battles/{number}")
        follow(page, "Next battle", f"{arena}/")
        assert page.title() != "broken"


def test_a_double_click_and_the_back_button_count_once(arena, votes, visit):
    page = visit(arena)
    page.get_by_role("button", name="A is better").dblclick()
    page.wait_for_url(re.compile("/battles/0"))
    page.go_back()
    page.get_by_role("button", name="B is better").click()
    page.wait_for_url(re.compile("/battles/"))
    voted = [(vote.battle, vote.winner) for vote in votes]
    assert voted[0] == (0, "a") and len({number for number, _ in voted}) == len(voted)


def test_the_board_follows_the_votes_until_it_is_stopped(arena, votes, visit, monkeypatch):
    monkeypatch.setattr(app, "BOARD_SECONDS", 0)
    often = "const wait = setInterval; window.setInterval = f => wait(window.update = f, 50)"
    page = visit(f"{arena}/board", script=often)
    assert "0 votes" in page.inner_text("#live")
    fill(votes)
    page.get_by_text("13 votes of 1 voter.").wait_for()
    page.get_by_text("has won every battle so far").wait_for()  # with the next update, if votes came amid this one
    assert page.locator("tbody svg").count() == 3
    page.get_by_role("button", name="Stop updating").click()
    asked = []
    page.on("request", lambda request: asked.append(request))
    votes.record(Vote("w", 0, *OUTPUTS.models[:2], "a", "", 1, 1, ""))
    page.evaluate("update()")
    assert not asked
    page.get_by_role("button", name="Stop updating").click()
    page.get_by_text("14 votes of 2 voters.").wait_for()


def test_another_page_cannot_show_the_arena_in_a_frame(arena, visit, tmp_path):
    (tmp_path / "page.html").write_text(f"<!doctype html><title>x</title><iframe src='{arena}/'></iframe>")
    page = visit("about:blank")
    with page.expect_event("requestfailed", lambda request: request.url == f"{arena}/"):
        page.goto((tmp_path / "page.html").as_uri())
    assert "Which text" not in page.frames[-1].content()


def test_another_site_cannot_vote_for_a_voter(arena, votes, visit, tmp_path):
    page = visit(arena)
    form = page.locator("form").evaluate("form => Object.fromEntries(new FormData(form))")
    fields = "".join(f"<input name={name} value={value}>" for name, value in (form | {"winner": "a"}).items())
    page.goto("about:blank")
    (tmp_path / "page.html").write_text(f"<!doctype html><form method=post action='{arena}/vote'>{fields}<button>go")
    page.goto((tmp_path / "page.html").as_uri())
    page.get_by_role("button").click()
    page.wait_for_url("**/vote")
    assert "was not counted" in page.inner_text("main") and votes.n_votes() == 0
