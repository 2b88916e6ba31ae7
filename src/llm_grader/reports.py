"""Reports of a class: marks.csv, a feedback page for each student, and a summary for the instructor.

Names of students and files come from outside. The templates escape them and contain no script, no cell of the table can
become a formula, and invisible characters are made visible in both.
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
from llm_grader.records import GRADED, NEEDS_ATTENTION, NOT_GRADED, Mark, Question, Record

TEMPLATES = Path(__file__).parent / "templates"
MAX_MISTAKES = 10


@dataclass(frozen=True)
class RunInfo:
    """What the summary says about the run itself.

    Args:
        command: the command that was run; running it again regrades.
        key: version of the key.
        started: when the run began, with a time zone.
        seconds: how long it took.
        workers: number of submissions that were graded at once.
        sandbox: name of the sandbox.
        findings: name, whether it was blocked, and a detail of each attack that was tried on the sandbox.
        uncounted: a sentence for each question with hidden cases that earn nothing.
    """

    command: str
    key: str
    started: datetime
    seconds: float
    workers: int
    sandbox: str
    findings: list[tuple[str, bool, str]]
    uncounted: list[str] = field(default_factory=list)


def write(out: Path, title: str, questions: list[Question], records: list[Record], run: RunInfo) -> list[Path]:
    """Write all reports of a class. Each file is written whole or not at all, and the summary comes last.

    Args:
        out: the folder; it is created if it does not exist. Other files in it are left unchanged.
        title: title of the assignment.
        questions: questions of the key, in their order.
        records: one record for each student.
        run: facts about the run, for the summary.

    Returns:
        The paths of the files: ``marks.csv``, ``feedback/….html`` in the order of the records, ``summary.html``.

    Raises:
        Refusal: a file cannot be written.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "escape_invisible": escape_invisible,
        "points": _points,
        "percent": _percent,
        "words": _words,
        "result_class": _result_class,
    }
    pages = {record.student: f"feedback/{page_name(record.student)}" for record in records}
    possible = sum(question.points for question in questions)
    # Without a byte order mark, Excel reads the table in the 8-bit encoding of the machine.
    texts = {"marks.csv": "\ufeff" + marks_csv(questions, records)}
    feedback = environment.get_template("feedback.html")
    for record in records:
        answers = [(q, mark) for q in questions for mark in record.marks if mark.question == q.id]
        texts[pages[record.student]] = feedback.render(title=title, record=record, answers=answers, possible=possible)
    facts = _class_summary(questions, records) | {"title": title, "pages": pages, "run": run}
    texts["summary.html"] = environment.get_template("summary.html").render(facts)
    for name, text in texts.items():
        _write_file(out / name, text)
    return [out / name for name in texts]


def marks_csv(questions: list[Question], records: list[Record]) -> str:
    """Return the table of marks as CSV, one row for each student. Points are empty, not zero, if not graded."""
    table = io.StringIO()
    # Quoted text stays in one cell, even where spreadsheets separate cells by semicolons.
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


def escape_invisible(text: str) -> str:
    """Replace invisible characters, and those that change the direction of the text, by escape sequences."""
    # \u200c and \u200d join or separate letters in several scripts; names need no other character of category Cf
    return "".join(
        c
        if c in "\u200c\u200d" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        else c.encode("unicode_escape").decode()
        for c in text
    )


def page_name(student: str) -> str:
    """Return a unique file name for a student, of letters, digits and hyphens only."""
    letters = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", letters)[:40].strip("-")
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digest}.html".lstrip("-")


def _cell(text: str) -> str:
    """Return a text that no spreadsheet reads as a formula, even if it splits the text at commas or semicolons."""
    return "".join(f"'{part}" if _starts_formula(part) else part for part in re.split("([,;])", escape_invisible(text)))


def _starts_formula(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text)  # full-width and small forms become ordinary signs
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


def _result_class(mark: Mark) -> str:
    """Return "all", "part" or "none", for the share of the points that was earned up to rounding."""
    return "all" if mark.points > mark.possible - 1e-6 else "none" if mark.points < 1e-6 else "part"


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "backslashreplace"))  # a path may not be valid Unicode
    except OSError as e:
        raise Refusal(f"{path} cannot be written: {e.strerror}.") from e


# The class summary


def _class_summary(questions: list[Question], records: list[Record]) -> dict[str, Any]:
    graded = [record for record in records if record.status == GRADED]
    points = [record.points for record in graded]
    possible = sum(question.points for question in questions)
    known = Counter((mark.question, mark.mistake) for record in graded for mark in record.marks if mark.mistake)
    by_id = {question.id: question for question in questions}
    same_file = defaultdict(list)
    for record in graded:
        if record.points > 0:  # untouched notebooks are all the same
            same_file[record.digest].append(record)
    return {
        "records": records,
        "possible": possible,
        "counts": [
            (status, sum(r.status == status for r in records)) for status in (GRADED, NEEDS_ATTENTION, NOT_GRADED)
        ],
        "mean": statistics.fmean(points) if points else None,
        "median": statistics.median(points) if points else None,
        "histogram": histogram(points, possible) if points else None,
        "questions": [_question_statistics(question, graded) for question in questions],
        "mistakes": [(by_id[name], mistake, count) for (name, mistake), count in known.most_common() if name in by_id][
            :MAX_MISTAKES
        ],
        "identical": [group for group in same_file.values() if len(group) > 1],
    }


def _question_statistics(question: Question, graded: list[Record]) -> dict[str, Any]:
    found = [mark for record in graded for mark in record.marks if mark.question == question.id]
    return {
        "title": question.title,
        "possible": question.points,
        "mean": statistics.fmean(mark.points / mark.possible for mark in found) if found else None,
        "full": sum(_result_class(mark) == "all" for mark in found),
        "zero": sum(_result_class(mark) == "none" for mark in found),
        "absent": sum(mark.category in ("not attempted", "not found") for mark in found),
    }


def histogram(points: list[float], possible: float) -> dict[str, Any]:
    """Return the histogram of points. Bar i counts from i to i + 1 bar widths; the last bar counts full marks only.

    Args:
        points: points of each graded submission; at least one.
        possible: points for full marks, above 0.

    Returns:
        The alternative text, and bars and ticks with coordinates from 0 at the left and the bottom to 1.
    """
    width = next(w for w in _round_numbers(0.1) if possible / w <= 12)
    n_bars = math.ceil(possible / width) + 1
    starts = [i * width for i in range(n_bars - 1)] + [possible]
    counts = [0] * n_bars
    for earned in points:
        counts[n_bars - 1 if earned > possible - 1e-6 else int(round(earned / width, 6))] += 1
    step = int(next(s for s in _round_numbers(1) if max(counts) / s <= 4))
    top = step * math.ceil(max(counts) / step)
    most = max(range(n_bars), key=counts.__getitem__)
    where = f"from {_points(starts[most])} up to {_points(starts[most + 1])}" if most < n_bars - 1 else "at full marks"
    return {
        "alt": f"Points of {len(points)} graded submissions out of {_points(possible)} possible points. "
        f"The highest bar, with {counts[most]} submissions, is {where}; the lowest result is {_points(min(points))}, "
        f"the highest is {_points(max(points))}; {counts[-1]} submissions have full marks.",
        "bars": [
            {"start": _points(start), "count": count, "left": i / n_bars, "width": 1 / n_bars, "height": count / top}
            for i, (start, count) in enumerate(zip(starts, counts, strict=True))
        ],
        "ticks": [{"count": tick, "height": tick / top} for tick in range(0, top + 1, step)],
    }


def _round_numbers(smallest: float) -> Iterator[float]:
    """Yield 1, 2, 5, 10, 20, 50 … times the smallest number."""
    while True:
        yield from (smallest, 2 * smallest, 5 * smallest)
        smallest *= 10
