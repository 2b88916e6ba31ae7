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
    shell: InteractiveShell,
    cells: list[str],
    modes: dict[int, int],
    wanted: set[tuple[int, str]],
    seconds: float,
    on_start: Callable,
) -> dict:
    """Run the cells and collect the functions that they define.

    Args:
        shell: the shell.
        cells: sources of the cells.
        modes: index of a cell → mode of running it; FULL by default.
        wanted: pairs of the index of a cell and the name of a function.
        seconds: time limit of all cells; each may use half of the remaining time.
        on_start: called with the index of each cell before it runs.

    Returns:
        (cell, name) → the function of that name after that cell, and (-1, name) → the last function of that name.
    """
    namespace, found, deadline, worker = shell.user_ns, {}, time.monotonic() + seconds, os.getpid()
    for i, source in enumerate(cells):
        on_start(i)
        before = dict(namespace)
        left = (deadline - time.monotonic()) / 2
        mode = modes.get(i, FULL) if left > 0.01 else max(modes.get(i, FULL), DEFINITIONS)
        if mode == FULL and _run_with_timeout(left, lambda source=source: shell.run_cell(source, silent=True).success):
            pass
        elif mode != SKIPPED:
            _run_with_timeout(
                max(left, 0.1), lambda source=source, before=before: _run_definitions(shell, source, before)
            )
        if os.getpid() != worker:  # a fork of the worker by the cell, which would answer a second time
            os._exit(0)
        for cell, name in wanted:
            if callable(answer := namespace.get(name)):  # a result may be assigned to the same name
                found |= {(-1, name): answer} | ({(cell, name): answer} if cell == i else {})
    return found


@contextlib.contextmanager
def memory_limit(memory: int) -> Iterator[None]:
    """Limit how many bytes this process may grow by, since memory that cells hold is missing for answers."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        soft = int(file.read().split()[0]) * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _run_with_timeout(seconds: float, work: Callable[[], bool]) -> bool:
    """Return whether the work succeeded in time. If a cell switches this alarm off, the grader stops the worker."""

    def on_alarm(*_: object) -> None:
        raise CellTimeout

    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return bool(work())
    except BaseException:  # also sys.exit, and an alarm while another exception is handled
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _run_definitions(shell: InteractiveShell, source: str, before: dict) -> bool:
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
            except BaseException:
                continue
    return True


def _defined_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Lambda):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []
