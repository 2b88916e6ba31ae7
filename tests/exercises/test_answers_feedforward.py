"""Answers that students give to the exercises of chapter 10: right ones pass, wrong ones are told what is wrong."""

import math
import random
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bookbinder import ROOT
from bookbinder.masters import load
from llm_anatomy.layers.experts import GatedExperts, MixtureOfExperts, TopKOfSoftmax
from llm_anatomy.layers.feedforward import (
    ACTIVATIONS,
    GATES,
    FeedForward,
    GatedFeedForward,
    Swish,
    gated_width,
    swish_derivative,
)
from llm_anatomy.notebook.checks import check

MASTERS = ROOT / "exercises" / "feedforward"


def told(name, answer):
    return check(f"feedforward/{name}", answer)


def solution(name):
    master = load(MASTERS / name)
    return master.right()[master.function], master.cases() + master.cases("hidden_cases", seed=3)


def phi(z):
    return 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))


# Right answers


def plain_module(x, w_1, w_2, activation):
    layer = FeedForward(*w_1.shape, activation=ACTIVATIONS[activation]())
    layer.w_up.weight.data, layer.w_down.weight.data = w_1.T, w_2.T
    return layer(x)


def plain_arrays(x, w_1, w_2, activation):
    z = x.numpy() @ w_1.numpy()
    f = {
        "relu": np.maximum(z, 0),
        "squared_relu": np.maximum(z, 0) ** 2,
        "gelu": z * phi(z),
        "swish": z / (1 + np.exp(-z)),
    }
    return f[activation] @ w_2.numpy()


def plain_in_place(x, w_1, w_2, activation):
    h = torch.tensordot(x, w_1, dims=([-1], [0]))
    if activation in ("gelu", "swish"):
        h *= torch.special.ndtr(h) if activation == "gelu" else h.sigmoid()
    else:
        h[h < 0] = 0
        h = h * h if "squared" in activation else h
    return torch.matmul(h, w_2)


@pytest.mark.parametrize("answer", [plain_module, plain_arrays, plain_in_place])
def test_a_layer_may_be_written_in_many_ways(answer):
    assert told("feed_forward", answer).status == "passed"


@pytest.mark.parametrize(
    "answer",
    [
        ["swish", "squared_relu", "elu", "gelu", "softplus"],
        ("SWISH", "Squared-ReLU", " elu", "GELU", "SoftPlus"),
        np.array(["swish", "squared_relu", "elu", "gelu", "softplus"]),
    ],
)
def test_names_may_be_spelt_in_many_ways(answer):
    assert told("read_the_slopes", lambda: answer).status == "passed"


def swish_by_silu(z, beta):
    gate = (beta * z).sigmoid()
    return F.silu(beta * z) / beta if beta else z / 2, gate * (1 + beta * z * (1 - gate))


def swish_by_jacobian(z, beta):
    def f(u):
        return u * torch.sigmoid(beta * u)

    return f(z), torch.autograd.functional.jacobian(f, z).diagonal()


def swish_of_the_package(z, beta):
    return Swish(beta)(z), swish_derivative(z, beta)


def swish_by_arrays(z, beta):
    z = z.numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        gate = 1 / (1 + np.exp(-beta * z))
    return z * gate, gate + beta * z * gate * (1 - gate)


@pytest.mark.parametrize("answer", [swish_by_silu, swish_by_jacobian, swish_of_the_package, swish_by_arrays])
def test_swish_may_be_written_in_many_ways(answer):
    assert told("swish_and_slope", answer).status == "passed"


def dead_by_arrays(x, real, w_1):
    hidden = F.relu(x[real] @ w_1).numpy()
    return (hidden.max(0) == 0).sum(), (hidden == 0).mean()


def dead_by_masks(x, real, w_1):
    hidden, mask = torch.relu(torch.einsum("btd, df -> btf", x, w_1)), real[..., None]
    alive = ((hidden > 0) & mask).flatten(0, 1).any(0)
    return alive.logical_not().sum().item(), ((hidden == 0) & mask).sum().item() / (real.sum().item() * w_1.size(1))


def dead_by_sums(x, real, w_1):
    rows = [token for sequence, kept in zip(x, real, strict=True) for token, k in zip(sequence, kept, strict=True) if k]
    hidden = (torch.stack(rows) @ w_1).clamp_min(0)
    return w_1.shape[1] - torch.count_nonzero(hidden.sum(0)), torch.count_nonzero(hidden == 0) / hidden.numel()


@pytest.mark.parametrize("answer", [dead_by_arrays, dead_by_masks, dead_by_sums])
def test_dead_units_may_be_counted_in_many_ways(answer):
    assert told("dead_units", answer).status == "passed"


def gated_module(x, w, v, w_2, kind):
    layer = GatedFeedForward(*w.shape, activation=ACTIVATIONS[GATES[kind]]())
    layer.w_gate_up.weight.data, layer.w_down.weight.data = torch.cat((w, v), 1).T, w_2.T
    return layer(x)


F_OF_GATE = {"bilinear": lambda z: z, "glu": torch.sigmoid, "reglu": F.relu, "geglu": F.gelu, "swiglu": F.silu}


def gated_by_the_glu_of_pytorch(x, w, v, w_2, kind):
    if kind == "glu":
        return F.glu(torch.cat((x @ v, x @ w), -1), -1) @ w_2
    return torch.mul(F_OF_GATE[kind](x.matmul(w)), x.matmul(v)).matmul(w_2)


def gated_by_arrays(x, w, v, w_2, kind):
    a, b = x.numpy() @ w.numpy(), x.numpy() @ v.numpy()
    gate = 1 / (1 + np.exp(-a))
    f = {"bilinear": a, "glu": gate, "reglu": np.where(a > 0, a, 0), "geglu": a * phi(a), "swiglu": a * gate}
    return (f[kind] * b) @ w_2.numpy()


@pytest.mark.parametrize("answer", [gated_module, gated_by_the_glu_of_pytorch, gated_by_arrays])
def test_a_gated_layer_may_be_written_in_many_ways(answer):
    assert told("gated_layer", answer).status == "passed"


def halves(x, w_gate_value):
    return (x @ w_gate_value).chunk(2, -1)


def mended_by_a_module(x, w_gate_value, w_2):
    gate, value = halves(x, w_gate_value)
    return (nn.SiLU()(gate) * value) @ w_2


def mended_by_slices(x, w_gate_value, w_2):
    both = x @ w_gate_value
    n = both.shape[-1] // 2
    return F.silu(both[:, :n]).mul(both[:, n:]).mm(w_2)


def mended_by_the_package(x, w_gate_value, w_2):
    layer = GatedFeedForward(x.shape[1], len(w_2), activation=nn.SiLU())
    layer.w_gate_up.weight.data, layer.w_down.weight.data = w_gate_value.T, w_2.T
    return layer(x)


@pytest.mark.parametrize("answer", [mended_by_a_module, mended_by_slices, mended_by_the_package])
def test_the_gate_may_be_mended_in_many_ways(answer):
    assert told("slipped_argument", answer).status == "passed"


@pytest.mark.parametrize(
    "answer",
    [
        (3, 0, 1.5, 3, 6, 120),
        [3.0, 0.0, 1.5, 3.0, 5.99999998, 119.9999998],
        torch.tensor([3, 0, 1.5, 3, 6, 120]),
        np.array([3, 0, 1.5, 3, 6, 120]),
    ],
)
def test_the_six_numbers_may_be_exact_or_rounded(answer):
    assert told("gate_at_zero", lambda: answer).status == "passed"


def width_by_fractions(d_model, d_ff, multiple_of):
    width = math.ceil(Fraction(2 * d_ff, 3) / multiple_of) * multiple_of
    return [width, 3 * width * d_model - 2 * d_ff * d_model]


def width_by_numpy(d_model, d_ff, multiple_of):
    width = int(np.ceil(d_ff / 1.5 / multiple_of)) * multiple_of
    return torch.tensor(width), torch.tensor(3 * d_model * width - 2 * d_model * d_ff)


def width_by_steps(d_model, d_ff, multiple_of):
    width = math.ceil(2 / 3 * d_ff)
    while width % multiple_of:
        width += 1
    return np.float64(width), d_model * np.array(3 * width - 2 * d_ff)


@pytest.mark.parametrize("answer", [width_by_fractions, width_by_numpy, width_by_steps])
def test_the_width_may_be_computed_in_many_ways(answer):
    assert told("equal_parameters", answer).status == "passed"


def decided(probability, n_comparisons):
    return probability, "beyond noise" if probability < 0.05 / n_comparisons else "within noise"


def by_the_standard_library(gap, std_a, std_b, n_comparisons):
    return decided(2 * (1 - NormalDist(0, math.hypot(std_a, std_b)).cdf(gap)), n_comparisons)


def by_draws(gap, std_a, std_b, n_comparisons):
    a, b = torch.normal(1.9, std_a, (200_000,)), torch.normal(1.9, std_b, (200_000,))
    return decided(((a - b).abs() > gap).float().mean(), n_comparisons)


def by_a_loop(gap, std_a, std_b, n_comparisons):
    pairs = ((random.gauss(0, std_a), random.gauss(0, std_b)) for _ in range(50_000))
    return decided(sum(abs(a - b) >= gap for a, b in pairs) / 50_000, n_comparisons)


def by_arrays_of_words(gap, std_a, std_b, n_comparisons):
    probability = np.float64(math.erfc(gap / math.sqrt(2 * (std_a**2 + std_b**2))))
    return probability, np.where(probability < 0.05 / n_comparisons, "Beyond noise", "Within noise")


@pytest.mark.parametrize("answer", [by_the_standard_library, by_draws, by_a_loop, by_arrays_of_words])
def test_noise_may_be_measured_in_many_ways(answer):
    assert told("beyond_noise", answer).status == "passed"


def exact(z):
    return z * 0.5 * (1 + torch.erf(z / 2**0.5))


def tanh(z, cubic=0.044715):
    return 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + cubic * z**3)))


def gelu_by_ndtr(z):
    a, b = z * torch.special.ndtr(z), tanh(z)
    return a, b, torch.max(torch.abs(b - a)).item()


def gelu_by_arrays(z):
    z = z.numpy().astype(np.float64)
    a, b = z * phi(z), 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return a, b, np.abs(a - b).max()


def gelu_by_exponentials(z):
    u = math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)
    a, b = z * 0.5 * torch.erfc(-z / 2**0.5), z * u.exp() / (u.exp() + (-u).exp())
    return [a, b, (a - b).abs().amax(0)]


@pytest.mark.parametrize("answer", [gelu_by_ndtr, gelu_by_arrays, gelu_by_exponentials])
def test_gelu_may_be_written_in_many_ways(answer):
    assert told("exact_gelu", answer).status == "passed"


@pytest.mark.parametrize(
    "answer",
    [
        (5.35, 5.12, 4.3, 4.5, 4.3),
        [math.exp(1.677), math.exp(1.633), *(100 * abs(math.expm1(x)) for x in (-0.044, 0.044, -0.044))],
        np.array([5.35, 5.12, 4.3, 4.5, 4.3]),
    ],
)
def test_percentages_may_be_exact_or_rounded(answer):
    assert told("lower_perplexity", lambda: answer).status == "passed"


def routed_by_counting(logits, capacity):
    p, counts, experts, weights = logits.softmax(-1), {}, [], []
    for i, expert in enumerate(p.argmax(-1).tolist()):
        counts[expert] = counts.get(expert, 0) + 1
        kept = counts[expert] <= capacity
        experts.append(expert if kept else -1)
        weights.append(p[i, expert].item() if kept else 0.0)
    return torch.tensor(experts), torch.tensor(weights)


def routed_in_place(logits, capacity):
    p, experts = F.softmax(logits, 1).max(1)
    chosen = F.one_hot(experts, logits.size(1))
    dropped = ((chosen.cumsum(0) - 1) * chosen).sum(1) >= capacity
    experts[dropped], p[dropped] = -1, 0
    return experts, p


def routed_by_arrays(logits, capacity):
    p = np.exp(logits.numpy())
    p /= p.sum(1, keepdims=True)
    experts = p.argmax(1)
    kept = np.array([(experts[:i] == experts[i]).sum() < capacity for i in range(len(experts))])
    return np.where(kept, experts, -1), np.where(kept, p.max(1), 0)


def routed_by_the_package(logits, capacity):
    n_tokens, n_experts = logits.shape
    router = TopKOfSoftmax(n_experts, n_experts, k=1)
    router.w_router.weight = nn.Parameter(torch.eye(n_experts))
    experts = GatedExperts(n_experts, n_experts, 2, nn.ReLU())
    record = MixtureOfExperts(router, experts, capacity_factor=capacity * n_experts / n_tokens)(logits[None])[1]
    kept = record.kept[:, 0]
    return record.experts[:, 0].where(kept, -1), (record.weights[:, 0] * kept).detach()


@pytest.mark.parametrize("answer", [routed_by_counting, routed_in_place, routed_by_arrays, routed_by_the_package])
def test_tokens_may_be_routed_in_many_ways(answer):
    assert told("route_tokens", answer).status == "passed"


# The solutions compute what the package computes


@pytest.mark.syllabus("CMU-03", "CMU-04", "CMU-05", "CMU-06", "GT-22", "GT-23", "GT-24", "GT-25")
@pytest.mark.parametrize(
    ("name", "of_the_package"),
    [
        ("feed_forward", plain_module),
        ("swish_and_slope", swish_of_the_package),
        ("gated_layer", gated_module),
        ("slipped_argument", mended_by_the_package),
        ("route_tokens", routed_by_the_package),
    ],
)
def test_the_solutions_agree_with_the_package(name, of_the_package):
    answer, cases = solution(name)
    for case in cases:
        found, wanted = answer(**case), of_the_package(**case)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, check_dtype=False)


@pytest.mark.syllabus("CMU-06", "GT-25")
def test_the_width_is_that_of_published_models():
    answer, cases = solution("equal_parameters")
    of_the_package = {case["d_ff"]: gated_width(case["d_ff"], multiple_of=case["multiple_of"]) for case in cases}
    widths = {case["d_ff"]: answer(**case)[0] for case in cases}
    assert {d_ff for d_ff, width in widths.items() if width != of_the_package[d_ff]} == {10, 14, 11, 16}
    assert answer(768, 3072, 1) == (2048, 0) and answer(4096, 4 * 4096, 256) == (11008, 2**20)


@pytest.mark.syllabus("CMU-07", "GT-26")
def test_what_the_explanation_says_of_the_table():
    probabilities = [by_the_standard_library(*pair, 7) for pair in ((0.002, 0.004, 0.01), (0.011, 0.004, 0.003))]
    probabilities += [by_the_standard_library(*pair, 7) for pair in ((0.018, 0.004, 0.005), (0.055, 0.004, 0.005))]
    assert [round(p, 3) for p, _ in probabilities] == [0.853, 0.028, 0.005, 0]
    assert [decision for _, decision in probabilities] == ["within noise"] * 2 + ["beyond noise"] * 2
    assert probabilities[-1][0] < 1e-7
    assert round(by_the_standard_library(0.015, 0.006, 0.005, 1)[0], 3) == 0.055  # GLU and ReLU


# Wrong answers


def layer_of(**wrong):
    right = {"relu": F.relu, "squared_relu": lambda z: F.relu(z) ** 2, "gelu": F.gelu, "swish": F.silu}
    return lambda x, w_1, w_2, activation: (right | wrong)[activation](x @ w_1) @ w_2


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (layer_of(squared_relu=lambda z: F.relu(z**2)), "square_without_relu"),
        (layer_of(gelu=nn.GELU("tanh")), "gelu_by_tanh"),
        (layer_of(gelu=lambda z: z * torch.special.ndtr(z * 2**0.5)), "gelu_without_root_two"),
        (layer_of(swish=nn.Sigmoid()), "swish_is_sigmoid"),
        (lambda x, w_1, w_2, activation: nn.ReLU()(x @ w_1) @ w_2, "always_relu"),
    ],
)
def test_a_wrong_activation_is_named(answer, mistake):
    assert told("feed_forward", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (layer_of(relu=F.leaky_relu), "returns [9.94] instead of [10]"),
        (layer_of(swish=F.hardswish), "returns [0.66667] instead of [0.73106]"),
        (layer_of(squared_relu=lambda z: 2 * F.relu(z)), "With squared_relu, twice the token should give 4 times"),
        (
            lambda x, w_1, w_2, activation: layer_of()(x, w_1, torch.eye(w_1.shape[1]), activation),
            "returns shape (2,) instead of (1,)",
        ),
        (lambda x, w_1, w_2, activation: layer_of()(x, w_1.T, w_2.T, activation), "cannot be multiplied"),
    ],
)
def test_a_layer_gone_wrong_is_told(answer, words):
    assert words in told("feed_forward", answer).message


@pytest.mark.parametrize(
    ("names", "mistake"),
    [
        ("gelu squared_relu elu swish softplus", "gelu_and_swish_exchanged"),
        ("swish squared_relu softplus gelu elu", "elu_and_softplus_exchanged"),
        ("swish elu squared_relu gelu softplus", "elu_and_squared_relu_exchanged"),
    ],
)
def test_exchanged_curves_are_named(names, mistake):
    assert told("read_the_slopes", names.split).mistake == mistake


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("swish elu softplus gelu squared_relu", "Your names for curve B, curve C and curve E are not right."),
        ("elu gelu swish squared_relu softplus", "exchanged ELU and Swish. ELU never falls"),
        ("elu gelu swish squared_relu softplus", "Your names for curve B and curve D are not right."),
        ("swish relu elu gelu softplus", "'relu' is not one of the five names"),
        ("swish swish elu gelu softplus", "each of the five names belongs to one curve"),
        ("swish squared_relu elu gelu", "a list of five names is needed"),
    ],
)
def test_wrong_names_are_told(names, words):
    assert words in told("read_the_slopes", names.split).message


def sigma(z, beta):
    return torch.sigmoid(beta * z)


def chain_rule_forgotten(z, beta):
    s = sigma(z, beta)
    return z * s, s * (1 + z * (1 - s))


def known_formula(z, beta):
    s = sigma(z, beta)
    return z * s, z * s + s * (1 - z * s)


def silu_of_beta_z(z, beta):
    s = sigma(z, beta)
    return F.silu(beta * z), beta * (s + beta * z * s * (1 - s))


def powers_of_e(z, beta):
    e = torch.exp(-beta * z)
    return z / (1 + e), (1 + e + beta * z * e) / (1 + e) ** 2


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (chain_rule_forgotten, "inner_derivative_missing"),
        (known_formula, "inner_derivative_missing"),
        (lambda z, beta: (F.silu(z), swish_derivative(z)), "beta_ignored"),
        (silu_of_beta_z, "beta_on_both_factors"),
        (powers_of_e, "quotient_overflows"),
        (lambda z, beta: (z * sigma(z, beta), sigma(z, beta)), "first_part_only"),
        (lambda z, beta: (F.silu(beta * z) / beta, swish_derivative(z, beta)), "divided_by_beta"),
    ],
)
def test_a_mistake_in_the_derivative_is_named(answer, mistake):
    assert told("swish_and_slope", answer).mistake == mistake


def gate_of_z(z, beta):
    s = sigma(z, beta)
    return z * s, torch.sigmoid(z) + beta * z * s * (1 - s)


def squared_gate(z, beta):
    s = sigma(z, beta)
    return z * s, s + beta * z * s**2


def slope_from_the_value(z, beta):
    value = F.silu(beta * z) / beta
    return value, sigma(z, beta) + beta * value * (1 - sigma(z, beta))


def large_steps(z, beta):
    def f(z):
        return z * sigma(z, beta)

    return f(z), (f(z + 1e-3) - f(z - 1e-3)) / 2e-3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (gate_of_z, "With a large β, the derivative should be almost that of ReLU"),
        (squared_gate, "The derivatives of Swish at z and at −z should add up to 1"),
        (large_steps, "The derivatives of Swish at z and at −z should add up to 1"),
        (lambda z, beta: (F.silu(beta * z), swish_derivative(z, beta)), "With β = 0, Swish should be z/2"),
        (lambda z, beta: torch.stack((z, z)), "returns a tensor instead of a tuple of "),
        (slope_from_the_value, "In the first value, where your result is wrong, it is always NaN"),
    ],
)
def test_a_derivative_gone_wrong_is_told(answer, words):
    assert words in told("swish_and_slope", answer).message


def counted(x, real, w_1, zero):
    hidden = F.relu(x @ w_1)
    return int(zero(hidden).flatten(0, 1).all(0).sum()), float(zero(hidden).float().mean())


def zeros_by_sequence(x, real, w_1):
    return [sequence[kept] @ w_1 <= 0 for sequence, kept in zip(x, real, strict=True)]


def mean_share(x, real, w_1):
    return np.mean([zero.double().mean().item() for zero in zeros_by_sequence(x, real, w_1)])


def dead_somewhere(x, real, w_1):
    return sum(torch.stack([zero.all(0) for zero in zeros_by_sequence(x, real, w_1)]).any(0))


def test_a_rounded_share_is_not_said_to_be_constant():
    def rounded(x, real, w_1):
        dead, share = dead_by_masks(x, real, w_1)
        return dead, round(share, 1)

    assert "always" not in told("dead_units", rounded).message.replace("is wrong, it is always", "")


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (lambda x, real, w_1: counted(x * real[..., None], real, w_1, lambda h: h == 0), "padding_as_zeros"),
        (lambda x, real, w_1: counted(x, real, w_1, lambda h: h == 0), "padding_counted"),
        (
            lambda x, real, w_1: (int((x[~real] @ w_1 <= 0).all(0).sum()), (x[~real] @ w_1 <= 0).double().mean()),
            "mask_turned_round",
        ),
        (
            lambda x, real, w_1: (int((F.relu(x[real] @ w_1).sum(1) == 0).sum()), dead_by_masks(x, real, w_1)[1]),
            "silent_tokens",
        ),
        (
            lambda x, real, w_1: (int((x[real] @ w_1 < 0).all(0).sum()), (x[real] @ w_1 < 0).double().mean()),
            "negative_only",
        ),
        (lambda x, real, w_1: (dead_by_masks(x, real, w_1)[0], mean_share(x, real, w_1)), "mean_over_sequences"),
        (lambda x, real, w_1: (dead_somewhere(x, real, w_1), dead_by_masks(x, real, w_1)[1]), "dead_in_some_sequence"),
    ],
)
def test_a_mistake_in_counting_is_named(answer, mistake):
    assert told("dead_units", answer).mistake == mistake


def test_a_count_of_another_shape_is_told():
    def by_unit(x, real, w_1):
        zero = F.relu(x[real] @ w_1) == 0
        return int(zero.all(0).sum()), zero.float().mean(0)

    assert "would be right if it were averaged" in told("dead_units", by_unit).message


def gated(f=None, hidden=None):
    """A gated layer that goes wrong in its activations or in what stands between the projections."""

    def answer(x, w, v, w_2, kind):
        activation = (F_OF_GATE | (f or {}))[kind]
        return (hidden(activation, x @ w, x @ v) if hidden else activation(x @ w) * (x @ v)) @ w_2

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (gated(hidden=lambda f, a, b: a * f(b)), "activation_on_the_value"),
        (gated(hidden=lambda f, a, b: f(a * b)), "activation_on_the_product"),
        (gated(hidden=lambda f, a, b: f(a) + b), "sum_of_the_branches"),
        (gated(hidden=lambda f, a, b: f(a) * f(b)), "activation_on_both"),
        (gated({"swiglu": torch.sigmoid}), "swiglu_by_the_sigmoid"),
        (gated({"geglu": nn.GELU("tanh")}), "geglu_by_tanh"),
    ],
)
def test_a_wrong_gate_is_named(answer, mistake):
    assert told("gated_layer", answer).mistake == mistake


def test_linear_of_pytorch_takes_a_transposed_matrix():
    def transposed(x, w, v, w_2, kind):
        return F.linear(F_OF_GATE[kind](F.linear(x, w)) * F.linear(x, v), w_2)

    assert told("gated_layer", transposed).mistake == "matrices_transposed"


def test_the_glu_of_pytorch_takes_the_second_half():
    def first_half(x, w, v, w_2, kind):
        return F.glu(torch.cat((x @ w, x @ v), -1), -1) @ w_2 if kind == "glu" else gated()(x, w, v, w_2, kind)

    assert told("gated_layer", first_half).mistake == "glu_with_the_halves_exchanged"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (gated(hidden=lambda f, a, b: f(a) * F.relu(b)), "no activation acts on xV"),
        (gated({"bilinear": torch.sigmoid}), "the gates of bilinear should be closed"),
        (gated({"reglu": F.gelu, "geglu": F.relu}), "With reglu, the token enters twice"),
        (gated(hidden=lambda f, a, b: torch.sigmoid(f(a)) * b), "the gates of GLU should be at one half"),
        (lambda x, w, v, w_2, kind: F_OF_GATE[kind](x @ w) * (x @ v), "returns [12] instead of [6]"),
    ],
)
def test_a_gate_gone_wrong_is_told(answer, words):
    assert words in told("gated_layer", answer).message


def mended(hidden):
    return lambda x, w_gate_value, w_2: hidden(*halves(x, w_gate_value)) @ w_2


@pytest.mark.parametrize(
    ("hidden", "mistake"),
    [
        (lambda gate, value: value * torch.sigmoid(gate) * value, "gate_replaced"),
        (lambda gate, value: torch.sigmoid(gate) * value, "sigmoid_alone"),
        (lambda gate, value: F.silu(gate * value), "sigmoid_of_the_product"),
        (lambda gate, value: F.silu(gate) * F.silu(value), "sigmoid_of_both"),
        (lambda gate, value: F.silu(gate), "swish_alone"),
    ],
)
def test_a_repair_that_is_none_is_named(hidden, mistake):
    assert told("slipped_argument", mended(hidden)).mistake == mistake


@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        (lambda gate, value: gate * torch.tanh(gate) * value, "If W and V are equal, the old output was right"),
        (lambda gate, value: gate * torch.sigmoid(value), "multiplied by −1, too"),
        (lambda gate, value: gate * F.silu(value), "still does what the code you were given does"),
    ],
)
def test_a_slip_that_is_left_is_told(hidden, words):
    assert words in told("slipped_argument", mended(hidden)).message


@pytest.mark.parametrize(
    ("numbers", "mistake"),
    [
        ((0, 0, 1.5, 3, 6, 120), "glu_closed"),
        ((3, 3, 1.5, 3, 6, 120), "swiglu_half_open"),
        ((3, 0, 0.25, 0.5, 6, 120), "derivatives_without_the_value"),
        ((3, 0, 0, 0, 6, 120), "dead_gates"),
        ((3, 0, 3, 3, 6, 120), "slope_of_the_sigmoid_is_half"),
        ((3, 0, 1.5, 3, 6, 6), "swish_saturates"),
        ((0.5, 0, 0.25, 0.5, 1, 20), "value_left_out"),
        ((3, 0, 1.5, 3, 120, 6), "last_two_exchanged"),
        ((3, 0, 1.5, 6, 6, 120), "slope_of_swish_one"),
    ],
)
def test_a_wrong_number_is_named(numbers, mistake):
    assert told("gate_at_zero", lambda: numbers).mistake == mistake


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((6, 0, 0, 0, 6, 120), "your first, third and fourth numbers are not right"),
        ((3, 0, 1.5, 1.5, 6, 6), "your fourth and sixth numbers are not right"),
        ((3, 0, 1.5, 3, 6), "six numbers are needed"),
    ],
)
def test_it_is_told_which_numbers_are_wrong(numbers, words):
    assert words in told("gate_at_zero", lambda: numbers).message


def sized(width, extra=lambda d_model, d_ff, width: d_model * (3 * width - 2 * d_ff)):
    def answer(d_model, d_ff, multiple_of):
        found = width(d_model, d_ff, multiple_of)
        return found, extra(d_model, d_ff, found)

    return answer


def right_width(d_model, d_ff, multiple_of):
    return width_by_fractions(d_model, d_ff, multiple_of)[0]


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (sized(lambda d, n, m: round(2 * n / 3 / m) * m), "rounded_to_the_nearest"),
        (sized(lambda d, n, m: 2 * n // 3 // m * m), "rounded_down"),
        (sized(lambda d, n, m: (2 * n // 3 // m + 1) * m), "one_multiple_more"),
        (sized(lambda d, n, m: gated_width(n, multiple_of=m)), "decimals_dropped_first"),
        (sized(lambda d, n, m: m * ((int(2 * n / 3) + m - 1) // m)), "decimals_dropped_first"),
        (sized(lambda d, n, m: math.ceil(round(n / 1.5) / m) * m), "rounded_twice"),
        (sized(right_width, lambda d, n, w: 2 * d * n - 3 * d * w), "difference_turned_round"),
        (sized(right_width, lambda d, n, w: 3 * w - 2 * n), "difference_of_widths"),
        (sized(right_width, lambda d, n, w: 3 * d * w), "parameters_of_the_gated_layer"),
    ],
)
def test_a_wrong_width_is_named(answer, mistake):
    assert told("equal_parameters", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (sized(lambda d, n, m: math.ceil(2 * n / 3)), "67 is not a multiple of 8"),
        (sized(lambda d, n, m: math.ceil(8 * d / 3 / m) * m), "never have fewer parameters"),
        (sized(lambda d, n, m: math.ceil(0.67 * n / m) * m), "By your second number, it would not"),
        (sized(right_width, lambda d, n, w: (3 * w - 2 * n) * d / 1e6), "1.0486 instead of 1048576"),
    ],
)
def test_a_width_gone_wrong_is_told(answer, words):
    assert words in told("equal_parameters", answer).message


def tails(gap, std):
    return math.erfc(gap / std / 2**0.5)


def judged(probability, bound=lambda n: 0.05 / n):
    def answer(gap, std_a, std_b, n_comparisons):
        p = probability(gap, std_a, std_b)
        return p, "beyond noise" if p < bound(n_comparisons) else "within noise"

    return answer


def right_probability(gap, std_a, std_b):
    return tails(gap, math.hypot(std_a, std_b))


def drawn_around_the_gap(gap, std_a, std_b):
    return torch.normal(gap, math.hypot(std_a, std_b), (200_000,)).lt(0).double().mean()


def same_seed(gap, std_a, std_b):
    a, b = (std * torch.randn(200_000, generator=torch.Generator().manual_seed(0)) for std in (std_a, std_b))
    return (a - b).abs().ge(gap).double().mean()


def best(gap, std_a, std_b, n_comparisons):
    return by_the_standard_library(gap, std_a, std_b, n_comparisons)[1]


def decided_by(beyond):
    return lambda gap, a, b, n: (right_probability(gap, a, b), f"{'beyond' if beyond(gap, a, b) else 'within'} noise")


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (judged(lambda gap, a, b: tails(gap, a + b)), "standard_deviations_added"),
        (judged(lambda gap, a, b: tails(gap, max(a, b))), "larger_spread_alone"),
        (judged(drawn_around_the_gap), "one_direction"),
        (judged(lambda gap, a, b: 1 - right_probability(gap, a, b)), "closer_than_the_gap"),
        (judged(right_probability, lambda n: 0.05), "number_of_comparisons_ignored"),
        (judged(right_probability, lambda n: 0.05 * n), "bound_multiplied"),
        (judged(lambda gap, a, b: math.erfc(gap / math.hypot(a, b))), "variances_averaged"),
        (judged(same_seed), "same_numbers_for_both"),
        (decided_by(lambda gap, a, b: gap > a + b), "beyond_both_standard_deviations"),
        (decided_by(lambda gap, a, b: gap > 2 * math.hypot(a, b)), "beyond_two_standard_deviations"),
        (lambda gap, a, b, n: (min(1, n * right_probability(gap, a, b)), best(gap, a, b, n)), "probability_multiplied"),
    ],
)
def test_a_mistake_about_noise_is_named(answer, mistake):
    assert told("beyond_noise", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda *given: (100 * by_the_standard_library(*given)[0], "within noise"), "and yours is 85.27"),
        (lambda *given: by_the_standard_library(*given)[::-1], "the probability should come first"),
        (lambda *given: by_the_standard_library(*given)[1], "you should return two things"),
        (lambda *given: (0.853, "noise"), "'noise', which is neither"),
        (lambda *given: (0.853, False), "False, which is neither"),
        (lambda *given: (1 - right_probability(*given[:3]), best(*given)), "'the probability of less than the gap'"),
        (lambda *given: (right_probability(*given[:3]) / 2, best(*given)), "'the probability of one direction'"),
        (judged(lambda gap, a, b: tails(gap / 2, math.hypot(a, b))), "'a probability that is too large'"),
    ],
)
def test_a_decision_gone_wrong_is_told(answer, words):
    assert words in told("beyond_noise", answer).message


def compared(a, b):
    return a, b, (a - b).abs().max()


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (lambda z: compared(z * 0.5 * (1 + torch.erf(z)), tanh(z)), "root_of_two_missing"),
        (lambda z: (exact(z), tanh(z), (exact(z) - tanh(z)).max()), "signed_distance"),
        (lambda z: (exact(z), tanh(z), (exact(z) - tanh(z)).abs()), "all_distances"),
        (lambda z: compared(tanh(z), exact(z)), "approximation_first"),
    ],
)
def test_a_wrong_gelu_is_named(answer, mistake):
    assert told("exact_gelu", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda z: compared(exact(z), tanh(z, 0.44715)), "Your third result there is 0.093"),
        (lambda z: compared(exact(z) / z, tanh(z)), "Your exact values say otherwise"),
        (lambda z: compared(F.gelu(z), tanh(z)), "asks you not to use torch.nn.functional.gelu"),
    ],
)
def test_a_gelu_gone_wrong_is_told(answer, words):
    assert words in told("exact_gelu", answer).message


@pytest.mark.parametrize(
    ("numbers", "mistake"),
    [
        ((1.677, 1.633, 2.6, 2.7, 1.6), "logarithms_for_perplexities"),
        ((5.35, 5.12, 4.3, 4.3, 4.3), "same_divisor"),
        ((5.35, 5.12, 4.4, 4.4, 4.4), "gap_as_percent"),
        ((5.35, 5.12, 0.043, 0.045, 0.043), "fractions"),
        ((3.2, 3.1, 3.0, 3.1, 3.0), "powers_of_two"),
        ((5.35, 5.12, 4, 4, 4), "whole_percentages"),
    ],
)
def test_a_wrong_percentage_is_named(numbers, mistake):
    assert told("lower_perplexity", lambda: numbers).mistake == mistake


def test_numbers_with_quotes_are_told():
    assert "without quotes" in told("lower_perplexity", lambda: ("5.35", "5.12", "4.3", "4.5", "4.3")).message


def all_kept(logits, capacity):
    weights, experts = logits.softmax(-1).max(-1)
    return experts, weights


def from_the_end(logits, capacity):
    return [each.flip(0) for each in routed_by_counting(logits.flip(0), capacity)]


def weights_kept(logits, capacity):
    return routed_by_counting(logits, capacity)[0], logits.softmax(-1).amax(-1)


def softmax_of_the_rest(go_on):
    """Takes the softmax over the experts with room; a token whose expert is full goes on to another one, or not."""

    def answer(logits, capacity):
        free, experts, weights = [capacity] * logits.shape[1], [], []
        for row in logits:
            masked = row.masked_fill(torch.tensor(free) == 0, -math.inf)
            expert = int((masked if go_on else row).argmax())
            kept = free[expert] > 0
            experts.append(expert if kept else -1)
            weights.append(masked.softmax(-1)[expert].item() if kept else 0.0)
            free[expert] -= kept
        return torch.tensor(experts), torch.tensor(weights)

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (all_kept, "nobody_dropped"),
        (softmax_of_the_rest(go_on=False), "softmax_over_experts_with_room"),
        (softmax_of_the_rest(go_on=True), "full_experts_left_out"),
        (from_the_end, "last_tokens_first"),
        (weights_kept, "weight_of_the_dropped"),
        (lambda logits, capacity: routed_by_counting(logits, capacity - 1), "one_too_few"),
    ],
)
def test_a_wrong_route_is_named(answer, mistake):
    assert told("route_tokens", answer).mistake == mistake


def by_the_experts(logits, capacity):
    """Lets the experts choose their tokens, which is another kind of routing."""
    p = logits.softmax(-1)
    experts, weights = torch.full((len(p),), -1), torch.zeros(len(p))
    for expert in range(p.shape[1]):
        best = p[:, expert].topk(min(capacity, len(p))).indices
        experts[best], weights[best] = expert, p[best, expert]
    return experts, weights


def one_more(logits, capacity):
    experts, weights = routed_by_counting(logits, capacity)
    return experts + 1, weights


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (by_the_experts, "each token should get the expert with its largest logit"),
        (one_more, "your result is too large by 1"),
        (lambda *given: torch.stack(routed_by_counting(*given), 1), "returns a tensor instead of a tuple of "),
    ],
)
def test_a_route_gone_wrong_is_told(answer, words):
    assert words in told("route_tokens", answer).message
