"""For all tests: shapes in the package's annotations are executed, and widgets take the page's form.

Where jaxtyping is missing, as on Colab, the annotations are inert and the tests run without them.
"""

import gc
import importlib.util
import os
import tomllib
import uuid
from pathlib import Path

import psutil
import pytest

os.environ["LLM_ANATOMY_STATIC"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests and kernels run side by side; threads of each would wait in turn
if importlib.util.find_spec("jaxtyping"):
    from jaxtyping import install_import_hook

    # Checking a call takes 30 microseconds, so it is done where there are shapes to check, and where the type checker
    # does not look.
    source = Path(importlib.util.find_spec("llm_anatomy").origin).parent
    with_shapes = [path for path in source.rglob("*.py") if "llm_anatomy.shapes" in path.read_text("utf-8")]
    names = [".".join(path.relative_to(source.parent).with_suffix("").parts) for path in with_shapes]
    settings = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text("utf-8"))
    unchecked = [path for path in settings["tool"]["basedpyright"]["exclude"] if "llm_anatomy" in path]
    names += [path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in unchecked]
    install_import_hook(names, "beartype.beartype")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without looking for garbage, of which there is none yet: the search took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One worker more than there are cores, since tests of the browser and of the grader often wait."""
    return (os.cpu_count() or 1) + 1


LONG = ["test_types", "test_session", "test_corpus", "test_classrun", "test_masters", "test_gradescope"]
LONG += ["test_sandbox", "test_parity", "test_package", "test_optimization", "test_ablation", "test_blind_spots"]
# The book is built meanwhile, for these:
LONG += ["test_pages_in_browser", "test_widgets_in_browser", "test_live_cells_in_browser"]
LONG += ["test_predictions_in_browser"]


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest, so that none of them is alone at the end."""
    rank = {name: i for i, name in enumerate(LONG)}
    items.sort(key=lambda item: (rank.get(item.path.name.removesuffix(".py"), len(LONG)), item.path.suffix != ".ipynb"))


RUN = "LLM_ANATOMY_TEST_RUN"  # every process that a test starts inherits it
OUTERMOST = RUN not in os.environ
os.environ.setdefault(RUN, uuid.uuid4().hex)


def left_behind():
    """The processes that tests have started and not ended, some seconds after the last test."""

    def ours(process):
        try:
            if process.pid == os.getpid() or "multiprocessing.resource_tracker" in str(process.cmdline()):
                return False  # the tracker of this process ends with it
            return process.environ().get(RUN) == os.environ[RUN]
        except psutil.Error:
            return False

    _, alive = psutil.wait_procs([process for process in psutil.process_iter() if ours(process)], timeout=10)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session):
    """Fail if a process of a test is still alive when the run is over."""
    yield
    if OUTERMOST:
        session.config.left_behind = left_behind()
        if session.config.left_behind:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Say which processes were left behind and, if no tests were chosen, which ones were left out."""
    for process in getattr(config, "left_behind", []):
        terminalreporter.write_line(f"FAILED: a test has left process {process.pid} behind, {process.cmdline()}")
    if config.option.markexpr and config.option.markexpr in config.getini("addopts"):
        notebooks = "" if getattr(config.option, "nbval", False) else "the notebooks (--nbval), and "
        terminalreporter.write_line(f"Left out: {notebooks}the tests marked slow, corpus or released (.ci/run).")
