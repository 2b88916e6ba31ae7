"""What a class did with each question: how many earned what, which errors they made, and which known mistakes."""

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from llm_grader.records import GRADED, Mark, Question, SubmissionResult

ABSENT = ("not attempted", "not found")


@dataclass(frozen=True)
class QuestionStatistics:
    """The marks of one question in all graded submissions.

    Args:
        question: the question.
        graded: number of its marks.
        mean: mean share of the points that was earned, from 0 to 1, or None without marks.
        full, part, none, absent: number of marks with all points, with some, with none although there was an answer,
            and without an answer.
        errors: category → number of answers that did not earn all points, the most frequent first.
        mistakes: known mistake → number of answers in which it was recognised, the most frequent first.
    """

    question: Question
    graded: int
    mean: float | None
    full: int
    part: int
    none: int
    absent: int
    errors: dict[str, int]
    mistakes: dict[str, int]


def of_class(questions: Iterable[Question], records: Iterable[SubmissionResult]) -> list[QuestionStatistics]:
    """Return the statistics of each question, in their order."""
    graded = [record for record in records if record.status == GRADED]
    return [_question_statistics(question, graded) for question in questions]


def result(mark: Mark) -> str:
    """Return "all", "part" or "none", for the share of the points that was earned up to rounding."""
    return "all" if mark.points > mark.possible - 1e-6 else "none" if mark.points < 1e-6 else "part"


def _question_statistics(question: Question, graded: list[SubmissionResult]) -> QuestionStatistics:
    marks = [mark for record in graded for mark in record.marks if mark.question == question.id]
    answered = [mark for mark in marks if mark.category not in ABSENT]
    results = Counter(result(mark) for mark in answered)
    errors = Counter(mark.category for mark in answered if result(mark) != "all")
    mistakes = Counter(mark.mistake for mark in answered if mark.mistake)
    return QuestionStatistics(
        question,
        len(marks),
        statistics.fmean(mark.points / mark.possible for mark in marks) if marks else None,
        results["all"],
        results["part"],
        results["none"],
        len(marks) - len(answered),
        dict(errors.most_common()),
        dict(mistakes.most_common()),
    )
