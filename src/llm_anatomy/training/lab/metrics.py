"""Metrics of a run: a file with one line for each step, a log of events, a progress bar, throughput."""

import json
import math
import re
import sys
import time
from datetime import UTC, datetime
from operator import index
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tqdm import tqdm

from llm_anatomy.config import ModelConfig
from llm_anatomy.data import table
from llm_anatomy.files import JsonLines, write_atomically
from llm_anatomy.models.costs import costs

# --- Throughput ---


def peak_flops(device: torch.device | str, dtype: torch.dtype) -> float | None:
    """Look up how many operations a second a GPU can do at most, by its name.

    Args:
        device: the device. H100 and H200 are known as SXM modules; their PCIe and NVL cards are slower, and unknown.
        dtype: of the matrix products. For float32, the number is that without TF32. A T4 has no bfloat16; it has the
            number of float16.

    Returns:
        The number of dense operations a second, or None for a CPU, and a GPU or dtype that is not in the table
        ``hardware``.

    Source: the table ``hardware`` and the data sheets that it names; UCL-29.

    >>> peak_flops("cpu", torch.bfloat16) is None
    True
    """
    device = torch.device(device)
    if device.type != "cuda":
        return None
    words = set(re.findall(r"[a-z0-9]+", torch.cuda.get_device_name(device).lower()))
    columns = {torch.bfloat16: "flops_bfloat16", torch.float16: "flops_bfloat16", torch.float32: "flops_float32"}
    row = next((row for row in table("hardware") if str(row["name"]).lower() in words), None)
    if row is None or dtype not in columns or (words & {"h100", "h200"} and words & {"pcie", "nvl"}):
        return None
    return float(row[columns[dtype]] or 0) or None


def flops_per_token(config: ModelConfig, n_tokens: int, n_source: int | None = None) -> float:
    """Count the operations of the forward and the backward pass for each token of a training step.

    Operations that activation checkpointing repeats do not count, and neither does a mask that hides scores.

    Args:
        config: of the model.
        n_tokens: number of tokens of each sequence.
        n_source: number of tokens of each source, for an encoder-decoder.

    Source: Chowdhery et al. (2022), "PaLM", appendix B; UCL-29.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101)
    >>> flops_per_token(config, 20) == 3 * costs(config, 20).flops_per_token
    True
    """
    counted = costs(config, n_tokens, n_source=n_source)
    return counted.flops_per_token + counted.flops_per_token_backward


class Throughput:
    r"""Measure tokens a second, and which fraction of the hardware's peak the model uses (model FLOPs utilization).

    .. math:: \mathrm{MFU} = \frac{\mathrm{tokens\ per\ second} \cdot \mathrm{FLOPs\ per\ token}}
        {\mathrm{devices} \cdot \mathrm{peak\ FLOPs\ per\ second}}

    Args:
        flops_per_token: operations for each token, as from :func:`flops_per_token`.
        peak: operations a second of all devices together, None if it is not known.

    Source: Chowdhery et al. (2022), "PaLM", section 4.1; UCL-29.

    >>> throughput = Throughput(flops_per_token=100.0, peak=None)
    >>> [*throughput.read(n_tokens=1000)]
    ['tokens_per_second']
    """

    def __init__(self, flops_per_token: float, peak: float | None = None):
        self.flops_per_token, self.peak = flops_per_token, peak
        self.start()

    def start(self) -> None:
        """Begin to measure now, so that an evaluation or the first, slow step does not count."""
        self._since = time.perf_counter()

    def read(self, n_tokens: int) -> dict[str, float]:
        """Return the metrics since the last call, and begin again. On a GPU, the steps must have been waited for.

        Args:
            n_tokens: number of tokens since the last call, over all devices.
        """
        now = time.perf_counter()
        rate = n_tokens / max(now - self._since, 1e-9)
        self._since = now
        mfu = {} if self.peak is None else {"mfu": rate * self.flops_per_token / self.peak}
        return {"tokens_per_second": rate} | mfu


# --- What is written ---


class Metrics:
    """Write the metrics and the events of a run into its folder, and show a progress bar in a terminal.

    ``metrics.jsonl`` has one JSON object a line, with the ``step`` and its numbers, where ``null`` stands for one that
    is not finite. Each step is there once, because the lines after a step leave the file when the run goes back to it.
    ``events.jsonl`` is the log of what happened to the run, each event with its time (UTC), step, kind and message. It
    keeps everything. In a distributed run, only the process of rank 0 writes.

    Args:
        folder: of the run; it is made if it does not exist. A line that was cut off by a kill is removed.
        n_steps: number of steps of the run, for the progress bar.
        tensorboard: whether to write the metrics for TensorBoard too, into the folder ``tensorboard``.
        wandb: whether to send them to Weights & Biases too, under the name of the folder.
        quiet: whether to show neither a progress bar nor events.

    Raises:
        ImportError: if TensorBoard or Weights & Biases is asked for and not installed.

    Source: Zhang et al. (2022), "OPT", and its logbook, for the log of events; GT-03.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Metrics(folder, n_steps=3, quiet=True) as metrics:
    ...     for step in (1, 2, 3):
    ...         metrics.log(step, loss=4.0 / step)
    ...     metrics.rewind(2)
    ...     (Path(folder) / "metrics.jsonl").read_text().splitlines()
    ['{"step": 1, "loss": 4.0}', '{"step": 2, "loss": 2.0}']
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        n_steps: int,
        tensorboard: bool = False,
        wandb: bool = False,
        quiet: bool = False,
    ):
        self.folder, self.quiet = Path(folder), quiet
        self.is_writing = not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
        self._tensorboard = self._wandb = None
        if not self.is_writing:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._summary_writer = _summary_writer() if tensorboard else None
        if wandb:
            self._wandb = _import_wandb().init(dir=str(self.folder), name=self.folder.name)
            self._wandb.define_metric("*", step_metric="step")  # its own count of steps cannot go back
        self._metrics = JsonLines(self.folder / "metrics.jsonl")
        self._events = JsonLines(self.folder / "events.jsonl")
        self._open_tensorboard()
        self._bar = tqdm(total=n_steps, desc="training", unit="step", disable=True if quiet else None)

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def log(self, step: int, **numbers: float) -> None:
        """Write the numbers of a step. The bar shows ``loss``, ``tokens_per_second`` and ``mfu`` if they are there.

        Args:
            step: the number of the step.
            numbers: by name, such as ``loss=2.3`` or ``**measurements.as_metrics()``.
        """
        if not self.is_writing:
            return
        numbers = {name: float(value) for name, value in numbers.items()}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        self._metrics.append({"step": step} | finite)
        if self._tensorboard is not None:
            for name, value in numbers.items():
                self._tensorboard.add_scalar(name, value, step)
        if self._wandb is not None:
            self._wandb.log({"step": step} | numbers)
        shown = {"loss": ("loss", "{:.3f}"), "tokens_per_second": ("tokens/s", "{:,.0f}"), "mfu": ("MFU", "{:.1%}")}
        postfix = {label: form.format(numbers[name]) for name, (label, form) in shown.items() if name in numbers}
        self._show(step, postfix)

    def event(self, step: int, kind: str, message: str) -> None:
        """Write an event into the log, and show it.

        Args:
            step: the number of the step at which it happened.
            kind: what happened, in a word, such as ``resume``, ``spike`` or ``rewind``.
            message: a sentence.
        """
        if not self.is_writing:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._events.append({"time": now, "step": step, "kind": kind, "message": message})
        if not self.quiet:
            tqdm.write(f"step {step}, {kind}: {message}", file=sys.stderr)

    def rewind(self, step: int) -> None:
        """Remove the metrics of all steps after this one, since the run goes on from it; also when it resumes.

        Args:
            step: the number of the last step that stays.
        """
        if not self.is_writing:
            return
        if self._metrics.path.exists():
            problem = "it must be the metrics of a step; remove the line, and the same command goes on"
            lines = self._metrics.read(lambda fields: (index(fields["step"]), fields), problem=problem)
            kept = [json.dumps(fields, ensure_ascii=False) for of_line, fields in lines if of_line <= step]
            write_atomically(self._metrics.path, "".join(f"{line}\n" for line in kept))
        self._open_tensorboard(purge_step=step + 1)
        self._show(step, {})

    def close(self) -> None:
        """Close all files."""
        if self.is_writing:
            self._bar.close()
            if self._tensorboard is not None:
                self._tensorboard.close()
            if self._wandb is not None:
                self._wandb.finish()
            self.is_writing = False

    def _show(self, step: int, postfix: dict[str, str]) -> None:
        self._bar.n = step
        self._bar.set_postfix(postfix, refresh=False)
        self._bar.refresh()

    def _open_tensorboard(self, purge_step: int | None = None) -> None:
        if self._summary_writer is not None:
            if self._tensorboard is not None:
                self._tensorboard.close()
            self._tensorboard = self._summary_writer(str(self.folder / "tensorboard"), purge_step=purge_step)


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError("TensorBoard is not installed; pip install 'llm_anatomy[training]' installs it") from None
    return SummaryWriter


def _import_wandb() -> Any:
    try:
        import wandb  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError("Weights & Biases is not installed; pip install wandb installs it") from None
    return wandb
