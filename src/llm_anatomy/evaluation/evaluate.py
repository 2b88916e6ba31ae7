"""Evaluations: a model, tasks, and a report that says how each number was computed."""

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from llm_anatomy.evaluation.intervals import Interval
from llm_anatomy.evaluation.tasks import ItemResult, Task
from llm_anatomy.evaluation.text_model import TextModel
from llm_anatomy.files import JsonLines, write_atomically
from llm_anatomy.models.checkpoints.engine import Checkpoint


@dataclass(frozen=True)
class Report:
    """What an evaluation found.

    Args:
        metrics: the metrics of each task by their names.
        n_items: number of items of each task that the model has seen.
        results: the result of each item of each task, in the order of the items.
        settings: how the numbers were computed, and with which versions.

    Source: Biderman et al. (2024), "Lessons from the trenches on reproducible evaluation of language models"; GT-09.

    >>> Report({"lakes": {"accuracy, raw": Interval(0.5, 0.1, 0.9)}}, {"lakes": 4}, {}, {}).rows()
    [['lakes', '4', 'accuracy, raw', '0.500', '0.100 to 0.900']]
    """

    metrics: dict[str, dict[str, Interval]]
    n_items: dict[str, int]
    results: dict[str, list[ItemResult]] = field(repr=False)
    settings: dict[str, Any]

    def rows(self) -> list[list[str]]:
        """The report as a table: task, number of items, metric, value, and the 95% interval."""
        return [
            [task, str(self.n_items[task]), name, f"{m.estimate:.3f}", f"{m.low:.3f} to {m.high:.3f}"]
            for task, metrics in self.metrics.items()
            for name, m in metrics.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """The settings, and the metrics of each task."""
        tasks = {
            task: {
                "items": self.n_items[task],
                "metrics": {name: {"value": m.estimate, "interval": [m.low, m.high]} for name, m in metrics.items()},
            }
            for task, metrics in self.metrics.items()
        }
        return {"settings": self.settings, "tasks": tasks}


def evaluate(
    checkpoint: Checkpoint,
    tasks: Sequence[Task],
    *,
    batch_size: int = 32,
    few_shot: int = 0,
    limit: int | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    name: str = "",
) -> Report:
    """Evaluate a model on tasks. In a terminal, a bar shows the progress.

    With ``out``, the report is written there, and beside it, in a file that ends in ``.items.jsonl``, the result of
    each item as soon as it is known. If the evaluation is interrupted, the same call continues it, and
    one with a larger ``limit`` extends it.

    Args:
        checkpoint: a decoder with its tokenizer.
        tasks: with different names.
        batch_size: number of texts in a forward pass. It changes no result, apart from how sums are rounded.
        few_shot: number of solved items that are shown before each other one.
        limit: only the first items of each task, so many; None for all.
        seed: which examples are shown.
        out: a file for the report; its name ends in ``.json``.
        name: of the model, for the report.

    Raises:
        ValueError: for arguments that are not allowed, and for a file that belongs to another evaluation.

    Source: Gao et al., "A framework for few-shot language model evaluation"; Biderman et al. (2024); GT-09, GT-10.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.evaluation.tasks import MultipleChoice, Question
    >>> from llm_anatomy.models.checkpoints.texts import Texts
    >>> from llm_anatomy.models.transformer import Transformer
    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256, position="alibi"))
    >>> lakes = MultipleChoice("lakes", [Question(context="The lake is", choices=("deep", "loud"), answer=0)])
    >>> report = evaluate(Checkpoint(model=model, texts=Texts(tokenizer=ByteTokenizer())), [lakes])
    >>> list(report.metrics["lakes"])
    ['accuracy, raw', 'accuracy, per token', 'accuracy, per character']
    """
    names = [task.name for task in tasks]
    if not tasks or len({*names}) < len(names):
        raise ValueError(f"the tasks are {', '.join(names) or 'none'}; there must be one or more, with different names")
    if few_shot < 0:
        raise ValueError(f"{few_shot=} must be at least 0")
    if limit is not None and limit < 1:
        raise ValueError(f"{limit=} must be at least 1, or None for all items")
    for task in tasks:
        if not task.items:
            raise ValueError(f"the task {task.name} has no items")
    model = TextModel(checkpoint, batch_size)
    settings = {
        "model": name,
        "weights": fingerprint(checkpoint.model),
        "tasks": {task.name: _sha256(*map(repr, task.items)) for task in tasks},
        "few_shot": few_shot,
        "seed": seed,
    }
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    path = None if out is None else Path(out)
    journal = None if path is None else _open(path, settings)
    known = {} if path is None else read_results(path)
    results: dict[str, list[ItemResult]] = {}
    wanted = {task.name: range(min(limit or len(task.items), len(task.items))) for task in tasks}
    with tqdm(total=sum(map(len, wanted.values())), disable=None) as bar:
        for task in tasks:
            bar.set_description(task.name)
            there = known.get(task.name, {})
            found = {i: there[i] for i in wanted[task.name] if i in there}
            bar.update(len(found))
            left = [i for i in wanted[task.name] if i not in found]
            for i, result in task.run(model, left, few_shot, seed) if left else ():
                found[i] = result
                bar.update()
                if journal is not None:
                    journal.append([task.name, i, result])
            results[task.name] = [found[i] for i in wanted[task.name]]
    metrics = {task.name: task.metrics(wanted[task.name], results[task.name]) for task in tasks}
    more = {
        "limit": limit,
        "batch_size": batch_size,
        "device": str(next(checkpoint.model.parameters()).device),
        "versions": versions,
    }
    report = Report(metrics, {task: len(some) for task, some in results.items()}, results, settings | more)
    if path is not None:
        write_atomically(path, json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n")
    return report


def _open(out: Path, settings: dict[str, Any]) -> JsonLines:
    """The results of single items in a file, of which the first line says to which evaluation they belong."""
    if out.suffix != ".json":
        raise ValueError(f"out={str(out)!r} must end in .json")
    path = items_file(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomically(path, json.dumps(settings, ensure_ascii=False) + "\n")
    lines = JsonLines(path)
    if lines.read()[:1] != [settings]:
        raise ValueError(f"{path} has the results of another evaluation: remove it, or choose another --out")
    return lines


def items_file(out: str | os.PathLike[str]) -> Path:
    """The file with the result of each item, which is beside a report.

    Args:
        out: the file of the report.

    Source: :func:`evaluate`; GT-09.

    >>> items_file("gpt2.json").name
    'gpt2.items.jsonl'
    """
    return Path(out).with_suffix(".items.jsonl")


def read_results(out: str | os.PathLike[str]) -> dict[str, dict[int, ItemResult]]:
    """Read the result of each item from the file that :func:`evaluate` has written beside a report.

    With the results of two models on the same items, their paired difference can be tested.

    Args:
        out: the file of the report.

    Raises:
        ValueError: if there is no such file.

    Source: Miller (2024), "Adding error bars to evals", section 4; GT-09.

    >>> read_results("no/such/file.json")
    Traceback (most recent call last):
    ValueError: there is no no/such/file.items.jsonl; evaluate(…, out='no/such/file.json') writes it
    """
    path = items_file(out)
    if not path.is_file():
        raise ValueError(f"there is no {path}; evaluate(…, out={os.fspath(out)!r}) writes it")
    found: dict[str, dict[int, ItemResult]] = {}
    for task, i, result in JsonLines(path).read()[1:]:
        found.setdefault(task, {})[i] = result
    return found


def fingerprint(model: torch.nn.Module) -> str:
    """A checksum of a model's parameters: of their names and shapes, and of up to 4,096 entries of each.

    Args:
        model: any.

    Source: FIPS 180-4, SHA-256; GT-09.

    >>> fingerprint(torch.nn.ReLU())[:8]
    'e3b0c442'
    """
    content = hashlib.sha256()
    for name, tensor in _tensors(model):
        flat = tensor.detach().flatten()
        some = flat[:: max(1, len(flat) // 4096)].float().cpu().contiguous()
        content.update(f"{name} {tuple(tensor.shape)} ".encode() + some.numpy().tobytes())
    return content.hexdigest()


def _tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return chain(model.named_parameters(), model.named_buffers())


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
