"""Decoding beside the time of its weight matmuls alone, beside memory, Hugging Face's library and a hand-fused loop.

    python benchmarks/generation.py [--cases "GPT-2 small"] [--batch 1 8] [--gguf SmolLM2-135M-Instruct.Q4_1.gguf]

What is timed is one step: read one token of each sequence over the cache, score the vocabulary, choose. All contestants
write the same number of tokens side by side, in blocks of 8 steps in rotating order. The time of a block is the median
of its steps, a ratio belongs to one block, and what is printed is the median of the ratios, with their quartiles.

- "floor" is ``F.linear`` alone with the weights of the model, "matmuls, int8" and the like are the same products with
  packed weights (``layers/packed_linear.py``).
- "classes" is the model as chapters show it, "optimized" the inference-optimized model (``for_inference``), also with
  fewer bits, compiled with dynamic shapes ("compiled") and with static ones (``CompiledStep``).
- "HF" is Hugging Face's model with its dynamic or its static cache.
- "hand-fused" is one function for this one kind of model, in the manner of gpt-fast: weights fused, a static cache that
  is written by index, a mask by row. Nothing of it can be shown in a chapter; it is the honest rival.

The last column is the share of memory bandwidth: bytes of the weights over the time of a step, divided by what a sum of
a large tensor reads. ``--gguf`` adds the released SmolLM2-135M. The perplexity of texts with fewer bits comes last.
"""

import argparse
import math
import statistics
import time
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import arguments, over, row, summary, take_turns
from torch import nn
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, StaticCache

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.packed_linear import pack
from llm_anatomy.models.checkpoints import load
from llm_anatomy.models.generation import next_logits
from llm_anatomy.models.inference import CompiledStep, for_inference
from llm_anatomy.models.presets import preset
from llm_anatomy.models.stored import stored
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.stories import story

PROMPT, BLOCK = 16, 8
GPT_2 = dict(position="learned", feedforward="gelu_tanh", tie_embeddings=True, n_ctx=1024)
GPT_2 |= dict(attention_bias=True, output_bias=True, ff_bias=True)
CONFIGS = {
    "small": ModelConfig(d_model=384, n_layers=6, n_heads=6, d_ff=1536, n_vocab=8192, **GPT_2),
    "GPT-2 small": ModelConfig(d_model=768, n_layers=12, n_heads=12, d_ff=3072, n_vocab=50304, **GPT_2),
    "Llama 3.2 1B": preset("llama-3.2-1b"),
    "Llama 2 7B": preset("llama-2-7b"),
    "tiny": ModelConfig(d_model=64, n_layers=1, n_heads=4, n_kv_heads=2, d_ff=96, n_vocab=128, position="rope"),
}
# goals in multiples of the floor, for batch 1
LARGE = {
    "optimized": 1.10,
    "optimized, compiled": 1.05,
    "optimized, int8": 0.6,
    "matmuls, int8": 0.4,
    "matmuls, int4": 0.3,
}
GOALS = {
    "small": {"optimized": 1.10},
    "GPT-2 small": LARGE,
    "SmolLM2-135M": LARGE,
    "Llama 3.2 1B": {"optimized": 1.05, "optimized, int8": 0.45},
}
# and pairs, for one sequence and for several, with the goal of their ratio
STATIC = [(name, "HF, static, compiled", None) for name in ("optimized, static", "optimized, int8, static")]
RIVALS = (
    [
        ("optimized", "HF", None),
        ("optimized", "hand-fused", None),
        ("optimized, compiled", "hand-fused, compiled", 1.0),
        *STATIC,
    ],
    [
        ("optimized", "HF", 0.7),
        ("optimized", "hand-fused", None),
        ("optimized, compiled", "hand-fused, compiled", 1.0),
        *STATIC,
    ],
)
BYTES = {"bfloat16": 2, "int8": 1, "int4": 5 / 8}  # of a weight; in int4 with a scale and a zero point for 32 of them


def weights_of(model):
    """The matrices that a step multiplies with."""
    matrices = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
    return [*matrices, model.unembedding.embedding.weight]


def n_bytes(model, contestant):
    """The bytes of these matrices as a contestant stores them."""
    *matrices, head = weights_of(model)
    kind = next((kind for kind in BYTES if kind in contestant), None)
    of_head = "int8" if contestant.startswith("optimized, int4") else kind
    sizes = [(sum(matrix.numel() for matrix in matrices), kind), (head.numel(), of_head)]
    return sum(n * BYTES.get(kind, head.itemsize) for n, kind in sizes)


class Matmuls:
    """Every weight matrix of a model once, each with an input of its width, as given or packed."""

    def __init__(self, model, batch, weights="as given"):
        self.products = []
        for weight in weights_of(model):
            made = partial(F.linear, weight=weight) if weights == "as given" else pack(weight, quantize=weights)
            self.products.append((torch.randn(batch, 1, weight.shape[1]).to(weight), made))

    def __call__(self):
        for x, multiply in self.products:
            multiply(x)


class Ours:
    def __init__(self, model, prompt, n_slots, step=next_logits):
        self.model, self.step = model, step
        self.cache = model.new_cache(len(prompt), n_slots)
        self.newest = next_logits(model, prompt, self.cache).argmax(-1)

    def __call__(self):
        self.newest = self.step(self.model, self.newest[:, None], self.cache).argmax(-1)


class Theirs:
    """Hugging Face's model."""

    def __init__(self, model, prompt, n_slots, static=False, compiled=False):
        self.model, self.call, self.n_read = model, model.forward, 0
        self.cache = StaticCache(config=model.config, max_cache_len=n_slots) if static else DynamicCache()
        self._read(prompt)
        if compiled:
            mode = {"mode": "reduce-overhead"} if prompt.is_cuda else {}
            self.call = torch.compile(model.forward, fullgraph=True, dynamic=not static, **mode)

    def _read(self, ids):
        logits = self.call(ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1).logits
        self.newest = logits[:, -1].argmax(-1)

    def __call__(self):
        self._read(self.newest[:, None])


class HandFused(nn.Module):
    """GPT-2 or Llama with random weights, in the manner of gpt-fast."""

    def __init__(self, config, batch, n_slots, device, dtype):
        super().__init__()
        self.llama, self.config = config.position == "rope", config
        self.sizes = (
            config.n_heads,
            config.n_kv_heads or config.n_heads,
            config.d_head or config.d_model // config.n_heads,
        )
        n_heads, n_kv, d_head = self.sizes
        wide, d_ff = config.d_model, config.d_ff

        def matrix(*shape):
            return nn.Parameter(torch.randn(*shape, device=device, dtype=dtype) * 0.02, requires_grad=False)

        self.embedding = matrix(config.n_vocab, wide)
        self.head = self.embedding if config.tie_embeddings else matrix(config.n_vocab, wide)
        self.positions = None if self.llama else matrix(n_slots, wide)
        self.qkv, self.out, self.up, self.down = (
            nn.ParameterList(matrix(*shape) for _ in range(config.n_layers))
            for shape in (
                ((n_heads + 2 * n_kv) * d_head, wide),
                (wide, n_heads * d_head),
                ((1 + self.llama) * d_ff, wide),
                (wide, d_ff),
            )
        )
        self.norms = nn.ParameterList(matrix(wide) for _ in range(2 * config.n_layers + 1))
        self.biases = nn.ParameterList()
        if not self.llama:
            widths = [(n_heads + 2 * n_kv) * d_head, wide, d_ff, wide, wide, wide]
            self.biases.extend(matrix(width) for _ in range(config.n_layers) for width in widths)
        shape = (config.n_layers, batch, n_kv, n_slots, d_head)
        self.register_buffer("keys", torch.zeros(*shape, device=device, dtype=dtype))
        self.register_buffer("values", torch.zeros_like(self.keys))
        self.register_buffer("mask", torch.ones(n_slots, n_slots, dtype=torch.bool, device=device).tril())
        frequencies = 10000.0 ** (-torch.arange(0, d_head, 2, device=device) / d_head)
        angles = torch.arange(n_slots, device=device)[:, None] * frequencies
        self.register_buffer("turns", torch.stack((angles.cos(), angles.sin()), -1).to(dtype))

    def rotate(self, x, turns):
        pairs = x.unflatten(-1, (-1, 2))
        cos, sin = turns[..., 0], turns[..., 1]
        even, odd = pairs[..., 0], pairs[..., 1]
        return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)

    def norm(self, x, i, bias=None):
        width = (x.shape[-1],)
        return F.rms_norm(x, width, self.norms[i], 1e-5) if self.llama else F.layer_norm(x, width, self.norms[i], bias)

    def forward(self, ids, position):
        n_heads, n_kv, d_head = self.sizes
        batch = len(ids)
        x = F.embedding(ids, self.embedding)
        x = x if self.positions is None else x + self.positions[position]
        mask, turns = self.mask[None, None, position], self.turns[position][:, None]
        for i in range(self.config.n_layers):
            biases = [None] * 6 if self.llama else self.biases[6 * i : 6 * i + 6]
            qkv = F.linear(self.norm(x, 2 * i, biases[4]), self.qkv[i], biases[0])
            qkv = qkv.view(batch, 1, n_heads + 2 * n_kv, d_head)
            query, key, value = qkv.split((n_heads, n_kv, n_kv), 2)
            if self.llama:
                query, key = self.rotate(query, turns), self.rotate(key, turns)
            keys, values = self.keys[i], self.values[i]
            keys.index_copy_(2, position, key.transpose(1, 2)), values.index_copy_(2, position, value.transpose(1, 2))
            mixed = F.scaled_dot_product_attention(
                query.transpose(1, 2), keys, values, attn_mask=mask, enable_gqa=n_heads != n_kv
            )
            x = x + F.linear(mixed.transpose(1, 2).reshape(batch, 1, -1), self.out[i], biases[1])
            up = F.linear(self.norm(x, 2 * i + 1, biases[5]), self.up[i], biases[2])
            if self.llama:
                gate, up = up.chunk(2, -1)
                up = F.silu(gate) * up
            else:
                up = F.gelu(up, approximate="tanh")
            x = x + F.linear(up, self.down[i], biases[3])
        return F.linear(self.norm(x, -1)[:, -1], self.head)


class ByHand:
    def __init__(self, model, prompt, compiled=False):
        self.step = model
        if compiled:
            mode = {"mode": "reduce-overhead"} if prompt.is_cuda else {}
            self.step = torch.compile(model, fullgraph=True, dynamic=False, **mode)
        self.position = torch.zeros(1, dtype=torch.long, device=prompt.device)
        self.newest = prompt[:, -1]

    def __call__(self):
        self.newest = self.step(self.newest[:, None], self.position).argmax(-1)
        self.position += 1


@contextmanager
def made_on(device, dtype):
    """Make models with random weights at once where and as they are needed: 7 billion take minutes on a CPU."""
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def their_model(config):
    if config.position == "learned":
        sizes = dict(n_embd=config.d_model, n_layer=config.n_layers, n_head=config.n_heads, n_positions=config.n_ctx)
        return GPT2LMHeadModel(GPT2Config(vocab_size=config.n_vocab, attn_implementation="sdpa", **sizes)).eval()
    sizes = dict(hidden_size=config.d_model, intermediate_size=config.d_ff, num_hidden_layers=config.n_layers)
    sizes |= dict(num_attention_heads=config.n_heads, num_key_value_heads=config.n_kv_heads or config.n_heads)
    sizes |= dict(tie_word_embeddings=config.tie_embeddings, max_position_embeddings=4096)
    return LlamaForCausalLM(LlamaConfig(vocab_size=config.n_vocab, **sizes)).eval()


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


def bandwidth(device):
    """Bytes a second that a sum of a large tensor reads: the best of eight."""
    x, best = torch.ones(2**28 if device == "cpu" else 2**31, dtype=torch.float32, device=device), math.inf
    for _ in range(8):
        start = time.perf_counter()
        x.sum().item()
        best = min(best, time.perf_counter() - start)
    return x.nbytes / best


def contestants(model, config, batch, given, n_slots):
    """The name of each contestant and a function that makes it."""
    device, dtype = torch.device(given.device), model.embedding.weight.dtype
    prompt = torch.randint(0, config.n_vocab, (batch, PROMPT), device=device)
    kinds = [None, "bfloat16", "int8", *(["int4"] if device.type == "cpu" else [])]
    packed = device.type == "cpu"
    optimized = cache(lambda kind, prepack: for_inference(model, quantize=kind, prepack=prepack))
    theirs = cache(made_on(device, dtype)(lambda: their_model(config)))
    by_hand = cache(lambda: HandFused(config, batch, n_slots, device, dtype))
    made = {"floor": lambda: Matmuls(model, batch), "classes": lambda: Ours(model, prompt, n_slots)}
    for kind in kinds:
        name = f"optimized, {kind}" if kind else "optimized"
        made[f"matmuls, {kind or 'packed'}"] = partial(Matmuls, model, batch, kind)
        made[name] = lambda kind=kind: Ours(optimized(kind, packed), prompt, n_slots)
        if given.compiled and kind in (None, "int8"):
            made[f"{name}, static"] = lambda kind=kind: Ours(optimized(kind, False), prompt, n_slots, CompiledStep())
            step = torch.compile(next_logits, dynamic=True)
            made[f"{name}, compiled"] = lambda kind=kind, step=step: Ours(optimized(kind, False), prompt, n_slots, step)
    made["HF"] = lambda: Theirs(theirs(), prompt, n_slots)
    made["HF, static"] = lambda: Theirs(theirs(), prompt, n_slots, static=True)
    made["hand-fused"] = lambda: ByHand(by_hand(), prompt)
    if given.compiled:
        made["HF, static, compiled"] = lambda: Theirs(theirs(), prompt, n_slots, static=True, compiled=True)
        made["hand-fused, compiled"] = lambda: ByHand(by_hand(), prompt, compiled=True)
    return {name: make for name, make in made.items() if name == "floor" or given.only is None or name in given.only}


@torch.inference_mode()
def run(name, model, batch, given, rate):
    torch._dynamo.reset()
    config, rounds = model.config, given.rounds
    n_slots = PROMPT + (rounds + 1) * BLOCK
    made = {key: make() for key, make in contestants(model, config, batch, given, n_slots).items()}
    for key, contestant in made.items():
        start = time.perf_counter()
        contestant(), contestant(), contestant()  # warm, and compiled
        if (seconds := time.perf_counter() - start) > 5:
            print(f"  {key}: {seconds:.0f} s until it was compiled", flush=True)
    on_gpu = torch.device(given.device).type == "cuda"
    times = take_turns({key: partial(block, step, on_gpu) for key, step in made.items()}, rounds)
    floor = statistics.median(times["floor"])
    print(
        f"{name}, batch {batch}: floor {floor * 1e3:.2f} ms, {n_bytes(model, 'floor') / floor / rate:.0%} of bandwidth"
    )
    for key in list(made)[1:]:
        middle, low, high, _ = summary(over(times, key, "floor"))
        beside = f"{summary(over(times, key, 'HF'))[0]:8.2f}" if "HF" in made else ""
        seconds = statistics.median(times[key])
        missed = "  above the goal" if batch == 1 and middle > GOALS.get(name, {}).get(key, math.inf) else ""
        print(
            f"  {key:24} {middle:6.2f} [{low:.2f}, {high:.2f}] {beside} {seconds * 1e3:9.2f} ms "
            f"{batch / seconds:8.1f} tokens/s {n_bytes(model, key) / seconds / rate:6.0%}{missed}",
            flush=True,
        )
    for key, rival, goal in RIVALS[batch > 1]:
        if key in made and rival in made:
            row(f"  {key} / {rival}:", over(times, key, rival), goal)


@torch.inference_mode()
def first_token(name, model, given, n_tokens=512):
    """The time until the first token, of a prompt that is read at once, and in chunks."""
    with made_on(given.device, model.embedding.weight.dtype):
        theirs = their_model(model.config)
    prompt = torch.randint(0, model.config.n_vocab, (1, n_tokens), device=given.device)

    def seconds(read):
        start = time.perf_counter()
        read().argmax(-1).item()
        return time.perf_counter() - start

    whole, chunked = for_inference(model), for_inference(model, chunk=128)
    readers = {
        m: partial(lambda m: next_logits(m, prompt, m.new_cache(1, n_tokens)), m) for m in (model, whole, chunked)
    }
    named = dict(zip(("classes", "optimized", "optimized, chunks of 128"), readers.values(), strict=True))
    named["HF"] = lambda: theirs(prompt, past_key_values=DynamicCache(), logits_to_keep=1).logits[:, -1]
    for read in named.values():
        read()
    times = take_turns({key: partial(seconds, read) for key, read in named.items()}, given.rounds)
    print(f"{name}, first token after {n_tokens}: HF {statistics.median(times['HF']) * 1e3:.0f} ms")
    for key in list(named)[:-1]:
        middle, low, high, _ = summary(over(times, key, "HF"))
        print(f"  {key + ' / HF':24} {middle:6.2f} [{low:.2f}, {high:.2f}]", flush=True)


@torch.inference_mode()
def perplexities(name, model, texts):
    """The perplexity of texts, lists of ids, for each way of storing weights."""
    for kind in (None, "bfloat16", "int8", "int4"):
        optimized = for_inference(model, quantize=kind)
        losses = [F.cross_entropy(optimized(ids[None, :-1])[0].float(), ids[1:], reduction="none") for ids in texts]
        print(f"{name}, perplexity, {kind or 'float32'}: {torch.cat(losses).double().mean().exp():.3f}", flush=True)


def stories(n_texts=150):
    """A stored model of the book, and texts that it was not trained on."""
    model, about = stored("story_rope")
    ids = [about["tokenizer"].encode(story(seed=12345, index=i).text) for i in range(n_texts)]
    return "story_rope", model.eval(), [torch.tensor(text[: model.config.n_ctx]) for text in ids]


def beginning_of_chapter_3(checkpoint):
    """A released model, and eight windows of 513 tokens."""
    text = (Path(__file__).parents[1] / "book" / "attention" / "attention.nb.md").read_text("utf-8")
    ids = checkpoint.texts.encode(text, allowed_special="all")[: 8 * 513]
    return "SmolLM2-135M", checkpoint.model, torch.tensor(ids).view(8, 513).unbind()


if __name__ == "__main__":
    more = argparse.ArgumentParser(add_help=False)
    more.add_argument("--threads", type=int, help="of PyTorch (default: its own choice)")
    more.add_argument("--dtype", default="float32", help="of the models (default: %(default)s)")
    more.add_argument("--batch", nargs="*", type=int, default=[1, 8], help="default: 1 8")
    more.add_argument("--cases", nargs="*", default=list(CONFIGS)[:3], help=f"of {', '.join(CONFIGS)}")
    more.add_argument("--only", nargs="*", help="of the contestants beside the floor (default: all)")
    more.add_argument("--compiled", action=argparse.BooleanOptionalAction, default=True, help="the compiled ones too")
    more.add_argument("--steps-alone", action="store_true", help="no time until the first token, and no perplexity")
    more.add_argument("--gguf", type=Path, help="SmolLM2-135M as released")
    given = arguments(__doc__, more)
    if given.threads:
        torch.set_num_threads(given.threads)
    rate = bandwidth(given.device)
    print(f"memory: {rate / 1e9:.1f} GB/s; columns: × floor [quartiles], × HF, time of a step, tokens/s, of bandwidth")
    models = {name: partial(Transformer, CONFIGS[name]) for name in given.cases}
    if given.gguf:
        checkpoint = load(given.gguf)
        models["SmolLM2-135M"] = lambda: checkpoint.model
    for name, make in models.items():
        with made_on(given.device, getattr(torch, given.dtype)):
            model = make().eval().requires_grad_(False)
        for batch in given.batch:
            run(name, model, batch, given, rate)
        if not given.steps_alone:
            first_token(name, model, given)
    if not given.steps_alone:
        perplexities(*stories())
        if given.gguf:
            perplexities(*beginning_of_chapter_3(checkpoint))
