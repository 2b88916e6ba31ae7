"""The checks before a class is graded.

The reference takes the same way as every submission and must earn full marks; answers without knowledge must earn
nothing. If one of these checks fails, students could be graded wrongly, so the grader does not start.
"""

from dataclasses import replace

from groundwork import Refusal
from llm_grader import hidden_cases
from llm_grader.context import GradingContext
from llm_grader.marking import informative_cases
from llm_grader.records import Answer, Mark, PreparedQuestion, Submission


def preflight(context: GradingContext) -> list[str]:
    """Check that references earn full marks, and that stubs, constants, inputs, random values and NaN earn nothing.

    The references are run as a student's notebook would run them: one cell after another, in one namespace.

    Returns:
        A sentence for each question with hidden cases that an answer without knowledge gets right. These cases earn
        nothing.

    Raises:
        Refusal: one of the checks fails.
    """
    uncounted = check_hidden_cases(context.prepared)
    _check_marks(context)
    return uncounted


def check_hidden_cases(prepared: list[PreparedQuestion]) -> list[str]:
    """Check that hidden cases tell right answers from wrong ones. This part of :func:`preflight` runs no code."""
    uncounted: list[str] = []
    for each in prepared:
        if fault := hidden_cases.fault(each):
            raise Refusal(fault)
        if not all(informative := informative_cases(each)):
            cases = ", ".join(str(i) for i, tell in enumerate(informative, 1) if not tell)
            uncounted.append(
                f"{each.question.id}: hidden case {cases} earns nothing: an answer that knows nothing gets it right."
            )
    return uncounted


def _check_marks(context: GradingContext) -> None:
    """Check that references earn all points and stubs none.

    All are in one notebook, with a cell for each. The stubs come first, and the references then replace them, since one
    reference may call another.
    """
    stubs = [replace(each, question=replace(each.question, id=f"{each.question.id} stub")) for each in context.prepared]
    prepared = [*stubs, *context.prepared]
    cells = [*map(_stub_cell, stubs), *(each.question.solution for each in context.prepared)]
    answers = {each.question.id: Answer(i, each.question.function, True) for i, each in enumerate(prepared)}
    marks: dict[str, Mark] = {}
    twice = replace(context, prepared=prepared, seconds=2 * context.seconds)  # for twice as many questions
    twice.complete(Submission(cells, answers), marks)
    for each, stub in zip(context.prepared, stubs, strict=True):
        for who, asked, is_right in (("the reference", each, True), ("the untouched stub", stub, False)):
            result = marks[asked.question.id]
            if result.points != (result.possible if is_right else 0):
                raise Refusal(
                    f"{each.question.id}: {who} earns {result.points:g} of {result.possible:g} points "
                    f"({result.feedback.rstrip('.')}), so nothing is graded."
                )


def _stub_cell(each: PreparedQuestion) -> str:
    return f"def {each.question.function}({', '.join(each.question.arguments)}):\n    raise NotImplementedError\n"
