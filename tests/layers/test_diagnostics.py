"""Gradient norms against backward(), and what the lectures' figures say of placements at initialisation."""

import copy

import pytest
import torch
from randomness import randn
from torch import nn

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.diagnostics import gradient_norms, head_mask, recorded_states
from llm_anatomy.layers.normalization import BatchNorm, LayerNorm, RMSNorm
from llm_anatomy.layers.residual import PostNorm, PostSublayerNorm, PreNorm, Residual, ReZero, SandwichNorm

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def stack(dtype=torch.float32, device="cpu"):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.Sequential(nn.Tanh(), nn.Linear(6, 5)), BatchNorm(5), nn.ReLU(), nn.Linear(5, 3)]
    return nn.ModuleList(layers).to(device, dtype)


class Block(nn.Module):
    """One Transformer block, its placements made by ``position``."""

    def __init__(self, position, d_model, n_heads):
        super().__init__()
        self.attention = SelfAttention(d_model, n_heads)
        self.feedforward = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.attention_residual, self.feedforward_residual = position(), position()
        for parameter in [*self.attention.parameters(), *self.feedforward.parameters()]:
            nn.init.xavier_uniform_(parameter) if parameter.ndim > 1 else nn.init.zeros_(parameter)

    def forward(self, x):
        return self.feedforward_residual(self.attention_residual(x, self.attention), self.feedforward)


def norms_at_start(position, n_layers=12, d_model=32, final=None):
    torch.manual_seed(0)
    blocks = [Block(position, d_model, 2) for _ in range(n_layers)]
    head = nn.Sequential(final or nn.Identity(), nn.Linear(d_model, 50, bias=False))
    nn.init.normal_(head[1].weight, std=d_model**-0.5)
    targets = torch.randint(50, (4 * 8,), generator=torch.Generator().manual_seed(2))
    return gradient_norms(
        blocks,
        randn(4, 8, d_model),
        lambda y: nn.functional.cross_entropy(y.flatten(0, 1), targets),
        run=nn.Sequential(*blocks, head),
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [nn.ModuleList, lambda layers: nn.Sequential(*layers), list, tuple, iter])
def test_equal_to_backward_with_retained_gradients(kind, dtype, device):
    layers, x, direction = stack(dtype, device), randn(7, 4).to(device, dtype), randn(7, 3, seed=1).to(device, dtype)
    found = gradient_norms(kind(layers), x, lambda y: (y * direction).sum())
    reference, states = copy.deepcopy(layers), [x.clone().requires_grad_()]
    for layer in reference:
        states[-1].retain_grad()
        states.append(layer(states[-1]))
    (states[-1] * direction).sum().backward()
    for got, layer, state in zip(zip(*found, strict=True), reference, states, strict=False):
        gradients = [p.grad.flatten() for p in layer.parameters()]
        expected = torch.cat(gradients).norm().item() if gradients else 0.0
        assert got == pytest.approx((expected, state.grad.norm().item()), rel=1e-5)
    assert len(found.parameters) == len(found.states) == 5 and found.parameters[3] == 0 < found.parameters[0]


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("gradients_are_off", [False, True])
def test_the_stack_stays_as_it_was(broken, gradients_are_off):
    layers, x = stack(), randn(7, 4)
    layers[0](x).sum().backward()  # a gradient is stored on one layer, none on the others
    stored = {name: None if p.grad is None else p.grad.clone() for name, p in layers.named_parameters()}
    state = copy.deepcopy(layers.state_dict())
    modes = [m.training for m in layers.modules()]

    def loss(y):
        if broken:
            raise RuntimeError("the loss broke")
        return y.square().sum()

    with torch.set_grad_enabled(not gradients_are_off):
        if broken:
            with pytest.raises(RuntimeError, match="the loss broke"):
                gradient_norms(layers, x, loss)
        else:
            assert min(gradient_norms(layers, x, loss).states) > 0
    for name, p in layers.named_parameters():
        assert (p.grad is None) == (stored[name] is None), name
        assert p.grad is None or torch.equal(p.grad, stored[name])
        assert p.requires_grad
    for name, value in layers.state_dict().items():
        assert torch.equal(value, state[name]), name  # batch norm's running statistics too
    assert not any(m._forward_pre_hooks or m._forward_hooks or m._backward_hooks for m in layers.modules())
    assert [m.training for m in layers.modules()] == modes and not x.requires_grad and x.grad is None


def test_within_a_model_only_the_layers_asked_for_are_reported_in_their_order():
    layers, x = stack(), randn(7, 4)
    whole = gradient_norms(layers, x, torch.sum)
    part = gradient_norms([layers[4], layers[1]], x, torch.sum, run=nn.Sequential(*layers))
    assert part.parameters == pytest.approx([whole.parameters[4], whole.parameters[1]])
    assert part.states == pytest.approx([whole.states[4], whole.states[1]])


def test_frozen_and_unreached_parameters_count_as_zero():
    layers, x = stack().eval(), randn(7, 4)
    layers[0].requires_grad_(False)
    found = gradient_norms(layers, x, torch.sum)
    assert found.parameters[0] == 0 and found.states[0] > 0 and found.parameters[1] > 0
    found = gradient_norms(layers[:2], x, torch.sum, run=lambda x: layers[1](layers[0](x).detach()))
    assert found.parameters[0] == found.states[0] == 0 < found.parameters[1]


def test_a_layer_that_runs_twice_or_not_at_all_is_refused_and_keeps_no_hook():
    layer, idle = nn.Linear(4, 4), nn.Linear(4, 4)
    with pytest.raises(ValueError, match="layer 0 runs more than once; each must run once"):
        gradient_norms([layer, idle], randn(2, 4), torch.sum, run=lambda x: layer(layer(x)))
    with pytest.raises(ValueError, match=r"layers \[1\] did not run; each must run once"):
        gradient_norms([layer, idle], randn(2, 4), torch.sum, run=layer)
    with pytest.raises(ValueError, match="layer 0 runs more than once"):
        gradient_norms([layer, layer], randn(2, 4), torch.sum)
    assert not layer._forward_pre_hooks and not idle._forward_pre_hooks


# --- What the lectures state ---


@pytest.mark.syllabus("IITD-33", "UCL-24")
def test_with_a_skip_the_gradient_reaches_the_first_layer_of_a_deep_stack():
    class Step(nn.Module):
        def __init__(self, skip):
            super().__init__()
            self.inner, self.skip = nn.Linear(16, 16), Residual() if skip else None
            nn.init.normal_(self.inner.weight, std=0.5 / 4)

        def forward(self, x):
            f = lambda x: self.inner(x).tanh()  # noqa: E731
            return self.skip(x, f) if self.skip else f(x)

    first = {}
    for skip in (False, True):
        for depth in (2, 8, 32):
            torch.manual_seed(0)
            layers = [Step(skip) for _ in range(depth)]
            first[skip, depth] = gradient_norms(layers, randn(8, 16), lambda y: y.sum() / 8).states[0]
    assert first[False, 2] > 50 * first[False, 8] > 1e6 * first[False, 32]  # it dies out with depth
    assert first[True, 32] > 0.5 * first[True, 2]


@pytest.mark.syllabus("CMU-18", "CMU-19", "GT-13", "GT-15", "GT-21")
def test_near_the_output_post_norm_has_larger_gradients_than_pre_norm():
    """The paper's claim, at initialisation: post-norm's do not fall with depth, pre-norm's do, about as 1/√L. The
    pre-norm stack has its final norm, which the slide leaves out (erratum E-42)."""
    last = {}
    for n_layers in (6, 24):
        last["post", n_layers] = norms_at_start(lambda: PostNorm(LayerNorm(32)), n_layers).parameters[-1]
        pre = norms_at_start(lambda: PreNorm(LayerNorm(32)), n_layers, final=LayerNorm(32))
        last["pre", n_layers] = pre.parameters[-1]
        assert last["post", n_layers] > 1.5 * last["pre", n_layers]
    assert last["post", 24] > 0.9 * last["post", 6]
    assert last["pre", 24] < 0.75 * last["pre", 6]


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize(
    "position",
    [
        lambda: SandwichNorm(LayerNorm(32), LayerNorm(32)),
        lambda: PostSublayerNorm(RMSNorm(32)),
        lambda: ReZero(),
        lambda: ReZero(LayerNorm(32)),
        lambda: ReZero(RMSNorm(32)),
    ],
)
def test_every_placement_that_keeps_the_stream_carries_the_gradient_to_the_first_layer(position):
    found = norms_at_start(position, final=LayerNorm(32))
    assert found.states[0] > 0.2 * found.states[-1] > 0


@pytest.mark.syllabus("GT-19")
def test_under_rezero_only_alpha_learns_at_first():
    torch.manual_seed(0)
    blocks = [Block(ReZero, 8, 2) for _ in range(3)]
    found = gradient_norms(blocks, randn(2, 5, 8), lambda y: y.square().sum())
    alphas = [[b.attention_residual.alpha, b.feedforward_residual.alpha] for b in blocks]
    x = randn(2, 5, 8)
    for block, pair, norm in zip(blocks, alphas, found.parameters, strict=True):
        expected = [(2 * x * f(x)).sum().item() for f in (block.attention, block.feedforward)]  # y = x at first
        assert norm == pytest.approx(sum(e * e for e in expected) ** 0.5, rel=1e-4) and len(pair) == 2


@pytest.mark.syllabus("UCL-24")
def test_the_recorded_states_are_those_between_the_layers():
    layers, x = stack().eval(), randn(7, 4)
    with recorded_states(layers) as states:
        y = nn.Sequential(*layers)(x)
    expected = [x]
    for layer in layers:
        expected.append(layer(expected[-1]))
    assert len(states) == 6 and states[-1] is y
    for found, state in zip(states, expected, strict=True):
        assert torch.equal(found, state)


def test_a_second_run_is_recorded_anew_and_nothing_is_left_behind():
    layers, x = stack().eval(), randn(7, 4)
    with pytest.raises(ZeroDivisionError), recorded_states(layers) as states:
        for _ in range(2):
            nn.Sequential(*layers)(x)
        raise ZeroDivisionError
    assert len(states) == 6
    nn.Sequential(*layers)(x)
    assert len(states) == 6 and not any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)


@pytest.mark.syllabus("UCL-22")
@pytest.mark.parametrize("off", range(3))
def test_a_head_that_is_off_adds_nothing_and_the_others_stay(off):
    torch.manual_seed(0)
    attention, x = SelfAttention(12, 3, d_value=5, n_kv_heads=1, output_bias=True), randn(2, 7, 12)
    whole, weights = attention(x, return_weights=True)
    with head_mask(attention, (torch.arange(3) != off).float()):
        without, same = attention(x, return_weights=True)
    alone = SelfAttention(12, 3, d_value=5, n_kv_heads=1, output_bias=True)
    alone.load_state_dict(attention.state_dict())
    with torch.no_grad():  # the columns that read the head
        alone.w_output.weight[:, 5 * off : 5 * (off + 1)] = 0
    torch.testing.assert_close(without, alone(x))
    assert torch.equal(weights, same) and not torch.allclose(whole, without, atol=1e-3)
    assert torch.equal(attention(x, return_weights=True)[0], whole)  # the hook is gone


def test_a_mask_of_another_size_is_refused():
    with (
        pytest.raises(ValueError, match="mask has the shape \\(4,\\); it must be \\(3,\\), one for each"),
        head_mask(SelfAttention(12, 3), torch.ones(4)),
    ):
        pass
