"""How long a chapter takes, measured: said at the head of its page."""

import re

from bookbinder.lecture_pages import count
from bookbinder.masters import chapter_header
from bookbinder.notebooks import Page
from bookbinder.syllabus import header

WORDS_PER_MINUTE = 200
CELLS_PER_MINUTE = 2
PREDICTION = re.compile(r"^(?:Prediction|Estimate)\(", re.MULTILINE)
NOT_READ = re.compile(
    r"\$\$.*?\$\$|\$[^$\n]+\$|^```.*?^```$|\{[\w:]+\}|<[^>]*>|\]\([^)]*\)|^:{3,}[^\n]*|^:[\w-]+:[^\n]*", re.S | re.M
)
HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}


def words(text: str) -> int:
    """The number of words in a Markdown text, formulas, code, directives and addresses left out."""
    return len(re.findall(r"[^\W\d_][\w’'-]*", NOT_READ.sub(" ", text)))


def note(page: Page) -> str:
    """For a chapter, Markdown that says how long it takes and what was counted; for any other page nothing."""
    if "chapter" not in header(page.text):
        return ""
    n_words = sum(words(cell.source) for cell in page.cells if cell.cell_type == "markdown")
    n_cells = sum(not HIDDEN & set(cell.metadata.get("tags", [])) for cell in page.code)
    n_predictions = sum(len(PREDICTION.findall(cell.source)) for cell in page.code)
    minutes = round(n_words / WORDS_PER_MINUTE + n_cells / CELLS_PER_MINUTE)
    said = [
        f"**{count(minutes, 'minute')} to read**: {count(n_words, 'word')} at {WORDS_PER_MINUTE} a minute, and "
        f"{count(n_cells, 'cell')} of code at {CELLS_PER_MINUTE} a minute."
    ]
    if n_predictions:
        said.append(f"**{count(n_predictions, 'prediction')}** to make on the way, not counted.")
    masters = page.book.root / "exercises" / page.text.parent.name
    if (masters / "chapter.yml").exists():
        n_minutes = sum(header(masters / name / "exercise.md")["minutes"] for name in chapter_header(masters)["core"])
        said.append(f"The core of the [exercises](exercises) takes **{count(n_minutes, 'minute')} more**.")
    return ":::{div} la-reading\n" + " ".join(said) + "\n:::\n"
