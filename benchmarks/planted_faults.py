"""What the tests see of faults that are planted in the sources: which of them fail `make test`, which only `.ci/run`.

    python benchmarks/planted_faults.py [--faults 160] [--seed 0] [--out _build/faults]

1. The tests of `make test` run once in a clone, and for each its time and the lines that it runs are noted.
2. Faults are drawn from all folders of ``src``: another operator, another constant, a branch that is always or never
   taken, a statement left out. For each, tests that run its line are tried, fast ones first, for at most a minute.
3. Faults in other files (scripts of the page, texts, masters, settings) are those of ``planted_faults.toml``, each with
   the tests that ought to see it.
4. What is still unseen goes to all tests of the modules near it, notebooks included, and then to their slow tests. What
   the same file calls harmless, with a reason, does not.

A result is written when it is there, and a run that was stopped goes on. Sources are those of the last commit. The
report is ``report.md`` in the folder. All of it takes about two hours on two cores.
"""

import argparse
import ast
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = "LLM_ANATOMY_RECORD"  # the folder into which a worker of pytest writes what its tests run
SECONDS = 60  # for the tests that run a line
LONGER = 300  # for all tests near it
MOST_TESTS = 500
IMPORT = " (cannot be imported)"
WARM = ("torch", "numpy", "matplotlib.pyplot", "einops", "hypothesis", "nbformat", "beartype", "jaxtyping", "psutil")
MIRRORED = {"bookbinder": ["tests/bookbinder", "tests/book"], "llm_grader": ["tests/llm_grader"]}
LEVELS = {"make test": "make test", "near": "make test", "slow": ".ci/run", "": "nothing"}

# Step 1: a plugin of pytest. It is loaded in each worker, and asleep where nothing is to be recorded.

recorder = None


def pytest_configure(config):
    global recorder
    if os.environ.get(RECORD) and (hasattr(config, "workerinput") or not config.option.numprocesses):
        recorder = Recorder(Path(os.environ[RECORD]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    if recorder:
        recorder.coverage.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report):
    if recorder:
        recorder.seconds[report.nodeid] += report.duration
        if not report.passed:
            recorder.not_passed.add(report.nodeid)


def pytest_sessionfinish():
    if recorder:
        recorder.write()


class Recorder:
    """Which lines of ``src`` each test runs, and its seconds."""

    def __init__(self, folder: Path):
        from coverage import Coverage

        self.folder, self.seconds, self.not_passed = folder, Counter(), set()
        source = [str(Path.cwd() / "src")]
        self.coverage = Coverage(str(folder / "lines"), data_suffix=str(os.getpid()), source=source, config_file=False)
        self.coverage.start()

    def write(self):
        self.coverage.stop()
        self.coverage.save()
        passed = {name: seconds for name, seconds in self.seconds.items() if name not in self.not_passed}
        (self.folder / f"seconds.{os.getpid()}.json").write_text(json.dumps(passed))


def runs(bits: bytes, line: int) -> bool:
    """Whether coverage's bits have this line."""
    return line // 8 < len(bits) and bits[line // 8] >> line % 8 & 1 == 1


class Recorded:
    """What the workers have written."""

    def __init__(self, folder: Path):
        self.seconds = {}
        for path in folder.glob("seconds.*.json"):
            self.seconds |= json.loads(path.read_text())
        self.databases = sorted(folder.glob("lines.*"))

    def tests(self, name: str, lines: range | None) -> list[str]:
        """The tests that run one of the lines of a file, or any without ``lines``: fast ones first, and at first one
        instance of each."""
        found = set()
        for path in self.databases:
            with sqlite3.connect(path) as database:
                query = (
                    "SELECT context.context, line_bits.numbits FROM line_bits JOIN context ON context.id = context_id "
                    "JOIN file ON file.id = file_id WHERE file.path LIKE ?"
                )
                for test, bits in database.execute(query, (f"%/{name}",)):
                    if lines is None or any(runs(bits, line) for line in lines):
                        found.add(test)
        instances, ordered = Counter(), []
        for test in sorted(found & self.seconds.keys(), key=self.seconds.__getitem__):
            function = test.partition("[")[0]
            ordered.append((instances[function], self.seconds[test], test))
            instances[function] += 1
        chosen, total = [], 0.0
        for _, seconds, test in sorted(ordered)[:MOST_TESTS]:
            total += seconds
            if chosen and total > SECONDS / 2:
                break
            chosen.append(test)
        return chosen


# Step 2: the faults


class Fault(NamedTuple):
    folder: str
    file: str
    line: int
    last_line: int
    at_import: bool
    change: str
    text: str
    """The whole file with the fault."""

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.change}"


def stratum(name: str) -> str:
    """The folder of ``src`` to which a file is counted."""
    parts = Path(name).parts[1:]
    return "/".join(parts[: 2 if parts[0] == "llm_anatomy" and len(parts) > 2 else 1])


def sites(tree: ast.Module) -> Iterator[tuple]:
    """For each node that can be changed: where it stands, its changes, and whether it runs on import."""
    from mutants import changes, is_docstring, places

    for top in tree.body:
        if isinstance(top, ast.Import | ast.ImportFrom):
            continue
        nodes = list(ast.walk(top))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {id(node) for function in functions for part in function.body for node in ast.walk(part)}
        left_out = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        hints = (getattr(node, name, None) for node in nodes for name in ("annotation", "returns"))
        left_out += filter(None, hints)
        left_out = {id(part) for node in left_out for part in ast.walk(node)}
        for place in [(tree, "body", tree.body.index(top), top), *places(top)]:
            parent, field, _, node = place
            if id(node) in left_out or not hasattr(node, "lineno") or is_docstring(node):
                continue
            made = [new for new in changes(node, parent, field, {}) if not exchanged(node, new)]
            if field in ("body", "orelse") and removable(node):
                made.append(ast.Pass())
            if made:
                yield place, made, id(node) not in inside


def exchanged(old: ast.AST, new: ast.AST) -> bool:
    """Whether only the sides of a union are exchanged, which is most often the same."""
    both = isinstance(old, ast.BinOp) and isinstance(new, ast.BinOp) and isinstance(old.op, ast.BitOr | ast.BitAnd)
    return both and new.left is old.right


def removable(node: ast.AST) -> bool:
    """Whether it is a statement without which the others can often run."""
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Name | ast.Tuple)
    return isinstance(node, ast.Expr | ast.Delete)


def replaced(source: str, tree: ast.Module, place: tuple, new: ast.AST) -> str | None:
    """The text with another node in this position and all else as it was; None if that cannot be written."""
    from mutants import put

    parent, field, index, node = place
    put(parent, field, index, new)
    try:
        wanted = ast.dump(ast.parse(ast.unparse(ast.fix_missing_locations(tree))))
    except (ValueError, SyntaxError):
        return None
    finally:
        put(parent, field, index, node)
    inner = {ast.If: "test", ast.For: "iter"}.get(type(node))
    old, text = (getattr(node, inner), ast.unparse(getattr(new, inner))) if inner else (node, ast.unparse(new))
    if isinstance(new, ast.expr) or inner:
        text = f"({text})"
    lines = source.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: old.end_lineno - 1])) + old.end_col_offset
    made = source.encode()[:begin] + text.encode() + source.encode()[end:]
    try:
        return made.decode() if ast.dump(ast.parse(made)) == wanted else None
    except SyntaxError:
        return None


def draw(n_faults: int, seed: int) -> list[Fault]:
    """Faults of all folders: of a folder as many as the square root of what could be changed in it says."""
    chance, found = random.Random(seed), defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        found[stratum(name)] += [(name, source, tree, *site) for site in sites(tree)]
    roots = {folder: math.sqrt(len(each)) for folder, each in found.items()}
    faults = []
    for folder, each in sorted(found.items()):
        chance.shuffle(each)
        n, made = max(1, round(n_faults * roots[folder] / sum(roots.values()))), []
        for name, source, tree, place, changes, at_import in each:
            node, new = place[-1], chance.choice(changes)
            if text := replaced(source, tree, place, new):
                shown = [" ".join(ast.unparse(part).split())[:60] for part in (node, new)]
                made.append(Fault(folder, name, node.lineno, node.end_lineno, at_import, " → ".join(shown), text))
            if len(made) == n:
                break
        faults += made
    return faults


def listed(kind: str) -> list[dict]:
    """What ``planted_faults.toml`` has of a kind: of ``fault`` the ``file``, the ``old`` and ``new`` text, and
    ``tests``; of ``harmless`` the ``name`` of a drawn fault and the reason ``why``."""
    path = Path(__file__).with_suffix(".toml")
    return tomllib.loads(path.read_text(encoding="utf-8")).get(kind, [])


# Step 3: the tests of a fault


class Chosen:
    """A plugin that keeps these tests, in this order, and notes the first that fails."""

    def __init__(self, tests: list[str] | None, result: Path):
        self.rank, self.result = {test: i for i, test in enumerate(tests)} if tests else None, result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        yield
        if self.rank:
            items[:] = sorted((item for item in items if item.nodeid in self.rank), key=lambda i: self.rank[i.nodeid])

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.result.write_text(report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.result.write_text(report.nodeid + IMPORT)


def failing(clone: Path, arguments: list[str], seconds: float, tests: list[str] | None = None) -> str:
    """The first test that fails, in a fork of this process; empty if all pass or there is no time left."""
    result = clone.with_suffix(".result")
    result.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os.setsid()
        log = os.open(clone.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        code = 3
        try:
            options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", str(seconds)]
            code = pytest.main([*options, *arguments], plugins=[Chosen(tests, result)])
        finally:
            os._exit(code)
    end = time.monotonic() + seconds + 30
    while time.monotonic() < end and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.05)
    try:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    return result.read_text() if result.exists() else ""


def near(clone: Path, name: str) -> list[str]:
    """The test files and notebooks of a module, and those of the modules that import it."""
    import affected

    runs = affected.runs(affected.distances([affected.ROOT / name]))
    names = [argument for distance, arguments in runs if distance < 2 for argument in arguments]
    return list(dict.fromkeys(name for name in names if (clone / name.partition("::")[0]).exists()))


stamps = count(int(time.time()))


def write(path: Path, content: bytes) -> None:
    """Write a file with a second of its own, since Python takes a file of the same second and size for unchanged."""
    path.write_bytes(content)
    os.utime(path, (stamp := next(stamps), stamp))


def seen_by(clone: Path, name: str, text: str, levels: list[tuple]) -> tuple[str, str]:
    """The first of these levels at which a test fails, and this test, which passes without the fault. The file is as it
    was afterwards."""
    path = clone / name
    before, fail_anyway = path.read_bytes(), []
    try:
        for level, arguments, *given in levels:
            for _ in range(3):
                write(path, text.encode())
                test = failing(clone, [*arguments, *fail_anyway], *given)
                write(path, before)
                if not test:
                    break
                cut = "::" if ".ipynb" in test else IMPORT  # a cell needs those before it
                chosen = test.partition(cut)[0]
                options = ["--collect-only"] if test.endswith(IMPORT) else ["--nbval", "-m", ""]
                if not failing(clone, [*options, chosen], LONGER):
                    return level, test
                fail_anyway.append(f"--deselect={chosen}")
        return "", ""
    finally:
        write(path, before)


def name_of(fault: Fault | dict) -> str:
    return fault.name if isinstance(fault, Fault) else f"{fault['file']}: {fault['old']} → {fault['new']}"


def tried(clone: Path, fault: Fault | dict, deep: bool, recorded: Recorded) -> dict:
    """The row of a fault: after its own tests, or with ``deep`` after all that are near it."""
    begin, slow = time.monotonic(), ["-m", "slow or corpus"]
    if isinstance(fault, Fault):
        tests = recorded.tests(fault.file, None if fault.at_import else range(fault.line, fault.last_line + 1))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        others = near(clone, fault.file) if deep else []
        if deep and not tests:  # only a process or a browser that a test starts runs the line
            others += MIRRORED.get(fault.folder.partition("/")[0], [])
        exercises = [name for name in others if name.endswith("exercises.ipynb")]  # run by .ci/run
        lessons = [name for name in others if name not in exercises]
        levels = [("make test", files, SECONDS, tests)] * bool(tests and not deep)
        levels += [("near", ["--nbval", *lessons], LONGER)] * bool(lessons)
        levels += [("slow", ["--nbval", *exercises], LONGER)] * bool(exercises)
        levels += [("slow", [*slow, *lessons], LONGER)] * bool(lessons)
        folder, name, text = fault.folder, fault.file, fault.text
    else:
        folder, name, tests = "not Python", fault["file"], fault["tests"].split()
        before = (clone / name).read_text(encoding="utf-8")
        assert fault["old"] in before, f"{name} has no {fault['old']!r}"
        text = before.replace(fault["old"], fault["new"], 1)
        levels = [("slow", [*slow, *tests], LONGER) if deep else ("make test", ["--nbval", *tests], LONGER)]
    level, test = seen_by(clone, name, text, levels)
    row = {"folder": folder, "name": name_of(fault), "n_tests": len(tests), "level": level, "test": test, "deep": deep}
    return row | {"seconds": round(time.monotonic() - begin, 1)}


def work(clone: Path, todo, done, recorded: Recorded) -> None:
    """Try faults from a queue in one clone, in forks of a process that has imported what is large."""
    os.chdir(clone)
    sys.path[:] = [*paths(clone), *(path for path in sys.path if ROOT not in Path(path).parents or ".venv" in path)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths(clone))
    for module in WARM:
        __import__(module)
    while (task := todo.get()) is not None:
        done.put(tried(clone, *task, recorded))


# All of it


def paths(clone: Path) -> list[str]:
    """Where modules of a clone are imported from."""
    return [str(clone / name) for name in ("src", "tests", ".")]


def cloned(folder: Path) -> Path:
    if not folder.exists():
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def record(folder: Path, n_workers: int) -> None:
    """Run the tests of `make test` once, and note what they run."""
    clone = cloned(folder / "recorded")
    environment = os.environ | {RECORD: str(folder), "PYTHONPATH": os.pathsep.join(paths(clone))}
    options = ["-p", "benchmarks.planted_faults", "-n", str(n_workers), "--dist", "loadscope"]
    command = [sys.executable, "-m", "pytest", *options]
    with (folder / "recorded.txt").open("w") as log:
        subprocess.run(command, cwd=clone, env=environment, stdout=log, stderr=subprocess.STDOUT)
    shutil.rmtree(clone)


def read_rows(path: Path) -> dict[str, dict]:
    """The last row of each fault by its name."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {row["name"]: row for row in map(json.loads, lines)}


def report(rows: list[dict], harmless: dict[str, str]) -> str:
    """A table of the folders, and what was not seen; ``harmless`` has the reasons by name."""
    from llm_anatomy.evaluation.intervals import wilson_interval

    lines = ["| folder | faults | `make test` | only `.ci/run` | nothing | harmless |", "| --- |" + " ---: |" * 5]
    by_folder = defaultdict(Counter)
    for row in rows:
        for folder in (row["folder"], "all"):
            level = "harmless" if not row["level"] and row["name"] in harmless else LEVELS[row["level"]]
            by_folder[folder][level] += 1
    for folder, n in sorted(by_folder.items(), key=lambda each: (each[0] == "all", each[0])):
        columns = (folder, n.total(), n["make test"], n[".ci/run"], n["nothing"], n["harmless"])
        lines.append(f"| {' | '.join(map(str, columns))} |")
    total = by_folder["all"]
    seen = total["make test"] + total[".ci/run"]
    if seen:
        share = wilson_interval(total["make test"], seen)
        percent = f"{share.estimate:.1%} (95 % interval: {share.low:.1%} to {share.high:.1%})"
        lines += ["", f"Of what any test sees, `make test` sees {percent}."]
    unseen = [row["name"] for row in rows if not row["level"]]
    lists = {
        "Seen by nothing": [name for name in unseen if name not in harmless],
        "Seen by `.ci/run` alone": [f"{row['name']} ({row['test']})" for row in rows if row["level"] == "slow"],
        "Harmless": [f"{name}: {harmless[name]}" for name in unseen if name in harmless],
    }
    for title, names in lists.items():
        lines += ["", f"{title}:", "", *(f"- {name}" for name in names)]
    return "\n".join([*lines, ""])


def try_all(tasks: list[tuple], clones: list[Path], folder: Path) -> Iterator[dict]:
    """The rows of these faults, as they come, from a process for each clone."""
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for task in [*tasks, *[None] * len(clones)]:
        todo.put(task)
    processes = [context.Process(target=work, args=(clone, todo, done, Recorded(folder))) for clone in clones]
    for process in processes:
        process.start()
    for n in range(1, len(tasks) + 1):
        row = done.get()
        print(f"{n}/{len(tasks)} {LEVELS[row['level']]}: {row['name']} ({row['seconds']} s)", flush=True)
        yield row
    for process in processes:
        process.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=160, metavar="N", help="in Python (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "_build/faults", help="folder (default: _build/faults)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    parser.add_argument("--list", action="store_true", help="print the faults and try none")
    args = parser.parse_args()
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    faults = draw(args.faults, args.seed)
    if args.list:
        print(*(fault.name for fault in faults), sep="\n")
        return 0
    out = args.out.resolve()
    (out / "lines").mkdir(parents=True, exist_ok=True)
    if not list((out / "lines").glob("seconds.*.json")):
        print("Running the tests of make test, to note which lines each of them runs.", flush=True)
        record(out / "lines", args.workers)
    path = out / f"results-{args.seed}.jsonl"
    named = {name_of(fault): fault for fault in [*faults, *listed("fault")]}
    harmless = {each["name"]: each["why"] for each in listed("harmless")}
    os.environ["OMP_NUM_THREADS"] = "1"
    clones = [cloned(out / f"clone{i}") for i in range(args.workers)]
    for deep in (False, True):
        rows = read_rows(path)
        left = [
            fault
            for name, fault in named.items()
            if name not in rows
            or (deep and not rows[name]["level"] and not rows[name]["deep"] and name not in harmless)
        ]
        print(f"{len(left)} faults for {'all tests near them' if deep else 'the tests that run them'}.", flush=True)
        with path.open("a") as results:
            for row in try_all([(fault, deep) for fault in left], clones, out / "lines"):
                results.write(json.dumps(row) + "\n")
                results.flush()
        rows = read_rows(path)
        text = report([rows[name] for name in named if name in rows], harmless)
        (out / "report.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
