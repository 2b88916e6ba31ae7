"""What a device can turn: dtypes, fused attention, caches, autocast, compilation, CUDA graphs, resuming after a kill.

On a CPU the same properties are proved in more cases beside the code that has them, so here they are slow tests.
"""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from models.test_module_calls import built, check_sharded, counted, ids_for, one_process
from models.test_transformer import BATCH, TOKENS, VARIETIES, build, ids
from randomness import randn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from training.lab.small_runs import N_STEPS, metrics, run_small, small_config, write_corpus

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.masks import CausalMask, SlidingWindowMask
from llm_anatomy.layers.positions.relative import ALiBi
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
from llm_anatomy.models.generation import generate
from llm_anatomy.models.inference import for_inference

DEVICES = [pytest.param("cpu", marks=pytest.mark.slow)] + ["cuda"] * torch.cuda.is_available()
pytestmark = pytest.mark.parametrize("device", DEVICES)
SHORT = [torch.bfloat16, torch.float16]
PROMPTS = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3, 5, 8, 9, 7]]


def assert_rounded(found, expected):
    """The mean error is a few roundings of a mean value: on a CPU up to 5, and up to 2 in 16 bits."""
    error = (found.double().cpu() - expected).abs().mean() / expected.abs().mean()
    assert error < (5 if found.dtype in SHORT else 30) * torch.finfo(found.dtype).eps


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *SHORT])
@pytest.mark.parametrize("name", VARIETIES)
def test_logits_in_each_dtype_are_those_of_explicit_attention_on_a_cpu(name, dtype, device):
    if name == "experts" and dtype in SHORT:
        pytest.skip("where two experts have nearly the same score, rounding chooses")
    expected = build(name)(ids(), return_records=True)[0]
    model, tokens = build(name).to(device, dtype), ids().to(device)
    assert_rounded(model(tokens), expected)
    assert_rounded(model(tokens, return_records=True)[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, *SHORT])
@pytest.mark.parametrize("position", [None, ALiBi(4), HalfSplitRotary(64)], ids=["none", "alibi", "rope"])
@pytest.mark.parametrize("mask", ["causal", "window", "padding"])
def test_fused_attention_of_the_sizes_of_kernels_is_explicit_attention(mask, position, dtype, device):
    """With its gradients, in heads of 64 numbers, for which a GPU has several kernels."""
    torch.manual_seed(0)
    attention = SelfAttention(96, 4, n_kv_heads=2, d_head=64, position=position).to(device, dtype)
    x = randn(2, 130, 96).to(device, dtype).requires_grad_()
    hidden = torch.ones(2, 1, 1, 130, dtype=torch.bool, device=device)
    hidden[0, ..., 100:] = False
    rule = {"causal": CausalMask(), "window": CausalMask() & SlidingWindowMask(9), "padding": hidden}[mask]
    found, expected = (attention(x, mask=rule, fused=fused) for fused in (True, False))
    gradients = [torch.autograd.grad(output.square().sum(), x)[0].double() for output in (found, expected)]
    for one, other in ((found.double(), expected.double()), gradients):
        assert (one - other).norm() < {torch.float32: 30}.get(dtype, 5) * torch.finfo(dtype).eps * other.norm()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", VARIETIES)
def test_a_cache_equals_no_cache(name, padded, device):
    model, tokens = build(name).to(device), ids().to(device)
    real, sizes = torch.ones(BATCH, TOKENS, dtype=torch.bool, device=device), [5] + [1] * (TOKENS - 5)
    real[0, :3] = real[2, :1] = not padded
    masks = real.split(sizes, 1) if padded else [None] * len(sizes)
    with torch.inference_mode():
        expected = model(tokens, attention_mask=real if padded else None)
        for reader in (model, for_inference(model)):
            cache, parts = reader.new_cache(BATCH, TOKENS), zip(tokens.split(sizes, 1), masks, strict=True)
            found = torch.cat([reader(part, attention_mask=mask, cache=cache) for part, mask in parts], 1)
            torch.testing.assert_close(found[real], expected[real], rtol=1e-8, atol=1e-8)
    assert generate(model, PROMPTS, max_new_tokens=7) == generate(build(name), PROMPTS, max_new_tokens=7)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("name", ["learned", "rope, qk-norm", "alibi", "t5", "window", "latent"])
def test_autocast_with_a_cache_without_one_and_in_training(name, dtype, device):
    model, tokens = build(name).float().to(device), ids().to(device)
    expected, cache = build(name)(ids()), model.new_cache(BATCH, TOKENS)
    with torch.autocast(device, dtype):
        whole = model(tokens)
        assert_rounded(whole.to(dtype), expected)
        whole.square().mean().backward()
        with torch.inference_mode():
            parts = [model(part, cache=cache) for part in tokens.split([5, 1, 1, 4], 1)]
    assert_rounded(torch.cat(parts, 1).to(dtype), expected)
    gradient = model.embedding.weight.grad
    assert gradient.dtype == torch.float32 and gradient.isfinite().all() and gradient.abs().sum() > 0


KILLED = """
import json, os, signal, sys
from llm_anatomy.training.lab.step import Stepper
from training.lab.small_runs import run_small
update = Stepper.update
def update_and_die(self, step):
    update(self, step)
    if step == 17:
        os.kill(os.getpid(), signal.SIGKILL)
Stepper.update = update_and_die
run_small(json.loads(sys.argv[1]))
"""


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_killed_run_goes_on_as_if_it_had_not_been(precision, device, tmp_path):
    """Bit for bit on a CPU; sums of gradients may come in another order on a GPU."""
    corpus, changes = write_corpus(tmp_path / "data"), {"parallel.device": device, "parallel.precision": precision}
    whole, killed = (small_config(corpus, tmp_path / name, **changes) for name in ("whole", "killed"))
    run_small(whole)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, json.dumps(killed)]
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    assert 7 < metrics(killed["out"])[-1]["step"] <= 17
    assert run_small(killed).status == 0
    found, expected = (metrics(fields["out"]) for fields in (killed, whole))
    assert [line["step"] for line in found] == [*range(1, N_STEPS + 1)]
    assert [line["position"] for line in found] == [line["position"] for line in expected]
    close = 0 if device == "cpu" else {"float32": 1e-3, "float16": 0.05}[precision]
    losses = ([line["loss"] for line in lines] for lines in (found, expected))
    torch.testing.assert_close(*losses, rtol=close, atol=0)


COMPILED = """
import sys, torch
sys.path[:] = {path!r}
from models.test_transformer import build, ids
device, backend = {device!r}, {{"cpu": "aot_eager", "cuda": "inductor"}}[{device!r}]
for name in ("rope, qk-norm", "t5")[: 1 if device == "cpu" else 2]:
    model, tokens = build(name).float().to(device), ids().to(device)
    found = torch.compile(model, fullgraph=True, backend=backend)(tokens)
    found.square().mean().backward()
    gradients = {{name: p.grad for name, p in model.named_parameters()}}
    model.zero_grad()
    expected = model(tokens)
    expected.square().mean().backward()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())
    for name, p in model.named_parameters():
        if p.grad is not None:
            close = dict(rtol=0, atol=1e-4 * max(1e-3, p.grad.abs().max().item()))
            torch.testing.assert_close(gradients[name], p.grad, **close)
"""


def test_a_compiled_model_and_its_gradients_are_those_of_the_model(device, run_without_shape_checks):
    run_without_shape_checks(COMPILED.format(device=device, path=sys.path))


def test_hooks_fire_wrapped_attention_is_recomputed_and_sharding_changes_nothing(device):
    model = built("llama-2-7b").to(device)
    calls = counted(model)
    expected = generate(model, ids_for(model), max_new_tokens=3).ids
    assert calls[""] == calls["stack.blocks.0.attention"] == 3
    for block in model.stack.blocks:
        block.attention = checkpoint_wrapper(block.attention)
    assert generate(model, ids_for(model), max_new_tokens=3).ids == expected
    model = built("llama-2-7b").to(device)
    with one_process("gloo" if device == "cpu" else "nccl"):
        check_sharded(model, device)


GENERATED = """
import sys, torch
sys.path[:] = {path!r}
from llm_anatomy.models.generation import generate
from llm_anatomy.models.presets import tiny
from llm_anatomy.models.transformer import Transformer
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = Transformer(tiny("llama-2-7b")).to({device!r}).eval()
options = {{"backend": "aot_eager"}} if {device!r} == "cpu" else {{}}
compiled = torch.compile(model, dynamic=True, fullgraph=True, **options)
prompts = [[1, 2, 3], [4]]
found, expected = (generate(m, prompts, max_new_tokens=6, log_probs=True) for m in (compiled, model))
for one, other in zip(found.log_probs, expected.log_probs):
    torch.testing.assert_close(one[:2], other[:2], rtol=0, atol=1e-3)
assert 1 <= counters["stats"]["unique_graphs"] <= 4, counters["stats"]
"""


def test_generation_uses_a_compiled_model(device, run_without_shape_checks):
    run_without_shape_checks(GENERATED.format(device=device, path=sys.path))


STATIC = """
import sys, torch
sys.path[:] = {path!r}
from torch._dynamo.utils import counters
from torch.profiler import ProfilerActivity, profile
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.generation import generate
from llm_anatomy.models.inference import CompiledStep, for_inference
from llm_anatomy.models.transformer import Transformer
from randomness import randomize
device, options = {device!r}, {{"backend": "aot_eager"}} if {device!r} == "cpu" else {{}}
sizes = dict(d_model=64, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=96, n_vocab=101, n_ctx=64, position="rope")
sizes |= dict(norm="rmsnorm", feedforward="swiglu")
window = dict(window=5, qk_norm="per_head")
for weights, parts in ((None, window), (None, dict()), ("bfloat16", dict()), ("int8", dict())):
    model = randomize(Transformer(ModelConfig(**sizes | parts))).to(device).eval()
    optimized = for_inference(model, quantize=weights, prepack=False)
    prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]]
    counters.clear()
    step, settings = CompiledStep(**options), dict(max_new_tokens=12, log_probs=True)
    found, expected = generate(optimized, prompts, step=step, **settings), generate(optimized, prompts, **settings)
    n, close = (2, 0.2) if weights else (12, 1e-3)  # in fewer bits, the texts may differ after the first step
    for one, other in zip(found.log_probs, expected.log_probs):
        torch.testing.assert_close(one[:n], other[:n], rtol=0, atol=close)
    assert weights or found.ids == expected.ids
    assert not counters["inductor"]["cudagraph_skips"], counters
    if device == "cuda":
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            generate(optimized, prompts, step=step, **settings)
        assert any("GraphLaunch" in entry.key for entry in profiled.key_averages()), "no CUDA graph was replayed"
"""


def test_static_steps_replay_cuda_graphs_that_compute_what_the_form_does(device, run_without_shape_checks):
    run_without_shape_checks(STATIC.format(device=device, path=sys.path))
