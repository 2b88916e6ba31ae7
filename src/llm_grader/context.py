"""What all threads of a run share, and the marks of one submission."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from groundwork import Refusal
from llm_grader import marking
from llm_grader.records import Mark, Outcome, PreparedQuestion, Question, Submission
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.session import UNSURE, Session, WorkerPool, WorkerStartError, question_seconds

CHANGED_LATER = "A later cell changes something that this answer uses, so it was called just after its own cell."
RUN_AGAIN = "It was run again while no other submission ran."


@dataclass(frozen=True)
class GradingContext:
    """What all threads of a run need in order to grade a submission.

    Args:
        prepared: the questions with their hidden inputs and reference outputs.
        pool: workers for students' code.
        reference_worker: worker for the reference.
        seconds: CPU time of one submission, see :mod:`llm_grader.session`.
    """

    prepared: list[PreparedQuestion]
    pool: WorkerPool
    reference_worker: ReferenceWorker
    seconds: float
    _reference_lock: threading.Lock = field(default_factory=threading.Lock)

    def session(self, submission: Submission) -> Session:
        """Return a session in which this submission is run; :meth:`marks` marks it."""
        budgets = question_seconds([each.question for each in self.prepared], self.seconds)
        return Session(submission, self.pool, self.seconds, budgets)

    def complete(
        self, submission: Submission, marks: dict[str, Mark], on_mark: Callable[[], object] = lambda: None
    ) -> list[str]:
        """Mark all questions that have no mark yet, or an unsure one.

        Args:
            submission: the submission.
            marks: question id → mark. The marks are added, and each unsure one is replaced by the one that counts.
            on_mark: called after each mark.

        Returns:
            Sentences about cells that were interrupted or that ended their process.

        Raises:
            WorkerStartError: no worker could be started.
        """
        questions = [each.question for each in self.prepared]
        todo = [question for question in questions if question.id not in marks or marks[question.id].unsure]
        alone = any(mark.unsure for mark in marks.values())
        with self.session(submission) as session:
            for mark in self.marks(session, todo, alone):
                before = marks.get(mark.question)
                marks[mark.question] = better_mark(before, mark) if before else mark
                on_mark()
            return session.notes

    def marks(self, session: Session, questions: list[Question], alone: bool) -> Iterator[Mark]:
        """Yield the mark of each of these questions as soon as it is known.

        An answer that does not earn all its points after all cells have run is called again just after its own cell,
        since a later cell may have changed something that it uses. The better mark counts. With an unsure mark, this
        waits for the run in which no other submission runs.

        Args:
            session: a session of the submission.
            questions: the questions.
            alone: whether this is that run.

        Raises:
            WorkerStartError: no worker could be started.
            Refusal: the results of some questions could not be compared; the marks of all others were yielded before.
        """
        submission = session.submission
        asked = [each for each in self.prepared if each.question in questions]
        first: dict[str, Mark] = {}
        attempted = [each for each in asked if (a := submission.answers.get(each.question.id)) and a.attempted]
        for each in asked:
            if each not in attempted:
                yield marking.mark(None, each, each.question.id in submission.answers)
        again, failed = [], []
        for each, outcome in session.run(attempted):
            try:
                found = self._mark(each, outcome, session)
            except ComparisonError as e:
                failed.append(str(e))
                continue
            is_last = submission.answers[each.question.id].cell == len(submission.cells) - 1
            is_right, waits = found.points == found.possible, found.unsure and not alone
            if is_right or waits or is_last or found.category == "not attempted":
                yield found
            else:
                first[found.question] = found
                again.append(each)
        for each, outcome in session.run(again, after_own_cell=True):
            before = first[each.question.id]
            with contextlib.suppress(ComparisonError):
                found = self._mark(each, outcome, session)
                if found.points > before.points:
                    before = replace(found, feedback=f"{found.feedback} {CHANGED_LATER}")
                else:
                    before = replace(before, unsure=before.unsure or found.unsure)
            yield before
        if failed:
            raise Refusal(f"{', '.join(failed)}; the marks of the other questions are kept.")

    def _mark(self, each: PreparedQuestion, outcome: Outcome, session: Session) -> Mark:
        try:
            with self._reference_lock:
                outcome = self.reference_worker.observe(outcome, each)
            found = marking.mark(outcome, each)
        except WorkerStartError:
            raise
        except Exception as e:  # an error of ours, which must not cost the other questions
            raise ComparisonError(f"{each.question.id} cannot be compared ({type(e).__name__}: {e})") from e
        return replace(found, unsure=found.points < found.possible and (session.unsure or outcome.status in UNSURE))


class ComparisonError(Exception):
    """Raised if the results of an answer cannot be compared, which is a failure of the grader."""


def better_mark(before: Mark, alone: Mark) -> Mark:
    """Return the mark that counts, of an unsure one and the one of the run in which no other submission ran."""
    if alone.points > before.points:
        return replace(alone, unsure=False)
    counts = alone if alone.points == before.points else before
    return replace(counts, unsure=False, feedback=f"{counts.feedback} {RUN_AGAIN}")
