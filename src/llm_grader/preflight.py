"""Before a class is graded: the reference earns full marks through everything a submission goes through, and what knows
nothing earns nothing. A grader that fails here would fail a student, so it does not start."""

from groundwork import Refusal
from llm_grader.examiner import Examiner
from llm_grader.marking import Agreement, agreements, mark, telling
from llm_grader.records import Answer, Prepared, Submission
from llm_grader.session import Pool, run


def preflight(prepared: list[Prepared], pool: Pool, examiner: Examiner, seconds: float) -> list[str]:
    """Refuse to go on unless references earn all, and stubs, constants, inputs, random values and NaN nothing.

    Returns:
        For each question with cases that an answer without knowledge gets right, and which earn nothing: a sentence.
    """
    silent = cases_tell(prepared)
    _submit(prepared, pool, examiner, seconds, reference=True)
    _submit(prepared, pool, examiner, seconds, reference=False)
    return silent


def cases_tell(prepared: list[Prepared]) -> list[str]:
    """The part of :func:`preflight` that runs nothing: whether these hidden cases tell right from wrong."""
    silent: list[str] = []
    for each in prepared:
        tells = telling(each)
        if not any(tells):
            names = ", ".join(
                name for name, found in each.trivial.items() if any(a.values for a in agreements(found, each))
            )
            raise Refusal(
                f"{each.question.id}: every hidden case is answered right without knowledge ({names}); add a case."
            )
        if not all(tells):
            cases = ", ".join(str(i) for i, tell in enumerate(tells, 1) if not tell)
            silent.append(f"{each.question.id}: hidden case {cases} can be right without knowledge and earns nothing.")
        for name, found in each.mistakes.items():
            if set(agreements(found, each)) == {Agreement(True)} and not any(message["changed"] for message in found):
                raise Refusal(f"{each.question.id}: the known mistake {name} would earn full marks; add a hidden case.")
    return silent


def _submit(prepared: list[Prepared], pool: Pool, examiner: Examiner, seconds: float, reference: bool) -> None:
    sources = [_alone(each) if reference else _stub(each) for each in prepared]
    answers = {each.question.id: Answer(i, each.question.function, True) for i, each in enumerate(prepared)}
    for each, outcome in run(Submission(sources, answers), prepared, pool, seconds):
        found = mark(examiner.observe(outcome, each), each)
        what = "the reference" if reference else "the untouched stub"
        if found.points != (each.question.points if reference else 0):
            raise Refusal(
                f"{each.question.id}: {what} earns {found.points:g} of {found.possible:g} points here "
                f"({found.feedback.rstrip('.')}), so nothing is graded."
            )


def _alone(each: Prepared) -> str:
    """A cell with a reference whose helpers do not meet those of another."""
    name, source = each.question.function, each.question.solution
    return f"_alone = {{}}\nexec({source!r}, _alone)\n{name} = _alone[{name!r}]\n"


def _stub(each: Prepared) -> str:
    return f"def {each.question.function}({', '.join(each.question.arguments)}):\n    raise NotImplementedError\n"
