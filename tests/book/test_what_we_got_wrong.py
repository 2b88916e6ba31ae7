"""The page *What we got wrong*: each entry says what is right and why, and no old claim comes back."""

import re

import pytest

from bookbinder import ROOT

PAGE = (ROOT / "book" / "what_we_got_wrong.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^> “(.+?)”$\n\n(.+?)(?=\n\n[>#]|\Z)", PAGE, re.MULTILINE | re.DOTALL)


def flat(text):
    return " ".join(text.replace("\n> ", " ").split())


CLAIMS = [flat(claim) for claim, _ in ENTRIES]


@pytest.fixture(scope="module")
def written():
    """Each text that may make a claim, on one line: pages, exercises, and the package with its widgets."""
    texts = ["book/**/*.md", "exercises/**/*.md", "exercises/**/*.py", "src/llm_anatomy/**/*.py", "*.md"]
    paths = [path for pattern in texts for path in ROOT.glob(pattern) if path.name != "what_we_got_wrong.md"]
    return {path: flat(path.read_text(encoding="utf-8")) for path in paths if "book/api" not in path.as_posix()}


def test_each_entry_says_what_is_right_and_why():
    assert len(ENTRIES) == PAGE.count("\n> “") == len(set(CLAIMS)) > 30
    for claim, correction in ENTRIES:
        right, why = correction.split("**Why:**")
        assert len(right.split()) > 4 and len(why.split()) > 3, claim


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim[:40])
def test_an_old_claim_does_not_come_back(claim, written):
    assert [path.name for path, text in written.items() if claim in text] == []
