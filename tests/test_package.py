"""The house itself: imports go down only, examples run, the wheel holds the package alone, the code is tidy."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
import zipfile
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path

import pytest
import torch

from llm_anatomy.training.data.stories import stories

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"

# What each part may import of the house. The direction may not change silently.
MAY_IMPORT = {
    "llm_anatomy.shapes": set(),
    "llm_anatomy.data": set(),
    "llm_anatomy.layers": {"llm_anatomy.deprecation", "llm_anatomy.shapes", "llm_anatomy.layers"},
    "llm_anatomy.files": set(),
    "llm_anatomy.deprecation": set(),
    "llm_anatomy.registry": {"llm_anatomy.layers"},  # the names of parts, and their classes
    "llm_anatomy.config": {"llm_anatomy.files", "llm_anatomy.registry"},
    "llm_anatomy.models": {
        "llm_anatomy.deprecation",
        "llm_anatomy.shapes",
        "llm_anatomy.data",
        "llm_anatomy.layers",
        "llm_anatomy.registry",
        "llm_anatomy.config",
        "llm_anatomy.models",
    },
    "llm_anatomy.models.checkpoints": {
        "llm_anatomy.deprecation",  # the tokenizer lies beside the weights
        "llm_anatomy.shapes",
        "llm_anatomy.files",
        "llm_anatomy.config",
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.tokenizers",
    },
    "llm_anatomy.models.loading": {  # whatever can be loaded
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.models.stored",
    },
    "llm_anatomy.models.stored": {  # it holds a config, a tokenizer and weights in one file
        "llm_anatomy.shapes",
        "llm_anatomy.files",
        "llm_anatomy.data",
        "llm_anatomy.layers",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.tokenizers",
    },
    "llm_anatomy.data_generation": {
        "llm_anatomy.deprecation",  # one of its generators is a checkpoint on this computer
        "llm_anatomy.files",
        "llm_anatomy.data_generation",
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.models.stored",
        "llm_anatomy.training",  # the rule-based generator knows the stories' instructions
        "llm_anatomy.models.loading",
    },
    "llm_anatomy.arena": {
        "llm_anatomy.shapes",
        "llm_anatomy.files",
        "llm_anatomy.models",
        "llm_anatomy.models.stored",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.training",  # the stories with which texts begin
        "llm_anatomy.evaluation",
        "llm_anatomy.commands.options",
        "llm_anatomy.arena",
        "llm_anatomy.models.loading",
    },
    "llm_anatomy.__main__": set(),  # each command is imported when it is used
    "llm_anatomy.commands.options": {"llm_anatomy.layers"},
    "llm_anatomy.commands": {
        "llm_anatomy.commands.options",
        "llm_anatomy.layers",
        "llm_anatomy.files",
        "llm_anatomy.data_generation",
        "llm_anatomy.arena",
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.config",
        "llm_anatomy.evaluation",
        "llm_anatomy.tokenizers",
        "llm_anatomy.training",
        "llm_anatomy.training.experiments",
        "llm_anatomy.training.lab",
        "llm_anatomy.commands",
        "llm_anatomy.models.loading",
    },
    "llm_anatomy.tokenizers": {"llm_anatomy.files", "llm_anatomy.tokenizers"},
    "llm_anatomy.training": {
        "llm_anatomy.shapes",
        "llm_anatomy.files",
        "llm_anatomy.tokenizers",
        "llm_anatomy.data",
        "llm_anatomy.training",
    },
    "llm_anatomy.evaluation": {
        "llm_anatomy.shapes",
        "llm_anatomy.files",
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.models.stored",
        "llm_anatomy.evaluation",
        "llm_anatomy.models.loading",
    },
    "llm_anatomy.training.experiments": {  # they build the models that they train
        "llm_anatomy.shapes",
        "llm_anatomy.files",
        "llm_anatomy.data",  # the tables that they have written
        "llm_anatomy.layers",
        "llm_anatomy.config",
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.models.stored",
        "llm_anatomy.tokenizers",
        "llm_anatomy.training",
        "llm_anatomy.evaluation",
        "llm_anatomy.training.experiments",
        "llm_anatomy.training.lab",
        "llm_anatomy.data_generation",
        "llm_anatomy.models.loading",
    },
    "llm_anatomy.training.lab": {  # it runs any model, from a file
        "llm_anatomy.shapes",
        "llm_anatomy.files",
        "llm_anatomy.data",
        "llm_anatomy.registry",
        "llm_anatomy.config",
        "llm_anatomy.layers",
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.tokenizers",
        "llm_anatomy.training",
        "llm_anatomy.evaluation",
        "llm_anatomy.training.lab",
    },
    "llm_anatomy.notebook": {
        "llm_anatomy.shapes",
        "llm_anatomy.layers",
        "llm_anatomy.tokenizers",  # of texts that readers type
        "llm_anatomy.data",
        "llm_anatomy.registry",  # block diagrams ask the parts for their names
        "llm_anatomy.config",  # and read configs, which describe models and build none
        "llm_anatomy.notebook",
    },
    "llm_anatomy": {  # its names, each imported when it is first used
        "llm_anatomy.data",
        "llm_anatomy.layers",
        "llm_anatomy.config",
        "llm_anatomy.models",
        "llm_anatomy.models.checkpoints",
        "llm_anatomy.tokenizers",
        "llm_anatomy.training",
        "llm_anatomy.models.loading",
    },
    "groundwork": set(),
    "bookbinder": {"groundwork", "bookbinder", "llm_anatomy.notebook"},
    "llm_grader": {"groundwork", "llm_grader", "llm_grader.key", "llm_grader.wire", "llm_grader.sandbox"},
    "llm_grader.__main__": {"groundwork", "llm_grader", "llm_grader.key", "llm_grader.sandbox", "llm_grader.importers"}
    | {"llm_grader.building"},
    "llm_grader.building": {"groundwork", "llm_grader", "llm_grader.worker"},  # runs the course's own code
    "llm_grader.key": {"groundwork", "llm_grader", "bookbinder"},  # the one part that knows what a master is
    "llm_grader.importers": {"llm_grader", "llm_grader.key", "llm_grader.importers", "llm_grader.worker", "bookbinder"}
    | {"groundwork"},  # nothing that grades imports them
    "llm_grader.wire": set(),
    "llm_grader.sandbox": {"groundwork", "llm_grader", "llm_grader.sandbox", "llm_grader.wire"},
    "llm_grader.sandbox.attacks": {"llm_grader", "llm_grader.wire", "llm_grader.worker"},  # runs in a sandbox
    "llm_grader.worker": {"llm_grader", "llm_grader.wire", "llm_grader.worker", "llm_anatomy.notebook"},
}
# What Colab ships, so that --no-deps is enough there; jaxtyping is optional (llm_anatomy.shapes).
THIRD_PARTY = {"torch", "numpy", "einops", "matplotlib", "ipywidgets", "IPython", "jaxtyping", "PIL", "regex", "tqdm"}
THIRD_PARTY |= {"safetensors", "anywidget", "traitlets"}  # the last comes with ipywidgets

# What marks knows neither PyTorch nor the package; these come only into the sandbox.
IMPORTERS = {"nbformat", "numpy", "torch", "yaml"}
GRADERS = {"numpy", "safetensors", "nbformat", "tqdm", "jinja2", "psutil", "sandlock", "packaging"}
WORKERS = {"numpy", "torch", "IPython", "traitlets", "pyseccomp"}

# Imported only where somebody asks for it, inside a function.
OPTIONAL = {
    "llm_anatomy.evaluation.harness": {"lm_eval"},
    "llm_anatomy.evaluation.text_metrics": {"sacrebleu"},
    "llm_anatomy.arena.app": {"jinja2", "markupsafe", "sqlalchemy", "starlette"},  # only the command imports the two
    "llm_anatomy.arena.votes": {"sqlalchemy"},
    "llm_anatomy.arena.command": {"jinja2", "starlette", "uvicorn"},
    "llm_anatomy.data_generation.client": {"openai"},
    "llm_anatomy.data_generation.server": {"anyio", "h11", "jsonschema", "starlette", "uvicorn"},  # as for arena.app
    "llm_anatomy.training.lab.metrics": {"wandb"},
    "llm_anatomy.tokenizers.bpe": {"tiktoken"},
    "llm_anatomy.models.checkpoints.hub": {"huggingface_hub"},
    "llm_anatomy.models.checkpoints.chat": {"jinja2"},
    "llm_anatomy.models.checkpoints.gguf_files": {"gguf"},
    "llm_anatomy.tokenizers.hugging_face": {"tokenizers"},
    "llm_anatomy.training.lab.command": {"jsonargparse", "yaml"},
    "llm_anatomy.training.data.sources": {"datasets", "pyarrow"},
    "llm_grader.layouts": {"yaml"},
}


def modules(package):
    return sorted((SRC / package).rglob("*.py"))


def dotted(path):
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


OURS = {dotted(path): path for path in sorted(SRC.rglob("*.py"))}


def part(module):
    return next((p for p in sorted(MAY_IMPORT, key=len, reverse=True) if f"{module}.".startswith(f"{p}.")), None)


@cache
def imports(path):
    """The modules that a module imports, anywhere in it: ``from package import name`` may mean ``package.name``."""
    return list(_imports(path))


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in OURS else node.module for name in whole)


def test_imports_go_down_only():
    others = {"llm_anatomy": THIRD_PARTY, "llm_grader": GRADERS, "llm_grader.worker": WORKERS}
    others["llm_grader.importers"] = IMPORTERS
    wrong = []
    for module, path in OURS.items():
        allowed = MAY_IMPORT[part(module)]
        known = next((others[name] for name in sorted(others, key=len)[::-1] if module.startswith(name)), None)
        for name in imports(path):
            top = name.partition(".")[0]
            if part(name) is not None:
                right = part(name) in allowed
            else:
                right = known is None or top in sys.stdlib_module_names or top in known | OPTIONAL.get(module, set())
            if not right:
                wrong.append(f"{module} must not import {name}")
    assert not wrong, "\n".join(wrong)


def test_modules_do_not_import_in_a_circle():
    """Imports inside functions count as well."""
    try:
        TopologicalSorter({name: OURS.keys() & set(imports(path)) for name, path in OURS.items()}).prepare()
    except CycleError as error:
        pytest.fail(" ← ".join(error.args[1]))


def test_the_graders_trusted_half_never_meets_pytorch_or_the_package():
    script = """
import sys
from llm_grader import classrun, gradescope, key, reports, __main__
key.load("attention")
sys.exit(" ".join({"torch", "llm_anatomy", "IPython"}.intersection(sys.modules)) or 0)
"""
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


WITH_EXAMPLES = [
    name for name, path in OURS.items() if name.startswith("llm_anatomy.") and ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for test in finder.find(module):
        assert not doctest.DocTestRunner().run(test).failed, test.name


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example, _ = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(example, names := {})
    torch.testing.assert_close(names["logits"], names["checkpoint"].model(torch.tensor([[1, 2, 3, 4]]))[:, :3])
    assert names["logits"].shape[:2] == (1, 3) and (tmp_path / "my-gpt2/model.safetensors").is_file()
    assert names["output"].shape == (2, 5, 24) and names["weights"].shape == (2, 6, 5, 5)
    torch.testing.assert_close(names["last"], names["output"][:, 4:].detach())


def test_the_example_of_the_readme_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stories.txt").write_text("\n\n".join(islice(stories(3), 40)), encoding="utf-8")
    _, example = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(example.replace("n_steps=400", "n_steps=40"), names := {})
    assert names["losses"][-1] < 0.9 * names["losses"][0] and (tmp_path / "small/model.safetensors").is_file()
    assert capsys.readouterr().out.endswith("torch.Size([1, 4, 20, 20])\n")


def public_parts(path):
    """The public functions and classes of a module, each with whether it takes arguments."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            init = [n for n in getattr(node, "body", []) if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
            makers = [node] if isinstance(node, ast.FunctionDef) else init
            yield node, any(len(maker.args.args + maker.args.kwonlyargs) > (maker is not node) for maker in makers)


@pytest.mark.parametrize(
    "package", ["layers", "models", "tokenizers", "training", "evaluation", "data_generation", "arena"]
)
def test_public_parts_have_an_example_a_source_and_arguments(package):
    missing = []
    for path in modules(f"llm_anatomy/{package}"):
        for node, takes_arguments in public_parts(path):
            text = ast.get_docstring(node) or ""
            wanted = [">>>", "Source:"] + ["Args:"] * takes_arguments
            missing += [f"{dotted(path)}.{node.name}: {word}" for word in wanted if word not in text]
    assert not missing


def test_the_wheel_holds_the_package_alone_with_its_data(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."]
    subprocess.run(build, cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"llm_anatomy"}
    tracked = subprocess.run(["git", "ls-files", "src/llm_anatomy"], cwd=ROOT, capture_output=True, text=True)
    assert {name.removeprefix("src/") for name in tracked.stdout.split()} <= names
    n_exercises = len(list(ROOT.glob("exercises/*/*/exercise.md")))
    stored = sum(file.stat().st_size for file in ROOT.glob("src/llm_anatomy/data/*.safetensors"))  # they hardly shrink
    assert stored <= 1_200_000
    assert wheel.stat().st_size - stored < 940_000 + 5_500 * (n_exercises - 40)


ENCODING = ["check", "--preview", "--select", "PLW1514", "--exclude", "tests"]  # read UTF-8 on Windows, too


@pytest.mark.parametrize("command", [["check"], ["format", "--check"], ENCODING], ids=["check", "format", "encoding"])
def test_the_code_is_tidy(command):
    ruff = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True)
    assert ruff.returncode == 0, ruff.stdout + ruff.stderr
