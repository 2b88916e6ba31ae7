"""Decoding beside the time of its weight matmuls alone, and beside Hugging Face's GPT-2 with its dynamic cache.

    python benchmarks/generation.py

A GPT-2-like decoder (6 layers, d_model 384, 6 heads, vocabulary 8192; and GPT-2 small: 12 layers, 768, 12 heads,
vocabulary 50304) reads a prompt of 16 tokens and then writes greedily. What is timed is one step of decoding: read a
token over the cache, score the vocabulary, choose. The floor is ``F.linear`` alone, with weights of the same shapes.
"by columns" is our model after ``store_by_columns``. All contestants write the same number of tokens side by side, in
blocks of 8 steps in rotating order; a block's time is the median of its steps, a ratio belongs to one block, and what
is printed is the median of the ratios (and their quartiles). ``--threads 1`` steadies it on a shared machine. Within
5 % counts as equal.
"""

import argparse
import copy
import statistics
import time
from functools import partial

import torch
import torch.nn.functional as F
from measure import arguments, over, row, take_turns
from torch import nn
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.generation import next_logits, store_by_columns
from llm_anatomy.models.transformer import Transformer

PROMPT, BLOCK = 16, 8
SIZES = {
    "small": dict(d_model=384, n_layers=6, n_heads=6, d_ff=1536, n_vocab=8192),
    "GPT-2 small": dict(d_model=768, n_layers=12, n_heads=12, d_ff=3072, n_vocab=50304),
}
# size, batch, new tokens, goals of the eager and of the compiled step as multiples of the floor
CASES = [("small", 1, 256, 1.33, 1.2), ("small", 8, 256, 1.45, None), ("GPT-2 small", 1, 64, 1.12, None)]


def our_model(sizes):
    return Transformer(
        ModelConfig(
            **sizes,
            n_ctx=1024,
            position="learned",
            feedforward="gelu_tanh",
            tie_embeddings=True,
            attention_bias=True,
            output_bias=True,
            ff_bias=True,
        )
    )


def their_model(sizes):
    config = GPT2Config(
        vocab_size=sizes["n_vocab"],
        n_embd=sizes["d_model"],
        n_layer=sizes["n_layers"],
        n_head=sizes["n_heads"],
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config).eval()


class Floor:
    """Every weight matrix of a model once, each with an input of its width."""

    def __init__(self, model, batch, device):
        weights = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
        weights = [*weights, model.unembedding.embedding.weight]
        self.pairs = [(torch.randn(batch, 1, w.shape[1], device=device), torch.randn_like(w)) for w in weights]

    def __call__(self):
        for x, weight in self.pairs:
            F.linear(x, weight)


class Ours:
    def __init__(self, model, batch, max_new_tokens, device, step=next_logits):
        self.model, self.step = model, step
        prompt = torch.randint(0, model.config.n_vocab, (batch, PROMPT), device=device)
        self.cache = model.new_cache(batch, PROMPT + max_new_tokens)
        self.newest = next_logits(model, prompt, self.cache).argmax(-1)

    def __call__(self):
        self.newest = self.step(self.model, self.newest[:, None], self.cache).argmax(-1)


class Theirs:
    def __init__(self, model, batch, device):
        prompt = torch.randint(0, model.config.vocab_size, (batch, PROMPT), device=device)
        self.model, self.cache = model, DynamicCache()
        self._read(prompt)

    def _read(self, ids):
        logits = self.model(ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1).logits
        self.newest = logits[:, -1].argmax(-1)

    def __call__(self):
        self._read(self.newest[:, None])


def block(step, on_gpu):
    """The median of the seconds of a few steps: one round."""
    times = []
    for _ in range(BLOCK):
        start = time.perf_counter()
        step()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@torch.inference_mode()
def run(size, batch, max_new_tokens, goal, compiled_goal, given):
    rounds = max(given.rounds, max_new_tokens // BLOCK)
    max_new_tokens = rounds * BLOCK
    model, theirs = our_model(SIZES[size]).to(given.device), their_model(SIZES[size]).to(given.device)
    contestants = {
        "floor": Floor(model, batch, given.device),
        "ours": Ours(model, batch, max_new_tokens + 8, given.device),
        "HF": Theirs(theirs, batch, given.device),
    }
    by_columns = copy.deepcopy(model)
    store_by_columns(by_columns)
    contestants["ours by columns"] = Ours(by_columns, batch, max_new_tokens + 8, given.device)
    if given.compiled:
        torch._dynamo.reset()
        step = torch.compile(next_logits, dynamic=True)
        contestants["ours compiled"] = Ours(model, batch, max_new_tokens + 8, given.device, step)
        contestants["compiled, by columns"] = Ours(by_columns, batch, max_new_tokens + 8, given.device, step)
    for contestant in contestants.values():
        contestant(), contestant()  # warm, and compiled
    on_gpu = torch.device(given.device).type == "cuda"
    times = take_turns({name: partial(block, step, on_gpu) for name, step in contestants.items()}, rounds)
    label = f"{size:12} {batch:5} {rounds:6}"
    for name in list(contestants)[1:]:
        goal_of = {"ours": goal, "ours by columns": goal}.get(name, None if name == "HF" else compiled_goal)
        row(f"{label} {f'{name} / floor':28}", over(times, name, "floor"), goal_of)
    row(f"{label} {'ours / HF':28}", over(times, "ours", "HF"), 1.0)


if __name__ == "__main__":
    more = argparse.ArgumentParser(add_help=False)
    more.add_argument("--threads", type=int, help="of PyTorch (default: its own choice)")
    more.add_argument("--compiled", action=argparse.BooleanOptionalAction, default=True, help="the compiled step too")
    more.add_argument("--cases", nargs="*", type=int, default=range(len(CASES)), help="which (default: all)")
    given = arguments(__doc__, more)
    if given.threads:
        torch.set_num_threads(given.threads)
    print(f"{'size':12} {'batch':>5} {'rounds':>6} {'ratio':28} {'':6}  quartiles   peer (ms)")
    for i in given.cases:
        run(*CASES[i], given)
