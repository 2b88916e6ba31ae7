"""Honest submissions of students who do not keep order: each has to get full marks.

``UNTIDY`` holds them by name. All begin with the right answers of :mod:`hostile_notebooks`.
"""

from collections.abc import Callable

import student_notebooks as notebooks
from hostile_notebooks import QUESTIONS, RIGHT, notebook

UNTIDY: dict[str, Callable[[], dict]] = {}


def untidy(function: Callable[[], dict]) -> Callable[[], dict]:
    UNTIDY[function.__name__] = function
    return function


def with_cell(code: str, above: bool = True) -> dict:
    return notebook(**{"above" if above else "below": code})


def at_head_of_answers(code: str) -> dict:
    """The right answers, each in a cell that begins with this."""
    made = notebook()
    for function in QUESTIONS:
        cell = notebooks.own(made, function)
        cell["source"] = code + "".join(cell["source"])
    return made


def at_end_of_answers(code: str) -> dict:
    made = notebook()
    for function in QUESTIONS:
        cell = notebooks.own(made, function)
        cell["source"] = "".join(cell["source"]) + code
    return made


@untidy
def tidy():
    return notebook()


@untidy
def functions_renamed():
    made = notebook()
    for function in QUESTIONS:
        notebooks.renamed(made, function, f"my_{function}")
    return made


@untidy
def cells_moved():
    made = notebook()
    for n, function in enumerate(QUESTIONS):
        notebooks.moved(made, function, n)
    return made


@untidy
def cells_split():
    made = notebook()
    for function in QUESTIONS:
        notebooks.split(made, function)
    return made


@untidy
def cells_merged():
    return notebooks.merged(notebook())


@untidy
def cells_duplicated():
    made = notebook()
    for function in QUESTIONS:
        notebooks.duplicated(made, function)
    return made


@untidy
def cell_duplicated_before_it_was_filled():
    made = notebooks.blank()
    for function in QUESTIONS:
        notebooks.duplicated(made, function)
        notebooks.answer(made, function, "import torch\n" + RIGHT[function].replace("def right(", f"def {function}("))
    return made


@untidy
def metadata_lost():
    return notebooks.without_metadata(notebook())


@untidy
def version_3():
    return notebooks.as_version_3(notebook())


@untidy
def answer_in_a_cell_of_text():
    return notebooks.as_text(notebook(), "hard_lookup")


@untidy
def kernel_unknown():
    return notebook() | {"metadata": {"kernelspec": {"name": "julia-1.10", "language": "julia"}}}


@untidy
def timed():
    return at_head_of_answers("%%time\n")


@untidy
def magics():
    return with_cell("%matplotlib widget\n%load_ext autoreload\n%nonsense\n!pip install torch\n%pip install x")


@untidy
def shell_and_scripts():
    return with_cell("%%bash\napt-get install -y fortune\nexit 1")


@untidy
def installs_and_imports_of_colab():
    code = "!pip install -q einops\nfrom google.colab import drive\ndrive.mount('/content/drive')\nimport wandb\n"
    return at_head_of_answers(code)


@untidy
def plots_and_widgets():
    return with_cell("""
import matplotlib.pyplot as plt, ipywidgets
plt.plot([1, 2]); plt.show()
@ipywidgets.interact(x=(0, 5))
def shown(x=1):
    print(x)
""")


@untidy
def prints_and_questions():
    return at_end_of_answers("\nprint('done' * 1000)\nname = input('Your name? ')\nprint(name)\n")


@untidy
def helper_in_another_cell():
    made = notebook(above="import math\nimport torch\ndef table(queries, keys):\n    return queries @ keys.T\n")
    code = "def hard_lookup(queries, keys, values):\n    return values[table(queries, keys).argmax(-1)]"
    return notebooks.answer(made, "hard_lookup", code)


@untidy
def import_below():
    made = notebook(below="import torch as pytorch")
    code = "def causal_mask(n, m):\n    return pytorch.ones(n, m, dtype=pytorch.bool).tril(m - n)"
    return notebooks.answer(made, "causal_mask", code)


@untidy
def scratch_loop_below_an_answer():
    made = notebook()
    cell = notebooks.own(made, "stable_softmax")
    cell["source"] = "".join(cell["source"]) + "\nwhile True:\n    pass\n"
    return made


@untidy
def syntax_error_in_another_cell():
    return with_cell("def unfinished(:\n    return")


@untidy
def error_above_an_answer():
    return at_head_of_answers("1 / 0\n")


@untidy
def exit_at_the_end():
    return with_cell("import sys\nsys.exit()", above=False)


@untidy
def exit_in_every_answer():
    return at_end_of_answers("\nimport sys\nsys.exit()\n")


@untidy
def kernel_restarted_by_code():
    return with_cell("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", above=False)


@untidy
def names_reused_below():
    return with_cell("hard_lookup = 3\nvalues = stable_softmax = None\ndel causal_mask", above=False)


@untidy
def result_assigned_to_the_name_of_the_answer():
    return with_cell("import torch\nq = torch.ones(2, 2)\nhard_lookup = hard_lookup(q, q, q)", above=False)


@untidy
def module_written_by_a_cell():
    made = notebook(above=f"%%writefile mine.py\nimport torch\n{RIGHT['causal_mask']}")
    return notebooks.answer(made, "causal_mask", "from mine import right as causal_mask")


@untidy
def helper_that_never_ends_below():
    made = notebook(below="def table(queries, keys):\n    while True:\n        pass")
    code = "def table(queries, keys):\n    return queries @ keys.T\n\n\n"
    code += "def hard_lookup(queries, keys, values):\n    return values[table(queries, keys).argmax(-1)]"
    return notebooks.answer(made, "hard_lookup", code)


@untidy
def other_definitions_of_torch():
    return with_cell("import numpy as np\nnp.random.seed(0)\nlist = [1, 2]\nsum = 3\nstr = 'text'\n")


@untidy
def class_and_partial():
    made = notebook()
    code = """
import functools
def general(table, a, b, c):
    return c[table(a, b).argmax(-1)]
hard_lookup = functools.partial(general, lambda a, b: a @ b.T)
"""
    return notebooks.answer(made, "hard_lookup", code)


@untidy
def compiled_and_decorated():
    made = notebook()
    code = (
        "import functools, torch\n@torch.no_grad()\n@functools.lru_cache\ndef causal_mask(n_queries, n_keys):\n"
        "    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)"
    )
    return notebooks.answer(made, "causal_mask", code)
