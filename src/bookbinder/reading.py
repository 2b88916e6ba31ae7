"""How long a chapter is: said at the head of its page, and held to what a reader can take in."""

import re

from bookbinder.lecture_pages import count
from bookbinder.masters import chapter_header
from bookbinder.notebooks import Page
from bookbinder.syllabus import header

WORDS_PER_MINUTE = 200
CELLS_PER_MINUTE = 2
PREDICTION = re.compile(r"^(?:nb\.)?(?:Prediction|Estimate)\(", re.MULTILINE)
NOT_READ = re.compile(
    r"\$\$.*?\$\$|\$[^$\n]+\$|^```.*?^```$|\{[\w:]+\}|<[^>]*>|\]\([^)]*\)|^:{3,}[^\n]*|^:[\w-]+:[^\n]*", re.S | re.M
)
LIMITS = {"words": 3500, "code cells": 55, "minutes of core exercises": 90}
"""What a finished chapter may have at most."""
HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}


def words(text: str) -> int:
    """The number of words in a Markdown text, formulas, code, directives and addresses left out."""
    return len(re.findall(r"[^\W\d_][\w’'-]*", NOT_READ.sub(" ", text)))


def _n_words(page: Page) -> int:
    return sum(words(cell.source) for cell in page.cells if cell.cell_type == "markdown")


def _core_minutes(page: Page) -> int | None:
    """The time that the core exercises of the chapter take; None where there are none."""
    masters = page.book.root / "exercises" / page.text.parent.name
    if not (masters / "chapter.yml").exists():
        return None
    return sum(header(masters / name / "exercise.md")["minutes"] for name in chapter_header(masters)["core"])


def note(page: Page) -> str:
    """For a chapter, Markdown that says how long it takes and what was counted; for any other page nothing."""
    if "chapter" not in header(page.text):
        return ""
    n_words, core_minutes = _n_words(page), _core_minutes(page)
    n_cells = sum(not HIDDEN & set(cell.metadata.get("tags", [])) for cell in page.code)
    n_predictions = sum(len(PREDICTION.findall(cell.source)) for cell in page.code)
    minutes = round(n_words / WORDS_PER_MINUTE + n_cells / CELLS_PER_MINUTE)
    said = [
        f"**{count(minutes, 'minute')} to read**: {count(n_words, 'word')} at {WORDS_PER_MINUTE} words a minute and "
        f"{count(n_cells, 'code cell')} at {CELLS_PER_MINUTE} cells a minute."
    ]
    if n_predictions:
        said.append(f"The time for the **{count(n_predictions, 'prediction')}** on the way is not included.")
    if core_minutes is not None:
        said.append(f"The core [exercises](exercises) take **{count(core_minutes, 'minute')} more**.")
    return ":::{div} la-reading\n" + " ".join(said) + "\n:::\n"


def problems(page: Page) -> list[str]:
    """One sentence for each way in which a finished chapter is too long; for any other page nothing."""
    if header(page.text).get("status") != "finished":
        return []
    sizes = _n_words(page), len(page.code), _core_minutes(page) or 0
    return [
        f"{page.name}: the chapter has {size} {thing}; at most {most} are allowed"
        for (thing, most), size in zip(LIMITS.items(), sizes, strict=True)
        if size > most
    ]
