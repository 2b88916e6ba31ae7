"""A corpus and a run that take less than a second, for the tests of the lab."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from llm_anatomy.training.data.shards import ShardWriter
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.lab.loop import Result, run
from llm_anatomy.training.lab.step import Stepper

N_VOCAB, N_STEPS = 17, 24
MODEL = dict(
    d_model=16, n_layers=2, n_heads=2, d_ff=24, position="rope", norm="rmsnorm", feedforward="swiglu", n_ctx=12
)


def write_corpus(folder: Path, *, targets: bool = False, seed: int = 0) -> Path:
    """Documents that count by one to four, modulo the size of the vocabulary."""
    rng, writer = np.random.default_rng(seed), ShardWriter(folder, n_vocab=N_VOCAB, has_targets=targets)
    for split, n_documents in (("train", 40), ("validation", 6)):
        for _ in range(n_documents):
            ids = np.arange(rng.integers(5, 40)) * rng.integers(1, 5) % N_VOCAB
            writer.add(split, ids, rng.random(len(ids)) < 0.5 if targets else None)
    writer.finish()
    return folder


def small_config(corpus: Path, out: Path, **changes) -> dict:
    """The fields of a run; changes have dotted names."""
    fields = {"out": str(out), "n_steps": N_STEPS, "model": MODEL, "data.path": str(corpus), "data.n_tokens": 12}
    fields |= {"data.batch_size": 6, "optimizer.max_lr": 0.01, "checkpoint.every": 7, "parallel.device": "cpu"}
    fields |= {"watch.quiet": True, "watch.evaluate_every": 10, "watch.evaluation_sequences": 8}
    return fields | changes


def metrics(out: Path | str) -> list[dict]:
    return [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]


def events(out: Path | str, kind: str) -> list[dict]:
    lines = [json.loads(line) for line in (Path(out) / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


@contextmanager
def stopping(after: int | None, rank: int = 0) -> Iterator[None]:
    """A rank gets SIGTERM in the middle of a step."""
    update = Stepper.update

    def update_and_stop(self, step):
        update(self, step)
        if step == after and self.ranks.rank == rank:
            os.kill(os.getpid(), signal.SIGTERM)

    Stepper.update = update_and_stop
    try:
        yield
    finally:
        Stepper.update = update


def run_small(fields: dict, *, stop_after: int | None = None, stopping_rank: int = 0) -> Result:
    with stopping(stop_after, stopping_rank):
        return run(TrainConfig.of(fields))


def run_on_rank(works: list[dict]) -> list[dict]:
    """Do some runs one after the other; how each ended, and how much of the model this rank had."""
    n_local, reports = [], []
    init = Stepper.__init__

    def init_and_count(self, config, ranks, model):
        init(self, config, ranks, model)
        local = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
        n_local.append(sum(p.numel() for p in local))

    Stepper.__init__ = init_and_count
    for work in works:
        result = run_small(
            work["config"], stop_after=work.get("stop_after"), stopping_rank=work.get("stopping_rank", 0)
        )
        reports.append({"status": result.status, "step": result.step, "n_local": n_local[-1]})
    return reports
