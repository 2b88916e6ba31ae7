"""Attention beside its best peer: one layer on texts short and long, one token over a cache, score biases, latents.

    python benchmarks/attention.py [--out benchmarks/results]

Peers: PyTorch's nn.MultiheadAttention and its kernel between four bare projections, Hugging Face's modules, and
x-transformers where it is installed. In each round every contestant runs once, in changing order; printed are the
median ratio to the fastest peer, its quartiles and that peer's milliseconds. The goal is 1.0; within 5 % counts as
equal. Last, the memory that a text of T tokens takes beyond the layer and its input, each in a process of its own.
The table and a plot are written to ``--out``.
"""

import argparse
import contextlib
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import arguments, beside, summary
from torch import nn
from transformers import DynamicCache, StaticCache
from transformers.models.bloom.modeling_bloom import BloomAttention, BloomConfig, build_alibi_tensor
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3Attention,
    DeepseekV3Config,
    DeepseekV3RotaryEmbedding,
)
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaRotaryEmbedding

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.masks import CausalMask
from llm_anatomy.layers.positions.relative import ALiBi
from llm_anatomy.layers.positions.rotary import HalfSplitRotary, InterleavedRotary

GOAL = 1.0
CAUSAL = CausalMask()
ROWS = []


def report(group, label, best, measured):
    middle, low, high, milliseconds = summary(measured)
    missed = "  above the goal" if middle > GOAL * 1.05 else ""
    ROWS.append((group, label, best, middle, low, high, milliseconds))
    print(
        f"{group:22} {label:34} {best:20} {middle:5.2f}  [{low:.2f}, {high:.2f}] {milliseconds:9.3f}{missed}",
        flush=True,
    )


class Bare(nn.Module):
    """PyTorch's kernel between four projections, the least that can be written."""

    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        self.sizes = n_heads, n_kv_heads
        width = d_model // n_heads
        self.q, self.k, self.v, self.o = (
            nn.Linear(d_model, heads * width, bias=False) for heads in (n_heads, n_kv_heads, n_kv_heads, n_heads)
        )

    def forward(self, x):
        n_heads, n_kv_heads = self.sizes
        query = self.q(x).unflatten(-1, (n_heads, -1)).transpose(1, 2)
        key, value = (linear(x).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2) for linear in (self.k, self.v))
        gqa = n_heads != n_kv_heads
        output = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=gqa)
        return self.o(output.transpose(1, 2).flatten(2))


def llama(d_model, n_heads, n_kv_heads):
    return LlamaConfig(
        hidden_size=d_model,
        num_attention_heads=n_heads,
        num_key_value_heads=n_kv_heads,
        num_hidden_layers=1,
        attn_implementation="sdpa",
    )


def causal_layers(device, rounds):
    """Self-attention under a causal mask, without positions."""
    for batch, tokens, d_model, n_heads, n_kv_heads in [
        (8, 64, 384, 6, 6),
        (8, 256, 384, 6, 6),
        (4, 256, 768, 12, 4),
        (1, 2048, 512, 8, 8),
        (1, 2048, 512, 8, 2),
    ]:
        ours = SelfAttention(d_model, n_heads, n_kv_heads=n_kv_heads).to(device)
        peers = {"kernel, 4 projections": Bare(d_model, n_heads, n_kv_heads).to(device)}
        if n_heads == n_kv_heads:
            torch_own = nn.MultiheadAttention(d_model, n_heads, bias=False, batch_first=True).to(device)
            hidden = nn.Transformer.generate_square_subsequent_mask(tokens, device=device)
            peers["nn.MultiheadAttention"] = lambda x, m=torch_own, h=hidden: m(
                x, x, x, attn_mask=h, is_causal=True, need_weights=False
            )[0]
        with contextlib.suppress(ImportError):
            from x_transformers.x_transformers import Attention

            kv = {} if n_heads == n_kv_heads else dict(kv_heads=n_kv_heads)
            peers["x-transformers"] = Attention(
                dim=d_model, dim_head=d_model // n_heads, heads=n_heads, causal=True, flash=True, **kv
            ).to(device)
        x = torch.randn(batch, tokens, d_model, device=device)
        for backward in (False, True):
            label = f"{batch} × {tokens}, {n_heads}/{n_kv_heads} × {d_model // n_heads}"
            label += ", fwd+bwd" if backward else ", fwd"
            report("causal", label, *beside(lambda x, m=ours: m(x, mask=CAUSAL), peers, [x], backward, rounds))


def rotary_layers(device, rounds):
    """A layer of Llama: rotary positions, grouped queries."""
    for batch, tokens, d_model, n_heads, n_kv_heads in [(4, 256, 768, 12, 4), (1, 2048, 512, 8, 2)]:
        config = llama(d_model, n_heads, n_kv_heads)
        theirs, rotary = LlamaAttention(config, layer_idx=0).to(device), LlamaRotaryEmbedding(config).to(device)
        ours = SelfAttention(d_model, n_heads, n_kv_heads=n_kv_heads, position=HalfSplitRotary(d_model // n_heads)).to(
            device
        )
        x = torch.randn(batch, tokens, d_model, device=device)
        tables = rotary(x, torch.arange(tokens, device=device)[None])
        peers = {"Hugging Face Llama": lambda x, m=theirs, t=tables: m(x, t, None)[0]}
        for backward in (False, True):
            label = f"{batch} × {tokens}, {n_heads}/{n_kv_heads} × {d_model // n_heads}"
            label += ", fwd+bwd" if backward else ", fwd"
            report("rotary", label, *beside(lambda x, m=ours: m(x, mask=CAUSAL), peers, [x], backward, rounds))


def biased_layers(device, rounds):
    """A score bias through the kernel: ALiBi, as BLOOM computes it."""
    batch, tokens, d_model, n_heads = 2, 512, 512, 8
    config = BloomConfig(hidden_size=d_model, n_head=n_heads, hidden_dropout=0.0, attention_dropout=0.0)
    config._attn_implementation = "eager"
    theirs = BloomAttention(config, layer_idx=0).to(device)
    ours = SelfAttention(d_model, n_heads, position=ALiBi(n_heads), bias=True).to(device)
    x = torch.randn(batch, tokens, d_model, device=device)
    alibi = build_alibi_tensor(torch.ones(batch, tokens, device=device), n_heads, torch.float32)
    hidden = torch.full((tokens, tokens), torch.finfo(torch.float32).min, device=device).triu(1)[None, None]
    peers = {"Hugging Face BLOOM": lambda x: theirs(x, torch.zeros_like(x), alibi=alibi, attention_mask=hidden)[0]}
    for backward in (False, True):
        label = f"{batch} × {tokens}, {n_heads} × {d_model // n_heads}" + (", fwd+bwd" if backward else ", fwd")
        report("ALiBi", label, *beside(lambda x, m=ours: m(x, mask=CAUSAL), peers, [x], backward, rounds))


def decoding(device, rounds):
    """One more token over a cache of Llama's layer; the same position is written again and again."""
    for batch, tokens, d_model, n_heads, n_kv_heads in [
        (1, 256, 768, 12, 12),
        (1, 2048, 768, 12, 12),
        (1, 2048, 768, 12, 4),
        (8, 2048, 768, 12, 4),
        (8, 2048, 768, 12, 1),
    ]:
        config, d_head = llama(d_model, n_heads, n_kv_heads), d_model // n_heads
        theirs, rotary = LlamaAttention(config, layer_idx=0).to(device), LlamaRotaryEmbedding(config).to(device)
        ours = SelfAttention(d_model, n_heads, n_kv_heads=n_kv_heads, position=HalfSplitRotary(d_head)).to(device)
        x = torch.randn(batch, 1, d_model, device=device)
        tables = rotary(x, torch.tensor([[tokens]], device=device))
        key, value = torch.randn(2, batch, n_kv_heads, tokens, d_head, device=device)
        cache, growing = ours.new_cache(batch, tokens + 1), DynamicCache(config=config)
        with torch.no_grad():
            cache.append(key, value)
            growing.update(key, value, 0)
        static = StaticCache(config=config, max_cache_len=tokens + 1)
        static.update(key, value, 0)

        def one_of_ours(x, ours=ours, cache=cache, tokens=tokens):
            cache.length = tokens
            return ours(x, mask=CAUSAL, cache=cache)

        def one_growing(x, theirs=theirs, growing=growing, tables=tables, tokens=tokens):
            growing.crop(tokens - growing.get_seq_length())
            return theirs(x, tables, None, past_key_values=growing)[0]

        def one_static(x, theirs=theirs, static=static, tables=tables, tokens=tokens):
            static.layers[0].cumulative_length.fill_(tokens)
            return theirs(x, tables, None, past_key_values=static)[0]

        peers = {"HF, growing cache": one_growing, "HF, static cache": one_static}
        label = f"{batch} × 1 over {tokens}, {n_heads}/{n_kv_heads} × {d_head}"
        report("one token, rotary", label, *beside(one_of_ours, peers, [x], False, rounds))


def latents(device, rounds):
    """DeepSeek-V3's layer, smaller: a text, and one token over a cache of latents."""
    d_model, n_heads, d_latent, d_head, d_rotary = 768, 12, 256, 64, 32
    for batch, tokens in [(1, 512), (1, 2048), (4, 2048)]:
        config = DeepseekV3Config(
            hidden_size=d_model,
            num_attention_heads=n_heads,
            num_key_value_heads=n_heads,
            num_hidden_layers=1,
            q_lora_rank=None,
            kv_lora_rank=d_latent,
            qk_rope_head_dim=d_rotary,
            qk_nope_head_dim=d_head,
            v_head_dim=d_head,
            head_dim=d_rotary,
            attn_implementation="sdpa",
        )
        theirs, rotary = (cls.to(device) for cls in (DeepseekV3Attention(config, 0), DeepseekV3RotaryEmbedding(config)))
        ours = LatentAttention(
            d_model,
            n_heads,
            d_latent=d_latent,
            d_head=d_head,
            position=InterleavedRotary(d_rotary),
            latent_norm=nn.RMSNorm(d_latent),
        ).to(device)
        x = torch.randn(batch, tokens, d_model, device=device)
        tables = rotary(x, torch.arange(tokens, device=device)[None])
        peers = {"Hugging Face V3": lambda x, m=theirs, t=tables: m(x, t, None)[0]}
        if batch == 1:
            for backward in (False, True):
                label = f"{batch} × {tokens}, {n_heads} × {d_head} + {d_rotary}"
                label += ", fwd+bwd" if backward else ", fwd"
                report("latent", label, *beside(lambda x, m=ours: m(x, CAUSAL), peers, [x], backward, rounds))
        cache, growing = ours.new_cache(batch, tokens + 1), DynamicCache(config=config)
        with torch.no_grad():
            ours(x, CAUSAL, cache=cache)
            theirs(x, tables, None, past_key_values=growing)
        token, table = x[:, :1].clone(), rotary(x, torch.tensor([[tokens]], device=device))

        def one_of_ours(x, ours=ours, cache=cache, tokens=tokens):
            cache.length = tokens
            return ours(x, CAUSAL, cache=cache)

        def one_of_theirs(x, theirs=theirs, growing=growing, table=table, tokens=tokens):
            growing.crop(tokens - growing.get_seq_length())
            return theirs(x, table, None, past_key_values=growing)[0]

        label = f"{batch} × 1 over {tokens}, {n_heads} × {d_head} + {d_rotary}"
        report(
            "latent, one token", label, *beside(one_of_ours, {"Hugging Face V3": one_of_theirs}, [token], False, rounds)
        )


LENGTHS = (1024, 2048, 4096, 8192)
MEMORY = """
import re, torch
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.masks import CausalMask
from llm_anatomy.layers.positions.relative import ALiBi
from llm_anatomy.layers.positions.rotary import HalfSplitRotary

layer = SelfAttention(256, 8, position={scheme}).to("{device}")
x = torch.randn(1, {tokens}, 256, device="{device}")


def megabytes(line):
    return int(re.search(line + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024


with torch.inference_mode():
    layer(x[:, :128], mask=CausalMask())
    if "{device}" == "cpu":  # Linux: the highest resident memory, counted from here on
        open("/proc/self/clear_refs", "w").write("5")
        before = megabytes("VmRSS")
        layer(x, mask=CausalMask())
        print(megabytes("VmHWM") - before)
    else:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        layer(x, mask=CausalMask())
        print((torch.cuda.max_memory_allocated() - before) / 2**20)
"""


def memory(device):
    """Peak megabytes beyond the layer and its input, for each length, without a bias and with one."""
    table = {}
    for name, scheme in {
        "causal": "None",
        "causal, rotary": "HalfSplitRotary(32)",
        "causal, ALiBi": "ALiBi(8)",
    }.items():
        for tokens in LENGTHS:
            code = MEMORY.format(scheme=scheme, tokens=tokens, device=device)
            run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
            table[name, tokens] = float(run.stdout)
        print(f"{name:16}" + "".join(f"{table[name, tokens]:10.0f}" for tokens in LENGTHS) + " MB", flush=True)
    return table


def plot(table, path):
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"
    _, (left, right) = plt.subplots(
        1, 2, figsize=(11, 0.24 * len(ROWS) + 1.5), width_ratios=[2, 1], layout="constrained"
    )
    labels = [f"{group}: {label}" for group, label, *_ in ROWS]
    positions = range(len(ROWS))
    left.hlines(positions, [row[4] for row in ROWS], [row[5] for row in ROWS], color="0.6")
    left.plot([row[3] for row in ROWS], positions, "o", color="black", markersize=4)
    left.axvline(1, color="0.5", linewidth=1)
    left.set(yticks=positions, yticklabels=labels, xlabel="our time / best peer's (median, quartiles)", xlim=(0, None))
    left.tick_params("y", labelsize=7)
    left.invert_yaxis()
    for name in dict.fromkeys(name for name, _ in table):
        right.plot(LENGTHS, [table[name, tokens] for tokens in LENGTHS], "o-", label=name)
    right.set(xscale="log", yscale="log", xlabel="tokens", ylabel="peak memory beyond layer and input (MB)")
    right.set_xticks(LENGTHS, LENGTHS)
    right.minorticks_off()
    right.legend()
    plt.savefig(path)


if __name__ == "__main__":
    more = argparse.ArgumentParser(add_help=False)
    more.add_argument("--out", type=Path, help="a folder for the table and the plot")
    given = arguments(__doc__, more)
    print(f"{'':22} {'batch × tokens, heads × width':34} {'best peer':20} ratio  quartiles     peer (ms)")
    for part in (causal_layers, rotary_layers, biased_layers, decoding, latents):
        part(given.device, given.rounds)
    print("\npeak memory     " + "".join(f"{f'T = {tokens}':>10}" for tokens in LENGTHS))
    table = memory(given.device)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        name = given.out / f"attention-{given.device}"
        lines = ["| | batch × tokens, heads × width | best peer | ratio | quartiles | peer (ms) |", "|---" * 6 + "|"]
        for group, label, best, middle, low, high, milliseconds in ROWS:
            numbers = f"{middle:.2f} | {low:.2f}–{high:.2f} | {milliseconds:.3f}"
            lines.append(f"| {group} | {label} | {best} | {numbers} |")
        lines += [
            "",
            f"| peak memory (MB) | {' | '.join(f'T = {n}' for n in LENGTHS)} |",
            "|---" * (len(LENGTHS) + 1) + "|",
        ]
        for kind in dict.fromkeys(kind for kind, _ in table):
            lines.append(f"| {kind} | {' | '.join(f'{table[kind, n]:.0f}' for n in LENGTHS)} |")
        name.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        plot(table, name.with_suffix(".svg"))
