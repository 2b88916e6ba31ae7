"""The first call of every chapter."""

import subprocess
import sys
import warnings

import matplotlib
import pytest
import torch

from llm_anatomy.notebook import setup
from llm_anatomy.notebook.figures import STYLE


@pytest.fixture(autouse=True)
def restored():
    with warnings.catch_warnings(), matplotlib.rc_context():
        yield
    torch.set_printoptions(profile="default")


def test_setup_is_silent_and_can_be_repeated(capfd):
    setup()
    style, filters = dict(matplotlib.rcParams), list(warnings.filters)
    setup()
    assert dict(matplotlib.rcParams) == style
    assert warnings.filters == filters
    assert capfd.readouterr() == ("", "")


def test_setup_prints_tensors_with_four_decimals():
    setup()
    assert str(torch.tensor([1e-6, 1234.56789])) == "tensor([   0.0000, 1234.5679])"


def test_setup_applies_the_books_style():
    setup()
    assert matplotlib.rcParams["axes.prop_cycle"] == STYLE["axes.prop_cycle"]


@pytest.mark.parametrize("module, heard", [("torch.nn.modules.transformer", False), ("__main__", True)])
def test_setup_silences_libraries_and_not_the_notebook(module, heard):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        setup()
        warnings.warn_explicit("look", UserWarning, "file.py", 1, module=module)
    assert bool(caught) == heard


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_an_exercise_loads_nothing_that_draws():
    loaded = "import sys; from llm_anatomy.notebook import check, setup; print(*sys.modules)"
    assert not {"matplotlib", "ipywidgets", "IPython"} & set(run(loaded))


def test_all_that_draws_is_there_when_asked_for():
    script = """
import sys
from llm_anatomy import notebook
assert set(notebook.__all__) <= set(dir(notebook))
from llm_anatomy.notebook import colours, BucketExplorer
from llm_anatomy.notebook import *
assert set(notebook.__all__) <= set(globals())
assert all(callable(getattr(notebook, name)) for name in notebook.__all__ if name != "colours")
assert not hasattr(notebook, "BucketExplorers") and "matplotlib" in sys.modules
from llm_anatomy.notebook import setup
setup()
import matplotlib
print(matplotlib.rcParams["axes.titlelocation"])
"""
    assert run(script) == ["left"]
