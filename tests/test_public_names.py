"""``import llm_anatomy as la`` offers its names lazily, and what could be imported before still can be."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import llm_anatomy as la

HERE = Path(__file__).parent
BEFORE = dict(line.split(":") for line in (HERE / "public_names.txt").read_text("utf-8").splitlines())
"""The names that the modules defined before ``la`` offered any, which notebooks and private masters may use."""


def test_the_names_are_known_before_anything_is_imported():
    script = """
import sys
import llm_anatomy as la
assert {*la.__all__} <= {*dir(la)}
assert not {"torch", "numpy", "llm_anatomy.models"} & {*sys.modules}, "something is imported"
assert la.Temperature.__name__ == "Temperature" and "matplotlib" not in sys.modules
assert la.registry.PARTS["norm"]["rmsnorm"] is la.RMSNorm
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_a_name_is_not_its_module():
    for module in pkgutil.walk_packages(la.__path__, "llm_anatomy."):
        if module.name.split(".")[1] in ("config", "data", "layers", "models", "registry", "tokenizers"):
            importlib.import_module(module.name)
    for name in la.__all__:
        assert callable(getattr(la, name)) and getattr(la, name).__name__ == name, name
    with pytest.raises(AttributeError, match="module 'llm_anatomy' has no attribute 'Transfomer'"):
        la.Transfomer  # noqa: B018


def test_editors_see_the_same_names_and_help_begins_with_them():
    tree = ast.parse(Path(la.__file__).read_text("utf-8"))
    (seen,) = (node for node in tree.body if isinstance(node, ast.If))
    found = {alias.name: node.module for node in seen.body for alias in node.names}
    assert found == {name: f"llm_anatomy.{module}" for name, module in la._HOMES.items()}
    assert sorted(found) == la.__all__
    assert all(f"``{name}``" in la.__doc__ for name in la.__all__)


@pytest.mark.parametrize("package", sorted({name.split(".")[1] for name in BEFORE if "." in name}))
def test_what_could_be_imported_still_can_be(package):
    missing = []
    for module, names in BEFORE.items():
        if f"{module}.".startswith(f"llm_anatomy.{package}."):
            imported = importlib.import_module(module)
            missing += [f"{module}.{name}" for name in names.split() if not hasattr(imported, name)]
    assert not missing


def test_the_core_needs_no_figures_and_what_does_says_so():
    """Every module but those of notebooks is imported without the packages of the extra ``notebook``."""
    script = """
import importlib, pkgutil, sys
for name in ("matplotlib", "IPython", "ipywidgets", "anywidget", "traitlets", "jupyter_client"):
    sys.modules[name] = None
import llm_anatomy
for module in pkgutil.walk_packages(llm_anatomy.__path__, "llm_anatomy.", onerror=lambda name: None):
    if not module.name.startswith("llm_anatomy.notebook."):
        importlib.import_module(module.name)
from llm_anatomy import notebook as nb
for use in (nb.setup, lambda: nb.figure, lambda: nb.Roofline):
    try:
        use()
    except ImportError as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("pip install 'llm_anatomy[notebook]'") == 3
