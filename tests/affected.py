"""``make check``: the tests that a change may break, nearest first, until the time is over.

A file's own tests come first: those that mirror it, its examples, its notebook. Then come the files that import it,
those that import them, and so on. What there was no time for is listed.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 100
FILES_A_RUN = 24  # to collect more than that at once takes too long
DEADLINE = "LLM_ANATOMY_TESTS_END"
LEFT_OUT = "left out by make check: the time is over"
IMPORT = re.compile(r"^[ \t]*((?:from +[\w.]+ +)?import +(?:\([^)]*\)|[^\n#]*))", re.MULTILINE)
FOLDERS = {"src": ROOT / "src", "tests": ROOT / "tests", "book": ROOT / "tests/book"}  # from which modules are imported
EXERCISES = "tests/exercises/test_masters.py", "tests/exercises/test_blind_spots.py"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def modules() -> dict[str, Path]:
    """The modules of the repository by their dotted names."""
    found = {}
    for folder in FOLDERS.values():
        for path in sorted(folder.rglob("*.py")):
            found[".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


@cache
def sources() -> list[Path]:
    """Every file that imports something: modules, tests, masters and the texts of notebooks."""
    found = [*modules().values(), *ROOT.glob("exercises/*/*/*.py"), *ROOT.glob("book/**/*.nb.md")]
    return sorted(set(found))


@cache
def offered(package: str) -> dict[str, str]:
    """The names that a package offers and the modules that they come from.

    They stand in its import statements, or in a table such as ``{"Transformer": "llm_anatomy.models.transformer"}``.
    """
    path, found = modules()[package], {}
    if path.name != "__init__.py":
        return found
    text = read(path)
    for name, module in re.findall(r"""["'](\w+)["']: *["']([\w.]+)["']""", text):
        found.update((name, whole) for whole in (module, f"{package}.{module}") if whole in modules())
    for node in statements(text):
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: resolve(node.module, a.name) for a in node.names if node.module != package}
    return found


def resolve(package: str, name: str) -> str:
    """The module that ``from package import name`` reads."""
    if f"{package}.{name}" in modules():
        return f"{package}.{name}"
    return offered(package).get(name, package) if package in modules() else package


def statements(text: str):
    """The import statements of Python code or of a text with cells."""
    for statement in IMPORT.findall(text):
        try:
            yield from ast.parse(statement.strip()).body
        except SyntaxError:  # a sentence that begins like one
            continue


def imported(path: Path) -> set[Path]:
    """The files of the repository that a file imports, anywhere in it, also under the names that packages offer."""
    text, names = read(path), set()
    for node in statements(text):
        if isinstance(node, ast.ImportFrom):
            names |= {node.module} | {resolve(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            for alias in node.names:  # import llm_anatomy as la: la.Transformer
                if alias.name in modules() and (alias.asname or "." not in alias.name):
                    used = re.findall(rf"\b{alias.asname or alias.name}\.(\w+)", text)
                    names |= {resolve(alias.name, name) for name in used}
    return {modules()[name] for name in names if name in modules()} - {path}


@cache
def importers() -> dict[Path, set[Path]]:
    """For each file, those that import it; a test also depends on the conftest.py of its folder and those above."""
    found = defaultdict(set)
    for path in sources():
        for other in imported(path):
            found[other].add(path)
        if path.is_relative_to(ROOT / "tests"):
            for folder in [path.parent, *path.parent.parents]:
                if (folder / "conftest.py").exists() and folder.is_relative_to(ROOT):
                    found[folder / "conftest.py"].add(path)
    return found


def mentioning(path: Path) -> set[Path]:
    """The files that name one that is not Python: a table, a script, a template."""
    if path.suffix == ".py" or path.is_relative_to(ROOT / "exercises") or path.name.endswith((".nb.md", ".ipynb")):
        return set()
    names = {path.name, path.stem} if path.is_relative_to(ROOT / "src/llm_anatomy/data") else {path.name}
    named = re.compile(rf"""["'/](?:{"|".join(map(re.escape, names))})["']""")
    return {one for one in sources() if named.search(read(one))}


def mirrors(path: Path) -> set[Path]:
    """The tests that belong to a file by their name."""
    name = path.relative_to(ROOT).parts
    if name[0] == "src":
        folder = ROOT.joinpath("tests", *name[1 + (name[1] == "llm_anatomy") : -1])
        return {
            one for one in (folder / f"test_{path.stem}.py", folder / f"test_{path.stem}_command.py") if one.exists()
        }
    if name[0] in ("book", "exercises") and len(name) > 2:
        return {*ROOT.glob(f"tests/book/test_claims_of_{name[1]}.py"), *ROOT.glob(f"tests/exercises/*_{name[1]}.py")}
    return set()


def distances(changed: list[Path]) -> dict[Path, int]:
    """How many imports lie between a file and the next changed one, for every file that depends on one."""
    found = dict.fromkeys(changed, 0)
    for path in changed:
        found |= dict.fromkeys(mirrors(path), 0)
        if path.is_relative_to(ROOT / "book"):
            found |= dict.fromkeys(path.parent.glob("*.nb.md") if path.suffix in (".md", ".ipynb") else (), 0)
    for path in changed:
        found = dict.fromkeys(mentioning(path), 1) | found
    queue = sorted(found, key=found.__getitem__)
    for path in queue:
        for one in sorted(importers()[path] - found.keys()):
            found[one] = found[path] + 1
            queue.append(one)
    return found


def runs(found: dict[Path, int]) -> list[tuple[int, list[str]]]:
    """The runs of pytest, each with its distance and its arguments."""
    made = []
    for distance in sorted(set(found.values())):
        paths = sorted(path for path, far in found.items() if far == distance)
        tests = [path for path in paths if path.name.startswith("test_") and path.is_relative_to(ROOT / "tests")]
        tests += [
            path.with_name(path.name.replace(".nb.md", ".ipynb")) for path in paths if path.name.endswith(".nb.md")
        ]
        names = [path.relative_to(ROOT).as_posix() for path in tests if path.exists() and "released" not in path.parts]
        if distance == 0:
            names += examples(paths)
        made += [(distance, names[n : n + FILES_A_RUN]) for n in range(0, len(names), FILES_A_RUN)]
        masters = sorted(
            {"/".join(path.relative_to(ROOT / "exercises").parts[:2]) for path in paths if in_master(path)}
        )
        if masters:
            made.append((distance, [*EXERCISES, "-k", " or ".join(masters)]))
    return made


def examples(paths: list[Path]) -> list[str]:
    """The tests of the examples in docstrings."""
    names = {path: name for name, path in modules().items() if name.startswith("llm_anatomy.")}
    test = "tests/test_package.py::test_examples_in_docstrings_run"
    return [f"{test}[{names[path]}]" for path in paths if path in names and ">>>" in read(path)]


def in_master(path: Path) -> bool:
    return path.is_relative_to(ROOT / "exercises") and len(path.relative_to(ROOT / "exercises").parts) > 2


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changes() -> list[Path]:
    """The files that differ from the branch ``main``: committed, uncommitted or new."""
    bases = [base for ref in ("main", "origin/main") for base in git("merge-base", "HEAD", ref)]
    base = next((base for base in bases if base not in git("rev-parse", "HEAD")), "HEAD")
    names = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return [ROOT / name for name in dict.fromkeys(names) if (ROOT / name).exists()]


def below(name: str) -> list[Path]:
    """The files that an argument names."""
    path = (ROOT / name).resolve()
    if not path.exists() or not path.is_relative_to(ROOT):
        sys.exit(f"AT={name}: there is no such file or folder here. Name one, such as AT=book/kv_cache.")
    return [ROOT / one for one in git("ls-files", "--cached", "--others", "--exclude-standard", str(path))]


class Until:
    """A pytest plugin: skip what begins after the deadline, and note it. It comes into the workers by its module."""

    def __init__(self):
        self.left_out = set()

    def pytest_runtest_logreport(self, report):
        if report.skipped and LEFT_OUT in str(report.longrepr):
            self.left_out.add(report.nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if time.time() > float(os.environ.get(DEADLINE, "inf")):
        pytest.skip(LEFT_OUT)


def read_only(changed: list[Path]) -> list[list[str]]:
    """The modules and arguments of what reads the changed files without running them."""
    names = [path.relative_to(ROOT).as_posix() for path in changed]
    python = [name for name in names if name.endswith(".py")]
    made = [["ruff", "check", *python], ["ruff", "format", "--check", *python]] if python else []
    if any(name.startswith("exercises/") for name in names):
        made.append(["bookbinder", "exercises", "--check"])
    chapters = {ROOT / "book" / name.split("/")[1] for name in names if name.startswith(("book/", "exercises/"))}
    chapters = sorted(str(folder.relative_to(ROOT)) for folder in chapters if list(folder.glob("*.nb.md")))
    return made + ([["bookbinder", "check", *chapters]] if chapters else [])


def run(arguments: list[str], until: Until) -> bool:
    """Run pytest; return whether something failed. It runs in workers, so that each run begins afresh."""
    notebooks = ["--nbval"] if any(name.endswith(".ipynb") for name in arguments) else []
    n_workers = min(os.cpu_count() or 1, sum(not name.startswith("-") for name in arguments))
    options = ["-p", "affected", "-n", str(n_workers), "--dist", "loadscope", *notebooks]
    return pytest.main([*options, *arguments], plugins=[until]) not in (0, 5)  # 5: all of them are slow


def by_folder(left_out: set[str]) -> list[str]:
    """What was left out, in a line for each folder."""
    if not left_out:
        return ["Nothing was left out for lack of time."]
    folders = defaultdict(list)
    for name in sorted(left_out):
        folder, _, file = name.rpartition("/")
        folders[folder].append(file.removesuffix(".py"))
    lines = [f"  {folder}: {', '.join(names)}" for folder, names in folders.items()]
    return [f"Left out for lack of time, wholly or in part ({len(left_out)} files); `make test` runs them:", *lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="make check")
    parser.add_argument("at", nargs="*", metavar="PATH", help="files or folders (default: what differs from main)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="when to begin no other test (default: %(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="print what would run, nearest first, and run nothing")
    args = parser.parse_args()
    begin = time.time()
    changed = [path for name in args.at for path in below(name)] if args.at else changes()
    if not changed:
        print("Nothing differs from the branch main. Say what to check, for example: make check AT=book/kv_cache")
        return 0
    todo = runs(distances(changed))
    if args.list:
        for distance, arguments in todo:
            print(distance, *arguments)
        return 0
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, ["src", "tests", os.environ.get("PYTHONPATH")]))
    failed, until, never = [], Until(), []
    for command in [*read_only(changed), ["pytest", "tests/test_vocabulary.py"]]:
        print("==", *command, flush=True)
        if subprocess.run([sys.executable, "-m", *command], cwd=ROOT).returncode:
            failed.append(" ".join(command[:2]))
    for distance, arguments in todo:
        if distance and time.time() > begin + args.seconds:
            never += [name.partition("::")[0] for name in arguments if name.startswith(("tests/", "book/"))]
            continue
        if distance:  # a file's own tests run to their end
            os.environ[DEADLINE] = str(begin + args.seconds)
        print("==", ["its own tests", "what imports it", f"{distance} imports away"][min(distance, 2)], flush=True)
        if run(arguments, until):
            failed.append(arguments[0])
    left_out = until.left_out | set(never)
    print(f"== {time.time() - begin:.0f} s; {'failed: ' + ', '.join(failed) if failed else 'nothing failed'}")
    print(*by_folder(left_out), sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
