"""Answers that students give to the exercises of chapter 9: right ones pass, wrong ones are told what is wrong."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bookbinder import ROOT
from bookbinder.masters import load
from llm_anatomy.layers.residual import PostNorm, PostSublayerNorm, PreNorm, SandwichNorm
from llm_anatomy.notebook.checks import check

MASTERS = ROOT / "exercises" / "norm_placement"


def told(name, answer):
    return check(f"norm_placement/{name}", answer)


def solution(name):
    master = load(MASTERS / name)
    return master.right()[master.function], master.cases() + master.cases("hidden_cases", seed=3)


def norm(z):
    return F.rms_norm(z, z.shape[-1:])


# Right answers


def of_the_package(x, w_1, w_2, placement):
    def made():
        return nn.RMSNorm(x.shape[-1])

    kinds = {"post": PostNorm, "pre": PreNorm, "post-sublayer": PostSublayerNorm}
    residual = SandwichNorm(made(), made()) if placement == "sandwich" else kinds[placement](made())
    return residual(x, lambda z: (z @ w_1).tanh() @ w_2)


def flags(x, w_1, w_2, placement):
    h = norm(x) if placement[:2] == "pr" or placement[0] == "s" else x
    h = torch.mm(torch.mm(h, w_1).tanh(), w_2)
    h = norm(h) if placement in {"post-sublayer", "sandwich"} else h
    h += x
    return norm(h) if placement == "post" else h


def in_numpy(x, w_1, w_2, placement):
    x, w_1, w_2 = (each.double().numpy() for each in (x, w_1, w_2))

    def n(z):
        return z / np.sqrt((z**2).mean(-1, keepdims=True))

    def f(z):
        return np.tanh(z @ w_1) @ w_2

    if placement == "post":
        return n(x + f(x))
    y = f(n(x)) if placement in ("pre", "sandwich") else f(x)
    return x + (y if placement == "pre" else n(y))


@pytest.mark.parametrize("answer", [of_the_package, flags, in_numpy])
def test_norms_may_be_placed_in_many_ways(answer):
    assert told("four_placements", answer).status == "passed"


def kept_in_a_list(x, weights):
    parts = [x]
    for w in weights:
        parts.append(torch.tanh(norm(sum(parts)) @ w))
    return torch.stack(parts, dim=0)


def hook(x, weights):
    parts, residual = [x.clone()], PreNorm(nn.RMSNorm(x.shape[-1], elementwise_affine=False))
    for w in weights:
        after = residual(x, lambda z, w=w: torch.tanh(z @ w))
        parts.append(after - x)
        x = after
    return torch.cat([part[None] for part in parts])


def by_copies(x, weights):
    stream, out = x.clone(), torch.empty(len(weights) + 1, *x.shape)
    out[0] = x
    for i, w in enumerate(weights, 1):
        out[i] = (norm(stream) @ w).tanh()
        stream += out[i]
    return out.numpy()


@pytest.mark.parametrize("answer", [kept_in_a_list, hook, by_copies])
def test_the_parts_may_be_found_in_many_ways(answer):
    assert told("branches", answer).status == "passed"


def name_of_its_own(x, weights, gain, unembedding):
    for w in weights:
        normed = F.rms_norm(x, x.shape[-1:])
        x = x + torch.relu(normed @ w)
    x = F.rms_norm(x, x.shape[-1:])
    return (gain * x) @ unembedding


def gain_in_the_unembedding(x, weights, gain, unembedding):
    for w in weights:
        x = x + (norm(x) @ w).relu()
    return norm(x) @ (gain[:, None] * unembedding)


def eps_of_llama(x, weights, gain, unembedding):
    def n(z):
        return z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)

    for w in weights:
        x = x + (n(x) @ w).relu()
    return (gain * n(x)) @ unembedding


@pytest.mark.parametrize("answer", [name_of_its_own, gain_in_the_unembedding, eps_of_llama])
def test_the_last_norm_may_be_added_in_many_ways(answer):
    assert told("last_norm", answer).status == "passed"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("stream_growth", (5, 24, 1 / 5, 1, 25)),
        ("stream_growth", np.array([5.0, 24.0, 0.2, 1.0, 25.0])),
        ("stream_growth", [math.sqrt(25), 24.0, 0.2, 1.0, 25]),
        ("speed_gain", (5.142857, 4.891304, 2.035, 245.41, 34.228)),
        ("speed_gain", [5.14, 4.89, 2, 246, 34.2]),
        ("speed_gain", torch.tensor([5.14, 4.89, 2.04, 245.0, 34.23])),
        ("rezero_first_step", (6, 0, 1, 0.82, 0.0108)),
        ("rezero_first_step", np.array([6.0, 0.0, 1.0, 0.82, 0.0108])),
        ("rezero_first_step", [6.0, -0.0, 1.0, 0.82, 0.01079]),
    ],
)
def test_numbers_worked_out_on_paper_may_be_exact_or_rounded(name, answer):
    assert told(name, lambda: answer).status == "passed"


def blocks(seed):
    torch.manual_seed(seed)

    class Layer(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.w_1, self.w_2 = (nn.Parameter(torch.empty(64, 64).normal_(0, 1 / 8)) for _ in range(2))
            self.residual = kind(nn.RMSNorm(64))

        def forward(self, x):
            return self.residual(x, lambda z: (z @ self.w_1).tanh() @ self.w_2)

    def measure(kind, n_layers):
        stack = nn.Sequential(*(Layer(kind) for _ in range(n_layers)))
        last = nn.RMSNorm(64) if kind is PreNorm else nn.Identity()
        (last(stack(torch.randn(32, 64))) * torch.randn(32, 64) / 32).sum().backward()
        return float(stack[-1].w_2.grad.norm())

    return [[measure(kind, n) for n in (2, 64)] for kind in (PostNorm, PreNorm)], "only pre-norm falls"


def gradients_of_all(seed):
    generator = torch.Generator().manual_seed(seed)
    table = np.zeros((2, 2))
    for j, n_layers in enumerate((2, 64)):
        w = torch.normal(0.0, 0.125, (n_layers, 2, 64, 64), generator=generator).requires_grad_()
        start, direction = (torch.randn(32, 64, generator=generator) for _ in range(2))
        for i, post in enumerate((True, False)):
            x = start
            for a, b in w:
                x = norm(x + torch.tanh(x @ a) @ b) if post else x + torch.tanh(norm(x) @ a) @ b
            loss = torch.einsum("td, td ->", x if post else norm(x), direction) / 32
            table[i, j] = torch.autograd.grad(loss, w)[0][-1, 1].pow(2).sum().sqrt().item()
    return table, "only pre-norm falls"


@pytest.mark.parametrize("answer", [blocks, gradients_of_all])
def test_the_last_gradient_may_be_measured_in_many_ways(answer):
    assert told("last_gradient", answer).status == "passed"


def masked(steps, warmup_steps, peak):
    s = steps.to(torch.float64)
    return peak * ((s <= warmup_steps) * s / warmup_steps + (s > warmup_steps) * (warmup_steps / s) ** 0.5)


def in_place(steps, warmup_steps, peak):
    rates = peak * (warmup_steps / steps) ** 0.5
    early = steps < warmup_steps
    rates[early] = peak * steps[early] / warmup_steps
    return rates


def numpy_minimum(steps, warmup_steps, peak):
    s = steps.numpy()
    return peak * np.minimum(s / warmup_steps, np.sqrt(warmup_steps / s))


@pytest.mark.parametrize("answer", [masked, in_place, numpy_minimum])
def test_warm_up_may_be_written_in_many_ways(answer):
    assert told("warm_up", answer).status == "passed"


def reduced(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    product = 2 / n_bytes / (1 / d_out + 1 / n_tokens + 1 / d_in)
    values = torch.tensor([product, 4 / n_bytes / (2 + 1 / n_tokens)])
    return values, [("memory", "compute")[int(value > peak / bandwidth)] for value in values]


def of_a_dictionary(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    operators = {
        "product": (2 * d_in * (n_tokens * d_out), n_tokens * d_in + d_in * d_out + n_tokens * d_out),
        "norm": (4 * n_tokens * d_in, 2 * n_tokens * d_in + d_in),
    }
    found = np.array([flops / (n_bytes * numbers) for flops, numbers in operators.values()])
    return found, np.where(found * bandwidth < peak, "memory", "compute").tolist()


@pytest.mark.parametrize("answer", [reduced, of_a_dictionary])
def test_intensities_may_be_computed_in_many_ways(answer):
    assert told("intensity", answer).status == "passed"


def differences(n_layers, d_model, d_ff, gated, placement):
    n_norms = 2 * n_layers + 1 if placement == "pre" else 2 * n_layers
    ff = 2 * d_ff + d_model if gated else d_ff + d_model
    return np.array([n_norms * 2 * d_model - n_norms * d_model, n_layers * ff, n_layers * 4 * d_model])


def floats(n_layers, d_model, d_ff, gated, placement):
    return (
        d_model * (2.0 * n_layers + (placement == "pre")),
        n_layers * (d_ff * (1.0 + gated) + d_model),
        4.0 * n_layers * d_model,
    )


@pytest.mark.parametrize("answer", [differences, floats])
def test_parameters_may_be_counted_in_many_ways(answer):
    assert told("saved_parameters", answer).status == "passed"


def recorded(x, weights, upstream, placement):
    w = weights.clone().requires_grad_(True)
    for each in w.unbind():
        x = norm(x + torch.tanh(x @ each)) if placement == "post" else x + torch.tanh(norm(x) @ each)
    x = norm(x) if placement == "pre" else x
    (x * upstream).sum().backward()
    return w.grad.norm(dim=(1, 2))


def asked_on_the_given_tensor(x, weights, upstream, placement):
    weights.requires_grad_()
    for each in weights:
        x = norm(x + torch.tanh(x @ each)) if placement == "post" else x + torch.tanh(norm(x) @ each)
    loss = torch.tensordot(x if placement == "post" else norm(x), upstream, dims=2)
    return torch.stack([g.norm() for g in torch.autograd.grad(loss, weights)[0]]).numpy()


def residuals(x, weights, upstream, placement):
    layers = [nn.Parameter(w) for w in weights.double()]
    residual = {"post": PostNorm, "pre": PreNorm}[placement](nn.RMSNorm(x.shape[-1]).double())
    x = x.double()
    for w in layers:
        x = residual(x, lambda z, w=w: torch.tanh(z @ w))
    (residual.norm(x) if placement == "pre" else x).mul(upstream).sum().backward()
    return torch.tensor([w.grad.pow(2).sum() ** 0.5 for w in layers])


@pytest.mark.parametrize("answer", [recorded, asked_on_the_given_tensor, residuals])
def test_gradients_by_layer_may_be_found_in_many_ways(answer):
    assert told("gradient_by_layer", answer).status == "passed"


# The solutions compute what the package computes


@pytest.mark.syllabus("CMU-18", "CMU-19", "GT-13")
def test_the_solutions_agree_with_the_package():
    answer, cases = solution("four_placements")
    for case in cases:
        torch.testing.assert_close(answer(**case), of_the_package(**case), rtol=1e-4, atol=1e-5)
    answer, cases = solution("branches")
    for case in cases:
        torch.testing.assert_close(answer(**case), hook(**case), rtol=1e-4, atol=1e-5)


@pytest.mark.syllabus("CMU-18", "CMU-19")
def test_a_deep_pre_norm_stack_has_smaller_gradients_at_its_end():
    answer, _ = solution("gradient_by_layer")
    torch.manual_seed(0)
    x, weights, upstream = torch.randn(32, 24), torch.randn(40, 24, 24) / 24**0.5, torch.randn(32, 24)
    post, pre = (answer(x, weights, upstream, placement) for placement in ("post", "pre"))
    assert post[-1] > 2 * pre[-1]


# Wrong answers


def sublayer(w_1, w_2):
    return lambda z: torch.tanh(z @ w_1) @ w_2


def stream_lost(x, w_1, w_2, placement):
    f = sublayer(w_1, w_2)
    x = norm(x) if placement in ("pre", "sandwich") else x
    y = x + (norm(f(x)) if placement in ("post-sublayer", "sandwich") else f(x))
    return norm(y) if placement == "post" else y


def three_norms(x, w_1, w_2, placement):
    y = of_the_package(x, w_1, w_2, placement)
    return norm(y) if placement == "sandwich" else y


def pre_otherwise(x, w_1, w_2, placement):
    return of_the_package(x, w_1, w_2, placement if placement in ("post", "sandwich") else "pre")


def one_rms(x, w_1, w_2, placement):
    def n(z):
        return z / z.square().mean().sqrt()

    f = sublayer(w_1, w_2)
    table = {"post": n(x + f(x)), "pre": x + f(n(x)), "post-sublayer": x + n(f(x)), "sandwich": x + n(f(n(x)))}
    return table[placement]


def tanh_outside(x, w_1, w_2, placement):
    return of_the_package(x, w_1 @ w_2, torch.eye(x.shape[1]), placement)


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (stream_lost, "norm_of_the_stream_added"),
        (three_norms, "sandwich_with_a_third_norm"),
        (pre_otherwise, "pre_for_post_sublayer"),
        (one_rms, "over_all_tokens"),
    ],
)
def test_a_norm_in_the_wrong_position_is_named(answer, mistake):
    assert told("four_placements", answer).mistake == mistake


def test_a_name_that_is_not_handled_is_told():
    def underscore(x, w_1, w_2, placement):
        return None if placement == "post-sublayer" else of_the_package(x, w_1, w_2, placement)

    message = told("four_placements", underscore).message
    assert "placement 'post-sublayer'" in message and "a `return` may be missing" in message

    def no_keepdim(x, w_1, w_2, placement):
        return x / x.pow(2).mean(-1).sqrt() if placement == "post" else of_the_package(x, w_1, w_2, placement)

    assert told("four_placements", no_keepdim).mistake is None


def in_the_list(x, weights):
    parts = [x]
    for w in weights:
        parts.append(torch.tanh(norm(x) @ w))
        x += parts[-1]
    return torch.stack(parts)


def normed_too_late(x, weights):
    parts = [x]
    for w in weights:
        parts.append(torch.tanh(norm(sum(parts) @ w)))
    return torch.stack(parts)


@pytest.mark.parametrize(("answer", "mistake"), [(in_the_list, "aliased"), (normed_too_late, "norm_after_the_matrix")])
def test_a_mistake_in_the_parts_is_named(answer, mistake):
    assert told("branches", answer).mistake == mistake


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda parts: torch.cat((parts[:1], -parts[1:])), "it has the wrong sign"),
        (lambda parts: parts.flatten(0, 1), "the shape is wrong"),
        (lambda parts: parts.transpose(0, 1), "with its axes 0 and 1 (counted from 0) swapped"),
        (lambda parts: parts / parts.sum(0).square().mean(-1, keepdim=True).sqrt(), "should be the input itself"),
    ],
)
def test_parts_in_another_form_are_explained(change, words):
    assert words in told("branches", lambda x, weights: change(hook(x, weights))).message


def stack(x, weights):
    for w in weights:
        x = x + torch.relu(norm(x) @ w)
    return x


def normed_in_the_loop(x, weights, gain, unembedding):
    for w in weights:
        normed = norm(x)
        x = x + torch.relu(normed @ w)
    return (gain * normed) @ unembedding


def stream_replaced(x, weights, gain, unembedding):
    for w in weights:
        x = norm(x)
        x = x + torch.relu(x @ w)
    return (gain * x) @ unembedding


def stream_replaced_and_last_norm(x, weights, gain, unembedding):
    for w in weights:
        x = norm(x)
        x = x + torch.relu(x @ w)
    return (gain * norm(x)) @ unembedding


def gain_in_both(x, weights, gain, unembedding):
    return (gain * F.rms_norm(stack(x, weights), gain.shape, gain)) @ unembedding


def library_layer_norm(x, weights, gain, unembedding):
    return F.layer_norm(stack(x, weights), gain.shape, gain) @ unembedding


def columns_of_the_stream(x, weights, gain, unembedding):
    h = stack(x, weights)
    return (gain * h / h.pow(2).mean(0).sqrt()) @ unembedding


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (normed_in_the_loop, "norm_before_the_last_layer"),
        (stream_replaced, "norms_on_the_stream_before_each_layer"),
        (stream_replaced_and_last_norm, "post_norm"),
        (gain_in_both, "gain_twice"),
        (library_layer_norm, "layer_norm"),
        (columns_of_the_stream, "over_the_tokens"),
    ],
)
def test_a_last_norm_that_is_none_is_named(answer, mistake):
    assert told("last_norm", answer).mistake == mistake


def test_logits_divided_by_a_guess_still_depend_on_the_stream():
    divided = lambda x, w, gain, u: (gain * stack(x, w)) @ u / (len(w) + 1) ** 0.5  # noqa: E731
    assert "the logits of 3 * x should be those of x" in told("last_norm", divided).message


@pytest.mark.parametrize(
    ("name", "answer", "mistake"),
    [
        ("stream_growth", (5, 24, 0.2, 1, 5), "equal_as_if_uncorrelated"),
        ("stream_growth", (5, 24.5, 0.2, 1, 25), "input_counted_as_a_branch"),
        ("stream_growth", (5, 24, 0.2, math.sqrt(2), 25), "post_norm_before_the_last_norm"),
        ("stream_growth", (math.sqrt(24), 24, 0.2, 1, 25), "input_not_counted_in_the_first_number"),
        ("stream_growth", (math.sqrt(13), 48, 1 / math.sqrt(13), 1, 13), "one_branch_in_each_block"),
        ("stream_growth", (5, 24, 1 / math.sqrt(26), 1, 25), "share_of_the_sum"),
        ("speed_gain", (5.14, 5.14, 2.0, 245, 34.2), "same_gain_twice"),
        ("speed_gain", (5.1, 4.9, 2.0, 245, 34.2), "one_decimal"),
        ("speed_gain", (5.14, 4.89, 2.14, 245, 34.2), "hours_by_the_first_gain"),
        ("speed_gain", (5.14, 4.89, 2.0, 0.17 / 25.5 / (99.8 / 61), 34.2), "ratio_upside_down"),
        ("speed_gain", (5.14, 4.89, 2.0, 245, 25.5), "share_for_the_bound"),
        ("speed_gain", (5.14, 4.89, 524288 / 3.5 - 524288 / 3.68, 245, 34.2), "seconds_for_hours"),
        ("rezero_first_step", (0, 0, 1, 2, 0), "neither_learns"),
        ("rezero_first_step", (6, 0, 1, 3.54, 0.4572), "step_uphill"),
        ("rezero_first_step", (6, 0, 0, 0.82, 0.0108), "no_gradient_for_x"),
        ("rezero_first_step", (6, 0, 1, 0.82, -0.0108), "wrong_sign_in_the_end"),
        ("rezero_first_step", (6, 2, 1, 0.82, 0.0108), "weight_learns"),
    ],
)
def test_a_wrong_number_is_named(name, answer, mistake):
    assert told(name, lambda: answer).mistake == mistake


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("stream_growth", (5, 23, 0.2, 1, 24.5), "your second and fifth numbers are not right"),
        ("stream_growth", (5, 24, 0.2, 1), "five numbers are needed"),
        ("speed_gain", (5.14, 4.9, 2.0, 245, 34.2), "your second number is not right"),
        ("speed_gain", (5.14, 4.89, 2.0, 247, 34.2), "your fourth number is not right"),
        ("rezero_first_step", (-6, 0, 1, 0.82, 0.0108), "your first number is not right"),
    ],
)
def test_it_is_told_which_numbers_are_wrong(name, answer, words):
    assert words in told(name, lambda: answer).message


def measured(conclusion, final=norm, std=0.125, activation=torch.tanh, which=-1, kept=1, exchanged=False):
    def answer(seed):
        torch.manual_seed(seed)

        def measure(n_layers, post):
            x, direction, last = torch.randn(32, 64), torch.randn(32, 64), []
            for _ in range(n_layers):
                a, b = std * torch.randn(64, 64), (std * torch.randn(64, 64)).requires_grad_()
                last.append(b)
                branch = activation((x if post else norm(x)) @ a) @ b
                x = norm(kept * x + branch) if post else kept * x + branch
            output = x if post else final(x)
            return torch.autograd.grad((output * direction).sum() / 32, last[which])[0].norm().item()

        return [[measure(n, post != exchanged) for n in (2, 64)] for post in (True, False)], conclusion

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (measured("neither falls", final=lambda z: z), "final_norm_missing"),
        (measured("neither falls", std=1 / 64), "variance_for_deviation"),
        (measured("only pre-norm falls", std=1.0), "all_too_small"),
        (measured("neither falls", which=0), "first_layer"),
        (measured("only pre-norm falls", activation=lambda z: z), "no_tanh"),
        (measured("neither falls", kept=0), "all_too_large"),
        (measured("both fall"), "conclusion_does_not_follow"),
        (measured("only post-norm falls", exchanged=True), ("rows_exchanged", "placements_exchanged")),
    ],
)
def test_a_wrong_experiment_is_recognized_by_its_numbers(answer, mistake):
    assert told("last_gradient", answer).mistake in (mistake if isinstance(mistake, tuple) else (mistake,))


def test_a_conclusion_in_other_words_is_told():
    answer = lambda seed: ([[6.0, 6.0], [5.3, 1.4]], "pre-norm")  # noqa: E731
    assert "not one of the four strings" in told("last_gradient", answer).message


def paper(steps, warmup_steps, peak):
    return peak * torch.minimum(steps**-0.5, steps * warmup_steps**-1.5)


def both_turned_round(steps, warmup_steps, peak):
    return torch.where(steps > warmup_steps, peak * steps / warmup_steps, peak * (warmup_steps / steps) ** 0.5)


def from_0(steps, warmup_steps, peak):
    return torch.where(steps < warmup_steps, peak * (steps - 1) / warmup_steps, peak * (warmup_steps / steps) ** 0.5)


def without_factor(steps, warmup_steps, peak):
    return torch.where(steps <= warmup_steps, peak * steps / warmup_steps, peak / steps**0.5)


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (paper, "formula_of_the_paper"),
        (from_0, "warm_up_counted_from_0"),
        (without_factor, "jump_after_the_warm_up"),
        (
            lambda steps, warmup_steps, peak: peak * torch.minimum(steps / warmup_steps, warmup_steps / steps),
            "decay_without_the_root",
        ),
    ],
)
def test_a_mistake_in_the_schedule_is_named(answer, mistake):
    assert told("warm_up", answer).mistake == mistake


def test_a_schedule_gone_wrong_is_explained():
    assert told("warm_up", both_turned_round).mistake in (None, "larger_of_the_two")
    in_order = lambda steps, warmup_steps, peak: masked(steps.sort()[0], warmup_steps, peak)  # noqa: E731
    assert "the right entries in another order" in told("warm_up", in_order).message
    whole = lambda steps, n, peak: peak * torch.minimum(steps // n, (n / steps) ** 0.5)  # noqa: E731
    assert "Where your result is wrong, it is always 0" in told("warm_up", whole).message


def compared_with(ridge):
    right = counted()

    def answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
        found, _ = right(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)
        bound = ridge(n_bytes, peak, bandwidth)
        return found, ["compute" if each > bound else "memory" for each in found.tolist()]

    return answer


@pytest.mark.parametrize(
    ("ridge", "mistake"),
    [
        (lambda n_bytes, peak, bandwidth: peak * n_bytes / bandwidth, "compared_with_too_large_a_number"),
        (lambda n_bytes, peak, bandwidth: peak / (bandwidth * n_bytes), "compared_with_too_small_a_number"),
    ],
)
def test_a_bound_in_numbers_instead_of_bytes_is_named(ridge, mistake):
    assert told("intensity", compared_with(ridge)).mistake == mistake


@pytest.mark.parametrize("factor", [0.5, 0.7, 0.9, 1.12, 1.5, 2, 8])
def test_another_bound_between_waiting_for_memory_and_computing_is_refused(factor):
    assert told("intensity", compared_with(lambda n_bytes, peak, bandwidth: peak / bandwidth)).status == "passed"
    assert told("intensity", compared_with(lambda n_bytes, *rates: factor * rates[0] / rates[1])).status != "passed"


def counted(product=None, rms=None, words=("memory", "compute"), bound=lambda peak, bandwidth: peak / bandwidth):
    def answer(n, i, o, size, peak, bandwidth):
        first = product(n, i, o, size) if product else 2 * n * i * o / (size * (n * i + i * o + n * o))
        second = rms(n, i, o, size) if rms else 4 * n / (size * (2 * n + 1))
        found = torch.tensor([first, second])
        return found, [words[int(each > bound(peak, bandwidth))] for each in found]

    return lambda n_tokens, d_in, d_out, n_bytes, peak, bandwidth: answer(
        n_tokens, d_in, d_out, n_bytes, peak, bandwidth
    )


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (counted(lambda n, i, o, size: n * i * o / (size * (n * i + i * o + n * o))), "additions_not_counted"),
        (counted(lambda n, i, o, size: 2 * n * i * o / (size * (n * i + i * o))), "product_not_written"),
        (counted(rms=lambda n, i, o, size: 4 * n / (size * (n + 1))), "norm_not_written"),
        (counted(rms=lambda n, i, o, size: 2 / size), "gain_not_read"),
        (counted(words=("compute", "memory")), "words_exchanged"),
        (counted(bound=lambda peak, bandwidth: bandwidth / peak), "bandwidth_over_peak"),
    ],
)
def test_a_mistake_in_counting_bytes_is_named(answer, mistake):
    assert told("intensity", answer).mistake == mistake


def test_other_words_are_told():
    message = told("intensity", counted(words=("memory-bound", "compute-bound"))).message
    assert "'compute-bound' instead of 'compute'" in message


def lost(norms=None, feedforward=None, attention=None):
    def answer(n_layers, d_model, d_ff, gated, placement):
        right = floats(n_layers, d_model, d_ff, gated, placement)
        sizes = n_layers, d_model, d_ff, gated
        return [f(*sizes) if f else r for f, r in zip((norms, feedforward, attention), right, strict=True)]

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (lost(norms=lambda n, d, f, gated: 2 * n * d), "final_norm_forgotten"),
        (lost(norms=lambda n, d, f, gated: (2 * n + 1) * d), "final_norm_in_post_norm"),
        (lost(feedforward=lambda n, d, f, gated: n * (d + f)), "gate_not_counted"),
        (lost(feedforward=lambda n, d, f, gated: n * f * (3 if gated else 2)), "hidden_width_for_each_bias"),
        (lost(attention=lambda n, d, f, gated: 3 * n * d), "three_projections"),
        (lost(attention=lambda n, d, f, gated: 4 * n * d * d), "weights_of_attention"),
    ],
)
def test_a_mistake_in_counting_parameters_is_named(answer, mistake):
    assert told("saved_parameters", answer).mistake == mistake


def profile(change=lambda norms: norms, placed=lambda placement: placement, final=norm, cut=False, weigh=torch.mul):
    def answer(x, weights, upstream, placement):
        w, kind = weights.clone().requires_grad_(), placed(placement)
        for each in w:
            x = x.detach() if cut else x
            x = norm(x + torch.tanh(x @ each)) if kind == "post" else x + torch.tanh(norm(x) @ each)
        output = x if kind == "post" else final(x)
        return change(torch.autograd.grad(weigh(output, upstream).sum(), w)[0].norm(dim=(1, 2)))

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (profile(torch.square), "squares"),
        (profile(lambda norms: norms.flip(0)), "last_layer_first"),
        (profile(placed={"pre": "post", "post": "pre"}.get), "placements_exchanged"),
        (profile(final=lambda z: z), "final_norm_missing"),
        (profile(weigh=lambda output, upstream: output), "upstream_not_used"),
    ],
)
def test_a_mistake_in_the_gradients_is_named(answer, mistake):
    assert told("gradient_by_layer", answer).mistake == mistake


def test_gradients_that_stop_or_were_not_asked_for_are_told():
    assert "Where your result is wrong, it is always 0" in told("gradient_by_layer", profile(cut=True)).message

    def nothing_recorded(x, weights, upstream, placement):
        (x @ weights[0] * upstream).sum().backward()
        return weights.grad

    assert "does not require grad" in told("gradient_by_layer", nothing_recorded).message


READ = {"post without warm-up": "C", "post with warm-up": "A", "pre without warm-up": "B"}
READ |= {"level": 3.08, "smallest gradient": "C"}


@pytest.mark.parametrize("change", [{}, {"level": 3.1}, {"level": np.float64(3.05)}, {"smallest gradient": "c"}])
def test_the_three_runs_may_be_read_roughly(change):
    assert told("read_the_trace", lambda: READ | change).status == "passed"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"post with warm-up": "B", "pre without warm-up": "A"}, "can hardly change in the first steps"),
        ({"post with warm-up": "C", "post without warm-up": "A"}, "exchanged the two post-norm runs"),
        ({"smallest gradient": "B"}, "does a small gradient mean that a model trains well"),
        ({"level": 2.3}, "Your level is too low"),
        ({"level": "C"}, "read_the_trace"),
        ({"level": 2.3, "smallest gradient": "B"}, "Your level is too low."),
        ({"level": 2.3, "smallest gradient": "B"}, "does a small gradient mean that a model trains well"),
        ({"level": 4, "post with warm-up": "B", "pre without warm-up": "A"}, "can hardly change in the first steps"),
        ({"post with warm-up": "C"}, "each of the three curves belongs to a run of its own"),
        ({"smallest gradient": "D"}, "'D' is not one of the letters"),
    ],
)
def test_three_runs_read_wrongly_are_explained(change, words):
    assert words in told("read_the_trace", lambda: READ | change).message.replace("\n", " ")


def test_the_figure_shows_what_the_answer_says():
    from llm_anatomy.data import table

    def mean(placement, warmup, column):
        rows = [r for r in table("norm_placement_traces") if r["max_lr"] == 0.004 and r["seed"] == 0]
        rows = [r for r in rows if (r["placement"], r["warmup"]) == (placement, warmup) and r["step"] > 125]
        return sum(r[column] for r in rows) / len(rows)

    runs = {"A": ("post", 0.25), "B": ("pre", 0.0), "C": ("post", 0.0)}
    norms = {letter: mean(*run, "gradient_norm") for letter, run in runs.items()}
    assert min(norms, key=norms.get) == "C" and 1.3 * norms["C"] < norms["B"] < norms["A"] / 1.3
    assert abs(mean(*runs["C"], "loss") - READ["level"]) < 0.02
    assert max(mean(*runs[letter], "loss") for letter in "AB") < 2.6


# Answers to the statements alone, by somebody who had not seen the masters


def changed_stack(like_w_1=False, transposed=False, same_table=False, normed_stream=False, activation=torch.tanh):
    def last_gradient(seed):
        torch.manual_seed(seed)
        table = torch.zeros(2, 2)
        for row, post in enumerate((True, False)):
            for column, depth in enumerate((2, 64)):
                w_1, w_2 = ((torch.randn(depth, 64, 64) / 8).requires_grad_() for _ in range(2))
                start, direction = torch.randn(2, 32, 64)
                x = start
                for a, b in zip(w_1, w_2, strict=True):
                    h = norm(x + activation(x @ a) @ b) if post else activation(norm(x) @ a) @ b
                    x = h if post else (norm(x) if normed_stream else x) + h
                x = x if post else norm(x)
                gradients = torch.autograd.grad((x * (start if same_table else direction)).sum() / 32, (w_1, w_2))
                table[row, column] = gradients[0 if like_w_1 else 1][-1].norm()
        return table.T if transposed else table, "only pre-norm falls"

    return last_gradient


def test_the_stack_itself_is_right():
    assert told("last_gradient", changed_stack()).status == "passed"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"like_w_1": True}, "gradient of W₂, and not of W₁"),
        ({"activation": torch.relu}, "Does each layer have its tanh"),
        ({"same_table": True}, "the loss drawn independently"),
        ({"transposed": True}, "They should stand for the placements"),
        ({"normed_stream": True}, "to the stream itself, and not to its norm"),
    ],
)
def test_averages_tell_what_a_single_seed_does_not(change, words):
    result = told("last_gradient", changed_stack(**change))
    assert result.status != "passed" and words in " ".join(result.message.split())


def test_rows_exchanged_are_told_whatever_the_conclusion_is():
    answer = changed_stack()
    assert told("last_gradient", lambda seed: (answer(seed)[0].flip(0), answer(seed)[1])).mistake == "rows_exchanged"


def test_gradients_that_add_up_are_told():
    def left_at_the_weights(x, weights, upstream, placement):
        weights.requires_grad_()
        for w in weights:
            x = norm(x + (x @ w).tanh()) if placement == "post" else x + (norm(x) @ w).tanh()
        ((x if placement == "post" else norm(x)) * upstream).sum().backward()
        return weights.grad.flatten(1).norm(dim=1)

    assert "Do gradients add up in the `grad` of a tensor that you are given" in " ".join(
        told("gradient_by_layer", left_at_the_weights).message.split()
    )


def test_a_steep_warm_up_is_not_called_a_jump():
    def squared(steps, warmup_steps, peak):
        s = steps.double()
        return peak * torch.minimum((s / warmup_steps) ** 2, (warmup_steps / s).sqrt())

    assert "jump" not in told("warm_up", squared).message


@pytest.mark.parametrize(
    ("name", "returned", "mistake"),
    [
        ("speed_gain", (5.14, 5.14, 2.1, 245, 34.2), "first_gain_for_the_time"),
        ("speed_gain", (5.14, -4.89, 2.0, 245, 34.2), "fall_with_a_sign"),
        ("speed_gain", (105.14, 95.11, 2.0, 245, 134.2), "quotients_for_all_gains"),
        ("speed_gain", (5.14, 4.89, 2.0, 245, 41.8), "share_over_the_products"),
        ("rezero_first_step", (6, 0, 1, 1.64, 0.0108), "one_layer_in_the_output"),
    ],
)
def test_numbers_of_a_blind_answerer(name, returned, mistake):
    assert told(name, lambda: returned).mistake == mistake


def test_a_percent_sign_is_told():
    assert "'20 %' is not a number" in told("stream_growth", lambda: (5, 24, "20 %", 1, 25)).message


def test_the_root_may_be_what_is_missing():
    assert "leave out the root" in " ".join(told("stream_growth", lambda: (25, 3, 1 / 25, 1, 25)).message.split())


def test_the_residual_may_be_missing_after_a_norm_alone():
    right, _ = solution("four_placements")

    def answer(x, w_1, w_2, placement):
        y = right(x, w_1, w_2, placement)
        return y if placement in ("post", "pre") else y - x

    assert told("four_placements", answer).mistake == "no_residual_after_a_norm"


@pytest.mark.parametrize(
    ("matrices", "mistake"), [(lambda g: 2 + g, "one_bias_too_many"), (lambda g: 2 - g, "gate_for_no_gate")]
)
def test_biases_of_the_wrong_matrices(matrices, mistake):
    def answer(n_layers, d_model, d_ff, gated, placement):
        norms = (2 * n_layers + (placement == "pre")) * d_model
        return norms, n_layers * (matrices(gated) * d_ff + d_model), 4 * n_layers * d_model

    assert told("saved_parameters", answer).mistake == mistake
