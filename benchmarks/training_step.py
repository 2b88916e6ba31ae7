"""One step of training a GPT-2-like model: forward, loss, backward, clipping, AdamW.

    python benchmarks/training_step.py [--compile] [--size gpt-2 [--profile]]

Ours is the step of the training lab, with what it does around it: the schedule, the norm of the gradient, and the
decision whether to apply it. Beside it run a loop and a model in the manner of nanoGPT, the step of Hugging Face's
Trainer with its GPT-2, and PyTorch's nn.TransformerEncoder. All have 6 layers, width 384, 6 heads, 256 tokens, batch
8, vocabulary 8192, tied embeddings, float32 and fused AdamW. Goals: 1.0 × the best peer, and the same with --compile;
bfloat16 autocast 0.65 × float32. In each round all run once, in changing order. The last line is a product of the
feed-forward layer's sizes alone: where it gains nothing in bfloat16, no model can.

``--size gpt-2`` is for a GPU: GPT-2 small (12 layers, width 768, 1024 tokens, batch 32, vocabulary 50304) in bfloat16
autocast, the lab beside the loop in the manner of nanoGPT. The operations of each step are then compared with the
card's rate for a product of two 8192 × 8192 matrices of random numbers in bfloat16; the goal is half of it.
``--profile`` then shows where both spend their time: the operators whose times differ most, the kernels of a step, and
the share of the step in which the GPU waits. ``--size tiny`` does the same on any machine, and proves nothing else.
"""

import argparse
import math
import statistics
import tempfile
import time
from typing import NamedTuple

import torch
import torch.nn.functional as F
from measure import arguments, over, ratios, row, summary, take_turns
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.batches import Batch
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.lab.parallel import Ranks
from llm_anatomy.training.lab.spikes import SpikeDetector
from llm_anatomy.training.lab.step import Stepper

LR, STEPS = 1e-4, 10_000


class Size(NamedTuple):
    layers: int
    width: int
    heads: int
    tokens: int
    batch: int
    vocab: int
    product: int = 8192  # rows and columns of the matrices that show the card's rate


SIZES = {"small": Size(6, 384, 6, 256, 8, 8192), "gpt-2": Size(12, 768, 12, 1024, 32, 50304)}
SIZES["tiny"] = Size(1, 32, 2, 16, 2, 128, 64)


class TorchEncoder(nn.Module):
    """PyTorch's own layers as a causal language model."""

    def __init__(self, size):
        super().__init__()
        kind = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        layer = nn.TransformerEncoderLayer(size.width, size.heads, 4 * size.width, **kind)
        self.embedding, self.positions = nn.Embedding(size.vocab, size.width), nn.Embedding(size.tokens, size.width)
        self.layers = nn.TransformerEncoder(layer, size.layers, nn.LayerNorm(size.width), enable_nested_tensor=False)
        self.register_buffer("hidden", nn.Transformer.generate_square_subsequent_mask(size.tokens))

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight
        return F.linear(self.layers(x, mask=self.hidden, is_causal=True), self.embedding.weight)


class FusedBlock(nn.Module):
    """A block in the manner of nanoGPT: one projection for queries, keys and values, and PyTorch's fused attention."""

    def __init__(self, size):
        super().__init__()
        self.n_heads = size.heads
        self.norms = nn.ModuleList([nn.LayerNorm(size.width), nn.LayerNorm(size.width)])
        self.inputs, self.output = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.wide, self.narrow = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)

    def forward(self, x):
        batch, tokens, width = x.shape
        query, key, value = (
            part.view(batch, tokens, self.n_heads, -1).transpose(1, 2)
            for part in self.inputs(self.norms[0](x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x)), approximate="tanh"))


class FusedGPT(nn.Module):
    """The model of those blocks."""

    def __init__(self, size):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(size.vocab, size.width), nn.Embedding(size.tokens, size.width)
        self.blocks = nn.Sequential(*(FusedBlock(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.embedding.weight)


def hugging_face_model(size):
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size.vocab,
            n_positions=size.tokens,
            n_embd=size.width,
            n_layer=size.layers,
            n_head=size.heads,
            attn_pdrop=0.0,
            embd_pdrop=0.0,
            resid_pdrop=0.0,
            attn_implementation="sdpa",
            use_cache=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def timed(step, device):
    def seconds():
        start = time.perf_counter()
        step()
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    return seconds


def plain_loop(model, ids, compiled, precision):
    """The loop of nanoGPT: cosine by hand, clipping, AdamW with two groups of parameters."""
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    other = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}]
    optimizer, count = torch.optim.AdamW(groups, lr=LR, fused=True), iter(range(STEPS))
    model = torch.compile(model) if compiled else model

    def step():
        lr = LR * 0.5 * (1 + math.cos(math.pi * next(count) / STEPS))
        for group in optimizer.param_groups:
            group["lr"] = lr
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def trainer_of_hugging_face(size, ids, compiled, folder):
    """What Trainer does in a step, without its callbacks."""
    given = TrainingArguments(
        folder,
        per_device_train_batch_size=size.batch,
        learning_rate=LR,
        lr_scheduler_type="cosine",
        weight_decay=0.1,
        optim="adamw_torch_fused",
        use_cpu=ids.device.type == "cpu",
        report_to=[],
        torch_compile=compiled,
    )
    trainer = Trainer(hugging_face_model(size).to(ids.device), given)
    trainer.create_optimizer_and_scheduler(STEPS)
    trainer.current_gradient_accumulation_steps = 1
    model = trainer.accelerator.prepare(trainer.model)
    inputs = {"input_ids": ids, "labels": ids}

    def step():
        loss = trainer.training_step(model, inputs)
        trainer.accelerator.clip_grad_norm_(model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
        model.zero_grad()
        loss.item()

    return step


def step_of_the_lab(size, ids, compiled, precision):
    """The step of a training run, as the command train takes it."""
    config = TrainConfig.of(
        {
            "out": "unused",
            "n_steps": STEPS,
            "data": {"path": "unused", "n_tokens": size.tokens, "batch_size": size.batch},
            "model": {
                "d_model": size.width,
                "n_layers": size.layers,
                "n_heads": size.heads,
                "d_ff": 4 * size.width,
                "position": "learned",
                "feedforward": "gelu_tanh",
                "attention_bias": True,
                "output_bias": True,
                "ff_bias": True,
                "tie_embeddings": True,
            },
            "optimizer.max_lr": LR,
            "parallel": {"device": ids.device.type, "precision": precision, "compile": compiled},
        }
    )
    model = Transformer(config.model_config(n_vocab=size.vocab)).to(ids.device).train()
    stepper, count, detector = Stepper(config, Ranks(config.parallel), model), iter(range(1, STEPS)), SpikeDetector()

    def step():
        gradients = stepper.gradients(Batch(ids))
        if detector.check(gradients.loss, gradients.norm) is None:
            stepper.update(next(count))
        else:
            stepper.discard()

    return step


def compare(size, given, ids):
    """The lab beside its peers, all in float32, and beside itself in bfloat16."""
    peers = {"in the manner of nanoGPT": FusedGPT, "nn.TransformerEncoder": TorchEncoder}
    with tempfile.TemporaryDirectory() as folder:
        steps = {"the lab": step_of_the_lab(size, ids, given.compile, "float32")}
        for name, peer in peers.items():
            steps[name] = plain_loop(peer(size).to(given.device), ids, given.compile, "float32")
        steps["Hugging Face's Trainer"] = trainer_of_hugging_face(size, ids[:, :-1], given.compile, folder)
        steps["the lab, bfloat16"] = step_of_the_lab(size, ids, given.compile, "bfloat16")
        times = in_turns(steps, given)
    rivals = [name for name in steps if not name.startswith("the lab")]
    best = min(rivals, key=lambda name: summary(over(times, name, name))[3])
    for rival in rivals:
        row(f"{'the lab / ' + rival:52}", over(times, "the lab", rival), 1.0 if rival == best else None)
    row(f"{'the lab, bfloat16 / the lab':52}", over(times, "the lab, bfloat16", "the lab"), 0.65)
    rows, narrow_to_wide = (size.batch * size.tokens, size.width), (4 * size.width, size.width)
    x, weight = (torch.randn(*shape, device=given.device) for shape in (rows, narrow_to_wide))
    narrow = x.bfloat16(), weight.bfloat16()
    measured = ratios(lambda *_: F.linear(*narrow), F.linear, [x, weight], rounds=given.rounds)
    row(f"{'one product, bfloat16 / float32':52}", measured)


def use_of_the_card(size, given, ids):
    """The lab in bfloat16 beside the loop in the manner of nanoGPT, and which share of the card's rate both reach."""
    rival = FusedGPT(size).to(given.device)
    n_parameters = sum(p.numel() for p in rival.parameters()) - rival.positions.weight.numel()
    steps = {
        "the lab": step_of_the_lab(size, ids, given.compile, "bfloat16"),
        "in the manner of nanoGPT": plain_loop(rival, ids, given.compile, "bfloat16"),
    }
    a, b = (torch.randn(2 * (size.product,), device=given.device, dtype=torch.bfloat16) for _ in range(2))
    steps["product"] = lambda: [a @ b for _ in range(10)]
    times = in_turns(steps, given)
    row(f"{'the lab / in the manner of nanoGPT':52}", over(times, "the lab", "in the manner of nanoGPT"), 1.0)
    rate = 10 * 2 * size.product**3 / statistics.median(times.pop("product"))
    flops = size.batch * size.tokens * (6 * n_parameters + 12 * size.layers * size.width * size.tokens)
    print(f"{n_parameters / 1e6:.0f} million parameters without positions; the product: {rate / 1e12:.0f} TFLOP/s")
    for name, seconds in times.items():
        share, tokens = flops / statistics.median(seconds) / rate, size.batch * size.tokens / statistics.median(seconds)
        below = "  below the goal" if name == "the lab" and share < 0.5 else ""
        print(f"{name:52} {share:6.1%} of the rate, {tokens:10,.0f} tokens a second{below}")
    if torch.device(given.device).type == "cuda":
        print(f"largest memory, both models together: {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
    if given.profile:
        show_profiles({name: steps[name] for name in times}, times, torch.device(given.device).type == "cuda")


def profiled(step, on_gpu, n_steps=3):
    """Calls and milliseconds of each operator in a step, and of each kernel, copy and call of CUDA."""
    activities = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * on_gpu]
    with profile(activities=activities, acc_events=True) as found:
        for _ in range(n_steps):
            step()
        if on_gpu:
            torch.cuda.synchronize()
    operators, kernels = {}, {}
    for entry in found.key_averages():
        where = operators if entry.device_type == DeviceType.CPU else kernels
        spent = entry.self_device_time_total if on_gpu else entry.self_cpu_time_total
        if not (where is kernels and entry.is_user_annotation):  # a span of time, and not work of its own
            where[entry.key] = entry.count / n_steps, spent / n_steps / 1e3
    return operators, kernels


def n_operators(found):
    return sum(n for key, (n, _) in found.items() if key.startswith("aten::"))


def show_profiles(steps, times, on_gpu, n_rows=15):
    """Where the steps spend their time. On a GPU, an operator has the time of its kernels."""
    found = {}
    for name, step in steps.items():
        found[name], kernels = profiled(step, on_gpu)
        usual = statistics.median(times[name]) * 1e3
        print(f"{name}: {usual:.2f} ms without the profiler, {n_operators(found[name]):.0f} operators")
        if on_gpu:
            busy, n_kernels = sum(spent for _, spent in kernels.values()), sum(n for n, _ in kernels.values())
            calls = {key: n for key, (n, _) in found[name].items() if key.startswith("cu")}
            print(f"  the GPU works {busy:.2f} ms on {n_kernels:.0f} kernels and copies, idle {1 - busy / usual:.0%}")
            print("  " + ", ".join(f"{key} {n:.0f}" for key, n in calls.items()))
    ours, theirs = found.values()

    def of(operator):
        return *ours.get(operator, (0, 0)), *theirs.get(operator, (0, 0))

    def difference(operator):
        _, one, _, other = of(operator)
        return -abs(one - other)

    print(f"{'calls and milliseconds of an operator in a step of':52}" + "".join(f"{name:>26}" for name in steps))
    for operator in sorted({**ours, **theirs}, key=difference)[:n_rows]:
        n, one, m, other = of(operator)
        print(f"{operator[:52]:52}{n:16.1f}{one:10.3f}{m:16.1f}{other:10.3f}", flush=True)


def in_turns(steps, given):
    """The seconds of each step in every round, after two that warm up and compile."""
    for step in steps.values():
        step(), step()
    return take_turns({name: timed(step, given.device) for name, step in steps.items()}, given.rounds)


if __name__ == "__main__":
    more = argparse.ArgumentParser(add_help=False)
    more.add_argument("--compile", action="store_true", help="compile all of them with torch.compile")
    more.add_argument("--size", choices=SIZES, default="small", help="default: %(default)s")
    more.add_argument("--profile", action="store_true", help="show where the time goes; not with --size small")
    given = arguments(__doc__, more)
    size = SIZES[given.size]
    ids = torch.randint(0, size.vocab, (size.batch, size.tokens + 1), device=given.device)
    print(f"{'':52} ratio  quartiles     peer (ms)")
    (compare if given.size == "small" else use_of_the_card)(size, given, ids)
