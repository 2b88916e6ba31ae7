"""The hostile corpus: attacks and untidy submissions, side by side in one class, with what has to come of each."""

import contextlib
import hashlib
import inspect
import itertools
import os
import random
import re
from pathlib import Path

import hostile_notebooks
import pytest
from hostile_notebooks import ANY, BEGIN, CORPUS, END, LEFT, SECRET, Attack, key, table
from readable_python import run_tests
from student_notebooks import data
from untidy_notebooks import UNTIDY

from bookbinder import ROOT
from groundwork import Refusal
from llm_grader import classrun, sandbox
from llm_grader.key import to_json
from llm_grader.records import GRADED, SubmissionResult
from llm_grader.sandbox.attacks import attacks
from llm_grader.sandbox.base import WORLD_WRITABLE
from llm_grader.sandbox.processes import process_table, related_processes

POSSIBLE = {question.function: question.points for question in key().questions}
FAST = [name for name, attack in CORPUS.items() if attack.fast]
SLOW = [name for name, attack in CORPUS.items() if not attack.fast]
SECONDS = 4.0
# One of each sort is graded in every run, and all of them in the round of the corpus. Each takes a worker of its own,
# but for those that are no notebooks; what the tests of the sandbox and of the session try as well is left out.
ALWAYS = ["end_the_parent", "memory_bomb", "tensor_that_lies", "forged_by_the_worker", "read_the_key"]
ALWAYS += ["hidden_inputs_as_an_error", "processes_left_behind", "functions_renamed"]
ALWAYS += ["link_to_the_key", "named_pipe", "empty", "truncated", "archive", "another_notebook"]


class Class:
    """A class that has been graded.

    Args:
        folder: for its files.
        attacks: names in CORPUS.
        honest: names in UNTIDY, as often as wanted. Both kinds take turns.
        kind: of sandbox; the first that holds by default.
    """

    def __init__(self, folder: Path, attacks: list[str], honest: list[str], kind: str | None = None) -> None:
        self.out, self.submissions, self.private = (folder / name for name in ("marks", "class", "private"))
        for path in (self.out, self.submissions, self.private):
            path.mkdir(mode=0o700)
        (self.private / "attention.key.json").write_text(to_json(key()))
        (self.submissions / "other.ipynb").write_bytes(data(UNTIDY["tidy"]()))
        turns = itertools.chain.from_iterable(itertools.zip_longest(attacks, honest))
        self.names = list(filter(None, turns))
        for n, name in enumerate(self.names):
            if name in CORPUS:
                CORPUS[name].make(self.submissions, f"{n:03} {name}")
            else:
                (self.submissions / f"{n:03} {name}.ipynb").write_bytes(data(UNTIDY[name]()))
        before, others = self.hashes(), left_behind()
        running = own_processes()  # a browser of other tests, or the build of the book, which starts more
        os.environ["CORPUS"] = SECRET
        try:
            chosen, findings = sandbox.choose([self.submissions, self.out, self.private], kind)
            self.records = classrun.grade(
                self.submissions, key(), self.out, chosen, findings, workers=2, seconds=SECONDS, log=lambda text: None
            )
        finally:
            del os.environ["CORPUS"]
        self.intact = before == self.hashes()
        self.left = sorted(set(left_behind(running)).difference(others))

    def hashes(self) -> dict[str, str]:
        paths = [path for folder in (self.submissions, self.private) for path in folder.rglob("*")]
        regular = [path for path in paths if path.is_file() and not path.is_symlink()]
        return {os.fspath(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in regular}

    def check(self, name: str) -> None:
        """Whether all submissions of this name got what they have to get."""
        numbers = [n for n, each in enumerate(self.names) if each == name]
        found = [r for r in self.records for n in numbers if re.search(rf"{n:03} {name}$", r.student)]
        assert found and len(found) == len(numbers)
        for record in found:
            self.check_record(record, CORPUS.get(name))

    def check_record(self, record: SubmissionResult, attack: Attack | None) -> None:
        assert record.status == (attack.status if attack else GRADED), record
        if record.status != GRADED:
            assert not record.marks and record.reason
            return
        for mark in record.marks:
            function = mark.question.rpartition("/")[2]
            points, category = (attack.earns if attack else {}).get(function, (POSSIBLE[function], "right"))
            assert 0 <= mark.points <= mark.possible == POSSIBLE[function]
            assert points in (mark.points, ANY) and category in (mark.category, ANY), (record.student, mark)

    def check_all(self) -> None:
        for name in set(self.names):
            self.check(name)
        self.check_class()

    def check_class(self) -> None:
        assert self.intact
        assert self.left == []
        for path in set(self.out.rglob("*")).difference(self.out.glob("attempts/*")):  # what they handed in is kept
            assert not path.is_file() or b"CANARY" not in path.read_bytes(), path


def own_processes() -> set[int]:
    return related_processes({os.getpid()}, None, process_table()) - {os.getpid()}


def left_behind(others: set[int] = frozenset()) -> list[str]:
    """Processes and files of workers that are still there; what ``others`` have started is not theirs."""
    processes = process_table()
    left = [f"process {pid}" for pid in own_processes() - related_processes(others, None, processes)]
    for pid in processes:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
            left += [f"process {pid}"] if file.read().strip() == LEFT else []
    return left + [str(path) for place in WORLD_WRITABLE for path in Path(place).glob(f"{LEFT}*")]


def in_turn(names):
    return [pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.corpus]) for name in names]


@pytest.fixture(scope="module")
def graded(request, tmp_path_factory):
    """A class of those that this run asks for."""
    items = [item for item in request.session.items if item.path == request.path and "graded" in item.fixturenames]
    asked = {item.callspec.params.get("name") for item in items if hasattr(item, "callspec")}
    attacks, honest = ([name for name in names if name in asked] for names in (FAST, UNTIDY))
    return Class(tmp_path_factory.mktemp("corpus"), attacks, honest)


@pytest.mark.parametrize("name", in_turn(FAST))
def test_an_attack_earns_what_its_answers_are_worth(graded, name):
    graded.check(name)


@pytest.mark.parametrize("name", in_turn(UNTIDY))
def test_an_honest_submission_earns_full_marks(graded, name):
    graded.check(name)


@pytest.mark.parametrize("part", ["chosen", pytest.param("others", marks=pytest.mark.corpus)])
def test_nothing_leaks_nothing_is_changed_and_nothing_is_left(graded, part):
    graded.check_class()


def test_what_is_left_to_the_corpus_is_known():
    assert set(ALWAYS) <= {*FAST, *UNTIDY}


def test_the_page_for_instructors_says_of_each_attack_what_it_earns():
    page = (ROOT / "book" / "instructors.md").read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0] == f"\n{table()}\n", "run python tests/hostile_notebooks.py"
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()]
    assert set(attacks) <= set(rows) and {" ".join(attack.description.split()) for attack in CORPUS.values()} <= set(
        rows
    )
    code = [line.strip() for line in inspect.getsource(hostile_notebooks).splitlines() if "import os" in line]
    assert code and not [line for line in code if line in page]


@pytest.mark.corpus
def test_the_rest_of_the_corpus(tmp_path):
    Class(tmp_path, SLOW, ["tidy"]).check_all()


@pytest.mark.corpus
@pytest.mark.parametrize("kind", ["sandlock", "setuid"])
def test_the_corpus_in_another_sandbox(kind, tmp_path):
    try:
        sandbox.choose([], kind)
    except Refusal:  # for instance because only root can read this Python
        run_tests(["-m", "corpus", "-k", f"test_the_corpus_in_another_sandbox and {kind}", __file__])
    else:
        Class(tmp_path, FAST, ["tidy"] * 2, kind).check_all()


@pytest.mark.corpus
def test_a_class_of_sixty_with_a_tenth_hostile(tmp_path):
    hostile = random.Random(60).sample([name for name, attack in CORPUS.items() if attack.status == GRADED], 6)
    honest = list(itertools.islice(itertools.cycle(UNTIDY), 53))
    graded = Class(tmp_path, hostile, honest)
    assert len(graded.records) == 60
    graded.check_all()


@pytest.mark.corpus
def test_one_submission_earns_the_same_each_time_beside_hostile_ones_and_a_busy_machine(tmp_path, popen):
    """Two workers on two processors, four busy loops of another user, and five submissions that burn what they can."""
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    for _ in range(4):
        popen(["sh", "-c", "while :; do :; done"], cwd="/", **user)
    names = ["busy_loops_left_behind", "busy_loops_in_an_answer", "fork_bomb", "memory_bomb_in_children", "loop_in_c"]
    Class(tmp_path, names, ["tidy"] * 25).check_all()
