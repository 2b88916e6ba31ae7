"""The command for whoever has a GPU: what fails or hangs costs nothing but itself, and no GPU is one sentence."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("benchmarks_gpu", ROOT / "benchmarks" / "gpu.py")
gpu = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gpu)
TINY = ["--device", "cpu", "--tiny"]
HANG = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(999)"])
print("result: process", child.pid, flush=True)
time.sleep(999)
"""


def part(name, code, seconds=300):
    return gpu.Part(name, seconds, f"what {name}", "result", ["-c", code])


def test_what_crashes_or_hangs_costs_nothing_but_itself(tmp_path, capsys, monkeypatch):
    report, wait = tmp_path / "gpu" / "report.md", subprocess.Popen.wait

    def wait_for_output(self, timeout=None):
        if timeout != 20 * 7:
            return wait(self, timeout)
        while "result: process" not in report.read_text("utf-8").rpartition("```text")[2]:
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_for_output)
    parts = [part("crashes", "print('about to', flush=True); import os; os.abort()"), part("hangs", HANG, seconds=7)]
    parts += [part("ends", "print('many words'); print('a result')")]
    assert gpu.main([*TINY, "--minutes", "1000"], lambda *_, **__: parts, report) == 1
    shown, text = capsys.readouterr().out, report.read_text("utf-8")
    assert f"torch {torch.__version__}" in shown and f"torch {torch.__version__}" in text
    assert "what crashes                    failed with status -6" in shown and "    about to\n" in shown
    assert "what hangs                      cut off" in shown
    assert "what ends                       done after" in shown and "    a result\n" in shown
    assert "many words\na result\n\n```\n\ndone after" in text and "many words" not in shown
    assert shown.endswith("Failed or cut off: crashes hangs\n")
    child = int(text.rpartition("result: process")[2].split()[0])
    for _ in range(1000):  # whoever inherits it may take a moment to notice its end
        if not Path(f"/proc/{child}/stat").exists() or ") Z " in Path(f"/proc/{child}/stat").read_text():
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        pytest.fail("what the part has started lives on")


def test_each_part_leaves_the_time_of_those_after_it(tmp_path, capsys, monkeypatch):
    parts, limits = gpu.parts("cuda", tiny=False), {}

    def run(part, seconds, *_):
        limits[part.name] = seconds
        return "done after 0 s", []

    monkeypatch.setattr(gpu, "run", run)
    kept = {part.name: part.seconds for part in parts if part.name not in gpu.LAYERS}
    assert sum(kept.values()) <= 8 * 60
    assert gpu.main(TINY, lambda *_, **__: parts, tmp_path / "report.md") == 0
    names = [part.name for part in parts]
    assert list(limits) == names and limits["models"] == pytest.approx(480 - sum(kept.values()) + 90, abs=30)
    limits.clear()
    assert gpu.main([*TINY, "--minutes", "0", "--only", "step", "7b"], lambda *_, **__: parts, tmp_path / "r.md") == 0
    assert not limits and capsys.readouterr().out.endswith("Left out: benchmarks/gpu.py --only step 7b\n")


def test_all_benchmarks_that_take_a_device_are_among_the_parts():
    paths = {path.name: path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    with_device = {name for name, text in paths.items() if "given.device" in text} - {"gpu.py", "measure.py"}
    run = {Path(word).name for part in gpu.parts("cuda", tiny=False) for word in part.arguments}
    assert with_device - {"before_transformers.py", "page_graph.py"} <= run  # for one thread, and for the page
    assert all((ROOT / word).exists() for part in gpu.parts("cuda", False) for word in part.arguments if "/" in word)


def test_what_it_needs_is_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="^PyTorch .* finds no GPU: this needs an NVIDIA card and a PyTorch that"):
        gpu.main([])
    monkeypatch.setattr(gpu, "NEEDED", ("torch", "no_such_package"))
    with pytest.raises(SystemExit, match="lacks no_such_package; the .venv of `make test` has all that is needed"):
        gpu.main([])


@pytest.mark.slow
def test_everything_runs_at_tiny_size_on_a_cpu():
    """But for the tests beside this file, which are slow tests themselves."""
    command = [sys.executable, ROOT / "benchmarks" / "gpu.py", *TINY, "--minutes", "14", "--only"]
    found = subprocess.run([*command, "tests", "step", "compiled", "1b"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("done after") == 4 and "optimized, int8, static / HF, static, compiled" in found.stdout
    assert "operators" in found.stdout and " passed" in found.stdout
