"""One step of training a GPT-2-like model: forward, loss, backward, clipping, AdamW.

    python benchmarks/training_step.py [--compile]

Ours is the step of the training lab, with what it does around it: the schedule, the norm of the gradient, and the
decision whether to apply it. Beside it run a loop and a model in the manner of nanoGPT, the step of Hugging Face's
Trainer with its GPT-2, and PyTorch's nn.TransformerEncoder. All have 6 layers, width 384, 6 heads, 256 tokens, batch
8, vocabulary 8192, tied embeddings, float32 and fused AdamW. Goals: 1.0 × the best peer, and the same with --compile;
bfloat16 autocast 0.65 × float32. In each round all run once, in changing order. The last line is a product of the
feed-forward layer's sizes alone: where it gains nothing in bfloat16, no model can.
"""

import argparse
import math
import tempfile
import time

import torch
import torch.nn.functional as F
from measure import arguments, over, ratios, row, summary, take_turns
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.batches import Batch
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.lab.parallel import Ranks
from llm_anatomy.training.lab.spikes import SpikeDetector
from llm_anatomy.training.lab.step import Stepper

LAYERS, WIDTH, HEADS, TOKENS, BATCH, VOCAB = 6, 384, 6, 256, 8, 8192
LR, STEPS = 1e-4, 10_000


class TorchEncoder(nn.Module):
    """PyTorch's own layers as a causal language model."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.embedding, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.register_buffer("hidden", nn.Transformer.generate_square_subsequent_mask(TOKENS))

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight
        return F.linear(self.layers(x, mask=self.hidden, is_causal=True), self.embedding.weight)


class FusedBlock(nn.Module):
    """A block in the manner of nanoGPT: one projection for queries, keys and values, and PyTorch's fused attention."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        query, key, value = (
            part.view(batch, tokens, HEADS, -1).transpose(1, 2) for part in self.inputs(self.norms[0](x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x)), approximate="tanh"))


class FusedGPT(nn.Module):
    """The model of those blocks."""

    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks, self.norm = nn.Sequential(*(FusedBlock() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.embedding.weight)


def hugging_face_model():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCAB,
            n_positions=TOKENS,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
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


def plain_loop(model, ids, compiled):
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
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def trainer_of_hugging_face(ids, compiled, folder):
    """What Trainer does in a step, without its callbacks."""
    given = TrainingArguments(
        folder,
        per_device_train_batch_size=BATCH,
        learning_rate=LR,
        lr_scheduler_type="cosine",
        weight_decay=0.1,
        optim="adamw_torch_fused",
        use_cpu=ids.device.type == "cpu",
        report_to=[],
        torch_compile=compiled,
    )
    trainer = Trainer(hugging_face_model().to(ids.device), given)
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


def step_of_the_lab(ids, compiled, precision="float32"):
    """The step of a training run, as the command train takes it."""
    config = TrainConfig.of(
        {
            "out": "unused",
            "n_steps": STEPS,
            "data": {"path": "unused", "n_tokens": TOKENS, "batch_size": BATCH},
            "model": {
                "d_model": WIDTH,
                "n_layers": LAYERS,
                "n_heads": HEADS,
                "d_ff": 4 * WIDTH,
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
    model = Transformer(config.model_config(n_vocab=VOCAB)).to(ids.device).train()
    stepper, count, detector = Stepper(config, Ranks(config.parallel), model), iter(range(1, STEPS)), SpikeDetector()

    def step():
        gradients = stepper.gradients(Batch(ids))
        if detector.check(gradients.loss, gradients.norm) is None:
            stepper.update(next(count))
        else:
            stepper.discard()

    return step


if __name__ == "__main__":
    more = argparse.ArgumentParser(add_help=False)
    more.add_argument("--compile", action="store_true", help="compile all of them with torch.compile")
    given = arguments(__doc__, more)
    ids = torch.randint(0, VOCAB, (BATCH, TOKENS + 1), device=given.device)
    peers = {"in the manner of nanoGPT": FusedGPT, "nn.TransformerEncoder": TorchEncoder}
    with tempfile.TemporaryDirectory() as folder:
        steps = {"the lab": step_of_the_lab(ids, given.compile)}
        steps |= {name: plain_loop(peer().to(given.device), ids, given.compile) for name, peer in peers.items()}
        steps["Hugging Face's Trainer"] = trainer_of_hugging_face(ids[:, :-1], given.compile, folder)
        steps["the lab, bfloat16"] = step_of_the_lab(ids, given.compile, "bfloat16")
        for step in steps.values():
            step(), step()
        times = take_turns({name: timed(step, given.device) for name, step in steps.items()}, given.rounds)
    print(f"{'':52} ratio  quartiles     peer (ms)")
    rivals = [name for name in steps if not name.startswith("the lab")]
    best = min(rivals, key=lambda name: summary(over(times, name, name))[3])
    for rival in rivals:
        row(f"{'the lab / ' + rival:52}", over(times, "the lab", rival), 1.0 if rival == best else None)
    row(f"{'the lab, bfloat16 / the lab':52}", over(times, "the lab, bfloat16", "the lab"), 0.65)
    x, weight = (
        torch.randn(BATCH * TOKENS, WIDTH, device=given.device),
        torch.randn(4 * WIDTH, WIDTH, device=given.device),
    )
    narrow = x.bfloat16(), weight.bfloat16()
    measured = ratios(lambda *_: F.linear(*narrow), F.linear, [x, weight], rounds=given.rounds)
    row(f"{'one product, bfloat16 / float32':52}", measured)
