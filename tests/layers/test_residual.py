"""Residual placements against their formulas and PyTorch's encoder layer; Fixup against its three rules."""

import copy

import pytest
import torch
from randomness import randn
from torch import nn

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.normalization import LayerNorm, RMSNorm
from llm_anatomy.layers.residual import (
    FixupResidual,
    PostNorm,
    PostSublayerNorm,
    PreNorm,
    Residual,
    ReZero,
    SandwichNorm,
    fixup_,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, WIDTH = 3, 5, 8
MAKERS = {
    "residual": lambda norm: Residual(),
    "post": lambda norm: PostNorm(norm()),
    "pre": lambda norm: PreNorm(norm()),
    "pre, multiplied": lambda norm: PreNorm(norm(), multiplier=0.3),
    "post-sublayer": lambda norm: PostSublayerNorm(norm()),
    "sandwich": lambda norm: SandwichNorm(norm(), norm()),
    "rezero": lambda norm: ReZero(),
    "rezero with a norm": lambda norm: ReZero(norm()),
    "fixup": lambda norm: FixupResidual(),
}
NORMS = {"layer": lambda: LayerNorm(WIDTH), "rms": lambda: RMSNorm(WIDTH)}


def randomize(module, seed=0):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=g) * 0.3)
    return module


def by_formula(kind, placement, x, f):
    """Each placement once more, written out."""
    p = placement
    return {
        "residual": lambda: x + f(x),
        "post": lambda: p.norm(x + f(x)),
        "pre": lambda: x + f(p.norm(x)),
        "pre, multiplied": lambda: x + 0.3 * f(p.norm(x)),
        "post-sublayer": lambda: x + p.norm(f(x)),
        "sandwich": lambda: x + p.norm_out(f(p.norm_in(x))),
        "rezero": lambda: x + p.alpha * f(x),
        "rezero with a norm": lambda: x + p.alpha * f(p.norm(x)),
        "fixup": lambda: x + p.scale * f(x + p.shift),
    }[kind]()


@pytest.mark.syllabus("IITD-33", "CMU-18", "CMU-19", "GT-13", "GT-19", "UCL-24", "UCL-28")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_placement_is_its_formula_and_no_other(kind, norm, device):
    placement = randomize(MAKERS[kind](NORMS[norm])).to(device)
    sublayer = randomize(nn.Linear(WIDTH, WIDTH), 1).to(device)
    x = (2 * randn(BATCH, TOKENS, WIDTH) + 1).to(device)
    result = placement(x, sublayer)
    torch.testing.assert_close(result, by_formula(kind, placement, x, sublayer))
    twins = {"post": "pre", "pre": "post-sublayer", "post-sublayer": "post", "pre, multiplied": "pre"}
    twin = (twins | {"rezero with a norm": "pre"}).get(kind)
    if twin:  # the same norm elsewhere is another function
        assert not torch.allclose(result, by_formula(twin, placement, x, sublayer), atol=0.05)


@pytest.mark.syllabus("GT-13", "CMU-18", "CMU-19")
@pytest.mark.parametrize("pre", [True, False])
def test_post_and_pre_norm_equal_pytorchs_encoder_layer(pre):
    theirs = nn.TransformerEncoderLayer(
        WIDTH, 2, 13, dropout=0.0, batch_first=True, norm_first=pre, dtype=torch.float64
    )
    randomize(theirs)
    x = randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    mask = torch.rand(TOKENS, TOKENS, generator=torch.Generator().manual_seed(1)) < 0.7
    mask.fill_diagonal_(True)
    kind = PreNorm if pre else PostNorm
    norms = [LayerNorm(WIDTH).double(), LayerNorm(WIDTH).double()]
    for ours, norm in zip(norms, (theirs.norm1, theirs.norm2), strict=True):
        ours.load_state_dict(norm.state_dict())

    def attend(x, mask):
        return theirs.self_attn(x, x, x, attn_mask=~mask, need_weights=False)[0]

    def feed_forward(x):
        return theirs.linear2(theirs.linear1(x).relu())

    y = kind(norms[1])(kind(norms[0])(x, attend, mask=mask), feed_forward)
    torch.testing.assert_close(y, theirs(x, src_mask=~mask), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_tuple_begins_with_the_branch_and_the_rest_is_handed_back(kind):
    placement = randomize(MAKERS[kind](NORMS["layer"]))
    attention = randomize(SelfAttention(WIDTH, 2))
    x, mask = randn(BATCH, TOKENS, WIDTH), torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    alone = placement(x, attention, mask=mask)
    output, weights = placement(x, attention, mask=mask, return_weights=True)
    torch.testing.assert_close(output, alone)
    assert not torch.allclose(alone, placement(x, attention), atol=1e-3)  # the mask arrives
    read = placement.before_sublayer(x)
    torch.testing.assert_close(weights, attention(read, mask=mask, return_weights=True)[1])
    marker = object()
    output, *rest = placement(x, lambda x: (x, None, marker))
    assert output.shape == x.shape and rest == [None, marker]
    assert isinstance(placement(x, lambda x: (x,)), tuple)


def test_a_branch_of_another_shape_is_refused():
    """A branch of one token would be added to all of them without a word."""
    x = torch.ones(BATCH, TOKENS, WIDTH)
    for placement in (Residual(), PreNorm(LayerNorm(WIDTH))):
        with pytest.raises(ValueError, match=r"returned shape \(3, 1, 8\); it must be that of its input, \(3, 5, 8\)"):
            placement(x, lambda x: x[:, :1])
        with pytest.raises(ValueError, match=r"returned shape \(5, 8\)"):
            placement(x, lambda x: (x[0], None))


# --- What the lectures state ---


@pytest.mark.syllabus("GT-14")
@pytest.mark.parametrize("kind", ["residual", "pre", "post-sublayer", "sandwich"])
def test_the_stream_is_the_input_plus_the_sum_of_the_branches(kind):
    x, found = randn(BATCH, TOKENS, WIDTH), []
    y = x
    for i in range(4):
        placement, sublayer = MAKERS[kind](NORMS["layer"]), randomize(nn.Linear(WIDTH, WIDTH), i)
        before = y
        y = placement(y, sublayer)
        found.append(y - before)
    torch.testing.assert_close(y, x + sum(found))
    assert placement(x, torch.zeros_like).eq(x).all()  # a silent branch leaves the stream as it is
    assert not torch.allclose(PostNorm(LayerNorm(WIDTH))(x, torch.zeros_like), x, atol=0.1)


@pytest.mark.syllabus("GT-14", "IITD-33")
def test_the_jacobian_of_pre_norm_has_an_identity_term_and_that_of_post_norm_has_not():
    x, sublayer = randn(WIDTH, dtype=torch.float64), randomize(nn.Linear(WIDTH, WIDTH)).double()
    norm = LayerNorm(WIDTH, eps=0.0).double()
    whole = torch.autograd.functional.jacobian(lambda x: PreNorm(norm)(x, sublayer), x)
    branch = torch.autograd.functional.jacobian(lambda x: sublayer(norm(x)), x)
    torch.testing.assert_close(whole, torch.eye(WIDTH, dtype=torch.float64) + branch)
    post = torch.autograd.functional.jacobian(lambda x: PostNorm(norm)(x, torch.zeros_like), x)
    rank = torch.linalg.matrix_rank(post, atol=1e-9)
    assert rank == WIDTH - 2  # layer norm forgets mean and length, of the stream too


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("norm", [None, *NORMS])
def test_rezero_starts_as_the_identity_and_its_alpha_learns_at_once(norm):
    placement = ReZero(None if norm is None else NORMS[norm]())
    sublayer, x = randomize(nn.Linear(WIDTH, WIDTH)), randn(BATCH, TOKENS, WIDTH)
    y = placement(x, sublayer)
    torch.testing.assert_close(y, x, rtol=0, atol=0)
    y.square().sum().backward()
    assert placement.alpha.grad.abs() > 0.1 and sublayer.weight.grad.eq(0).all()
    nn.init.ones_(placement.alpha)
    expected = x + sublayer(x if norm is None else NORMS[norm]()(x))
    torch.testing.assert_close(placement(x, sublayer), expected)


# --- Fixup ---


def fixup_stack(n_branches, n_layers, width=16, seed=0):
    torch.manual_seed(seed)
    sizes = [width, *[width + 3] * (n_layers - 1), width]
    branches = [[nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)] for _ in range(n_branches)]
    for layer in (layer for branch in branches for layer in branch):
        nn.init.kaiming_normal_(layer.weight)
    return branches


def run(branches, x):
    for branch in branches:
        *first, last = branch
        inner = nn.Sequential(*(part for layer in first for part in (layer, nn.ReLU())), last)
        x = FixupResidual()(x, inner)
    return x


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize(("n_branches", "n_layers"), [(6, 2), (5, 3), (4, 1), (1, 2)])
def test_fixup_zeroes_the_last_layer_and_scales_the_others(n_branches, n_layers):
    branches = fixup_stack(n_branches, n_layers)
    before = copy.deepcopy(branches)
    fixup_(branches)
    for branch, old in zip(branches, before, strict=True):
        assert branch[-1].weight.eq(0).all() and all(layer.bias.eq(0).all() for layer in branch)
        for layer, layer_before in zip(branch[:-1], old[:-1], strict=True):
            factor = n_branches ** (-1 / (2 * n_layers - 2))
            torch.testing.assert_close(layer.weight, factor * layer_before.weight)
    x = randn(3, 16)
    torch.testing.assert_close(run(branches, x), x)
    fixup_([[nn.Linear(2, 3, bias=False), nn.Embedding(4, 2)]])  # no bias to set


@pytest.mark.syllabus("GT-19")
def test_a_step_under_fixup_moves_the_output_alike_at_any_depth():
    """The paper's aim: an update of order of the learning rate, whatever the depth. Without it, it grows with depth."""
    x, target = randn(8, 16), randn(8, 16, seed=1)

    def moved(n_branches, prepare):
        branches = fixup_stack(n_branches, 2)
        prepare(branches)
        parameters = [layer.weight for branch in branches for layer in branch]
        before = run(branches, x)
        gradients = torch.autograd.grad((before * target).mean(), parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients, strict=True):
                p -= 0.01 * g
            return (run(branches, x) - before).norm().item()

    shallow, deep = moved(4, fixup_), moved(32, fixup_)
    assert deep == pytest.approx(shallow, rel=0.5)
    assert moved(12, lambda branches: None) > 20 * moved(4, lambda branches: None)


def test_fixup_refuses_what_it_cannot_set_before_it_sets_anything():
    good = nn.Linear(3, 4)
    before = good.weight.clone()
    for bad in ([], [nn.ReLU()], [nn.Linear(3, 3), nn.LayerNorm(3, elementwise_affine=False)]):
        with pytest.raises(ValueError, match=r"branches\[1\]=.* must hold at least one layer, each with a weight"):
            fixup_([[good, nn.Linear(4, 3)], bad])
    assert torch.equal(good.weight, before)


# --- Kinds of numbers, gradients, machines ---


@pytest.mark.parametrize("kind", MAKERS)
def test_gradients_bfloat16_state_and_meta(kind):
    placement, sublayer = randomize(MAKERS[kind](NORMS["rms"])), randomize(nn.Linear(WIDTH, WIDTH), 1)
    x = randn(2, WIDTH)
    double, f = copy.deepcopy(placement).double(), copy.deepcopy(sublayer).double()
    leaf = x.double().requires_grad_()
    parameters = dict(double.named_parameters())

    def function(x, *values):
        return torch.func.functional_call(double, dict(zip(parameters, values, strict=True)), (x, f))

    assert torch.autograd.gradcheck(function, (leaf, *parameters.values()))
    low = copy.deepcopy(placement).bfloat16()(x.bfloat16(), copy.deepcopy(sublayer).bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), placement(x, sublayer), rtol=3e-2, atol=5e-2)
    other = randomize(MAKERS[kind](NORMS["rms"]), 5)
    other.load_state_dict(placement.state_dict())
    torch.testing.assert_close(other(x, sublayer), placement(x, sublayer), rtol=0, atol=0)
    assert not any("sublayer" in name for name in placement.state_dict())  # it owns its norms alone
    meta = MAKERS[kind](NORMS["rms"]).to("meta")
    assert meta(x.to("meta"), nn.Linear(WIDTH, WIDTH, device="meta")).shape == (2, WIDTH)


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from torch import nn; from llm_anatomy.layers.residual import *\n"
        "n = lambda: nn.LayerNorm(8)\n"
        "x, f = torch.randn(3, 5, 8), nn.Linear(8, 8)\n"
        "for m in (Residual(), PostNorm(n()), PreNorm(n()), PostSublayerNorm(n()), SandwichNorm(n(), n()), \n"
        "          ReZero(n()), FixupResidual()):\n"
        "    torch._dynamo.reset()\n"
        "    c = torch.compile(lambda x, k: m(x, lambda h, k: (f(h) * k, k), k=k), fullgraph=True, backend='eager')\n"
        "    for k in (2.0, 3.0):\n"
        "        torch.testing.assert_close(c(x, k), m(x, lambda h, k: (f(h) * k, k), k=k))"
    )
    run_without_shape_checks(code)
