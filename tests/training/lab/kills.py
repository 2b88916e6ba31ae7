"""Kill training runs at random moments, resume them each time, and compare them with runs that nobody disturbed.

    python tests/training/lab/kills.py --kills 200

A kill is a SIGKILL to one rank, to the process that started the ranks, or to all of them. Half of the kills come at a
random moment of a run's life, the others while a checkpoint is being written. When the starting process alone is
killed, its ranks live on for a moment while the next ones are started, as on a cluster that is slow to clean up. A run
that reaches its end must have the weights of the undisturbed one bit for bit, and the same metrics of each step once;
then the next one begins, until there were enough kills.

The run is that of ``python -m llm_anatomy train``, with two ranks, in DDP and sharded in turn. Now and then torchrun
starts it, through ``llm_anatomy.training.lab.launch``. Otherwise its processes are forked from this one, which has
imported PyTorch already: that would take most of the time.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import jsonargparse  # noqa: F401, before the processes are forked
import psutil
import torch
import torch._dynamo  # which optimizers import
import torch.distributed.fsdp

from llm_anatomy.__main__ import main as llm_anatomy
from llm_anatomy.training.data.shards import ShardWriter
from llm_anatomy.training.lab import loop  # noqa: F401 (which the command train imports)

N_RANKS = 2
STRATEGIES = ("ddp", "fsdp")
EACH_BY_TORCHRUN = 20
"""Each life of this number is started by torchrun."""

CONFIG = {
    "n_steps": 60,
    "model": {"d_model": 48, "n_layers": 2, "n_heads": 3, "d_ff": 96, "position": "rope"},
    "data": {"n_tokens": 24, "batch_size": 8, "micro_batch_size": 2},
    "optimizer": {"ema_decay": 0.9},
    "schedule": {"warmup_steps": 5},
    "parallel": {"device": "cpu"},
    "checkpoint": {"every": 4, "keep_last": 2},
    "watch": {"evaluate_every": 8, "evaluation_sequences": 8, "quiet": True},
}
COMPARED = ("step", "loss", "learning_rate", "gradient_norm", "position", "validation_loss")


def write_data(folder: Path) -> None:
    """Documents in which each token follows from the last, but for noise; few enough for several epochs."""
    generator, writer = torch.Generator().manual_seed(0), ShardWriter(folder, n_vocab=64)
    for i in range(60):
        noise = (torch.rand(100, generator=generator) < 0.2).long()
        writer.add("train" if i % 10 else "validation", ((noise * 5 + 1).cumsum(0) * 3 % 64).tolist())
    writer.finish()


class Life:
    """One start of a run: a starting process and its ranks, which live until the end, or until they are killed."""

    last: "Life | None" = None

    def __init__(self, folder: Path, arguments: list[str], by_torchrun: bool):
        self.folder, self.status = folder, None
        log = open(folder / "log.txt", "a")  # noqa: SIM115, each life has its own
        if by_torchrun:
            command = [
                sys.executable,
                "-m",
                "llm_anatomy.training.lab.launch",
                "--standalone",
                "--nproc-per-node",
                str(N_RANKS),
            ]
            command += ["-m", "llm_anatomy", *arguments]
            self.pid = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True).pid
        else:
            self.pid = os.fork()
            if self.pid == 0:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.setsid()
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                os._exit(start_ranks(arguments))
        log.close()
        Life.last = self

    def ended(self) -> int | None:
        """The exit status of the starting process, negative for a signal; None while it lives."""
        if self.status is None and (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.status = os.waitstatus_to_exitcode(found[1])
        return self.status

    def ranks(self) -> list[int]:
        """The processes of the ranks, in their order."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self.pid).children()]
        return []

    def kill(self, target: str) -> None:
        """Kill, and wait until the starting process has ended."""
        self.known = self.ranks()
        if target.startswith("rank"):
            hit = self.known[int(target.split()[1]) :][:1]  # none if the run is just ending
        else:
            hit = [self.pid, *(self.known if target == "all" else [])]
        for pid in hit:
            _kill(pid)
        while self.ended() is None:
            time.sleep(0.005)

    def clean_up(self) -> None:
        """Kill the ranks that a killed starting process has left, also one that it was just about to start."""
        for pid in self.known:
            _kill(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def start_ranks(arguments: list[str]) -> int:
    """What a starting process does: it starts the ranks, and when one fails, it kills the others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        variables = {"WORLD_SIZE": N_RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free.getsockname()[1]}
    living = set()
    for rank in range(N_RANKS):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                variables |= {"RANK": rank, "LOCAL_RANK": rank}
                os.environ.update({name: str(value) for name, value in variables.items()})
                status = llm_anatomy(arguments)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        living.add(pid)
    while living:
        pid, status = os.wait()
        living.discard(pid)
        if status:
            for other in living:
                _kill(other)
            return os.waitstatus_to_exitcode(status)
    return 0


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def drafts(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").glob("*.partial")}


def wait_for_draft(life: Life, n: int) -> None:
    """Return when the n-th draft of a checkpoint appears, or the run has ended."""
    seen = set()
    while life.ended() is None and len(seen) < n:
        seen |= drafts(life.folder)
        time.sleep(0.001)


def wait(life: Life, seconds: float = float("inf")) -> None:
    until = time.monotonic() + seconds
    while life.ended() is None and time.monotonic() < until:
        time.sleep(0.005)


def results(folder: Path) -> tuple[bytes, list[tuple]]:
    """The weights of a run that has reached its end, and its metrics."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    weights = (folder / "model" / "model.safetensors").read_bytes()
    return weights, [tuple(json.loads(line).get(name) for name in COMPARED) for line in lines]


class Failure(Exception):
    """A run that did not do what it should."""


class Program:
    def __init__(self, n_kills: int, seed: int, scratch: Path):
        self.n_kills, self.rng, self.scratch = n_kills, random.Random(seed), scratch
        self.counts, self.expected, self.durations = Counter(), {}, {}
        write_data(scratch / "data")

    def arguments(self, name: str, strategy: str) -> tuple[Path, list[str]]:
        folder = self.scratch / name
        folder.mkdir()
        config = CONFIG | {"out": str(folder)}
        config["data"] = config["data"] | {"path": str(self.scratch / "data")}
        config["parallel"] = config["parallel"] | {"strategy": strategy}
        (folder / "config.yaml").write_text(json.dumps(config))  # which is YAML
        return folder, ["train", str(folder / "config.yaml")]

    def undisturbed(self, strategy: str) -> None:
        folder, arguments = self.arguments(strategy, strategy)
        begin = time.monotonic()
        life = Life(folder, arguments, by_torchrun=False)
        wait(life)
        self.durations[strategy] = time.monotonic() - begin
        if life.ended() != 0:
            raise Failure(f"the undisturbed run ended with {life.ended()}:\n{(folder / 'log.txt').read_text()[-3000:]}")
        self.expected[strategy] = results(folder)
        n_bytes = len(self.expected[strategy][0])
        print(f"undisturbed, {strategy}: {self.durations[strategy]:.1f} s, {n_bytes:,} bytes of weights", flush=True)

    def disturbed(self, number: int, strategy: str) -> None:
        """One run, with kills as long as there are some left."""
        folder, arguments = self.arguments(f"run-{number}", strategy)
        life, n_lives = Life(folder, arguments, by_torchrun=False), 1
        while self.counts["kills"] < self.n_kills:
            if self.rng.random() < 0.5:
                wait_for_draft(life, self.rng.randint(1, 5))
                wait(life, self.rng.uniform(0, 0.05))
            else:
                wait(life, self.rng.uniform(0, self.durations[strategy]))
            target = self.rng.choice([*(f"rank {rank}" for rank in range(N_RANKS)), "parent", "all"])
            if life.ended() is not None:
                break
            if len(life.ranks()) < N_RANKS:  # they are not yet started
                target = "parent"
            writing = sorted(drafts(folder))
            last = max((path.name for path in (folder / "checkpoints").glob("step-????????")), default="no checkpoint")
            life.kill(target)
            self.counts.update(["kills", target, *(["while a checkpoint was written"] if writing else [])])
            what = f"while {writing[0].partition('.')[0]} is written" if writing else "between checkpoints"
            print(
                f"kill {self.counts['kills']}: {strategy} {number}.{n_lives}, {target}, {what}, after {last}",
                flush=True,
            )
            n_lives += 1
            by_torchrun = self.counts["kills"] % EACH_BY_TORCHRUN == EACH_BY_TORCHRUN // 2
            self.counts["lives under torchrun"] += by_torchrun
            killed, life = life, Life(folder, arguments, by_torchrun)
            if target == "parent":
                time.sleep(self.rng.uniform(0, 0.5))
            killed.clean_up()
        wait(life)
        log = (folder / "log.txt").read_text()[-3000:]
        if life.ended() != 0:
            raise Failure(f"run {number} ended with status {life.ended()}:\n{log}")
        if list((folder / "checkpoints").glob("*.damaged")):
            raise Failure(f"run {number} has found a damaged checkpoint:\n{log}")
        weights, metrics = results(folder)
        if weights != self.expected[strategy][0]:
            raise Failure(f"run {number} has other weights than the undisturbed one:\n{log}")
        if metrics != self.expected[strategy][1]:
            different = [pair for pair in zip(metrics, self.expected[strategy][1], strict=False) if pair[0] != pair[1]]
            raise Failure(f"run {number} has other metrics than the undisturbed one: {different[:1]}\n{log}")
        print(f"run {number}, {strategy}: {n_lives} lives, weights and metrics equal", flush=True)
        shutil.rmtree(folder)

    def run(self) -> None:
        begin, number = time.monotonic(), 0
        for strategy in STRATEGIES:
            self.undisturbed(strategy)
        while self.counts["kills"] < self.n_kills:
            self.disturbed(number + 1, STRATEGIES[number % len(STRATEGIES)])
            number += 1
        n_kills = self.counts.pop("kills")
        print(f"{n_kills} kills ({', '.join(f'{n} {what}' for what, n in sorted(self.counts.items()) if n)})")
        print(
            f"{number} runs, all with the weights and metrics of the undisturbed ones; {time.monotonic() - begin:.0f} s"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and targets; default: %(default)s")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no run is left
    with tempfile.TemporaryDirectory() as scratch:
        try:
            Program(options.kills, options.seed, Path(scratch)).run()
        except Failure as failure:
            print(failure)
            return 1
        finally:
            if Life.last and Life.last.ended() is None:
                os.killpg(Life.last.pid, signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
