"""What all threads of a run share, and the marks of one submission."""

import ast
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from groundwork import Refusal
from llm_grader import marking, source
from llm_grader.records import Mark, Outcome, PreparedQuestion, Question, Submission
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.session import UNSURE, Session, WorkerPool, WorkerStartError, question_seconds

CHANGED_LATER = "A later cell may change something that this answer uses, so it was called just after its own cell."
MAX_LENGTH = 200_000  # characters of a notebook that is searched for names that later cells bind again
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
                marks[mark.question] = mark_that_counts(before, mark) if before else mark
                on_mark()
            return session.notes

    def marks(self, session: Session, questions: list[Question], alone: bool) -> Iterator[Mark]:
        """Yield the mark of each of these questions as soon as it is known.

        An answer is called after all cells have run, and just after its own cell, since a later cell may have changed
        something that it uses. The first of these readings in which it returns all values counts, right or wrong, so
        that nobody gains from guessing twice; if there is none, the one in which it returns more. Where a later cell
        binds a name again that the answer uses, the reading just after its own cell comes first. With an unsure mark,
        this waits for the run in which no other submission runs.

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
        attempted = [each for each in asked if (a := submission.answers.get(each.question.id)) and a.attempted]
        for each in asked:
            if each not in attempted:
                yield marking.mark(None, each, each.question.id in submission.answers)
        early = rebound_later(submission)
        readings = [
            (False, [each for each in attempted if each.question.id not in early]),
            (True, [each for each in attempted if each.question.id in early]),
        ]
        first: dict[str, Mark] = {}
        second: dict[bool, list[PreparedQuestion]] = {True: [], False: []}
        failed = []
        for after_own_cell, now in readings:
            for each, outcome in session.run(now, after_own_cell):
                try:
                    found = self._mark(each, outcome, session, after_own_cell)
                except ComparisonError as e:
                    failed.append(str(e))
                    continue
                is_last = submission.answers[each.question.id].cell == len(submission.cells) - 1
                is_over = found.points == found.possible or marking.is_complete(outcome.messages, each)
                untouched = found.category == "not attempted" and not after_own_cell  # and not what it calls
                if is_over or found.unsure and not alone or is_last or untouched:
                    yield found
                else:
                    first[found.question] = found
                    second[not after_own_cell].append(each)
        for after_own_cell, now in second.items():
            for each, outcome in session.run(now, after_own_cell):
                counts = first[each.question.id]
                with contextlib.suppress(ComparisonError):
                    found = self._mark(each, outcome, session, after_own_cell)
                    counts, other = (found, counts) if found.n_returned > counts.n_returned else (counts, found)
                    counts = replace(counts, unsure=counts.unsure or other.unsure)
                yield counts
        if failed:
            raise Refusal(f"{', '.join(failed)}; the marks of the other questions are kept.")

    def _mark(self, each: PreparedQuestion, outcome: Outcome, session: Session, after_own_cell: bool) -> Mark:
        n_returned, is_complete = (f(outcome.messages, each) for f in (marking.n_returned, marking.is_complete))
        out_of_time = session.out_of_time or outcome.status == "timed out"
        try:
            with self._reference_lock:
                outcome = self.reference_worker.observe(outcome, each)
            found = marking.mark(outcome, each)
        except WorkerStartError:
            raise
        except Exception as e:  # an error of ours, which must not cost the other questions
            raise ComparisonError(f"{each.question.id} cannot be compared ({type(e).__name__}: {e})") from e
        is_right = found.points == found.possible
        return replace(
            found,
            feedback=f"{found.feedback} {CHANGED_LATER}" if after_own_cell else found.feedback,
            unsure=not is_right and not is_complete and (session.unsure or outcome.status in UNSURE),
            n_returned=n_returned,
            seconds=self.seconds if out_of_time and not is_right else 0.0,
        )


def _is_same(first: source.Binding | None, second: source.Binding | None) -> bool:
    """Whether a function was only defined again as it was."""
    nodes = [each.node for each in (first, second) if each and each.node]
    return len(nodes) == 2 and ast.dump(nodes[0]) == ast.dump(nodes[1])


def rebound_later(submission: Submission) -> set[str]:
    """Return the questions whose answer uses a name that is bound above it and again in a later cell.

    The answers' own names do not count: the last attempt is the answer, also where another answer calls it.
    """
    if sum(map(len, submission.cells)) > MAX_LENGTH:
        return set()
    parsed = [source.read(cell, []) for cell in submission.cells]
    stored = [source.stored_names(cell) for cell in submission.cells]
    answering = {answer.name for answer in submission.answers.values()}
    found = set()
    for name, answer in submission.answers.items():
        above: dict[str, source.Binding] = {}
        for each in parsed[: answer.cell + 1]:
            above |= each.bindings
        below = set[str]()
        for changed, each in zip(stored[answer.cell + 1 :], parsed[answer.cell + 1 :], strict=True):
            changed = (each.bindings.keys() | changed) - each.imported.keys()
            below |= {name for name in changed if not _is_same(above.get(name), each.bindings.get(name))}
        used = [answer.name]
        for helper in used:  # which grows meanwhile
            if helper in above:
                used.extend(sorted(above[helper].global_names.intersection(above).difference(used)))
        if below.intersection(used) - answering:
            found.add(name)
    return found


class ComparisonError(Exception):
    """Raised if the results of an answer cannot be compared, which is a failure of the grader."""


def mark_that_counts(before: Mark, alone: Mark) -> Mark:
    """Return the mark that counts, of an unsure one and the one of the run in which no other submission ran.

    The second counts, right or wrong, unless the answer returned fewer values than before.
    """
    counts = before if alone.n_returned < before.n_returned else alone
    return replace(counts, unsure=False, feedback=f"{counts.feedback} {RUN_AGAIN}")
