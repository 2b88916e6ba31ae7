"""Run the code cells of a notebook one after another in IPython's shell. An error affects only its own cell."""

import ast
import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import SList
from traitlets.config import Config

MAX_MISSING = 8  # names of missing modules that are reported, and errors in a chain that are looked at
FULL, DEFINITIONS, SKIPPED = 0, 1, 2
"""Modes of running a cell: the whole cell; only its definitions, since it has ended a worker before; not at all."""


class CellTimeout(BaseException):
    """Raised in a cell when its time is up."""


class QuietShell(InteractiveShell):
    """Shell that prints no errors, since tracebacks are slow, and runs no commands of the system."""

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        pass

    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
        pass

    def system(self, cmd: str) -> None:
        pass

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> SList:
        return SList()


def make_shell() -> InteractiveShell:
    """Create an IPython shell without history, output and system commands."""
    config = Config()
    config.HistoryManager.enabled = False
    shell = QuietShell.instance(config=config)
    for name in ("pip", "conda", "mamba", "micromamba", "uv"):  # all packages that a notebook needs are installed
        shell.magics_manager.register_function(lambda line: None, "line", name)
    return shell


def run_cells(
    shell: InteractiveShell, request: dict, found: dict, missing: list[str], on_start: Callable[[int], None]
) -> list[int]:
    """Run cells in their order and collect the functions that they define.

    Args:
        shell: the shell, which may have run earlier cells.
        request: ``cells``, the sources; ``first``, the index of the first of them in the notebook; ``modes``, pairs of
            the index of a cell and the mode of running it, FULL by default; ``wanted``, pairs of the index of a cell
            and the name of a function; ``cpu_seconds`` and ``wall_seconds``, the limits of all cells together, of
            which each may use half of what remains.
        found: (cell, name) → the function of that name after that cell, and (-1, name) → the last function of that
            name. The functions of these cells are added.
        missing: names of modules that could not be imported, to which those of these cells are added.
        on_start: called with the index of each cell before it runs.

    Returns:
        The indices of the cells that were interrupted, since their time was used up.
    """
    namespace, modes = shell.user_ns, {cell: mode for cell, mode in request["modes"]}
    runner, worker = os.getpid(), os.getppid()
    cpu_end, wall_end = time.process_time() + request["cpu_seconds"], time.monotonic() + request["wall_seconds"]
    wanted, interrupted = {(cell, name) for cell, name in request["wanted"]}, []
    for i, source in enumerate(request["cells"], request["first"]):
        on_start(i)
        before = dict(namespace)
        cpu, wall = (cpu_end - time.process_time()) / 2, (wall_end - time.monotonic()) / 2
        mode = modes.get(i, FULL) if min(cpu, wall) > 0.01 else max(modes.get(i, FULL), DEFINITIONS)
        ended = "failed"
        if mode == FULL:
            ended = _run_with_timeout(cpu, wall, lambda source=source: _run_whole(shell, source, missing))
        if ended == "interrupted" or mode == DEFINITIONS and modes.get(i) != DEFINITIONS:
            interrupted.append(i)
        if ended != "done" and mode != SKIPPED:
            _run_with_timeout(
                max(cpu, 0.1),
                max(wall, 0.1),
                lambda source=source, before=before: _run_definitions(shell, source, before, missing),
            )
        # a fork of the runner, which would answer a second time, or a runner whose worker is about to go
        if os.getpid() != runner or _is_ending(worker):
            os._exit(0)
        for cell, name in wanted:
            if callable(answer := namespace.get(name)):  # a result may be assigned to the same name
                found |= {(-1, name): answer} | ({(cell, name): answer} if cell == i else {})
    return interrupted


@contextlib.contextmanager
def memory_limit(memory: int) -> Iterator[None]:
    """Limit how many bytes this process may grow by, since memory that cells hold is missing for answers."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="utf-8") as file:
        soft = int(file.read().split()[0]) * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _is_ending(worker: int) -> bool:
    """Return whether the worker was killed or stopped by a cell, even if it has not noticed yet."""
    try:
        with open(f"/proc/{worker}/status", encoding="utf-8") as file:
            fields = dict(line.split(":", 1) for line in file)
    except OSError:
        return True
    pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    if pending or fields["State"].split()[0] in "TZX":
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGKILL)
        return True
    return False


def _run_with_timeout(cpu_seconds: float, wall_seconds: float, work: Callable[[], bool]) -> str:
    """Do the work and return "done", "failed" or "interrupted".

    If a cell switches these alarms off, the grader stops the worker.
    """
    rung = []

    def on_alarm(*_: object) -> None:
        rung.append(True)
        raise CellTimeout

    for alarm, timer, seconds in (
        (signal.SIGPROF, signal.ITIMER_PROF, cpu_seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, wall_seconds),
    ):
        signal.signal(alarm, on_alarm)
        signal.setitimer(timer, seconds)
    try:
        succeeded = work()
    except BaseException:  # also sys.exit, and an alarm while another exception is handled
        succeeded = False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "interrupted" if rung else "done" if succeeded else "failed"


def _run_whole(shell: InteractiveShell, source: str, missing: list[str]) -> bool:
    result = shell.run_cell(source, silent=True)
    if not result.success:
        _add_names(missing, result.error_in_exec)
    return result.success


def _add_names(missing: list[str], error: BaseException | None) -> None:
    missing += [name for name in failed_imports(error) if name not in missing][: MAX_MISSING - len(missing)]


def failed_imports(error: BaseException | None) -> list[str]:
    """Return the names of the modules whose failed imports led to an error.

    Nothing of the error's own class is called, which may be a student's.
    """
    names, waiting, seen = [], [error], 0
    while waiting and seen < MAX_MISSING:
        error, seen = waiting.pop(), seen + 1
        if error is None:
            continue
        if issubclass(type(error), ImportError):
            name = vars(ImportError)["name"].__get__(error)
            names += [name] if type(name) is str and len(name) <= 100 else []
        waiting += [vars(BaseException)[link].__get__(error) for link in ("__context__", "__cause__")]
    return list(dict.fromkeys(names))


def _run_definitions(shell: InteractiveShell, source: str, before: dict, missing: list[str]) -> bool:
    """Run the imports, constants, functions and classes that a failed cell did not reach."""
    namespace = shell.user_ns
    try:
        tree = ast.parse(shell.transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in tree.body:
        names = _defined_names(node)
        if names and all(namespace.get(name) is before.get(name) for name in names):
            try:
                exec(compile(ast.Module([node], []), "<cell>", "exec"), namespace)
            except CellTimeout:
                raise
            except BaseException as e:
                _add_names(missing, e)
    return True


def _defined_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Lambda):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []
