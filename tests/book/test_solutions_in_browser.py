"""Solutions stay away until the reader has passed or skipped an exercise, and a course can leave them out."""

import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from bookbinder import ROOT, solutions, sphinx_ext

MASTERS = list(ROOT.glob("exercises/*/*/exercise.md"))
NOTE = "The solution appears when you have passed or skipped the exercise."


@pytest.mark.browser
def test_a_solution_appears_when_its_exercise_is_skipped_or_passed_and_stays(visit, site):
    exercises = visit(f"{site}/book/attention/exercises.html")
    solved, notes = exercises.locator("details.la-solution"), exercises.locator(".la-note")
    n = sum(path.parts[-3] == "attention" for path in MASTERS)
    assert solved.count() == notes.count() == n and not solved.first.is_visible()
    assert notes.first.inner_text().startswith(NOTE)
    exercises.get_by_role("button", name="Skip this exercise: Hard lookup").click()
    assert solved.first.is_visible() and solved.first.get_attribute("open") is not None and not notes.first.is_visible()
    assert "scores.argmax" in solved.first.inner_text() and "import" not in solved.first.inner_text()
    assert exercises.evaluate("document.activeElement.tagName") == "SUMMARY"
    exercises.get_by_role("button", name="I have passed it: Causal mask").click()
    assert solved.nth(2).is_visible() and solved.nth(2).get_attribute("open") is None
    exercises.reload()
    assert [solved.nth(i).is_visible() for i in range(n)] == [i in (0, 2) for i in range(n)]

    # the check passes in the page
    box = exercises.locator("#a-numerically-stable-softmax")
    assert not box.locator("details.la-solution").is_visible()
    say = "(node, words) => new Promise(done => { node.innerHTML = `<pre>${words}</pre>`; setTimeout(done, 0); })"
    box.locator(".cell_output").evaluate(say, "Passed: none of 4 cases.")
    assert not box.locator("details.la-solution").is_visible()
    box.locator(".cell_output").evaluate(say, "Passed: 4 cases and 5 properties.")
    box.locator("details.la-solution").wait_for(state="visible")


def test_the_solutions_of_a_page_are_those_of_its_masters():
    for text in ROOT.glob("book/*/exercises.nb.md"):
        chapter = text.parent.name
        masters = solutions.masters(text, ROOT)
        assert {master.folder for master in masters} == {path.parent for path in MASTERS if path.parts[-3] == chapter}
        assert solutions.masters(text.with_name("x.nb.md"), ROOT) == []
        stored = (ROOT / "book" / chapter / "exercises.ipynb").read_text(encoding="utf-8")
        cells = json.loads(solutions.added(stored, masters))["cells"]
        shown = {i: "".join(cell["source"]) for i, cell in enumerate(cells) if cell["id"].startswith("solution-")}
        assert len(shown) == len(masters)
        for master, (i, source) in zip(masters, shown.items(), strict=True):
            assert cells[i - 1]["metadata"]["tags"] == [master.tag]
            assert f"def {master.function}(" in source and "def accepted_" not in source and "import" not in source
            assert master.explanation in source


@pytest.mark.parametrize("shown", [True, False])
def test_a_course_can_leave_its_solutions_out(shown):
    app = SimpleNamespace(srcdir=ROOT, env=Mock(), config=SimpleNamespace(exercise_solutions=shown))
    source = [(ROOT / "book/attention/exercises.ipynb").read_text(encoding="utf-8")]
    sphinx_ext.read_source(None, app, "book/attention/exercises", source)
    assert ("la-solution" in source[0]) is shown
