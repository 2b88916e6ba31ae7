"""Whatever wraps or watches modules works: hooks fire, and wrappers of PyTorch take effect, in every kind of model."""

from collections import Counter
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
from randomness import randomize
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.utils import parametrize

from llm_anatomy.layers.attention_sinks import AttentionSinks
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.models.generation import beam_search, generate
from llm_anatomy.models.inference import for_inference
from llm_anatomy.models.presets import presets, tiny
from llm_anatomy.models.transformer import Transformer


def structure(config):
    """What decides which modules a model has."""
    options = (config.moe and config.moe.router, bool(config.latent), config.attention_sinks, config.qk_norm)
    layout = (config.kind, config.norm_placement, config.parallel_block, config.n_parallel_norms, config.token_head)
    return (*layout, config.position, config.norm, config.feedforward, config.tie_embeddings, *options)


def distinct():
    """One preset of each structure."""
    found = {}
    for name in presets():
        try:
            found.setdefault(structure(tiny(name)), name)
        except ValueError:  # its sizes are not public
            continue
    return sorted(found.values())


each_structure = pytest.mark.parametrize("name", distinct())


def built(name):
    torch.manual_seed(0)
    return randomize(Transformer(tiny(name))).eval()


def ids_for(model, tokens=5, batch=2):
    return torch.randint(0, model.config.n_vocab, (batch, tokens), generator=torch.Generator().manual_seed(1))


def read_by_their_parents(model):
    """Modules that are no step of the computation: their parents read their parameters, or call their other methods."""
    schemes = [m for name, m in model.named_modules() if isinstance(m, PositionScheme) and name != "position"]
    found = {part for scheme in schemes for part in scheme.modules()}
    found |= {m for m in model.modules() if isinstance(m, AttentionSinks | nn.ModuleList)}
    found |= {m for name, m in model.named_modules() if name.endswith("router.w_router")}  # computed in float32
    return found | {m for name, m in model.named_modules() if name == "unembedding.embedding"}


def counted(model):
    """How often each module is called from now on."""
    calls = Counter()
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    return calls


def expected(model):
    silent = read_by_their_parents(model)
    return {name for name, module in model.named_modules() if module not in silent}


@each_structure
def test_every_module_that_takes_part_fires_its_hooks(name):
    model = built(name)
    calls, ids = counted(model), ids_for(model)
    source = {} if model.config.kind != "encoder-decoder" else {"source": ids_for(model, 4)}
    model(ids, **source).sum().backward()
    assert calls.keys() >= expected(model), expected(model) - calls.keys()
    if model.config.kind == "encoder":
        return
    calls.clear()
    sources = {"sources": source["source"]} if source else {}
    generate(model, ids, max_new_tokens=3, **sources)
    assert calls.keys() >= expected(model), expected(model) - calls.keys()
    layers = range(len(model.stack.blocks))
    assert [calls[f"stack.blocks.{i}.attention"] for i in layers] == [3] * len(layers) and calls[""] == 3


@pytest.mark.parametrize("name", ["gpt-2", "t5-base", "deepseek-v2", "gpt-j"])
def test_hooks_fire_in_an_inference_optimized_model_and_in_beam_search(name):
    model = built(name)
    sources = {"sources": ids_for(model, 4)} if model.config.kind == "encoder-decoder" else {}
    optimized = for_inference(model)
    calls = counted(optimized)
    generate(optimized, ids_for(model), max_new_tokens=2, **sources)
    assert calls[""] == 2 and calls["blocks.0.attention"] == calls["blocks.0.feedforward"] == 2
    calls = counted(model)
    beam_search(model, ids_for(model), max_new_tokens=2, n_beams=2, **sources)
    assert calls[""] == calls["stack.blocks.0.attention"] == 2


def test_a_hook_can_change_what_attention_returns():
    model = built("gpt-2")
    ids = ids_for(model)
    before = model(ids)
    handle = model.stack.blocks[1].attention.register_forward_hook(lambda module, given, output: 0 * output)
    with torch.no_grad():
        silenced = model(ids)
        handle.remove()
        model.stack.blocks[1].attention.w_output.weight.zero_()
        model.stack.blocks[1].attention.w_output.bias.zero_()
        torch.testing.assert_close(silenced, model(ids))
    assert not torch.allclose(before, silenced)


@pytest.mark.parametrize("name", ["llama-2-7b", "t5-base", "deepseek-v2", "gpt-j"])
def test_wrapped_attention_is_recomputed_and_its_gradients_stay(name):
    model = built(name)
    ids = ids_for(model)
    source = {"source": ids} if model.config.kind == "encoder-decoder" else {}
    expected = torch.autograd.grad(model(ids, **source).square().sum(), list(model.parameters()))
    runs = Counter()
    for block in model.stack.blocks:
        for part in [part for part in ("attention", "cross_attention") if hasattr(block, part)]:
            attention = getattr(block, part)
            attention.w_query.register_forward_hook(lambda *_, part=part: runs.update([part]))
            setattr(block, part, checkpoint_wrapper(attention))
    found = torch.autograd.grad(model(ids, **source).square().sum(), list(model.parameters()))
    torch.testing.assert_close(found, expected)
    assert set(runs.values()) == {2 * len(model.stack.blocks)}  # in the forward pass, and again in the backward pass


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


@pytest.mark.parametrize("name", ["llama-2-7b", "deepseek-v2"])
def test_a_parametrized_weight_and_one_given_for_a_call_are_used(name):
    model = built(name)
    ids, key = ids_for(model), "stack.blocks.0.attention.w_output.weight"
    changed = {key: 2 * model.get_parameter(key).detach()}
    by_call = torch.func.functional_call(model, changed, (ids,))
    parametrize.register_parametrization(model.stack.blocks[0].attention.w_output, "weight", Doubled())
    torch.testing.assert_close(model(ids), by_call)
    parametrize.remove_parametrizations(model.stack.blocks[0].attention.w_output, "weight", leave_parametrized=False)
    assert not torch.allclose(model(ids), by_call)


@contextmanager
def one_process(backend):
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


# Not T5: its layers share a table of positions, which then belongs to the group of the first of them.
@pytest.mark.parametrize("name", ["llama-2-7b", "transformer-base"])
def test_a_sharded_model_computes_and_generates_the_same(name):
    with one_process("gloo"):
        check_sharded(built(name), "cpu")


def check_sharded(model, device):
    ids = ids_for(model).to(device)
    source = {"source": ids} if model.config.kind == "encoder-decoder" else {}
    sources = {"sources": ids} if source else {}
    expected, expected_ids = model(ids, **source), generate(model, ids, max_new_tokens=3, **sources).ids
    mesh = dist.device_mesh.init_device_mesh(device, (1,))
    for block in model.stack.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if source:
        register_fsdp_forward_method(
            model, "encode"
        )  # the other method from outside that reads parameters of the model
    torch.testing.assert_close(model(ids, **source), expected)
    assert generate(model, ids, max_new_tokens=3, **sources).ids == expected_ids


def test_generation_uses_a_compiled_model(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.models.generation import generate
from llm_anatomy.models.presets import tiny
from llm_anatomy.models.transformer import Transformer

def counting(graph, example):
    graphs.append(graph)
    return graph.forward

graphs, model = [], Transformer(tiny("gpt-2")).eval()
torch._dynamo.reset()
compiled = torch.compile(model, dynamic=True, fullgraph=True, backend=counting)
found = generate(compiled, [[1, 2], [3]], max_new_tokens=6)
assert found == generate(model, [[1, 2], [3]], max_new_tokens=6)
assert 1 <= len(graphs) <= 4, len(graphs)
""")


def test_a_first_slip_is_one_sentence_that_names_the_argument(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.models.before_transformers import MambaConfig, MambaLM
from llm_anatomy.models.inference import for_inference
from llm_anatomy.models.presets import tiny
from llm_anatomy.models.transformer import Transformer

ids, model = torch.tensor([[1, 2, 3]]), Transformer(tiny("gpt-2")).eval()
mamba = MambaLM.of(MambaConfig(n_vocab=11, d_model=8, n_layers=1))
slips = {
    "ids has shape (3,); it must be (batch, tokens); ids[None] makes a batch": lambda m: m(ids[0]),
    "ids has shape (1, 1, 3)": lambda m: m(ids[None]),
    "ids is a list; it must be a tensor (batch, tokens)": lambda m: m([[1, 2]]),
    "ids have dtype torch.float32; they must be integers": lambda m: m(ids.float()),
    "ids hold -1; they must be 0 to": lambda m: m(ids - 2),
    "attention_mask has dtype torch.int64; it must be torch.bool": lambda m: m(ids, attention_mask=ids),
    "attention_mask has shape (1, 2); it must be that of ids, (1, 3)": lambda m: m(ids, attention_mask=ids[:, :2] > 0),
    "attention_mask is a list": lambda m: m(ids, attention_mask=[[True]]),
    "logits_to_keep=-1 must be 0, for all tokens": lambda m: m(ids, logits_to_keep=-1),
}
for sentence, call in slips.items():
    for m in model, for_inference(model), mamba:
        try:
            call(m)
        except (TypeError, ValueError) as e:
            assert sentence in str(e) and "\\n" not in str(e), (type(m).__name__, sentence, str(e))
        else:
            raise AssertionError((type(m).__name__, sentence))
try:
    model(ids, documents=ids.float())
except TypeError as e:
    assert "documents have dtype torch.float32" in str(e)
""")


@pytest.mark.parametrize("kept", [1, 2, 5, 9])
def test_logits_of_the_last_tokens_are_those_of_all(kept):
    model = built("gpt-2")
    ids = ids_for(model)
    whole = model(ids)
    for read in (model, for_inference(model)):
        torch.testing.assert_close(read(ids, logits_to_keep=kept), whole[:, -kept:], rtol=1e-4, atol=1e-5)
