"""Everything that waits for a GPU, in one run of at most eight minutes on one card: tests that a device can turn, a
training step of GPT-2 small with a profile, decoding with 1 and 7 billion weights, and layers beside their peers.

    python benchmarks/gpu.py [--only step 7b] [--minutes 8]
    python benchmarks/gpu.py --device cpu --tiny

Each part runs in a process of its own with a time limit, and writes into the report (``_build/gpu/report.md``) while it
runs. So a part that fails, hangs or crashes costs nothing but itself, and a run that is cut off leaves what it has
done. Layers come last, in the time that is left; what was left out is listed with the command that runs it. Nothing is
installed or downloaded: the environment must have PyTorch for CUDA, transformers and pytest.

``--tiny`` proves this command on a CPU, in about a minute where nothing else runs. Its models have one layer, it
compiles without making kernels, and it leaves out the layers, which have no smaller sizes.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("torch", "transformers", "pytest", "einops", "safetensors", "psutil")
LAYERS = ("operator_classes", "rotary", "normalization", "feedforward", "linear_attention", "recurrent", "attention")


class Part(NamedTuple):
    name: str
    seconds: int
    """Are kept for it. It may take twice as many, if the parts before it have left them."""
    what: str
    shown: str
    """A regular expression: which lines of its output the terminal shows, beside the report."""
    arguments: list[str]
    """Of Python."""


def parts(device: str, tiny: bool) -> list[Part]:
    pytest = ["-m", "pytest", "-q", "-o", "addopts=", "-o", "faulthandler_timeout=40", "-p", "no:cacheprovider"]
    pytest += ["--import-mode", "importlib", "--tb", "short", "-m", ""]
    pytest += ["-k", "cpu" if device == "cpu" else "cuda or on_a_gpu or different_devices"]
    files = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if path.parent.name != "gpu"]
    files = [str(path.relative_to(ROOT)) for path in files if "torch.cuda.is_available" in path.read_text("utf-8")]
    if tiny:
        files = [name for name in files if name.startswith("tests/models/")]
    without_kernels = ["--backend", "aot_eager"] if tiny else []

    def benchmark(name, *arguments):
        return [f"benchmarks/{name}.py", "--device", device, "--rounds", "9", *arguments]

    size = "tiny" if tiny else "gpt-2"
    step = benchmark("training_step", "--size", size, *without_kernels)
    found = [
        Part("models", 90, "whole models on the device", "passed|failed|error", [*pytest, "tests/gpu/test_devices.py"]),
        Part("tests", 80, "tests that take a device", "passed|failed|error", [*pytest, *files]),
        Part("step", 45, f"training step, {size}, eager", "^(?!USDT)", [*step, "--profile"]),
        Part("compiled", 75, f"training step, {size}, compiled", "", [*step, "--compile"]),
    ]
    decoding = ["--dtype", "bfloat16", "--batch", "1", "--steps-alone", *without_kernels, "--only", "HF", "optimized"]
    decoding += ["optimized, int8", "HF, static, compiled", "optimized, static", "optimized, int8, static"]
    for name, seconds, case in ("1b", 90, "Llama 3.2 1B"), ("7b", 100, "Llama 2 7B"):
        case = "tiny" if tiny else case
        found.append(Part(name, seconds, f"decoding, {case}", "", benchmark("generation", "--cases", case, *decoding)))
    if tiny:  # with one size, decoding is one part
        return found[:-1]
    return found + [Part(name, 30, "beside its peers", "above the goal", benchmark(name)) for name in LAYERS]


def run(part: Part, seconds: float, report: Path, environment: dict[str, str]) -> tuple[str, list[str]]:
    """How a part ended, and the lines of its output that the terminal shows; the report has all of them."""
    with report.open("a", encoding="utf-8") as out:
        out.write(f"\n## {part.name}: {part.what}\n\n    python {shlex.join(part.arguments)}\n\n```text\n")
        out.flush()
        start, begin = out.tell(), time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *part.arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
            ended = "done" if status == 0 else f"failed with status {status}"
        except subprocess.TimeoutExpired:
            ended = "cut off"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what it has started
            process.wait()
        ended += f" after {time.monotonic() - begin:.0f} s"
        lines = report.read_bytes()[start:].decode("utf-8", "replace").splitlines()
        out.write(f"\n```\n\n{ended}\n")
    return ended, [line for line in lines if re.search(part.shown, line) or line in lines[-3:] and "done" not in ended]


def about(device: str) -> str:
    """The device and the versions."""
    import torch

    name = f"a CPU ({platform.machine()})"
    if device != "cpu":
        card = torch.cuda.get_device_properties(0)
        name = f"{card.name}, {card.total_memory / 1e9:.0f} GB, CUDA {torch.version.cuda}"
    versions = [f"{package} {importlib.metadata.version(package)}" for package in ("torch", "transformers")]
    versions.append(f"Python {platform.python_version()}")
    if shutil.which("git"):
        command = ["git", "describe", "--always", "--dirty"]
        versions.append(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip())
    return ", ".join([name, *versions])


def refuse_what_cannot_run(device: str) -> None:
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        sys.exit(f"{sys.executable} lacks {', '.join(missing)}; the .venv of `make test` has all that is needed.")
    import torch

    if device != "cpu" and not torch.cuda.is_available():
        sys.exit(
            f"PyTorch {torch.__version__} finds no GPU: this needs an NVIDIA card and a PyTorch that is built for CUDA "
            "(python benchmarks/gpu.py --device cpu --tiny tries the command without them)."
        )


def main(words: list[str] | None = None, parts=parts, report: Path = ROOT / "_build" / "gpu" / "report.md") -> int:
    names = [part.name for part in parts("cuda", tiny=False)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: %(default)s")
    parser.add_argument("--tiny", action="store_true", help="models of one layer, and no kernels compiled")
    parser.add_argument("--minutes", type=float, default=8, help="of the whole run (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", help=f"of {', '.join(names)}")
    given = parser.parse_args(words)
    if given.device == "cpu" and not given.tiny:
        parser.error("--device cpu needs --tiny, since the models are too large for a CPU")
    refuse_what_cannot_run(given.device)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    environment |= {"OMP_NUM_THREADS": "1"} if given.tiny else {}  # threads would wait for each other on a busy machine
    end, heading = time.monotonic() + 60 * given.minutes, about(given.device)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(f"# Everything that waits for a GPU\n\n{heading}\n", encoding="utf-8")
    print(f"{heading}\n{'part':17} {'what':31} ended", flush=True)
    waiting = [part for part in parts(given.device, given.tiny) if part.name in (given.only or names)]
    broken, left_out = [], []
    while waiting:
        part = waiting.pop(0)
        kept = sum(other.seconds for other in waiting if other.name not in LAYERS)
        left = min(end - time.monotonic() - kept, (20 if given.tiny else 2) * part.seconds)
        print(f"{part.name:17} {part.what:31} ", end="", flush=True)
        if left < min(10, part.seconds):
            left_out.append(part.name)
            print("left out", flush=True)
            continue
        ended, shown = run(part, left, report, environment)
        print("\n    ".join([ended, *shown]), flush=True)
        broken += [] if ended.startswith("done") else [part.name]
    print(f"All that was printed is in {report}.")
    if left_out:
        print(f"{given.minutes:g} minutes were not enough. Left out: benchmarks/gpu.py --only {' '.join(left_out)}")
    if broken:
        print(f"Failed or cut off: {' '.join(broken)}")
    return bool(broken)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the part that runs as well
    sys.exit(main())
