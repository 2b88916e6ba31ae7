"""Mixtures of experts against Hugging Face's blocks and a loop over tokens; capacity loses nothing silently."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from randomness import randn
from torch import nn
from transformers import DeepseekV2Config, DeepseekV3Config, GptOssConfig, MixtralConfig
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func
from transformers.models.switch_transformers import modeling_switch_transformers as hf_switch

from llm_anatomy.layers import experts as module
from llm_anatomy.layers.experts import (
    ClampedExperts,
    DenseMixture,
    Experts,
    GatedExperts,
    MixtureOfExperts,
    SoftmaxOfTopK,
    TopKOfSigmoid,
    TopKOfSigmoidInGroups,
    TopKOfSoftmax,
    TopKOfSoftmaxInGroups,
    grouped_linear,
    load_balance_loss,
    router_z_loss,
)
from llm_anatomy.layers.feedforward import ClampedFeedForward, ClampedSwiGLU, GatedFeedForward

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
TOLERANCE = {torch.float32: dict(rtol=1e-4, atol=1e-4), torch.float64: dict(rtol=1e-9, atol=1e-9)}
BATCH, TOKENS, D_MODEL, D_FF, N_EXPERTS = 3, 7, 8, 12, 5  # widths that the grouped product of PyTorch takes
ROUTERS = {
    "softmax of top 2": lambda: SoftmaxOfTopK(D_MODEL, N_EXPERTS, 2),
    "top 3 of softmax, scaled": lambda: TopKOfSoftmax(D_MODEL, N_EXPERTS, 3, routed_scaling_factor=2.5),
    "top 2 of softmax, renormalized": lambda: TopKOfSoftmax(
        D_MODEL, N_EXPERTS, 2, renormalize=True, routed_scaling_factor=0.5
    ),
    "top 1 of softmax": lambda: TopKOfSoftmax(D_MODEL, N_EXPERTS, 1),
    "top 2 of sigmoid": lambda: TopKOfSigmoid(D_MODEL, N_EXPERTS, 2, routed_scaling_factor=1.5),
}


def randomize(module, seed=0):
    """Every parameter and buffer random, so that choices differ from token to token."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=g) * 0.3)
    return module


def one_expert(experts, e, row):
    """From the formula: one row through one expert."""
    hidden = experts.w_up[e] @ row
    if isinstance(experts, GatedExperts):
        hidden = experts.activation(hidden[:D_FF]) * hidden[D_FF:]
    else:
        hidden = experts.activation(hidden)
    return experts.w_down[e] @ hidden


def slow_routing(router, x):
    """From the papers, in Python floats: for each token a dictionary from the chosen experts to their weights, best
    first."""
    result = []
    for row in x.double():
        z = (router.w_router.weight.double() @ row).tolist()
        if isinstance(router, TopKOfSigmoid):
            scores = [1 / (1 + math.exp(-entry)) for entry in z]
            order = [s + b for s, b in zip(scores, router.selection_bias.tolist(), strict=True)]
        else:
            scores = [math.exp(entry) / sum(map(math.exp, z)) for entry in z]
            order = scores
        chosen = sorted(range(len(z)), key=lambda e: -order[e])[: router.k]
        total = sum(scores[e] for e in chosen)
        if isinstance(router, TopKOfSoftmax) and not router.renormalize:
            total = 1.0
        result.append({e: getattr(router, "routed_scaling_factor", 1.0) * scores[e] / total for e in chosen})
    return result


def slow_mixture(layer, x, mask=None):
    """One token and one expert at a time; first choices of all tokens before their second ones."""
    rows = x.flatten(0, 1)
    real = [True] * len(rows) if mask is None else mask.flatten().tolist()
    routing, n_experts = slow_routing(layer.router, rows), layer.router.n_experts
    room = [math.inf if layer.capacity_factor is None else slow_capacity(layer, len(rows))] * n_experts
    output, dropped, taken = torch.zeros_like(rows), 0, [0] * n_experts
    for choice in range(layer.router.k):
        for t, weights in enumerate(routing):
            e = list(weights)[choice]
            if not real[t]:
                continue
            if taken[e] < room[e]:
                taken[e] += 1
                output[t] += weights[e] * one_expert(layer.experts, e, rows[t])
            else:
                dropped += 1
    output = output.view_as(x)
    return (output if layer.shared is None else output + layer.shared(x)), taken, dropped


def slow_capacity(layer, n_tokens):
    share = layer.router.k * n_tokens / layer.router.n_experts
    return next(n for n in range(10_000) if n + 1e-6 >= layer.capacity_factor * share)


def mixture(router="softmax of top 2", experts=GatedExperts, activation=None, **given):
    activation = activation or nn.SiLU()
    layer = MixtureOfExperts(ROUTERS[router](), experts(N_EXPERTS, D_MODEL, D_FF, activation), **given)
    return randomize(layer)


# --- Equal to a loop over tokens ---


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("experts", [Experts, GatedExperts])
@pytest.mark.parametrize("capacity_factor", [None, 0.4, 1.0, 1.25])
@pytest.mark.parametrize("router", ROUTERS)
def test_the_layer_equals_a_loop_over_tokens(router, capacity_factor, experts, dtype, device):
    layer = mixture(router, experts, nn.GELU(), capacity_factor=capacity_factor).to(dtype)
    layer.shared = randomize(nn.Linear(D_MODEL, D_MODEL), seed=3).to(dtype)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    mask[0, :3], mask[2, 5:] = False, False
    for given in (None, mask):
        with torch.no_grad():
            expected, taken, dropped = slow_mixture(layer, x, given)
        output, record = copy.deepcopy(layer).to(device)(x.to(device), None if given is None else given.to(device))
        torch.testing.assert_close(output.cpu(), expected, **TOLERANCE[dtype])
        assert output.dtype == dtype
        assert record.tokens_per_expert.tolist() == taken
        assert record.n_dropped.item() == dropped
        assert dropped == 0 if capacity_factor is None else dropped > 0 or capacity_factor > 0.4


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("router", ROUTERS)
def test_each_router_equals_python_floats(router):
    router = randomize(ROUTERS[router]())
    x = randn(40, D_MODEL)
    logits, probabilities, weights, experts = router(x)
    for t, expected in enumerate(slow_routing(router, x)):
        assert experts[t].tolist() == list(expected)
        torch.testing.assert_close(weights[t], torch.tensor(list(expected.values())), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(logits, x @ router.w_router.weight.T)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(40))
    assert len(set(experts[:, 0].tolist())) > 2  # the comparison saw several experts in first place


def test_groups_are_chosen_first_as_in_deepseek_v2():
    sizes = dict(hidden_size=D_MODEL, n_routed_experts=12, num_experts_per_tok=3, routed_scaling_factor=1.7)
    sizes |= dict(num_attention_heads=2, num_key_value_heads=2)
    config = DeepseekV2Config(**sizes, topk_method="group_limited_greedy", n_group=4, topk_group=2)
    peer = randomize(DeepseekV2Moe(config).gate)
    router = TopKOfSoftmaxInGroups(D_MODEL, 12, 3, n_groups=4, n_groups_per_token=2, routed_scaling_factor=1.7)
    free = TopKOfSoftmax(D_MODEL, 12, 3, routed_scaling_factor=1.7)
    router.w_router.weight.data = free.w_router.weight.data = peer.weight.data
    x = randn(50, D_MODEL)
    _, probabilities, weights, experts = router(x)
    _, expected_weights, expected = peer(x[None])
    ours, theirs = (torch.zeros(50, 12).scatter(1, e, w) for e, w in ((experts, weights), (expected, expected_weights)))
    torch.testing.assert_close(ours, theirs)
    assert (experts.sort(-1).values != free(x)[3].sort(-1).values).any()  # the groups decide
    for row, chosen in zip(probabilities.tolist(), experts.tolist(), strict=True):
        best = sorted(range(4), key=lambda g, row=row: -max(row[3 * g : 3 * g + 3]))[:2]
        reachable = [e for g in best for e in range(3 * g, 3 * g + 3)]
        assert chosen == sorted(reachable, key=lambda e, row=row: -row[e])[:3]


def test_softmax_of_the_best_is_the_renormalized_softmax_of_all():
    one, other = SoftmaxOfTopK(D_MODEL, N_EXPERTS, 2), TopKOfSoftmax(D_MODEL, N_EXPERTS, 2, renormalize=True)
    other.load_state_dict(randomize(one).state_dict())
    for a, b in zip(one(randn(20, D_MODEL)), other(randn(20, D_MODEL)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("experts", [Experts, GatedExperts])
def test_the_dense_mixture_equals_a_sum_over_experts_and_routing_to_all(experts, dtype, device):
    layer = randomize(DenseMixture(D_MODEL, experts(N_EXPERTS, D_MODEL, D_FF, nn.GELU()))).to(dtype)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    weights = (x @ layer.router.weight.T).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    expected = torch.zeros_like(x)
    for b in range(BATCH):
        for t in range(TOKENS):
            for e in range(N_EXPERTS):
                expected[b, t] += (weights[b, t, e] * one_expert(layer.experts, e, x[b, t])).detach()
    torch.testing.assert_close(copy.deepcopy(layer).to(device)(x.to(device)).cpu(), expected, **TOLERANCE[dtype])

    to_all = MixtureOfExperts(SoftmaxOfTopK(D_MODEL, N_EXPERTS, N_EXPERTS), layer.experts).to(dtype)
    to_all.router.w_router = layer.router
    torch.testing.assert_close(to_all(x)[0], expected, **TOLERANCE[dtype])


# --- Equal to Hugging Face ---


def hf_mixtral(n_experts=N_EXPERTS, k=2, seed=0):
    config = MixtralConfig(
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_local_experts=n_experts,
        num_experts_per_tok=k,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    config._experts_implementation = "eager"
    return randomize(MixtralSparseMoeBlock(config), seed)


def with_weights_of(peer, router, **given):
    layer = MixtureOfExperts(router, GatedExperts(N_EXPERTS, D_MODEL, D_FF, nn.SiLU()), **given)
    state = {
        "router.w_router.weight": peer.gate.weight,
        "experts.w_up": peer.experts.gate_up_proj,
        "experts.w_down": peer.experts.down_proj,
    }
    missing, unexpected = layer.load_state_dict(state, strict=False)
    assert not unexpected and all("shared" in key or "selection_bias" in key for key in missing)
    return layer


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_equal_to_mixtral_with_its_loss(k, dtype):
    peer = hf_mixtral(k=k).to(dtype)
    layer = with_weights_of(peer, SoftmaxOfTopK(D_MODEL, N_EXPERTS, k)).to(dtype)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    output, record = layer(x)
    # their router rounds its probabilities to float32
    tolerance = TOLERANCE[torch.float32] if dtype == torch.float32 else dict(rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(output, peer(x.clone()), **tolerance)
    logits, _, _ = peer.gate(x)
    mask = torch.rand(BATCH, TOKENS, generator=torch.Generator().manual_seed(5)) < 0.7
    for given in (None, mask):
        expected = load_balancing_loss_func((logits,), N_EXPERTS, k, given)
        loss = layer(x, given)[1].load_balance_loss
        torch.testing.assert_close(loss.float(), expected.float(), rtol=1e-5, atol=1e-6)


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("version", [2, 3])
def test_equal_to_deepseek_with_shared_experts(version, dtype):
    sizes = dict(hidden_size=D_MODEL, moe_intermediate_size=D_FF, n_routed_experts=N_EXPERTS, num_experts_per_tok=3)
    sizes |= dict(n_shared_experts=2, routed_scaling_factor=1.7, num_attention_heads=2, num_key_value_heads=2)
    config_class, block = ((DeepseekV2Config, DeepseekV2Moe), (DeepseekV3Config, DeepseekV3MoE))[version - 2]
    config = config_class(**sizes, n_group=1, topk_group=1, **({"norm_topk_prob": True} if version == 3 else {}))
    config._experts_implementation = "eager"
    peer = randomize(block(config)).to(dtype)
    if version == 2:
        router = TopKOfSoftmax(D_MODEL, N_EXPERTS, 3, routed_scaling_factor=1.7)
    else:
        router = TopKOfSigmoid(D_MODEL, N_EXPERTS, 3, routed_scaling_factor=1.7)
        router.selection_bias.copy_(peer.gate.e_score_correction_bias)
    shared = GatedFeedForward(D_MODEL, 2 * D_FF, nn.SiLU())
    layer = with_weights_of(peer, router, shared=shared).to(dtype)
    theirs = peer.shared_experts
    shared.load_state_dict(
        {
            "w_gate_up.weight": torch.cat([theirs.gate_proj.weight, theirs.up_proj.weight]),
            "w_down.weight": theirs.down_proj.weight,
        }
    )
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    output, record = layer(x)
    tolerance = TOLERANCE[torch.float32] if dtype == torch.float32 else dict(rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(output, peer(x), **tolerance)
    assert (record.tokens_per_expert > 0).sum() > 3


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("capacity", [1, 3, 100])
def test_equal_to_switch_with_capacity_and_losses(capacity):
    """Theirs counts room per sequence, ours over what it is given: one sequence."""
    n_tokens, n_experts = 16, 4
    config = hf_switch.SwitchTransformersConfig(
        d_model=D_MODEL, d_ff=D_FF, num_experts=n_experts, expert_capacity=capacity, router_jitter_noise=0.0
    )
    peer = randomize(hf_switch.SwitchTransformersSparseMLP(config)).eval()
    layer = MixtureOfExperts(
        TopKOfSoftmax(D_MODEL, n_experts, 1),
        Experts(n_experts, D_MODEL, D_FF, nn.ReLU()),
        capacity_factor=capacity * n_experts / n_tokens,
    )
    theirs = [peer.experts[f"expert_{e}"] for e in range(n_experts)]
    layer.load_state_dict(
        {
            "router.w_router.weight": peer.router.classifier.weight,
            "experts.w_up": torch.stack([expert.wi.weight for expert in theirs]),
            "experts.w_down": torch.stack([expert.wo.weight for expert in theirs]),
        }
    )
    x = randn(1, n_tokens, D_MODEL)
    output, record = layer(x)
    expected, (chosen, _, logits) = peer(x), peer.router(x)
    torch.testing.assert_close(output, expected, **TOLERANCE[torch.float32])
    assert record.tokens_per_expert.tolist() == chosen.sum((0, 1)).tolist()
    assert record.n_dropped.item() == n_tokens - chosen.sum().item()
    assert (record.n_dropped > 0) == (capacity < 100)
    torch.testing.assert_close(record.router_z_loss, hf_switch.router_z_loss_func(logits))
    theirs = hf_switch.load_balancing_loss_func(logits.softmax(-1), logits.argmax(-1))
    torch.testing.assert_close(record.load_balance_loss, theirs)


# --- Capacity: nothing is lost silently ---


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("router", ROUTERS)
def test_kept_and_dropped_make_up_all_choices(router, factor):
    layer = mixture(router, capacity_factor=factor)
    x, mask = randn(BATCH, TOKENS, D_MODEL), torch.rand(BATCH, TOKENS) < 0.8
    output, record = layer(x, mask)
    assert record.tokens_per_expert.sum() + record.n_dropped == mask.sum() * layer.router.k
    assert record.tokens_per_expert.max() <= slow_capacity(layer, BATCH * TOKENS)
    assert not record.kept[~mask.flatten()].any()
    nothing = ~record.kept.any(-1).view(BATCH, TOKENS)
    assert output[nothing].eq(0).all() and output[~nothing].ne(0).any(-1).all()


@pytest.mark.syllabus("GT-19")
def test_the_residual_carries_dropped_tokens_and_earlier_ones_go_first():
    layer = MixtureOfExperts(TopKOfSoftmax(D_MODEL, 2, 1), Experts(2, D_MODEL, D_FF, nn.ReLU()), capacity_factor=0.5)
    randomize(layer)
    x = randn(1, D_MODEL).expand(1, 8, D_MODEL).clone().requires_grad_()  # all tokens alike: one expert is asked
    output, record = layer(x)
    assert record.kept[:, 0].tolist() == [True, True] + [False] * 6 and record.n_dropped == 6
    assert output[0, :2].ne(0).any(-1).all() and output[0, 2:].eq(0).all()
    (x + output).sum().backward()
    assert x.grad[0, 2:].eq(1).all() and x.grad[0, :2].ne(1).any(-1).all()


def test_room_is_rounded_up_from_the_number_that_is_meant():
    layer = MixtureOfExperts(TopKOfSoftmax(D_MODEL, 1, 1), Experts(1, D_MODEL, 4, nn.ReLU()), capacity_factor=1.1)
    for n_tokens, factor, room in ((100, 0.07, 7), (100, 1.1, 100), (10, 0.31, 4), (3, 0.01, 1)):
        layer.capacity_factor = factor
        assert layer(randn(1, n_tokens, D_MODEL))[1].tokens_per_expert.item() == room


def test_padding_changes_nothing_for_others():
    layer = mixture("top 2 of softmax, renormalized", capacity_factor=2.0)
    x, mask = randn(BATCH, TOKENS, D_MODEL), torch.ones(BATCH, TOKENS, dtype=torch.bool)
    mask[1, 4:] = False
    output, record = layer(x, mask)
    other, other_record = layer(torch.where(mask[..., None], x, 7.0), mask)
    torch.testing.assert_close(output, other, rtol=0, atol=0)
    torch.testing.assert_close(record.load_balance_loss, other_record.load_balance_loss)
    torch.testing.assert_close(record.router_z_loss, other_record.router_z_loss)
    assert output[~mask].eq(0).all()


def test_the_planted_faults_are_seen(monkeypatch):
    """Second choices before first ones; dropped choices that are not marked; the loss without its factor."""
    layer = mixture("top 3 of softmax, scaled", capacity_factor=0.5)
    x = randn(BATCH, TOKENS, D_MODEL)
    expected, taken, dropped = slow_mixture(layer, x)
    output, record = layer(x)
    torch.testing.assert_close(output, expected, **TOLERANCE[torch.float32])
    turned = module.rearrange
    monkeypatch.setattr(
        module,
        "rearrange",
        lambda t, pattern, **sizes: turned(t, pattern.replace("(k tokens)", "(tokens k)"), **sizes),
    )
    assert (layer(x)[0] - expected).abs().max() > 0.01
    monkeypatch.undo()
    monkeypatch.setattr(module.RoutingRecord, "n_dropped", property(lambda self: (~self.kept.any(-1)).sum()))
    assert layer(x)[1].n_dropped.item() != dropped


# --- Losses ---


@pytest.mark.syllabus("GT-19")
def test_the_balance_loss_is_lowest_where_all_is_even_and_trains_the_router():
    even = torch.full((8, 4), 0.25)
    chosen = torch.tensor([[0, 1], [2, 3]] * 4)
    assert load_balance_loss(even, chosen) == 2.0  # k
    skewed = torch.tensor([[0.7, 0.1, 0.1, 0.1]]).expand(8, 4)
    assert load_balance_loss(skewed, torch.zeros(8, 1, dtype=torch.long)).item() == pytest.approx(4 * 0.7)
    router = randomize(TopKOfSoftmax(D_MODEL, N_EXPERTS, 1))
    x = randn(200, D_MODEL)

    def shares():
        return torch.bincount(router(x)[3].flatten(), minlength=N_EXPERTS)

    before, optimizer = shares().max(), torch.optim.SGD(router.parameters(), lr=3.0)
    for _ in range(60):
        _, probabilities, _, chosen = router(x)
        optimizer.zero_grad()
        load_balance_loss(probabilities, chosen).backward()
        optimizer.step()
    assert shares().max() < before - 10


def test_the_losses_equal_python_floats():
    logits, experts = randn(6, 4) * 2, torch.tensor([[0, 3], [3, 1], [3, 0], [2, 3], [1, 3], [0, 3]])
    rows = logits.tolist()
    totals = [sum(math.exp(z) for z in row) for row in rows]
    z_loss = sum(math.log(total) ** 2 for total in totals) / 6
    balance = 0.0
    for e in range(4):
        share = sum(e in pair for pair in experts.tolist()) / 6
        balance += 4 * share * sum(math.exp(row[e]) / total for row, total in zip(rows, totals, strict=True)) / 6
    assert router_z_loss(logits).item() == pytest.approx(z_loss, rel=1e-5)
    assert load_balance_loss(logits.softmax(-1), experts).item() == pytest.approx(balance, rel=1e-5)


def test_the_selection_bias_chooses_and_does_not_weigh():
    router = randomize(TopKOfSigmoid(D_MODEL, N_EXPERTS, 2))
    x = randn(30, D_MODEL)
    router.selection_bias.zero_()
    router.selection_bias[4] = 10.0
    logits, _, weights, experts = router(x)
    assert experts[:, 0].eq(4).all()
    scores = logits.sigmoid().gather(-1, experts)
    torch.testing.assert_close(weights, scores / scores.sum(-1, keepdim=True))
    assert "selection_bias" in router.state_dict()


def test_sigmoids_in_groups_equal_python_loops():
    router = randomize(
        TopKOfSigmoidInGroups(D_MODEL, 12, 3, n_groups=4, n_groups_per_token=2, routed_scaling_factor=2.5)
    )
    logits, _, weights, experts = router(randn(30, D_MODEL))
    bias = router.selection_bias.tolist()
    for row, found, of_found in zip(logits.sigmoid().tolist(), experts.tolist(), weights.tolist(), strict=True):
        judged = [score + b for score, b in zip(row, bias, strict=True)]
        best_two = [sum(sorted(judged[g : g + 3])[1:]) for g in range(0, 12, 3)]
        groups = sorted(range(4), key=best_two.__getitem__)[2:]
        expected = sorted((e for e in range(12) if e // 3 in groups), key=judged.__getitem__)[:-4:-1]
        assert found == expected
        total = sum(row[e] for e in expected)
        assert of_found == pytest.approx([2.5 * row[e] / total for e in expected], rel=1e-5)
    flat = TopKOfSigmoid(D_MODEL, 12, 3)
    flat.load_state_dict(router.state_dict())
    assert not torch.equal(flat(randn(30, D_MODEL))[3], experts)  # groups matter


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (dict(n_groups=5, n_groups_per_token=1), "n_groups=5 must be at least 1 and divide"),
        (dict(n_groups=4, n_groups_per_token=5), "n_groups_per_token=5 must be at most"),
        (dict(n_groups=12, n_groups_per_token=4), "n_groups=12 must be at most half"),
    ],
)
def test_groups_that_do_not_fit_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        TopKOfSigmoidInGroups(D_MODEL, 12, 3, **sizes)


# --- The grouped product ---


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("d_in", "d_out"), [(8, 16), (5, 7), (8, 3)])
def test_the_grouped_product_equals_one_product_per_row(d_in, d_out, dtype, device):
    counts = torch.tensor([3, 0, 4, 1, 0])
    x = randn(8, d_in, dtype=dtype).to(device).requires_grad_()
    weight = randn(5, d_out, d_in, seed=1, dtype=dtype).to(device).requires_grad_()
    expected = torch.stack([weight[e] @ row for e, row in zip([0, 0, 0, 2, 2, 2, 2, 3], x, strict=True)])
    result = grouped_linear(x, weight, counts.to(device))
    tolerance = TOLERANCE.get(dtype, dict(rtol=2e-2, atol=2e-2))
    torch.testing.assert_close(result, expected, **tolerance)
    for ours, theirs in zip(
        torch.autograd.grad(result.sum(), (x, weight)), torch.autograd.grad(expected.sum(), (x, weight)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, **tolerance)


def test_the_fused_product_is_taken_where_it_can_be(monkeypatch):
    if not hasattr(F, "grouped_mm"):
        pytest.skip("this PyTorch has none")
    taken, original = [], F.grouped_mm
    monkeypatch.setattr(F, "grouped_mm", lambda *a, **k: taken.append(1) or original(*a, **k))
    x, counts = randn(3, 8), torch.tensor([1, 2])
    for dtype, width, calls in ((torch.float32, 8, 1), (torch.float32, 7, 0), (torch.float64, 8, 0)):
        taken.clear()
        grouped_linear(x[:, :width].contiguous().to(dtype), randn(2, 4, width, dtype=dtype), counts)
        assert len(taken) == calls
    monkeypatch.delattr(F, "grouped_mm")  # an older PyTorch
    weight = randn(2, 4, 8)
    torch.testing.assert_close(grouped_linear(x, weight, counts)[2], weight[1] @ x[2])


def test_no_python_loop_over_tokens(monkeypatch):
    """As many products for ten thousand choices as for ten."""
    layer = mixture("softmax of top 2").double()
    calls, original = [], F.linear
    monkeypatch.setattr(F, "linear", lambda *a: calls.append(1) or original(*a))
    counted = []
    for n_tokens in (5, 5000):
        calls.clear()
        layer(randn(1, n_tokens, D_MODEL, dtype=torch.float64))
        counted.append(len(calls))
    assert counted[0] == counted[1] == 2 * N_EXPERTS + 1


# --- Numbers, gradients, copies ---


@pytest.mark.parametrize("capacity_factor", [None, 0.7])
@pytest.mark.parametrize("router", ROUTERS)
def test_gradients_are_those_of_finite_differences(router, capacity_factor):
    layer = mixture(router, capacity_factor=capacity_factor, activation=nn.Tanh()).double()
    x = randn(2, 3, D_MODEL, dtype=torch.float64).requires_grad_()

    def run(x, *_):
        output, record = layer(x)
        return output, record.load_balance_loss, record.router_z_loss

    assert torch.autograd.gradcheck(run, (x, layer.router.w_router.weight, layer.experts.w_down), fast_mode=True)
    output, record = layer(x)
    output.square().sum().backward()
    assert layer.router.w_router.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("capacity_factor", [None, 1.5])
@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_stays_close_and_the_router_precise(autocast, capacity_factor):
    layer = mixture("top 2 of softmax, renormalized", capacity_factor=capacity_factor)
    layer.router.w_router.weight.data *= 3  # choices that rounding of x does not turn
    layer.router.bfloat16().float()
    x = randn(BATCH, TOKENS, D_MODEL).bfloat16().float()
    expected, record = layer(x)
    if autocast:
        with torch.autocast("cpu", torch.bfloat16):
            output, rounded = layer(x)
            mixed, _ = layer(x.bfloat16())
        assert mixed.dtype == torch.bfloat16 and output.dtype == torch.float32
    else:
        output, rounded = copy.deepcopy(layer).bfloat16()(x.bfloat16())
        assert output.dtype == torch.bfloat16
    assert rounded.logits.dtype == torch.float32
    torch.testing.assert_close(rounded.logits, record.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("experts", [Experts, GatedExperts])
def test_weights_go_through_a_file_and_the_meta_device(experts):
    first = mixture("top 2 of sigmoid", experts, capacity_factor=1.0)
    with torch.device("meta"):
        second = mixture("top 2 of sigmoid", experts, capacity_factor=1.0)
    second.load_state_dict(first.state_dict(), assign=True)
    x = randn(BATCH, TOKENS, D_MODEL)
    torch.testing.assert_close(second(x)[0], first(x)[0], rtol=0, atol=0)


def test_experts_start_as_linear_layers_do():
    experts = GatedExperts(3, 64, 400, nn.SiLU())
    for tensor, width in ((experts.w_up, 64), (experts.w_down, 400)):
        bound = 1 / math.sqrt(width)
        assert 0.95 * bound < tensor.max() <= bound and -bound <= tensor.min() < -0.95 * bound


@pytest.mark.parametrize("capacity_factor", [None, 1.0])
def test_no_tokens_and_one_token(capacity_factor):
    layer = mixture(capacity_factor=capacity_factor)
    assert layer(randn(2, 0, D_MODEL))[0].shape == (2, 0, D_MODEL)
    x = randn(1, 1, D_MODEL)
    torch.testing.assert_close(layer(x)[0], slow_mixture(layer, x)[0].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    """The grouped product
    has a compiled form in bfloat16 alone; in float32 the graph breaks and the numbers stay."""
    code = (
        "import torch; from torch import nn; from llm_anatomy.layers.experts import *\n"
        "def layer(router, **given): return MixtureOfExperts(router, GatedExperts(4, 8, 16, nn.SiLU()), **given)\n"
        "for m, dtype, whole in (\n"
        "    (layer(SoftmaxOfTopK(8, 4, 2)), torch.bfloat16, hasattr(torch.nn.functional, 'grouped_mm')),\n"
        "    (layer(SoftmaxOfTopK(8, 4, 2)), torch.float32, False),\n"
        "    (layer(TopKOfSoftmax(8, 4, 1), capacity_factor=1.25), torch.float32, True),\n"
        "):\n"
        "    torch._dynamo.reset(); m.to(dtype); x = torch.randn(3, 5, 8, dtype=dtype, requires_grad=True)\n"
        "    f = torch.compile(m, fullgraph=whole, backend='eager')\n"
        "    (a, r), (b, s) = f(x), m(x)\n"
        "    torch.testing.assert_close(a, b); assert r.n_dropped == s.n_dropped\n"
        "    grads = [torch.autograd.grad(y.float().square().sum(), x)[0] for y in (a, b)]\n"
        "    torch.testing.assert_close(*grads)\n"
        "m = DenseMixture(8, Experts(4, 8, 16, nn.ReLU())); x = torch.randn(3, 5, 8)\n"
        "torch.testing.assert_close(torch.compile(m, fullgraph=True, backend='eager')(x), m(x))"
    )
    run_without_shape_checks(code)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SoftmaxOfTopK(8, 4, 5), "n_experts=4, k=5: each must be >= 1, and k at most n_experts"),
        (lambda: TopKOfSoftmax(8, 4, 0), "k=0"),
        (lambda: TopKOfSigmoid(0, 4, 1), "d_model=0"),
        (lambda: TopKOfSoftmaxInGroups(8, 6, 1, n_groups=4, n_groups_per_token=1), "n_groups=4"),
        (lambda: TopKOfSoftmaxInGroups(8, 6, 1, n_groups=3, n_groups_per_token=4), "n_groups_per_token=4"),
        (lambda: TopKOfSoftmaxInGroups(8, 6, 3, n_groups=3, n_groups_per_token=1), "hold k=3"),
        (lambda: Experts(0, 8, 16, nn.ReLU()), "n_experts=0, d_model=8, d_ff=16: each must be >= 1"),
        (
            lambda: MixtureOfExperts(SoftmaxOfTopK(8, 4, 2), Experts(3, 8, 16, nn.ReLU())),
            "experts.n_experts=3 must be router.n_experts=4",
        ),
        (
            lambda: MixtureOfExperts(SoftmaxOfTopK(8, 4, 2), Experts(5, 8, 16, nn.ReLU())),
            "experts.n_experts=5 must be router.n_experts=4",
        ),
        (lambda: mixture(capacity_factor=0.0), "capacity_factor=0.0 must be above 0 and finite"),
        (lambda: mixture(capacity_factor=math.inf), "capacity_factor=inf must be above 0 and finite"),
        (lambda: mixture(capacity_factor=math.nan), "capacity_factor=nan must be above 0"),
    ],
)
def test_what_does_not_fit_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


bare_forward = getattr(MixtureOfExperts.forward, "__wrapped__", MixtureOfExperts.forward)


@pytest.mark.parametrize("mask", [torch.ones(2, 3), torch.ones(3, 2, dtype=torch.bool), torch.ones(6) > 0])
def test_a_mask_of_another_kind_is_refused(mask):
    with pytest.raises(ValueError, match=r"it must be torch.bool, \(2, 3\), True = real"):
        bare_forward(mixture(), randn(2, 3, D_MODEL), mask)


# --- Biases of router and experts, and the clamped gate ---


def clamped(gate, up, alpha, limit):
    """From the formula, in Python floats."""
    gate, up = min(gate, limit), max(-limit, min(up, limit))
    return gate / (1 + math.exp(-alpha * gate)) * (up + 1)


@pytest.mark.parametrize("alpha, limit", [(1.702, 7.0), (0.9, 0.6)])
def test_the_clamped_gate_equals_python_floats(alpha, limit):
    gate, up = 3 * randn(3, 5, dtype=torch.float64), 3 * randn(3, 5, dtype=torch.float64, seed=1)
    pairs = zip(gate.flatten().tolist(), up.flatten().tolist(), strict=True)
    expected = torch.tensor([clamped(g, u, alpha, limit) for g, u in pairs], dtype=torch.float64).view(3, 5)
    torch.testing.assert_close(ClampedSwiGLU(alpha, limit)(gate, up), expected)
    with pytest.raises(ValueError, match="limit=0.0 must be above 0"):
        ClampedSwiGLU(limit=0.0)


@pytest.mark.parametrize("capacity_factor", [None, 8.0])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_equal_to_gpt_oss_with_biases(dtype, capacity_factor):
    config = GptOssConfig(
        hidden_size=D_MODEL, intermediate_size=D_FF, num_local_experts=N_EXPERTS, num_experts_per_tok=2,
        swiglu_limit=0.5, swiglu_alpha=1.3, num_hidden_layers=1,
    )  # fmt: skip
    theirs = randomize(GptOssMLP(config)).to(dtype)
    experts = ClampedExperts(N_EXPERTS, D_MODEL, D_FF, ClampedSwiGLU(1.3, 0.5), bias=True)
    router = SoftmaxOfTopK(D_MODEL, N_EXPERTS, 2, router_bias=True)
    ours = MixtureOfExperts(router, experts, capacity_factor=capacity_factor).to(dtype)
    with torch.no_grad():
        ours.router.w_router.weight.copy_(theirs.router.weight)
        ours.router.w_router.bias.copy_(theirs.router.bias)
        up, bias = theirs.experts.gate_up_proj.mT, theirs.experts.gate_up_proj_bias
        ours.experts.w_up.copy_(torch.cat((up[:, ::2], up[:, 1::2]), 1))
        ours.experts.b_up.copy_(torch.cat((bias[:, ::2], bias[:, 1::2]), 1))
        ours.experts.w_down.copy_(theirs.experts.down_proj.mT)
        ours.experts.b_down.copy_(theirs.experts.down_proj_bias)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    expected = theirs(x)[0]
    torch.testing.assert_close(ours(x)[0], expected, **TOLERANCE[dtype])
    for fault in (ours.router.w_router.bias, ours.experts.b_up, ours.experts.b_down):
        kept, fault.data = fault.data, torch.zeros_like(fault)
        assert (ours(x)[0] - expected).abs().max() > 0.01
        fault.data = kept


def test_gradients_of_biases_and_of_the_clamped_gate():
    experts = randomize(ClampedExperts(3, 4, 5, ClampedSwiGLU(1.3, 0.5), bias=True)).double()
    x, counts = randn(6, 4, dtype=torch.float64), torch.tensor([4, 0, 2])

    def output(b_up, b_down):
        return torch.func.functional_call(experts, {"b_up": b_up, "b_down": b_down}, (x, counts))

    assert torch.autograd.gradcheck(output, (experts.b_up, experts.b_down))


def test_one_clamped_expert_is_the_feedforward_layer():
    layer = randomize(ClampedFeedForward(D_MODEL, D_FF, ClampedSwiGLU(1.3, 0.5), bias=True))
    experts, x = ClampedExperts(1, D_MODEL, D_FF, layer.activation, bias=True), randn(TOKENS, D_MODEL)
    state = {"w_up": layer.w_gate_up.weight, "b_up": layer.w_gate_up.bias}
    state |= {"w_down": layer.w_down.weight, "b_down": layer.w_down.bias}
    experts.load_state_dict({name: tensor[None] for name, tensor in state.items()})
    torch.testing.assert_close(experts(x, torch.tensor([TOKENS])), layer(x))
    torch.testing.assert_close(experts(x[None])[0], layer(x))
