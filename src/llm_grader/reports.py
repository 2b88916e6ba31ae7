"""Reports of a class: tables, a feedback page for each student, and a summary for the instructor.

Names of students and files come from outside. The templates escape them and contain no script, and invisible characters
are made visible. The tables are those of :mod:`llm_grader.tables`.
"""

import hashlib
import math
import re
import statistics
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from groundwork import Refusal, write_whole
from llm_grader import attempts, class_statistics, tables
from llm_grader.journal import Entry
from llm_grader.records import GRADED, NEEDS_ATTENTION, NOT_GRADED, Mark, Question, SubmissionResult
from llm_grader.students import Student

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class RunInfo:
    """What the summary says about the run itself.

    Args:
        command: the command that was run; running it again regrades.
        key: version of the key.
        grader: version of the grader.
        started: when the run began, with a time zone.
        seconds: how long it took.
        workers: number of submissions that were graded at once.
        sandbox: name of the sandbox.
        findings: name, whether it was blocked, and a detail of each attack that was tried on the sandbox.
        layout: a sentence that says how the folder of submissions was read.
        uncounted: a sentence for each question with hidden cases that earn nothing.
        absent: folders of the list of students that are not among the submissions.
    """

    command: str
    key: str
    grader: str
    started: datetime
    seconds: float
    workers: int
    sandbox: str
    findings: list[tuple[str, bool, str]]
    layout: str = ""
    uncounted: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def write(
    out: Path,
    title: str,
    questions: list[Question],
    records: list[SubmissionResult],
    run: RunInfo,
    students: Mapping[str, Student],
    history: list[Entry],
) -> list[Path]:
    """Write all reports of a class. Each file is written whole or not at all, and the summary comes last.

    Args:
        out: the folder; it is created if it does not exist. Other files in it are left unchanged.
        title: title of the assignment.
        questions: questions of the key, in their order.
        records: one record for each student.
        run: facts about the run, for the summary.
        students: who the students of the records are.
        history: all rows of the journal, for the audit trail.

    Returns:
        The paths of the files: the tables, ``feedback/….html`` in the order of the records, ``summary.html``.

    Raises:
        Refusal: a file cannot be written.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "escape_invisible": tables.escape_invisible,
        "points": _points,
        "percent": _percent,
        "words": _words,
        "result_class": class_statistics.result,
        "scores": _scores,
    }
    names = {record.student: students[record.student].name for record in records}
    pages = {record.student: f"feedback/{page_name(record.student)}" for record in records}
    facts = _class_summary(questions, records, run)
    # Without a byte order mark, Excel reads a table in the 8-bit encoding of the machine; Canvas does not expect one.
    texts = {
        "marks.csv": "\ufeff" + tables.marks_csv(questions, records, students),
        "statistics.csv": "\ufeff" + tables.statistics_csv(facts["questions"]),
        "audit.csv": "\ufeff" + tables.audit_csv(history, questions, attempts.kept(out)),
        "canvas.csv": tables.canvas_csv(title, questions, records, students),
        "moodle.csv": tables.moodle_csv(questions, records, students, run.started),
    }
    feedback = environment.get_template("feedback.html")
    for record in records:
        marks = record.marks if record.status == GRADED else []
        answers = [(q, mark) for q in questions for mark in marks if mark.question == q.id]
        texts[pages[record.student]] = feedback.render(
            title=title, record=record, name=names[record.student], answers=answers, possible=facts["possible"]
        )
    facts |= {"title": title, "pages": pages, "names": names, "run": run}
    texts["summary.html"] = environment.get_template("summary.html").render(facts)
    for name, text in texts.items():
        _write_file(out / name, text)
    return [out / name for name in texts]


def page_name(student: str) -> str:
    """Return a unique file name for a student, of letters, digits and hyphens only."""
    letters = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", letters)[:40].strip("-")
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digest}.html".lstrip("-")


def _points(points: float) -> str:
    return f"{points:.2f}".rstrip("0").rstrip(".")


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _scores(mark: Mark) -> str:
    """Return a sentence with the score of each criterion. Those that wait for the values are withheld, not zero."""
    if mark.criteria.get("values", 1.0) == 1:
        scores = [f"{_words(name)} {_percent(share)}" for name, share in mark.criteria.items()]
        return f"Score of each criterion: {', '.join(scores)}."
    others = [_words(name) for name in mark.criteria if name != "values"]
    withheld = f"; withheld until all values are right: {', '.join(others)}" if others else ""
    return f"Score of each criterion: values {_percent(mark.criteria['values'])}{withheld}."


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "backslashreplace"))  # a path may not be valid Unicode
    except OSError as e:
        raise Refusal(f"{path} cannot be written: {e.strerror}.") from e


# The class summary


def _class_summary(questions: list[Question], records: list[SubmissionResult], run: RunInfo) -> dict[str, Any]:
    graded = [record for record in records if record.status == GRADED]
    points = [record.points for record in graded]
    possible = sum(question.points for question in questions)
    found = class_statistics.of_class(questions, records)
    known = [(each, mistake, count) for each in found for mistake, count in each.mistakes.items()]
    earlier = [mark.grader for record in graded for mark in record.marks if mark.grader not in ("", run.grader)]
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
        "questions": found,
        "mistakes": sorted(known, key=lambda each: -each[2]),
        "earlier": earlier,
        "identical": [group for group in same_file.values() if len(group) > 1],
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
        f"The highest bar counts {counts[most]} and is {where}; the lowest result is {_points(min(points))}, "
        f"the highest is {_points(max(points))}; {counts[-1]} earned full marks.",
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
