"""The types of the package and of the grader hold, and whoever installs the package may rely on them."""

import hashlib
import json
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROVED = ROOT / "_build/types.txt"  # the state of the sources in which types were found to hold


def state():
    """A hash of all that the result may depend on: sources, settings, this test, and the packages installed."""
    found = hashlib.sha256(f"{sys.version} {sys.executable}".encode())
    for line in sorted(f"{each.name} {each.version}" for each in distributions()):
        found.update(line.encode())
    for path in [ROOT / "pyproject.toml", Path(__file__), *sorted((ROOT / "src").rglob("*.py"))]:
        found.update(f"\0{path}\0".encode() + path.read_bytes())
    return found.hexdigest()


def test_types_hold_and_a_wrong_one_is_found(tmp_path):
    """The only error is in a file that is checked beside all that pyproject.toml names.

    This takes a minute, but no time if nothing has changed since it was found last.
    """
    if PROVED.is_file() and PROVED.read_text("utf-8") == state():
        return
    before = state()
    (tmp_path / "wrong.py").write_text(
        "from llm_anatomy.layers.attention import SelfAttention\nSelfAttention('24', n_heads=3)\n", encoding="utf-8"
    )
    project = {"extends": str(ROOT / "pyproject.toml"), "include": [str(ROOT / "src"), "."]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(project), encoding="utf-8")
    checker = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error", "--pythonpath", sys.executable]
    run = subprocess.run([*checker, "--project", str(tmp_path)], capture_output=True, text=True)
    assert run.stdout.lstrip().startswith("{"), f"the type checker did not run: {run.stderr or run.stdout}"
    result = json.loads(run.stdout)
    found = [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in result["generalDiagnostics"]]
    expected = [line for line in found if "wrong.py:2:" in line and '"d_model"' in line]
    assert len(expected) == 1 and found == expected, "\n".join(found)
    assert result["summary"]["filesAnalyzed"] > 200  # those of src are among them
    PROVED.parent.mkdir(exist_ok=True)
    PROVED.write_text(before, "utf-8")
