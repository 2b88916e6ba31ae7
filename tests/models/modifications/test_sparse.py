"""Mixture of experts, Switch Transformer and product-key memory, as rows of Narang et al.'s table."""

import copy
from functools import cache

import pytest
import torch
from torch import nn

from llm_anatomy.layers.experts import Experts, SoftmaxOfTopK, TopKOfSoftmax, load_balance_loss
from llm_anatomy.layers.product_key_memory import ProductKeyMemory
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import T5_BASE, auxiliary_loss, baseline, target_log_probs
from llm_anatomy.models.modifications.sparse import ROWS, SparseFeedForward

N_VOCAB, SOURCE, TOKENS = 60, 11, 9
EXPERTS = ["mixture_of_experts", "switch_transformer"]
NAMES = [row.name for row in ROWS]


def ids(*shape, seed=0):
    return torch.randint(0, N_VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def sparse_layers(model):
    return [
        [layer for layer, block in enumerate(stack.blocks) if isinstance(block.feedforward, SparseFeedForward)]
        for stack in (model.encoder, model.stack)
    ]


@cache
def built(name):
    """A model that is only read."""
    return MODIFICATIONS[name].build(baseline(N_VOCAB)).eval()


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize(
    ("name", "millions"),
    # The paper prints 1100 for Switch, whose number of parameters its configuration makes 1100.8 million.
    [("mixture_of_experts", 648), ("switch_transformer", 1101), ("product_key_memory", 421)],
)
def test_parameters_are_those_of_the_paper(name, millions):
    with torch.device("meta"):
        model = MODIFICATIONS[name].build(baseline(**T5_BASE))
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6) == millions


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_falls(name):
    model = MODIFICATIONS[name].build(baseline(N_VOCAB))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    source, target = ids(8, SOURCE), ids(8, TOKENS, seed=1)
    losses = []
    for _ in range(7):
        loss = -target_log_probs(model, source, target[:, :-1], target[:, 1:]).mean()
        optimizer.zero_grad()
        (loss + auxiliary_loss(model)).backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1


@pytest.mark.parametrize("name", NAMES)
def test_the_part_changes_the_output_and_the_model_is_the_same_for_a_seed(name):
    source, target = ids(2, SOURCE), ids(2, TOKENS, seed=1)
    second, other = (MODIFICATIONS[name].build(baseline(N_VOCAB), seed).eval() for seed in (0, 1))
    logits = built(name)(target, source=source)
    assert torch.equal(logits, second(target, source=source))
    for model in (built("baseline"), other):
        assert not torch.allclose(logits, model(target, source=source), atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_later_token_an_added_row_and_padding_leave_the_logits(name):
    model, source, target = built(name), ids(3, SOURCE), ids(3, TOKENS, seed=1)
    logits = model(target, source=source)
    changed = target.clone()
    changed[:, -1] = (changed[:, -1] + 1) % N_VOCAB
    torch.testing.assert_close(model(changed, source=source)[:, :-1], logits[:, :-1])
    torch.testing.assert_close(model(target[1:], source=source[1:]), logits[1:])
    padded = torch.cat([source, ids(3, 4, seed=2)], dim=1)
    mask = torch.arange(SOURCE + 4).expand(3, -1) < SOURCE
    torch.testing.assert_close(model(target, source=model.encode(padded, mask)), logits)


@torch.inference_mode()
@pytest.mark.parametrize("name", NAMES)
def test_generation_with_a_cache_gives_the_same_logits(name):
    model = built(name)
    source, target = model.encode(ids(2, SOURCE)), ids(2, TOKENS, seed=1)
    cache = model.new_cache(2, TOKENS, n_source=SOURCE)
    steps = [model(target[:, [t]], source=source, cache=cache) for t in range(TOKENS)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(target, source=source), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", EXPERTS)
@pytest.mark.parametrize(("n_layers", "layers"), [(12, [3, 7, 11]), (6, [1, 5]), (2, [1])])
def test_every_fourth_layer_has_experts(name, n_layers, layers):
    model = MODIFICATIONS[name].build(baseline(N_VOCAB, d_model=12, n_layers=n_layers, n_heads=2, d_ff=16))
    assert sparse_layers(model) == [layers, layers]


def test_experts_have_the_operations_of_the_layer_that_they_replace():
    config = baseline(N_VOCAB)
    for name, k, d_expert in (("mixture_of_experts", 2, config.d_ff // 2), ("switch_transformer", 1, config.d_ff)):
        layer = built(name).stack.blocks[-1].feedforward
        assert (layer.router.k, layer.router.n_experts, layer.experts.w_down.shape[-1]) == (k, 32, d_expert)


def test_two_choices_have_renormalized_weights_and_one_its_probability():
    x = torch.randn(20, 48, generator=torch.Generator().manual_seed(0))
    for name, total in (("mixture_of_experts", 1.0), ("switch_transformer", None)):
        router = built(name).stack.blocks[-1].feedforward.router
        _, probabilities, weights, _ = router(x)
        expected = probabilities.amax(1) if total is None else torch.ones(20)
        torch.testing.assert_close(weights.sum(1), expected)


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("name", EXPERTS)
def test_the_auxiliary_loss_is_that_of_the_first_choices_in_training_alone(name):
    model = MODIFICATIONS[name].build(baseline(N_VOCAB))
    source, target = ids(4, SOURCE), ids(4, TOKENS, seed=1)
    encoded = model.encode(source)
    from_encoder = auxiliary_loss(model.encoder)
    _, records = model(target, source=encoded, return_records=True)
    expected = sum(
        0.01 * load_balance_loss(record.routing.probabilities, record.routing.experts[:, :1])
        for record in records
        if record.routing is not None
    )
    torch.testing.assert_close(auxiliary_loss(model), from_encoder + expected)
    assert auxiliary_loss(model).requires_grad
    model.eval()(target, source=source)
    assert auxiliary_loss(model) == 0


@pytest.mark.parametrize("name", EXPERTS)
def test_a_copy_after_a_step_is_a_model_of_its_own(name):
    model = MODIFICATIONS[name].build(baseline(N_VOCAB))
    source, target = ids(2, SOURCE), ids(2, TOKENS, seed=1)
    model(target, source=source)
    other = copy.deepcopy(model)
    assert torch.equal(model(target, source=source), other(target, source=source))
    auxiliary_loss(other).backward()
    router = model.stack.blocks[-1].feedforward.router.w_router.weight
    assert router.grad is None and model.state_dict().keys() == other.state_dict().keys()


def layer(k, factor):
    router, experts = SoftmaxOfTopK(6, 3, k), Experts(3, 6, 5, nn.ReLU())
    return SparseFeedForward(router, experts, capacity_factor=factor, loss_weight=1.0)


def test_capacity_bounds_training_alone_whichever_way_the_mode_is_set():
    sparse, x = layer(k=1, factor=0.5), torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(0))
    assert sparse(x)[1].n_dropped > 0
    for switched in (sparse.eval(), nn.Sequential(sparse.train()).eval()[0], copy.deepcopy(sparse.eval())):
        assert switched(x)[1].n_dropped == 0
    assert sparse.train()(x)[1].n_dropped > 0


def test_padding_that_the_layer_is_told_of_takes_no_part_in_the_loss():
    sparse, x = layer(k=2, factor=2.0), torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(9).expand(2, -1) < 6
    sparse(x, mask)
    with_mask = sparse.auxiliary_loss
    sparse(x[:, :6])
    torch.testing.assert_close(with_mask, sparse.auxiliary_loss)


def test_experts_start_small():
    for name in EXPERTS:
        layer = (
            MODIFICATIONS[name].build(baseline(N_VOCAB, d_model=96, d_ff=384, n_layers=2)).stack.blocks[-1].feedforward
        )
        for weight in (layer.experts.w_up, layer.experts.w_down):
            assert weight.var().item() * weight.shape[-1] == pytest.approx(0.1, rel=0.02)
        assert layer.router.w_router.weight.var().item() * 96 == pytest.approx(0.1, rel=0.1)
        assert isinstance(layer.router, TopKOfSoftmax)


@pytest.mark.parametrize(
    ("sizes", "layer", "n_keys", "k", "d_query"), [(T5_BASE, 10, 512, 32, 256), (dict(n_vocab=60), 4, 91, 6, 16)]
)
def test_the_memory_is_in_the_last_layer_but_one_of_the_decoder(sizes, layer, n_keys, k, d_query):
    with torch.device("meta"):
        model = MODIFICATIONS["product_key_memory"].build(baseline(**sizes))
    memories = [name for name, module in model.named_modules() if isinstance(module, ProductKeyMemory)]
    assert memories == [f"stack.blocks.{layer}.feedforward"]
    memory = model.stack.blocks[layer].feedforward
    assert memory.sub_keys.shape == (4, 2, n_keys, d_query // 2) and memory.k == k
