"""Tables for people and learning platforms, as CSV: marks, statistics, the audit trail, marks for Canvas and Moodle.

Names of students and files come from outside: no cell of a table can become a formula, and invisible characters are
made visible.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from llm_grader.class_statistics import QuestionStatistics
from llm_grader.journal import Entry, key_version
from llm_grader.records import GRADED, Question, SubmissionResult
from llm_grader.students import Student

Row = list[str | int | float]


def marks_csv(questions: list[Question], records: list[SubmissionResult], students: Mapping[str, Student]) -> str:
    """Return the table of marks, one row for each student. Points are empty, not zero, if not graded."""
    names = [question.id for question in questions]
    possible = number(sum(question.points for question in questions))
    rows: list[Row] = [["student", "name", "id", "status", "points", "possible", *names, "file", "reason", "notes"]]
    for record in records:
        student = students[record.student]
        marks = record.marks if record.status == GRADED else []
        points = {mark.question: number(mark.points) for mark in marks}
        rows.append(
            [record.student, student.name, student.id or student.number, record.status]
            + [number(record.points) if record.status == GRADED else "", possible]
            + [points.get(name, "") for name in names]
            + [record.file, record.reason, " ".join(record.notes)]
        )
    return _text(rows)


def statistics_csv(found: Iterable[QuestionStatistics]) -> str:
    """Return how many students made what of each question: results, errors and known mistakes, one row for each."""
    rows: list[Row] = [["question", "title", "kind", "name", "students", "share", "sentence"]]
    for each in found:
        about, total = [each.question.id, each.question.title], each.graded

        def row(kind: str, name: str, count: int, sentence: str = "", about=about, total=total) -> Row:
            return [*about, kind, name, count, number(count / total) if total else "", sentence]

        rows.append([*about, "mean", "share of the points", "", "" if each.mean is None else number(each.mean), ""])
        rows += [row("result", name, count) for name, count in _results(each).items()]
        rows += [row("error", name, count) for name, count in each.errors.items()]
        sentences = each.question.sentences
        rows += [row("known mistake", name, n, sentences.get(name, "")) for name, n in each.mistakes.items()]
    return _text(rows)


def _results(each: QuestionStatistics) -> dict[str, int]:
    return {"all points": each.full, "some points": each.part, "no points": each.none, "no answer": each.absent}


def audit_csv(history: Iterable[Entry], questions: list[Question], kept: Collection[str]) -> str:
    """Return the audit trail: who was graded when, on which file, with which versions, and what the points were then.

    Args:
        history: all rows of the journal.
        questions: questions of the key, whose columns come first.
        kept: hashes of the files in the folder attempts.
    """
    history = list(history)
    asked = [question.id for question in questions]
    asked += sorted({mark.question for entry in history for mark in entry.record.marks}.difference(asked))
    header = ["row", "time", "student", "status", "points", "possible", *asked]
    rows: list[Row] = [[*header, "file", "sha256", "kept as", "key", "grader", "reason"]]
    for entry in history:
        record = entry.record
        marks, graded = {mark.question: mark for mark in record.marks}, record.status == GRADED
        rows.append(
            [entry.number, entry.time, record.student, record.status]
            + ([number(record.points), number(sum(m.possible for m in record.marks))] if graded else ["", ""])
            + [number(marks[name].points) if name in marks else "" for name in asked]
            + [record.file, record.digest, f"attempts/{record.digest}.ipynb" if record.digest in kept else ""]
            + [key_version(entry.versions), " ".join(sorted({m.grader for m in record.marks})), record.reason]
        )
    return _text(rows)


# Learning platforms


def canvas_csv(
    title: str, questions: list[Question], records: list[SubmissionResult], students: Mapping[str, Student]
) -> str:
    """Return the marks for Canvas's import of a gradebook, one row for each student. Points are empty if not graded.

    Canvas finds a student by its ID, which it wrote into the name of the file, then by SIS user ID, login and name; it
    finds the assignment by its name, and offers to make one if there is none.
    """
    possible = number(sum(question.points for question in questions))
    rows: list[Row] = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]]
    rows.append(["    Points Possible", "", "", "", "", possible])
    for record in records:
        student = students[record.student]
        canvas_id = student.number if student.platform == "Canvas" else ""  # other platforms have other numbers
        names_login = student.platform not in ("Canvas", "Moodle") and not student.id
        login = student.login or (record.student if names_login else "")
        points = number(record.points) if record.status == GRADED else ""
        rows.append([student.name, canvas_id, student.id, login, "", points])
    return _text(rows)


def moodle_csv(
    questions: list[Question], records: list[SubmissionResult], students: Mapping[str, Student], time: datetime
) -> str:
    """Return the marks for Moodle, as a grading worksheet, which Moodle's import of grades reads as well.

    Students without points have no row: Moodle's import reads an empty cell of a new column as zero, and the upload of
    a worksheet reads a hyphen as zero. Neither has what lies in Moodle's download under another name. The identifier is
    the ID from the instructor's list; without a list, it is the number of the participant that Moodle wrote into the
    name of the folder.
    """
    possible = number(sum(question.points for question in questions))
    rows: list[Row] = [["Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)"]]
    for record in records:
        if record.status == GRADED:
            student = students[record.student]
            if student.platform == "Moodle" and not (student.number or student.id):
                continue
            participant = f"Participant {student.number}" if student.platform == "Moodle" else record.student
            when = time.isoformat(" ", "seconds")
            rows.append([student.id or participant, student.name, number(record.points), possible, when])
    return _text(rows)


# Cells


def escape_invisible(text: str) -> str:
    """Replace invisible characters, and those that change the direction of the text, by escape sequences."""
    # \u200c and \u200d join or separate letters in several scripts; names need no other character of category Cf
    return "".join(
        c
        if c in "\u200c\u200d" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        else c.encode("unicode_escape").decode()
        for c in text
    )


def number(points: float) -> int | float:
    """Return a number with at most four decimals, as an integer if it is one."""
    rounded = round(points, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def _text(rows: Iterable[Row]) -> str:
    """Return rows as CSV. Quoted text stays in one cell, even where spreadsheets separate cells by semicolons."""
    table = io.StringIO()
    writer = csv.writer(table, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([_cell(value) if isinstance(value, str) else value for value in row] for row in rows)
    return table.getvalue()


def _cell(text: str) -> str:
    """Return a text that no spreadsheet reads as a formula, even if it splits the text at commas or semicolons."""
    return "".join(f"'{part}" if _starts_formula(part) else part for part in re.split("([,;])", escape_invisible(text)))


def _starts_formula(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text)  # full-width and small forms become ordinary signs
    first = next((c for c in plain if unicodedata.category(c)[0] not in "ZC"), " ")
    return first in "=+-@\u2212"
