"""What people read of a class run: marks.csv, a feedback page for each student, and a summary for the instructor.

Names of students and of their files come from outside. In pages they are escaped by the templates, which know no
script; in the table no cell can become a formula; and what cannot be seen in them is made visible in both.
"""

import csv
import hashlib
import io
import math
import re
import statistics
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from groundwork import Refusal, write_whole
from llm_grader.records import ATTENTION, GRADED, NOT_GRADED, Mark, Question, Record

TEMPLATES = Path(__file__).parent / "templates"
MOST_MISTAKES = 10


@dataclass(frozen=True)
class RunFacts:
    """What a report says of the run itself.

    Args:
        command: what was run; running it again regrades.
        key: version of the key.
        started: when, with a time zone.
        seconds: how long it took.
        workers: how many ran side by side.
        sandbox: name of the sandbox.
        findings: for each attack that was tried on the sandbox: its name, whether the sandbox held, and a detail.
        uncounted: hidden cases that count for nothing, and why, a sentence each.
    """

    command: str
    key: str
    started: datetime
    seconds: float
    workers: int
    sandbox: str
    findings: list[tuple[str, bool, str]]
    uncounted: list[str] = field(default_factory=list)


def write(out: Path, title: str, questions: list[Question], records: list[Record], run: RunFacts) -> list[Path]:
    """Writes all reports of a class, each file whole or not at all, the summary last.

    Args:
        out: the folder; made where there is none. Other files in it are left alone.
        title: of the assignment.
        questions: those of the key, in their order.
        records: one for each student.

    Returns:
        The files: ``marks.csv``, ``feedback/….html`` in the order of the records, ``summary.html``.

    Raises:
        Refusal: a file cannot be written.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"seen": seen, "points": _points, "percent": _percent, "words": _words, "earned": _earned}
    pages = {record.student: f"feedback/{page_name(record.student)}" for record in records}
    possible = sum(question.points for question in questions)
    # Excel takes a table for one in the machine's own 8-bit code unless it begins with a byte order mark.
    texts = {"marks.csv": "\ufeff" + marks(questions, records)}
    feedback = environment.get_template("feedback.html")
    for record in records:
        answers = [(q, mark) for q in questions for mark in record.marks if mark.question == q.id]
        texts[pages[record.student]] = feedback.render(title=title, record=record, answers=answers, possible=possible)
    facts = _summary(questions, records) | {"title": title, "pages": pages, "run": run}
    texts["summary.html"] = environment.get_template("summary.html").render(facts)
    for name, text in texts.items():
        _write(out / name, text)
    return [out / name for name in texts]


def marks(questions: list[Question], records: list[Record]) -> str:
    """The table of marks as CSV, a row for each student. Points of what is not graded are empty, which is no zero."""
    table = io.StringIO()
    # Quoted text stays one cell also where the reader's machine separates by semicolons.
    rows = csv.writer(table, quoting=csv.QUOTE_NONNUMERIC)
    names = [question.id for question in questions]
    possible = _number(sum(question.points for question in questions))
    rows.writerow(map(_cell, ["student", "status", "points", "possible", *names, "file", "reason", "notes"]))
    for record in records:
        points = {mark.question: _number(mark.points) for mark in record.marks}
        rows.writerow(
            [_cell(record.student), record.status]
            + [_number(record.points) if record.status == GRADED else "", possible]
            + [points.get(name, "") for name in names]
            + [_cell(record.file), _cell(record.reason), _cell(" ".join(record.notes))]
        )
    return table.getvalue()


def seen(text: str) -> str:
    """A text with whatever cannot be seen in it, or turns the direction of what follows, written as an escape."""
    # \u200c and \u200d join or part letters in several scripts; nothing else of category Cf is needed in a name
    return "".join(
        c
        if c in "\u200c\u200d" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        else c.encode("unicode_escape").decode()
        for c in text
    )


def page_name(student: str) -> str:
    """A file name of letters, digits and hyphens alone, another one for each student."""
    letters = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", letters)[:40].strip("-")
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digest}.html".lstrip("-")


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula, also where it splits the row at commas or semicolons within."""
    return "".join(f"'{part}" if _opens_formula(part) else part for part in re.split("([,;])", seen(text)))


def _opens_formula(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text)  # full-width and small forms become the plain sign
    first = next((c for c in plain if unicodedata.category(c)[0] not in "ZC"), " ")
    return first in "=+-@\u2212"


def _number(points: float) -> int | float:
    rounded = round(points, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def _points(points: float) -> str:
    return f"{points:.2f}".rstrip("0").rstrip(".")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _earned(mark: Mark) -> str:
    """ "all", "none" or "part" of the question's points, however its shares were rounded."""
    return "all" if mark.points > mark.possible - 1e-6 else "none" if mark.points < 1e-6 else "part"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "backslashreplace"))  # a path on a command line may be no Unicode
    except OSError as e:
        raise Refusal(f"{path} cannot be written: {e.strerror}") from e


# The class summary


def _summary(questions: list[Question], records: list[Record]) -> dict[str, Any]:
    graded = [record for record in records if record.status == GRADED]
    points = [record.points for record in graded]
    possible = sum(question.points for question in questions)
    known = Counter((mark.question, mark.mistake) for record in graded for mark in record.marks if mark.mistake)
    by_id = {question.id: question for question in questions}
    alike = defaultdict(list)
    for record in graded:
        if record.points > 0:  # untouched notebooks are all alike
            alike[record.digest].append(record)
    return {
        "records": records,
        "possible": possible,
        "counts": [(status, sum(r.status == status for r in records)) for status in (GRADED, ATTENTION, NOT_GRADED)],
        "mean": statistics.fmean(points) if points else None,
        "median": statistics.median(points) if points else None,
        "histogram": histogram(points, possible) if points else None,
        "questions": [_of_question(question, graded) for question in questions],
        "mistakes": [(by_id[name], mistake, count) for (name, mistake), count in known.most_common() if name in by_id][
            :MOST_MISTAKES
        ],
        "identical": [group for group in alike.values() if len(group) > 1],
    }


def _of_question(question: Question, graded: list[Record]) -> dict[str, Any]:
    found = [mark for record in graded for mark in record.marks if mark.question == question.id]
    return {
        "title": question.title,
        "possible": question.points,
        "mean": statistics.fmean(mark.points / mark.possible for mark in found) if found else None,
        "full": sum(_earned(mark) == "all" for mark in found),
        "zero": sum(_earned(mark) == "none" for mark in found),
        "absent": sum(mark.category in ("not attempted", "not found") for mark in found),
    }


def histogram(points: list[float], possible: float) -> dict[str, Any]:
    """Bars of points, drawn: bar i counts from i widths up to the next; the last one holds full marks alone.

    Args:
        points: one of each graded submission; at least one.
        possible: what full marks are; above 0.

    Returns:
        Texts, and bars and ticks with their places in the drawing, from 0 at the left and the bottom to 1.
    """
    width = next(w for w in _round_numbers(0.1) if possible / w <= 12)
    n_bars = math.ceil(possible / width) + 1
    starts = [i * width for i in range(n_bars - 1)] + [possible]
    counts = [0] * n_bars
    for earned in points:
        counts[n_bars - 1 if earned > possible - 1e-6 else int(round(earned / width, 6))] += 1
    step = next(s for s in _round_numbers(1) if max(counts) / s <= 4)
    top = step * math.ceil(max(counts) / step)
    most = max(range(n_bars), key=counts.__getitem__)
    where = f"from {_points(starts[most])} up to {_points(starts[most + 1])}" if most < n_bars - 1 else "at full marks"
    return {
        "alt": f"Points of {len(points)} graded submissions, of {_points(possible)} possible. "
        f"The highest bar, with {counts[most]}, is {where}; the lowest submission has {_points(min(points))}, "
        f"the highest {_points(max(points))}; {counts[-1]} have full marks.",
        "bars": [
            {"start": _points(start), "count": count, "left": i / n_bars, "width": 1 / n_bars, "height": count / top}
            for i, (start, count) in enumerate(zip(starts, counts, strict=True))
        ],
        "ticks": [{"count": tick, "height": tick / top} for tick in range(0, top + 1, step)],
    }


def _round_numbers(smallest: float) -> Iterator[float]:
    """1, 2, 5, 10, 20, 50 … times the smallest."""
    while True:
        yield from (smallest, 2 * smallest, 5 * smallest)
        smallest *= 10
