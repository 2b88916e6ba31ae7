"""What experiments share: jobs in one process or in several, tables that grow with each job, and reading them again."""

import csv
import inspect
import io
import json
import math
import platform
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from llm_anatomy.data import table
from llm_anatomy.files import write_atomically
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Tensor

Rows = dict[str, list[list]]
"""The rows of each table by its name."""


class Tables:
    """The tables of an experiment. They are written after each job, so that a run that is stopped leaves what it has.

    Until the settings are written, the folder also has the file ``finished.jsonl`` with the rows of each finished job.
    If the experiment is stopped and started again with the same code, it takes these rows and runs only the other jobs.

    Args:
        folder: folder of the tables; it is created if it does not exist.
        columns: the columns of each table by its name.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: this project's experiments, in ``training/experiments``; IITD-17, UCL-14.

    >>> Tables(Path("unused"), {"losses": ["seed", "loss"]}, n_workers=0)
    Traceback (most recent call last):
    ValueError: n_workers=0 must be at least 1
    """

    def __init__(self, folder: Path, columns: Mapping[str, Sequence], n_workers: int = 1):
        if n_workers < 1:
            raise ValueError(f"{n_workers=} must be at least 1")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.columns, self.n_workers = folder, columns, n_workers
        self.rows: Rows = {name: [] for name in columns}
        self._journal = folder / "finished.jsonl"
        self._finished, self._seconds = self._read_journal()

    @contextmanager
    def collecting(self) -> Iterator[Callable[[Callable, list, str], None]]:
        """Start the processes, and give the function ``collect(work, jobs, what)``.

        It calls ``work`` with each job that is not finished yet, and adds the rows of all jobs to the tables. The
        processes have one thread each, so that a run can be repeated exactly.
        """
        with _map(self.n_workers) as run_all:

            def collect(work: Callable, jobs: list, what: str) -> None:
                keys = [_key(work, job) for job in jobs]
                left = [job for key, job in zip(keys, jobs, strict=True) if key not in self._finished]
                computed, began = iter(run_all(work, left)), time.monotonic()
                for key in tqdm(keys, desc=what, disable=None):
                    if (rows := self._finished.get(key)) is None:
                        rows, ended = next(computed), time.monotonic()
                        with self._journal.open("a") as journal:
                            journal.write(json.dumps([key, rows, ended - began]) + "\n")
                        began = ended
                    for name, more in rows.items():
                        self.rows[name] += more
                        self.write(name, self.columns[name], self.rows[name])

            yield collect

    def _read_journal(self) -> tuple[dict[str, Rows], float]:
        """Read the rows of the jobs that an earlier run has finished, and how many seconds it took."""
        lines = self._journal.read_text().splitlines(keepends=True) if self._journal.exists() else []
        whole = [line for line in lines if line.endswith("\n")]  # the last line is incomplete if it was being written
        if whole != lines:
            write_atomically(self._journal, "".join(whole))
        finished = [json.loads(line) for line in whole]
        return {key: rows for key, rows, _ in finished}, math.fsum(seconds for *_, seconds in finished)

    def write(self, name: str, head: Sequence, rows: list[list]) -> None:
        """Write one table."""
        file = io.StringIO(newline="")
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
        write_atomically(self.folder / f"{name}.csv", file.getvalue())

    def write_settings(self, name: str, settings: list[list], seeds: list[int], seconds: float) -> None:
        """Write the table of an experiment's settings, which ends with its seeds, versions and minutes.

        This is the end of the experiment, so that the rows of single jobs are no longer needed.
        """
        versions = [["torch", torch.__version__.partition("+")[0]], ["python", platform.python_version()]]
        last = [["seeds", " ".join(map(str, seeds))], *versions, ["minutes", round((self._seconds + seconds) / 60)]]
        self.write(name, ["field", "value"], [*settings, *last])
        self._journal.unlink(missing_ok=True)


def _key(work: Callable, job: Any) -> str:
    """The name of a job. It is another one after a change of the code, whose finished jobs are then not taken."""
    code = zlib.crc32(Path(inspect.getfile(work)).read_bytes())
    return f"{work.__qualname__} {job!r} {code:08x} {torch.__version__}"


@contextmanager
def _map(n_workers: int) -> Iterator[Callable[[Callable, list], Iterable]]:
    """A map over jobs, in this process or in several."""
    n_threads = torch.get_num_threads()
    if n_workers > 1:
        with ProcessPoolExecutor(n_workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
            yield pool.map
    else:
        torch.set_num_threads(1)
        try:
            yield map
        finally:
            torch.set_num_threads(n_threads)


def rows_of(first: list, values: Tensor, digits: int = 4) -> list[list]:
    """Make one row for each entry of a tensor: the first columns, the indices of the entry, and its value.

    Args:
        first: the columns that all rows share.
        values: the tensor, of any number of axes.
        digits: number of decimals of a value.

    Source: this project's experiments, in ``training/experiments``; CMU-24.

    >>> rows_of(["rope"], torch.tensor([0.5, 0.25]))
    [['rope', 0, '0.5000'], ['rope', 1, '0.2500']]
    """
    entries = torch.ones_like(values).nonzero()
    return [[*first, *index.tolist(), f"{values[tuple(index)]:.{digits}f}"] for index in entries]


def initialize_(model: Transformer, seed: int) -> None:
    r"""Draw the matrices of a model anew: those that only its position scheme has come last.

    So models that differ in the scheme alone start from the same numbers. Embedding tables start from
    :math:`N(0, 1/d_\mathrm{model})`, and all other matrices from :math:`N(0, 1/d_\mathrm{in})`.

    Args:
        model: with an embedding that is scaled by :math:`\sqrt{d_\mathrm{model}}`, so that the embedding of a token and
            a sinusoid have the same size.
        seed: seed of the weights.

    Source: Vaswani et al. (2017), section 3.4; IITD-17, CMU-33.

    >>> from llm_anatomy.config import ModelConfig
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> initialize_(model, seed=0)
    """
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(model.named_parameters(), key=lambda named: "position" in named[0]):
        if weight.ndim == 2:
            d_in = model.config.d_model if name.endswith(("embedding.weight", "table")) else weight.shape[1]
            nn.init.normal_(weight, std=d_in**-0.5, generator=generator)


def best_max_lrs(tuning: list[list]) -> dict[str, float]:
    """Choose the learning rate with the smallest loss for each method; the first one on a tie.

    Args:
        tuning: rows of method, maximum learning rate and loss.

    Source: this project's experiments, in ``training/experiments``; IITD-17, UCL-14.

    >>> best_max_lrs([["rope", 0.01, "1.5"], ["rope", 0.02, "1.25"], ["alibi", 0.01, "inf"]])
    {'rope': 0.02, 'alibi': 0.01}
    """
    best: dict[str, tuple[float, float]] = {}
    for method, max_lr, loss in tuning:
        best[method] = min(best.get(method, (math.inf, max_lr)), (float(loss), max_lr))
    return {method: max_lr for method, (_, max_lr) in best.items()}


def means_over_seeds(tuning: list[list]) -> list[list]:
    """Average the losses of the seeds for each method and learning rate, for :func:`best_max_lrs`.

    Args:
        tuning: rows of method, maximum learning rate, seed and loss.

    Source: this project's experiments, in ``training/experiments``; CMU-07, CMU-15.

    >>> means_over_seeds([["relu", 0.01, 5, "1.5"], ["gelu", 0.01, 5, "1.0"], ["relu", 0.01, 6, "2.5"]])
    [['relu', 0.01, 2.0], ['gelu', 0.01, 1.0]]
    """
    losses: dict[tuple, list[float]] = {}
    for method, max_lr, _, loss in tuning:
        losses.setdefault((method, max_lr), []).append(float(loss))
    return [[*key, fmean(of_seeds)] for key, of_seeds in losses.items()]


def results(name: str, column: str = "loss", **wanted: str | int | float | None) -> Float[Tensor, "rows"]:
    """Read a column of a table that an experiment has written, in its order: seed by seed.

    Args:
        name: a table, such as ``position_losses``.
        column: a column of numbers.
        wanted: columns and the values that they must have.

    Raises:
        ValueError: if there is no such table, or no row has these values.

    Source: this project's experiments, in ``training/experiments``; IITD-17, CMU-33, UCL-14.

    >>> results("position_losses", scheme="sinusoidal", n_tokens=64).shape  # the seeds
    torch.Size([5])
    >>> results("losses_by_position", scheme="alibi").view(5, -1).shape  # seeds, and 16 positions in each entry
    torch.Size([5, 32])
    """
    found = [row[column] for row in table(name) if all(row[key] == value for key, value in wanted.items())]
    if not found:
        raise ValueError(f"no row of {name} has {wanted}")
    return torch.tensor(found, dtype=torch.float32)
