"""Pages of the built book against the rules of WCAG 2.2, levels A and AA, as far as axe-core can tell."""

import pytest

pytestmark = pytest.mark.browser

PAGES = ["index", "attention/attention", "attention/exercises", "lecture_map", "errata", "notation", "bibliography"]
PAGES += ["api_reference", "api/layers/attention"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_breaks_no_rule(site, visit, answers_shown, breaches, name, scheme, width):
    page = visit(f"{site}/book/{name}.html", width=width, color_scheme=scheme, storage_state=answers_shown)
    page.evaluate("for (const fold of document.querySelectorAll('.bd-article details')) fold.open = true")
    page.evaluate("window.MathJax?.startup?.promise")  # wait for the formulas, and for the folds to open
    page.evaluate("Promise.all(document.getAnimations().map(motion => motion.finished))")
    assert breaches(page) == []


def test_a_breach_is_seen(visit, breaches, tmp_path):
    file = tmp_path / "bad.html"
    file.write_text('<!doctype html><html lang="en"><title>A</title><p style="color: #aaa">Pale</p><img src="x:">')
    assert {line.split()[0] for line in breaches(visit(file.as_uri()))} == {"color-contrast", "image-alt"}
