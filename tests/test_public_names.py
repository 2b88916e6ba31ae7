"""``import llm_anatomy as la`` offers its names lazily, and what could be imported before still can be."""

import ast
import importlib
import os
import pkgutil
import pydoc
import re
import subprocess
import sys
import tomllib
import zipfile
from contextlib import chdir
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from flit_core import buildapi

import llm_anatomy as la

HERE = Path(__file__).parent
BEFORE = dict(line.split(":") for line in (HERE / "public_names.txt").read_text("utf-8").splitlines())
"""The names that the modules defined before ``la`` offered any, which notebooks and private masters may use."""


def test_the_names_are_known_before_anything_is_imported():
    script = """
import sys
import llm_anatomy as la
assert {*la._HOMES} <= {*dir(la)}
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
    for name in la._HOMES:
        assert callable(getattr(la, name)) and getattr(la, name).__name__ == name, name
    with pytest.raises(AttributeError, match="module 'llm_anatomy' has no attribute 'Transfomer'"):
        la.Transfomer  # noqa: B018


def test_editors_see_the_same_names_and_help_begins_with_them():
    tree = ast.parse(Path(la.__file__).read_text("utf-8"))
    (seen,) = (node for node in tree.body if isinstance(node, ast.If))
    *imported, everything = seen.body
    found = {alias.name: node.module for node in imported for alias in node.names}
    assert found == {name: f"llm_anatomy.{module}" for name, module in la._HOMES.items()}
    assert sorted(found) == ast.literal_eval(everything.value)
    assert all(f"``{name}``" in la.__doc__ for name in found)
    assert len(pydoc.plain(pydoc.render_doc(la)).splitlines()) < 200


@pytest.mark.parametrize("package", sorted({name.split(".")[1] for name in BEFORE if "." in name}))
def test_what_could_be_imported_still_can_be(package):
    missing = []
    for module, names in BEFORE.items():
        if f"{module}.".startswith(f"llm_anatomy.{package}."):
            imported = importlib.import_module(module)
            missing += [f"{module}.{name}" for name in names.split() if not hasattr(imported, name)]
    assert not missing


NEEDS_AN_EXTRA = {"llm_anatomy.arena.app", "llm_anatomy.arena.votes", "llm_anatomy.data_generation.server"}
"""With the modules of ``llm_anatomy.notebook``: what cannot be imported without the packages of an extra."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the wheel and the packages that it requires, and no others."""
    folder = tmp_path_factory.mktemp("wheel")
    with chdir(HERE.parent):
        wheel = buildapi.build_wheel(os.fspath(folder))
    with zipfile.ZipFile(folder / wheel) as file:
        file.extractall(folder / "site")
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    required, done = [*project["dependencies"]], set()
    while required:
        name = re.match(r"[\w.-]+", required.pop())[0]
        if name in done:
            continue
        done.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another system
            continue
        for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            if not (folder / "site" / top).exists():
                (folder / "site" / top).symlink_to(found.locate_file(top))
        required += [name for name in found.requires or [] if "extra ==" not in name]
    return folder / "site"


def alone(site, script):
    """Run a script with the wheel and what it requires; the packages of this environment are not there."""
    script = f"import sys\nsys.path.insert(0, {os.fspath(site)!r})\n{script}"
    found = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_wheel_works_with_the_packages_of_the_core(site):
    printed = alone(
        site,
        """
import importlib, pkgutil
import llm_anatomy as la
for module in pkgutil.walk_packages(la.__path__, "llm_anatomy.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ImportError:
        print(module.name)
print(la.load("story_rope").generate("One day, the", max_new_tokens=5))
""",
    )
    *failed, text = printed.splitlines()
    others = {name for name in failed if not name.startswith("llm_anatomy.notebook.")}
    assert others == NEEDS_AN_EXTRA and len(failed) > len(others) and text == " gardener gave"


def test_what_needs_figures_says_so(site):
    printed = alone(
        site,
        """
from llm_anatomy import notebook as nb
for use in (nb.setup, lambda: nb.figure, lambda: nb.Roofline):
    try:
        use()
    except ImportError as error:
        print(error)
""",
    )
    assert printed.count("pip install 'llm_anatomy[notebook]'") == 3
