"""Gradients, updates and activations of a step, part by part, on one process and sharded over two."""

import math

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.lab.diagnostics import Diagnostics, Measurements

SIZES = dict(d_model=12, n_layers=2, n_heads=3, d_ff=20, n_vocab=17, position="rope", norm="rmsnorm")


def tiny_model(seed=0, **options):
    torch.manual_seed(seed)
    return Transformer(ModelConfig(**SIZES | options))


def batch(seed=1, rows=4):
    return torch.randint(SIZES["n_vocab"], (rows, 6), generator=torch.Generator().manual_seed(seed))


def loss_of(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def norm(tensors):
    return math.sqrt(sum(tensor.double().square().sum().item() for tensor in tensors))


@pytest.mark.syllabus("GT-03")
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW], ids=["SGD", "AdamW"])
def test_the_numbers_are_those_of_their_definitions(make):
    model = tiny_model(tie_embeddings=False)
    optimizer = make(model.parameters(), lr=0.1)
    blocks, outputs = model.stack.blocks, []
    for block in blocks:
        block.register_forward_hook(lambda block, inputs, output: outputs.append(output[0].abs().max().item()))
    with Diagnostics(model, optimizer) as diagnostics:
        for _ in range(2):
            optimizer.zero_grad()
            outputs.clear()
            loss_of(model, batch()).backward()
            gradients = [norm(p.grad for p in block.parameters()) for block in blocks]
            before = [[p.detach().clone() for p in block.parameters()] for block in blocks]
            optimizer.step()
            measured = diagnostics.measurements
            changes = [
                norm(p.detach() - q for p, q in zip(block.parameters(), old, strict=True)) / norm(old)
                for block, old in zip(blocks, before, strict=True)
            ]
            names = ["stack.blocks.0", "stack.blocks.1"]
            assert [measured.gradient_norms[name] for name in names] == pytest.approx(gradients, rel=1e-5)
            assert [measured.update_ratios[name] for name in names] == pytest.approx(changes, rel=1e-4)
            assert [measured.activation_maxima[name] for name in names] == pytest.approx(outputs)
            assert measured.gradient_norm == pytest.approx(norm(p.grad for p in model.parameters()), rel=1e-5)
    logits = measured.activation_maxima["unembedding"]
    assert measured.logits_maximum == logits > 0


def test_the_loop_is_not_changed_and_the_hooks_are_removed():
    results = []
    for is_measured in (True, False):
        model = tiny_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        diagnostics = Diagnostics(model, optimizer)
        if is_measured:
            diagnostics.__enter__()
        for seed in range(3):
            loss_of(model, batch(seed)).backward()
            diagnostics.record_gradients()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        diagnostics.__exit__()
        assert not any(module._forward_hooks for module in model.modules())
        assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks
    assert results[0].equal(results[1])


def test_gradients_can_be_recorded_before_they_are_clipped():
    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []
    with Diagnostics(model, optimizer) as diagnostics:
        for is_recorded in (True, False):
            optimizer.zero_grad()
            loss_of(model, batch()).backward()
            if is_recorded:
                diagnostics.record_gradients()
            total = nn.utils.clip_grad_norm_(model.parameters(), 0.25).item()
            optimizer.step()
            norms.append((diagnostics.measurements.gradient_norm, total if is_recorded else 0.25))
    for measured, expected in norms:
        assert measured == pytest.approx(expected, rel=1e-4)
    assert norms[0][1] > 0.5


def test_activations_are_those_of_all_micro_batches_and_of_no_evaluation():
    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with Diagnostics(model, optimizer) as diagnostics:

        def maximum(*batches, scale=1.0):
            with torch.no_grad():  # an evaluation with much larger activations
                model.embedding.weight *= 100 * scale
                model(batch(7))
                model.embedding.weight /= 100
            for seed in batches:
                loss_of(model, batch(seed, rows=1)).backward()
            optimizer.step()
            with torch.no_grad():
                model.embedding.weight /= scale
            return diagnostics.measurements.activation_maxima["embedding"]

        alone = [maximum(2), maximum(3), maximum(4)]
        assert len({*alone}) == 3
        assert maximum(2, 3, 4) == max(alone)
        assert maximum(4, scale=2.0) == pytest.approx(2 * alone[2])


def test_steps_between_two_measured_ones_are_not_measured():
    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    with Diagnostics(model, optimizer, every=3) as diagnostics:
        for seed in range(7):
            optimizer.zero_grad()
            assert diagnostics.is_measuring == (seed % 3 == 0)
            loss_of(model, batch(seed)).backward()
            optimizer.step()
            found.append(diagnostics.measurements)
    assert found[0] == found[1] == found[2] != found[3] == found[4] == found[5] != found[6]


def test_a_step_that_is_skipped_is_forgotten():
    """A gradient scaler does not call the optimizer where a gradient is not finite."""
    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with Diagnostics(model, optimizer) as diagnostics:
        loss_of(model, batch(2)).backward()
        optimizer.step()
        usual = diagnostics.measurements
        optimizer.zero_grad()
        with torch.no_grad():
            model.embedding.weight *= 1000
        (loss_of(model, batch(3)) * math.inf).backward()
        diagnostics.record_gradients()
        skipped = diagnostics.measurements
        assert math.isnan(skipped.gradient_norm) and skipped.update_ratios == {}
        assert skipped.activation_maxima["embedding"] > 100 * usual.activation_maxima["embedding"]
        diagnostics.discard()
        optimizer.zero_grad()
        with torch.no_grad():
            model.embedding.weight /= 1000
        loss_of(model, batch(2)).backward()
        optimizer.step()
    measured = diagnostics.measurements
    assert measured.activation_maxima == pytest.approx(usual.activation_maxima, rel=1e-5)
    assert measured.gradient_norms == pytest.approx(usual.gradient_norms, rel=1e-4)


def test_gradients_need_no_forward_pass_in_this_context():
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Diagnostics(model, optimizer) as diagnostics:
        for gradient in (3.0, 6.0):
            model[0].weight.grad = torch.tensor([[gradient, 0.0]])
            diagnostics.record_gradients()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            assert diagnostics.measurements.gradient_norms == {"0": gradient}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_norms_are_computed_in_float32_at_least(dtype):
    """The squares of these gradients overflow in 16 bits, and the sums of squares lose most of their digits."""
    layer = nn.Linear(50, 40, bias=False, dtype=dtype)
    nn.init.constant_(layer.weight, 1.0)
    model = nn.Sequential(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=2**-12)
    layer.weight.grad = torch.full_like(layer.weight, 1024.0)
    with Diagnostics(model, optimizer) as diagnostics:
        optimizer.step()
    assert diagnostics.measurements.gradient_norms == {"0": pytest.approx(1024 * math.sqrt(2000), rel=1e-6)}
    assert diagnostics.measurements.update_ratios == {"0": pytest.approx(0.25)}


def parts_of(model, run):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Diagnostics(model, optimizer) as diagnostics:
        run(model).backward()
        optimizer.step()
    return diagnostics.measurements


def test_parts_are_the_blocks_and_what_is_around_them():
    ids = batch()
    tied = parts_of(tiny_model(tie_embeddings=True), lambda model: loss_of(model, ids))
    assert [*tied.update_ratios] == ["embedding", "stack.blocks.0", "stack.blocks.1", "stack.norm"]
    assert [*tied.activation_maxima] == [*tied.update_ratios, "unembedding"]
    both = tiny_model(kind="encoder-decoder", n_layers=1)
    found = parts_of(both, lambda model: model(ids, source=ids).sum())
    assert {"encoder.blocks.0", "encoder.norm", "stack.blocks.0", "unembedding"} <= {*found.update_ratios}
    plain = parts_of(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)), lambda m: m(torch.ones(1, 3)).sum())
    assert [*plain.activation_maxima] == ["0", "1", "2"] and [*plain.gradient_norms] == ["0", "2"]


def test_models_of_the_transformers_library_are_measured_as_well():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=12, n_layer=2, n_head=3, vocab_size=17, n_positions=8)
    found = parts_of(transformers.GPT2LMHeadModel(config), lambda model: model(batch(), labels=batch()).loss)
    assert {"transformer.wte", "transformer.h.0", "transformer.h.1", "transformer.ln_f"} <= {*found.update_ratios}
    assert found.logits_maximum == found.activation_maxima["lm_head"] > 0


def test_wrappers_do_not_change_the_names_of_parts():
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args):
            return self.module(*args)

    plain = parts_of(tiny_model(), lambda model: loss_of(model, batch()))
    assert parts_of(Wrapper(tiny_model()), lambda model: loss_of(model, batch())) == plain


def test_frozen_parameters_and_parameters_without_a_gradient_are_left_out():
    model = tiny_model()
    model.embedding.requires_grad_(False)
    model.stack.blocks[1].requires_grad_(False)
    model.lonely = nn.Parameter(torch.ones(3))
    model.direct = nn.Parameter(torch.ones(2))
    found = parts_of(model, lambda model: loss_of(model, batch()) + 3 * model.direct.sum())
    assert {*found.update_ratios} == {*found.gradient_norms} == {"stack.blocks.0", "stack.norm", "unembedding", "other"}
    assert found.gradient_norms["other"] == pytest.approx(3 * math.sqrt(2))
    assert "stack.blocks.1" in found.activation_maxima


def test_metrics_have_one_name_each():
    found = Measurements({"a": 3.0, "b": 4.0}, {"a": 0.5}, {"a": 6.0}, 7.0)
    assert found.gradient_norm == 5.0
    assert found.as_metrics() == {
        "gradient_norm/a": 3.0,
        "gradient_norm/b": 4.0,
        "update_ratio/a": 0.5,
        "activation_maximum/a": 6.0,
        "logits_maximum": 7.0,
    }


def test_every_must_be_at_least_one():
    model = nn.Linear(1, 1)
    with pytest.raises(ValueError, match="every=0 must be at least 1"):
        Diagnostics(model, torch.optim.SGD(model.parameters()), every=0)


def measured_on_two_ranks():
    """The measurements of the same step for each way to divide it."""
    rank, found = dist.get_rank(), {}
    for kind in ("ddp", "fsdp", "replicated"):
        model = tiny_model()
        if kind == "ddp":
            model = DistributedDataParallel(model)
        else:
            shape = {"fsdp": (2,), "replicated": (2, 1)}[kind]
            mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("a", "b")[: len(shape)])
            for block in model.stack.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        with Diagnostics(model, optimizer) as diagnostics:
            loss_of(model, batch()[2 * rank : 2 * rank + 2]).backward()
            diagnostics.record_gradients()
            optimizer.step()
        found[kind] = diagnostics.measurements.as_metrics()
    return found


def test_two_ranks_measure_what_one_process_does(forks):
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with Diagnostics(model, optimizer) as diagnostics:
        loss_of(model, batch()).backward()
        optimizer.step()
    expected = diagnostics.measurements.as_metrics()
    for found in forks(measured_on_two_ranks, n_ranks=2):
        assert [*found] == ["ddp", "fsdp", "replicated"]
        for kind, numbers in found.items():
            assert numbers == pytest.approx(expected, rel=1e-3), kind
