"""The checks before a class is graded.

The reference takes the same way as every submission and must earn full marks; answers without knowledge must earn
nothing. If one of these checks fails, students could be graded wrongly, so the grader does not start.
"""

from groundwork import Refusal
from llm_grader.marking import Agreement, agreements, informative_cases, mark
from llm_grader.records import Answer, PreparedQuestion, Submission
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.session import WorkerPool, run_submission


def preflight(
    prepared: list[PreparedQuestion], pool: WorkerPool, reference_worker: ReferenceWorker, seconds: float
) -> list[str]:
    """Check that references earn full marks, and that stubs, constants, inputs, random values and NaN earn nothing.

    Returns:
        A sentence for each question with hidden cases that an answer without knowledge gets right. These cases earn
        nothing.

    Raises:
        Refusal: one of the checks fails.
    """
    uncounted = check_hidden_cases(prepared)
    _check_marks(prepared, pool, reference_worker, seconds, reference=True)
    _check_marks(prepared, pool, reference_worker, seconds, reference=False)
    return uncounted


def check_hidden_cases(prepared: list[PreparedQuestion]) -> list[str]:
    """Check that hidden cases tell right answers from wrong ones. This part of :func:`preflight` runs no code."""
    uncounted: list[str] = []
    for each in prepared:
        informative = informative_cases(each)
        if not any(informative):
            names = ", ".join(
                name for name, found in each.trivial.items() if any(a.values for a in agreements(found, each))
            )
            raise Refusal(
                f"{each.question.id}: answers that know nothing ({names}) get every hidden case right; add other cases."
            )
        if not all(informative):
            cases = ", ".join(str(i) for i, tell in enumerate(informative, 1) if not tell)
            uncounted.append(
                f"{each.question.id}: hidden case {cases} earns nothing: an answer that knows nothing gets it right."
            )
        for name, found in each.mistakes.items():
            if set(agreements(found, each)) == {Agreement(True)} and not any(message["changed"] for message in found):
                raise Refusal(f"{each.question.id}: the known mistake {name} would earn full marks; add other cases.")
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
        result = mark(reference_worker.observe(outcome, each), each)
        which = "the reference" if reference else "the untouched stub"
        if result.points != (each.question.points if reference else 0):
            raise Refusal(
                f"{each.question.id}: {which} earns {result.points:g} of {result.possible:g} points "
                f"({result.feedback.rstrip('.')}), so nothing is graded."
            )


def _isolated_cell(each: PreparedQuestion) -> str:
    """Return a cell with the reference in a namespace of its own, so that helpers of two references do not collide."""
    name, source = each.question.function, each.question.solution
    return f"_namespace = {{}}\nexec({source!r}, _namespace)\n{name} = _namespace[{name!r}]\n"


def _stub_cell(each: PreparedQuestion) -> str:
    return f"def {each.question.function}({', '.join(each.question.arguments)}):\n    raise NotImplementedError\n"
