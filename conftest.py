"""For all tests: shapes in the package's annotations are executed, and widgets take the page's form.

Where jaxtyping is missing, as on Colab, the annotations are inert and the tests run without them.
"""

import gc
import importlib.util
import os
import tomllib
from pathlib import Path

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


LONG = ["test_corpus", "test_pages_in_browser", "test_session", "test_classrun", "test_live_cells_in_browser"]
LONG += ["test_widgets_in_browser", "test_predictions_in_browser", "test_types", "test_gradescope", "test_links"]
LONG += ["test_widgets_in_jupyter"]


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest, lest one of them be alone at the end."""
    rank = {name: i for i, name in enumerate(LONG)}
    items.sort(key=lambda item: (rank.get(item.path.name.removesuffix(".py"), len(LONG)), item.path.suffix != ".ipynb"))
