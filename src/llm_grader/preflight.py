"""Before a class is graded: the reference earns full marks through everything a submission goes through, and what knows
nothing earns nothing. A grader that fails here would fail a student, so it does not start."""

from llm_grader import Refusal
from llm_grader.marking import Agreement, agreements, informative_cases, mark
from llm_grader.records import Answer, PreparedQuestion, Submission
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.session import WorkerPool, run_submission


def preflight(
    prepared: list[PreparedQuestion], pool: WorkerPool, reference_worker: ReferenceWorker, seconds: float
) -> list[str]:
    """Refuse to go on unless references earn all, and stubs, constants, inputs, random values and NaN nothing.

    Returns:
        For each question with cases that an answer without knowledge gets right, and which earn nothing: a sentence.
    """
    uncounted = check_hidden_cases(prepared)
    _check_marks(prepared, pool, reference_worker, seconds, reference=True)
    _check_marks(prepared, pool, reference_worker, seconds, reference=False)
    return uncounted


def check_hidden_cases(prepared: list[PreparedQuestion]) -> list[str]:
    """The part of :func:`preflight` that runs nothing: whether these hidden cases tell right from wrong."""
    uncounted: list[str] = []
    for each in prepared:
        informative = informative_cases(each)
        if not any(informative):
            names = ", ".join(
                name for name, found in each.trivial.items() if any(a.values for a in agreements(found, each))
            )
            raise Refusal(
                f"{each.question.id}: every hidden case is answered right without knowledge ({names}); add a case."
            )
        if not all(informative):
            cases = ", ".join(str(i) for i, tell in enumerate(informative, 1) if not tell)
            uncounted.append(
                f"{each.question.id}: hidden case {cases} can be right without knowledge and earns nothing."
            )
        for name, found in each.mistakes.items():
            if set(agreements(found, each)) == {Agreement(True)} and not any(message["changed"] for message in found):
                raise Refusal(f"{each.question.id}: the known mistake {name} would earn full marks; add a hidden case.")
    return uncounted


def _check_marks(
    prepared: list[PreparedQuestion],
    pool: WorkerPool,
    reference_worker: ReferenceWorker,
    seconds: float,
    reference: bool,
) -> None:
    sources = [_isolated_cell(each) if reference else _stub_cell(each) for each in prepared]
    answers = {each.question.id: Answer(i, each.question.function, True) for i, each in enumerate(prepared)}
    for each, outcome in run_submission(Submission(sources, answers), prepared, pool, seconds):
        found = mark(reference_worker.observe(outcome, each), each)
        which = "the reference" if reference else "the untouched stub"
        if found.points != (each.question.points if reference else 0):
            raise Refusal(
                f"{each.question.id}: {which} earns {found.points:g} of {found.possible:g} points here "
                f"({found.feedback.rstrip('.')}), so nothing is graded."
            )


def _isolated_cell(each: PreparedQuestion) -> str:
    """A cell with a reference whose helpers do not meet those of another."""
    name, source = each.question.function, each.question.solution
    return f"_alone = {{}}\nexec({source!r}, _alone)\n{name} = _alone[{name!r}]\n"


def _stub_cell(each: PreparedQuestion) -> str:
    return f"def {each.question.function}({', '.join(each.question.arguments)}):\n    raise NotImplementedError\n"
