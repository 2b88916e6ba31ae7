"""What a training run costs beside its steps: loading data, saving checkpoints, and several processes.

    python benchmarks/training_runs.py

The model is that of training_step.py; the tokens are random, in shards that the loader maps into memory. Goals: a
batch takes at most 1 % of the time of a step; an asynchronous checkpoint makes the steps during which it is written
longer by at most 2 % of the time between two checkpoints, which is 500 steps by default; two processes with one thread
each, which average their gradients (DDP), process at least 1.6 × the tokens of one; and of parameters, gradients and
optimizer states, each of two processes that share them (FSDP2) holds at most 0.6 × what each holds in DDP.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from measure import arguments, take_turns
from training_step import BATCH, HEADS, LAYERS, TOKENS, VOCAB, WIDTH

from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.batches import Sequences, loader
from llm_anatomy.training.data.shards import ShardWriter, TokenShards
from llm_anatomy.training.lab.checkpoints import Checkpoints, training_state
from llm_anatomy.training.lab.config import CheckpointConfig, TrainConfig
from llm_anatomy.training.lab.parallel import Ranks
from llm_anatomy.training.lab.step import Stepper

N_TOKENS, STEPS_OF_PROCESSES, STEPS_OF_SAVING = 2_000_000, 8, 6


def config(folder, **more):
    sizes = {"d_model": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "d_ff": 4 * WIDTH, "tie_embeddings": True}
    data = {"path": f"{folder}/data", "n_tokens": TOKENS, "batch_size": BATCH}
    return TrainConfig.of({"out": f"{folder}/run", "n_steps": 10_000, "model": sizes, "data": data, **more})


def a_run(folder, **more):
    """The ranks, the model, its steps, and the batches of this rank."""
    made = config(folder, **more)
    ranks = Ranks(made.parallel)
    model = Transformer(made.model_config(n_vocab=VOCAB)).to(ranks.device).train()
    sequences = Sequences(TokenShards(f"{folder}/data", "train"), TOKENS, seed=0, mask_documents=False)
    batches = loader(sequences, first=0, batch_size=BATCH, rank=ranks.rank, world_size=ranks.world_size)
    return ranks, model, Stepper(made, ranks, model), iter(batches)


def write_data(folder):
    writer, ids = ShardWriter(f"{folder}/data", n_vocab=VOCAB), torch.randint(VOCAB, (N_TOKENS,)).tolist()
    for start in range(0, N_TOKENS, 1000):
        writer.add("train", ids[start : start + 1000])
    writer.finish()


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def share_of_loading(folder, rounds):
    """The time of a batch over that of a step."""
    _, _, stepper, batches = a_run(folder)
    shares = []
    for step in range(1, rounds + 1):
        began = time.perf_counter()
        batch = next(batches)
        loaded = time.perf_counter()
        stepper.gradients(batch)
        stepper.update(step)
        shares.append((loaded - began) / (time.perf_counter() - loaded))
    return shares


def cost_of_saving(folder, rounds):
    """How much longer steps take during which a checkpoint is written, and how long the call of ``save`` is, both over
    the time of the steps between two checkpoints."""
    ranks, model, stepper, batches = a_run(folder)
    checkpoints = Checkpoints(f"{folder}/checkpoints", keep_last=1, keep_best=False, fingerprint={})
    step, calls = iter(range(1, 100_000)), []

    def steps(saves):
        if saves:
            calls.append(seconds(lambda: checkpoints.save(next(step), training_state(model, stepper.optimizer))))
        for _ in range(STEPS_OF_SAVING):
            stepper.gradients(next(batches))
            stepper.update(next(step))

    steps(False)
    steps(True)
    both = {"with": lambda: seconds(lambda: steps(True)), "without": lambda: seconds(lambda: steps(False))}
    times = take_turns(both, rounds)
    checkpoints.close()
    between = CheckpointConfig().every / STEPS_OF_SAVING * statistics.median(times["without"])
    longer = [(a - b) / between for a, b in zip(times["with"], times["without"], strict=True)]
    return longer, [call / between for call in calls[1:]]


def process(folder, strategy):
    """What one of several processes does: a few steps, of which the first rank prints the seconds, and its bytes."""
    torch.set_num_threads(1)
    ranks, model, stepper, batches = a_run(folder, parallel={"strategy": strategy, "device": "cpu"})
    times = []
    for step in range(1, STEPS_OF_PROCESSES + 1):
        ranks.barrier()
        began = time.perf_counter()
        stepper.gradients(next(batches))
        if step == STEPS_OF_PROCESSES:
            gradients = n_bytes(p.grad for p in model.parameters())
        stepper.update(step)
        ranks.barrier()
        times.append(time.perf_counter() - began)
    states = (x for state in stepper.optimizer.state.values() for x in state.values() if x.ndim)
    if ranks.is_first:
        print(json.dumps([statistics.median(times[2:]), n_bytes(model.parameters()) + gradients + n_bytes(states)]))
    ranks.close()


def n_bytes(tensors):
    return sum(getattr(x, "_local_tensor", x).nbytes for x in tensors)


def processes(folder, strategy, n):
    """The seconds of a step and the bytes of a process, for so many of them."""
    start = [sys.executable] if n == 1 else [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*start, __file__, "--as", strategy, "--folder", folder]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def line(label, values, goal, is_least=False):
    low, middle, high = statistics.quantiles(values, n=4)
    missed = middle < goal if is_least else middle > goal
    print(f"{label:62} {middle:7.4f}  [{low:.4f}, {high:.4f}]{'  misses its goal' if missed else ''}", flush=True)


if __name__ == "__main__":
    if "--as" in sys.argv:
        process(sys.argv[4], sys.argv[2])
        sys.exit()
    given = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder)
        line("loading a batch / step", share_of_loading(folder, 4 * given.rounds), 0.01)
        longer, calls = cost_of_saving(folder, given.rounds)
        line("an asynchronous checkpoint / the steps between two", longer, 0.02)
        line("  of which the call", calls, 0.02)
        several = [[processes(folder, *how) for how in (("ddp", 1), ("ddp", 2))] for _ in range(5)]
        line("tokens of two processes (DDP) / of one", [one[0] / two[0] for one, two in several], 1.6, is_least=True)
        shared, whole = processes(folder, "fsdp", 2)[1], several[0][1][1]
        print(f"{'bytes of a process that shares them (FSDP2) / in DDP':62} {shared / whole:7.4f}")
