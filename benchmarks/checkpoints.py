"""Loading a checkpoint of a gigabyte, made here: time and peak memory, beside Hugging Face's from_pretrained.

    python benchmarks/checkpoints.py

A Llama of random float32 weights is written into a temporary folder in one file and in six. Each loading has a process
of its own, in an order that changes; its time begins after the imports, and its memory is what the peak of the resident
set has grown by since then, as a multiple of the weights (on Linux). Goal: 1.2 × the weights.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from measure import arguments, over, row, take_turns

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import Checkpoint, save
from llm_anatomy.models.transformer import Transformer

OURS = "from llm_anatomy.models.checkpoints import load; load_it = lambda: load(folder, device=device).model"
HF = (
    "from transformers import AutoModelForCausalLM; "
    "load_it = lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device)"
)
MEASURED = """
import json, pathlib, sys, time, torch
folder, device = sys.argv[1:]
{loader}
status = lambda: dict(line.split(":") for line in pathlib.Path("/proc/self/status").read_text().splitlines())
peak = lambda: int(status()["VmHWM"].split()[0]) * 1024  # of this process alone, since it began
before, begin = peak(), time.perf_counter()
model = load_it()
seconds = time.perf_counter() - begin
weights = sum(p.numel() * p.element_size() for p in model.parameters())
print(json.dumps({{"seconds": seconds, "memory": (peak() - before) / weights}}))
"""


def write(folder: Path) -> float:
    """Makes the files; returns the gigabytes of the weights."""
    config = ModelConfig(
        d_model=1024,
        n_layers=16,
        n_heads=16,
        d_ff=3072,
        n_vocab=32000,
        position="rope",
        norm="rmsnorm",
        feedforward="swiglu",
    )
    model = Transformer(config)
    checkpoint = Checkpoint(model=model, family="llama")
    n_bytes = 4 * sum(p.numel() for p in model.parameters())
    save(checkpoint, folder / "one file")
    save(checkpoint, folder / "six files", shard=n_bytes // 6 + 32_000_000)
    return n_bytes / 1e9


def main(args):
    if args.device != "cpu":
        print("memory is that of the host")
    with tempfile.TemporaryDirectory() as folder:
        print(f"{write(Path(folder)):.2f} GB of weights")
        print(f"{'':12s} {'time':>6s}  {'quartiles':14s} {'peer / ms':>8s}    peak memory / weights: ours, peer")
        for files in ("one file", "six files"):
            peaks = {"ours": [], "peer": []}

            def load_alone(name, loader, files=files, peaks=peaks):
                command = [sys.executable, "-c", MEASURED.format(loader=loader), f"{folder}/{files}", args.device]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                peaks[name].append(found["memory"])
                return found["seconds"]

            contestants = {"ours": lambda: load_alone("ours", OURS), "peer": lambda: load_alone("peer", HF)}
            row(f"{files:12s}", over(take_turns(contestants, args.rounds), "ours", "peer"))
            ours, peer = max(peaks["ours"]), max(peaks["peer"])
            print(f"{'':54s} {ours:.2f}, {peer:.2f}{'  above the goal' if ours > 1.2 else ''}")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main(arguments(__doc__))
