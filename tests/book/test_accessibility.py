"""Pages of the built book against the rules of WCAG 2.2, levels A and AA, as far as axe-core can tell."""

from importlib.resources import files

import pytest

pytestmark = pytest.mark.browser

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PAGES = ["index", "attention/attention", "attention/exercises", "lecture_map", "errata", "notation", "bibliography"]
PAGES += ["api_reference", "api/layers/attention"]
ACCEPTED: dict[str, str] = {}  # rule: why the theme's breach of it is borne with; none at present


@pytest.fixture(scope="module")
def axe():
    pytest.importorskip("axe_playwright_python", reason="no axe-core: pip install -r requirements.txt")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")


def breaches(page, axe):
    """One line for each element that breaks a rule."""
    page.evaluate(axe + "; 0")
    options = {"runOnly": RULES, "resultTypes": ["violations"]}
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{rule['id']} ({rule['help']}): {node['html'][:200]}"
        for rule in found
        if rule["id"] not in ACCEPTED
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_breaks_no_rule(site, visit, answers_shown, axe, name, scheme, width):
    page = visit(f"{site}/book/{name}.html", width=width, color_scheme=scheme, storage_state=answers_shown)
    page.evaluate("for (const fold of document.querySelectorAll('.bd-article details')) fold.open = true")
    page.evaluate("window.MathJax?.startup?.promise")  # wait for the formulas, and for the folds to open
    page.evaluate("Promise.all(document.getAnimations().map(motion => motion.finished))")
    assert breaches(page, axe) == []


def test_a_breach_is_seen(visit, axe, tmp_path):
    file = tmp_path / "bad.html"
    file.write_text('<!doctype html><html lang="en"><title>A</title><p style="color: #aaa">Pale</p><img src="x:">')
    assert {line.split()[0] for line in breaches(visit(file.as_uri()), axe)} == {"color-contrast", "image-alt"}
