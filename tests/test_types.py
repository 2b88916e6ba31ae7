"""The types of the package and of the grader hold, and whoever installs the package may rely on them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def errors(*arguments):
    """What the type checker finds, one line each; with no arguments, in all that pyproject.toml names."""
    checker = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error", "--pythonpath", sys.executable]
    found = subprocess.run([*checker, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)
    try:
        diagnostics = json.loads(found.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.fail(f"the type checker did not run: {found.stderr or found.stdout}")
    return [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in diagnostics]


def test_types_hold():
    assert not (found := errors()), "\n".join(found)


def test_a_wrong_type_is_found(tmp_path):
    (tmp_path / "wrong.py").write_text(
        "from llm_anatomy.layers.attention import SelfAttention\nSelfAttention('24', n_heads=3)\n", encoding="utf-8"
    )
    (found,) = errors(tmp_path / "wrong.py")
    assert "wrong.py:2:" in found and '"d_model"' in found
