"""Answers that students give to the exercises of chapter 8: right ones pass, wrong ones are told what is wrong."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bookbinder import ROOT
from bookbinder.masters import load
from llm_anatomy.layers.normalization import BatchNorm, LayerNorm, RMSNorm, min_max, standardize
from llm_anatomy.notebook.checks import check

MASTERS = ROOT / "exercises" / "normalization"


def told(name, answer):
    return check(f"normalization/{name}", answer)


def solution(name):
    master = load(MASTERS / name)
    return master.right()[master.function], master.cases() + master.cases("hidden_cases", seed=3)


# Right answers


def arrays(x, axis):
    x = x.numpy().astype(np.float64)
    low = x.min(axis, keepdims=True)
    return (x - low) / np.ptp(x, axis, keepdims=True), (x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True)


def turned(x, axis):
    y = x.transpose(axis, 0)
    first, second = (y - y.min(0)[0]) / (y.max(0)[0] - y.min(0)[0]), (y - y.mean(0)) / y.std(0, unbiased=False)
    return first.transpose(axis, 0), second.transpose(axis, 0)


def from_the_package(x, axis):
    return min_max(x, axis), standardize(x, axis)


def layer_norm_of_the_turned_table(x, axis):
    rows = x.movedim(axis, -1)
    second = F.layer_norm(rows.double(), rows.shape[-1:], eps=0.0).movedim(-1, axis)
    return [(x - x.amin(axis, True)) / (x.amax(axis, True) - x.amin(axis, True)), second]


@pytest.mark.parametrize("answer", [arrays, turned, from_the_package, layer_norm_of_the_turned_table])
def test_both_scales_may_be_written_in_many_ways(answer):
    assert told("two_scales", answer).status == "passed"


def written_out(x, running_mean, running_var, momentum, eps):
    b = x.shape[0]
    mu = torch.ones(1, b) @ x / b
    d = x - mu
    v = (d * d).sum(0)
    mean, var = running_mean.clone(), running_var.clone()
    mean *= 1 - momentum
    mean += momentum * mu.squeeze(0).detach()
    var.mul_(1 - momentum).add_(momentum * v.detach() / (b - 1))
    return d / ((v / b) + eps) ** 0.5, mean, var


def module_of_the_package(x, running_mean, running_var, momentum, eps):
    norm = BatchNorm(len(running_mean), eps=eps, momentum=momentum)
    norm.running_mean, norm.running_var = running_mean.clone(), running_var.clone()
    return norm(x), norm.running_mean, norm.running_var


@pytest.mark.parametrize("answer", [written_out, module_of_the_package])
def test_a_step_of_batch_norm_may_be_written_in_many_ways(answer):
    assert told("batch_norm_step", answer).status == "passed"


@pytest.mark.parametrize(
    "answer", [(3, 0.3, 1.7, 2.4142, 1), [3.0, 0.3, 1.7, 1 + math.sqrt(2), 1], (3, 0.3, 1.7, 2.41, 1)]
)
def test_numbers_worked_out_on_paper_may_be_exact_or_rounded(answer):
    assert told("one_batch", lambda: answer).status == "passed"


def squares_and_mean(x, mask, eps):
    m = mask.unsqueeze(-1).float()
    n = m.sum()
    mu = (x * m).sum((0, 1)) / n
    var = ((x * m) ** 2).sum((0, 1)) / n - mu**2
    return (x - mu) / (var + eps).sqrt() * m


def flat(x, mask, eps):
    rows, kept = x.view(-1, x.size(-1)), mask.view(-1)
    out = torch.zeros_like(rows)
    out[kept] = F.layer_norm(rows[kept].T, (int(kept.sum()),), eps=eps).T
    return out.view_as(x)


def masked_module(x, mask, eps):
    return BatchNorm(x.shape[-1], eps=eps)(x, mask)


@pytest.mark.parametrize("answer", [squares_and_mean, flat, masked_module])
def test_padding_may_be_left_out_in_many_ways(answer):
    assert told("masked_batch_norm", answer).status == "passed"


def layer(axes, eps):
    return lambda x: (x - x.mean(axes, keepdim=True)) / (x.var(axes, correction=0, keepdim=True) + eps).sqrt()


def by_columns(x, axes, eps):
    table = torch.einsum("aibcjd -> ij", torch.func.jacfwd(layer(axes, eps))(x.double()) ** 2).sqrt()
    return table, (table.triu(1) > 1e-4).any()


def numpy_in_the_end(x, axes, eps):
    table = torch.linalg.vector_norm(torch.func.jacrev(layer(axes, eps))(x), dim=(0, 2, 3, 5)).numpy()
    return table, np.triu(table, 1).max() > 1e-4


def gradients_on_the_given_tensor(x, axes, eps):
    x.requires_grad_()
    y, n = layer(axes, eps)(x), x.shape[1]
    table = torch.zeros(n, n)
    for i in range(n):
        for output in y[:, i].reshape(-1):
            output.backward(retain_graph=True)
            table[i] += x.grad.square().sum((0, 2))
            x.grad = None
    return table.sqrt().tolist() and table.sqrt(), 1 in axes


@pytest.mark.parametrize("answer", [by_columns, numpy_in_the_end, gradients_on_the_given_tensor])
def test_the_future_may_be_found_in_many_ways(answer):
    assert told("find_the_future", answer).status == "passed"


def one_group(x, weight, bias, eps):
    return F.group_norm(x.reshape(-1, x.shape[-1]), 1, weight, bias, eps).view_as(x)


def std_of_the_library(x, weight, bias, eps):
    std, mean = torch.std_mean(x, -1, unbiased=False, keepdim=True)
    return bias + (x - mean) * weight / torch.sqrt(std**2 + eps)


@pytest.mark.parametrize("answer", [one_group, std_of_the_library])
def test_layer_norm_may_be_written_in_many_ways(answer):
    assert told("layer_norm", answer).status == "passed"


def test_the_function_that_is_asked_for_is_not_called():
    for name, answer in {
        "layer_norm": lambda x, weight, bias, eps: F.layer_norm(x, weight.shape, weight, bias, eps),
        "rms_norm": lambda x, weight, eps: torch.rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype),
    }.items():
        assert told(name, answer).status == "forbidden", name


def view_of_groups(x, kind, n_groups, eps):
    axes = {"batch": (0, 1), "layer": -1, "instance": 1}.get(kind, (1, 3))
    y = x.view(*x.shape[:2], n_groups, -1) if kind == "group" else x
    y = (y - y.mean(axes, True)) / (y.var(axes, False, keepdim=True) + eps) ** 0.5
    return y.flatten(2) if kind == "group" else y


def everything_is_group_norm(x, kind, n_groups, eps):
    if kind == "layer":
        return F.group_norm(x.flatten(0, 1), 1, eps=eps).view_as(x)
    if kind == "batch":
        return F.group_norm(x.flatten(0, 1).T[None], x.shape[2], eps=eps)[0].T.view_as(x)
    return F.group_norm(x.mT, n_groups if kind == "group" else x.shape[2], eps=eps).mT


@pytest.mark.parametrize("answer", [view_of_groups, everything_is_group_norm])
def test_axes_may_be_chosen_in_many_ways(answer):
    assert told("normalize_as", answer).status == "passed"


def as_gemma_does(x, weight, eps):
    def norm(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)

    return (norm(x.float()) * weight.float()).type_as(x)


def name_used_again(x, weight, eps):
    dtype, x = x.dtype, x.to(torch.float32)
    x = x * torch.rsqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps)
    return (weight * x).to(dtype)


def two_products(x, weight, eps):
    x32 = x.float()
    mean_square = (x32.unsqueeze(-2) @ x32.unsqueeze(-1)).squeeze(-1) / x.shape[-1]
    return (torch.diag_embed(weight.float()) @ (x32 / (mean_square + eps) ** 0.5).unsqueeze(-1)).squeeze(-1).to(x.dtype)


@pytest.mark.parametrize("answer", [as_gemma_does, name_used_again, two_products])
def test_rms_norm_may_be_written_in_many_ways(answer):
    assert told("rms_norm", answer).status == "passed"


def one_sequence_at_a_time(x, weight, bias, eps):
    return torch.stack([F.layer_norm(sequence, weight.shape, weight, bias, eps) for sequence in x])


def rows_from_axis_two(x, weight, bias, eps):
    rows = x.flatten(2)
    centred = rows - rows.mean(dim=2, keepdim=True)
    return centred / (centred.square().mean(dim=2, keepdim=True) + eps).sqrt() * weight + bias


@pytest.mark.parametrize("answer", [one_sequence_at_a_time, rows_from_axis_two])
def test_the_mean_of_the_sequence_may_be_mended_in_many_ways(answer):
    assert told("mean_of_the_sequence", answer).status == "passed"


def parameters(w, b, scale, shift, running_mean, running_var, eps):
    factor = scale / (running_var + eps) ** 0.5
    return nn.Parameter(w * factor.unsqueeze(1)), nn.Parameter(shift + b * factor - running_mean * factor)


def eval_of_pytorch(w, b, scale, shift, running_mean, running_var, eps):
    linear, norm = nn.Linear(*w.shape[::-1]).eval(), nn.BatchNorm1d(len(b), eps=eps).eval()
    linear.weight.data, linear.bias.data, norm.weight.data, norm.bias.data = w, b, scale, shift
    norm.running_mean, norm.running_var = running_mean, running_var
    fused = torch.nn.utils.fusion.fuse_linear_bn_eval(linear, norm)
    return fused.weight, fused.bias


@pytest.mark.parametrize("answer", [parameters, eval_of_pytorch])
def test_a_batch_norm_may_be_folded_in_many_ways(answer):
    assert told("fold_batch_norm", answer).status == "passed"


def projection(w, b):
    ones = torch.ones(len(b)) / len(b) ** 0.5
    return w - torch.outer(ones, ones @ w), b - (ones @ b) * ones


def means_with_their_axes(w, b):
    return (w.T - w.mean(0, keepdim=True).T).T.numpy(), np.asarray(b - b.mean())


@pytest.mark.parametrize("answer", [projection, means_with_their_axes])
def test_a_layer_may_be_centred_in_many_ways(answer):
    assert told("without_centring", answer).status == "passed"


def backward(x, upstream, eps):
    x = x.clone().requires_grad_()
    F.layer_norm(x, x.shape[-1:], eps=eps).backward(upstream)
    return x.grad


def common_form(x, upstream, eps):
    d, y = x.shape[-1], F.layer_norm(x, x.shape[-1:], eps=eps)
    s = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return (d * upstream - upstream.sum(-1, True) - y * (upstream * y).sum(-1, True)) / (d * s)


@pytest.mark.parametrize("answer", [backward, common_form])
def test_the_gradient_may_be_written_in_many_ways(answer):
    assert told("layer_norm_gradient", answer).status == "passed"


# The solutions compute what the package computes


@pytest.mark.syllabus("IITD-34", "IITD-35", "IITD-37", "IITD-38", "IITD-40", "CMU-17", "CMU-20")
def test_the_solutions_agree_with_the_package():
    def of(norm, **state):
        norm.load_state_dict(state)
        return norm

    answer, cases = solution("two_scales")
    for case in cases:
        torch.testing.assert_close(answer(**case), (min_max(**case), standardize(**case)), rtol=1e-4, atol=1e-5)
    answer, cases = solution("batch_norm_step")
    for case in cases:
        torch.testing.assert_close(answer(**case), module_of_the_package(**case), rtol=1e-4, atol=1e-5)
    answer, cases = solution("masked_batch_norm")
    for case in cases:
        torch.testing.assert_close(answer(**case), masked_module(**case), rtol=1e-4, atol=1e-5)
    answer, cases = solution("layer_norm")
    for case in cases:
        norm = of(LayerNorm(len(case["bias"]), eps=case["eps"]), weight=case["weight"], bias=case["bias"])
        torch.testing.assert_close(answer(**case), norm(case["x"]), rtol=1e-4, atol=1e-5)
    answer, cases = solution("rms_norm")
    for case in cases:
        norm = of(RMSNorm(len(case["weight"]), eps=case["eps"]).to(case["weight"].dtype), weight=case["weight"])
        torch.testing.assert_close(answer(**case), norm(case["x"]), rtol=1e-4, atol=1e-5)


@pytest.mark.syllabus("UCL-25", "IITD-41")
def test_one_function_with_axes_is_batch_norm_and_layer_norm():
    answer, cases = solution("normalize_as")
    for case in cases:
        x, eps = case["x"], case["eps"]
        norms = {"layer": LayerNorm(x.shape[-1], eps=eps)}
        norms |= {"batch": BatchNorm(x.shape[-1], eps=eps)} if x.shape[:2].numel() > 1 else {}
        for kind, norm in norms.items():
            torch.testing.assert_close(answer(x, kind, case["n_groups"], eps), norm(x), rtol=1e-4, atol=1e-5)


# Wrong answers


def forgotten_keepdim(x, axis):
    return (x - x.amin(axis)) / (x.amax(axis) - x.amin(axis)), (x - x.mean(axis)) / x.std(axis, correction=0)


def from_minus_one(x, axis):
    low, high = x.amin(axis, keepdim=True), x.amax(axis, keepdim=True)
    return 2 * (x - low) / (high - low) - 1, (x - x.mean(axis, True)) / x.std(axis, False, True)


def test_rescaling_gone_wrong_is_explained():
    assert "must match the size" in told("two_scales", forgotten_keepdim).message
    assert (
        "the smallest number in each row of your first table should be 0" in told("two_scales", from_minus_one).message
    )

    def torch_std(x, axis):
        return arrays(x, axis)[0], (x - x.mean(axis, keepdim=True)) / x.std(axis, keepdim=True)

    assert told("two_scales", torch_std).mistake == "divided_by_one_less"


def of_the_result(x, running_mean, running_var, momentum, eps):
    y = F.batch_norm(x, None, None, training=True, eps=eps)
    return y, torch.lerp(running_mean, y.mean(0), momentum), torch.lerp(running_var, y.var(0), momentum)


def new_module(x, running_mean, running_var, momentum, eps):
    norm = nn.BatchNorm1d(x.shape[1], eps=eps, momentum=momentum, affine=False)
    return norm(x), norm.running_mean, norm.running_var


def given_buffers(x, running_mean, running_var, momentum, eps):
    return (
        F.batch_norm(x, running_mean, running_var, training=True, momentum=momentum, eps=eps),
        running_mean,
        running_var,
    )


def evaluation(x, running_mean, running_var, momentum, eps):
    normed = F.batch_norm(x, running_mean, running_var, training=False, eps=eps)
    return normed, running_mean.lerp(x.mean(0), momentum), running_var.lerp(x.var(0), momentum)


def eps_too_early(x, running_mean, running_var, momentum, eps):
    b, var = len(x), x.var(0, correction=0) + eps
    mean = running_mean.lerp(x.mean(0), momentum)
    return (x - x.mean(0)) / var.sqrt(), mean, running_var.lerp(var * b / (b - 1), momentum)


def variance_before_the_mean(*given):
    normed, mean, var = written_out(*given)
    return normed, var, mean


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (eps_too_early, "eps_scaled_into_the_running_variance"),
        (variance_before_the_mean, "averages_exchanged"),
        (of_the_result, "averages_of_the_normalized_batch"),
        (new_module, "averages_started_anew"),
        (given_buffers, "averages_changed_in_place"),
        (evaluation, "old_averages_normalize"),
    ],
)
def test_a_mistake_in_the_step_is_named(answer, mistake):
    assert told("batch_norm_step", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        ((2.41, 0.3, 1.7, 2.41, 1), "unbiased_in_training"),
        ((3, 0.3, 1.3, 3, 1), "population_in_the_running_variance"),
        ((3, 0.3, 1.7, 2.4, 1.0), "one_decimal"),
        ((3, 0.3, 1.7, 2.41, 3), "value_of_the_sample"),
        ((3, 2.7, 7.3, 2.41, 1), "momentum_of_the_old"),
    ],
)
def test_a_wrong_number_is_named(answer, mistake):
    assert told("one_batch", lambda: answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((3, 0.3, 1.7, 2.42, 1), "your fourth number is not right"),
        ((3, 0.3, 1.7, 2.41, 7), "your fifth number is not right"),
        ((3, 0.2, 1.7, 2.41, 2), "your second and fifth numbers are not right"),
        ((-1, 0.3, 1.7, 2.41, 1), "that for the second one"),
        ((3, 0.3, 0.8, 2.41, 1), "nine tenths of the old running variance stay"),
    ],
)
def test_it_is_told_which_numbers_are_wrong(answer, words):
    assert words in told("one_batch", lambda: answer).message


def test_four_numbers_are_too_few():
    assert "five numbers are needed" in told("one_batch", lambda: (3, 0.3, 1.7, 2.41)).message


def zeros_into_the_library(x, mask, eps):
    zeroed = x * mask[..., None]
    return F.batch_norm(zeroed.mT, None, None, training=True, eps=eps).mT * mask[..., None]


def sequence_by_sequence(x, mask, eps):
    m = mask.unsqueeze(-1).float()
    n = m.sum(1, keepdim=True)
    mu = (x * m).sum(1, keepdim=True) / n
    return (x - mu) / (((x - mu) ** 2 * m).sum(1, keepdim=True) / n + eps).sqrt() * m


def masked_layer_norm(x, mask, eps):
    return F.layer_norm(x, x.shape[-1:], eps=eps).masked_fill(~mask[..., None], 0)


def nan_left(x, mask, eps):
    rows = x.masked_fill(~mask[..., None], math.nan)
    mean = rows.nanmean((0, 1))
    return (rows - mean) / ((rows - mean).square().nanmean((0, 1)) + eps).sqrt()


def from_the_start(x, mask, eps):
    tokens = torch.cat([sequence[: int(m.sum())] for sequence, m in zip(x, mask, strict=True)])
    return (x - tokens.mean(0)) / (tokens.var(0, correction=0) + eps).sqrt() * mask[..., None]


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (lambda x, mask, eps: flat(x, ~mask, eps) if not mask.all() else 0 * x, "mask_turned_round"),
        (lambda x, mask, eps: squares_and_mean(x, ~mask, eps), "mask_turned_round_in_products"),
        (from_the_start, "padding_always_on_the_right"),
        (zeros_into_the_library, "zeros_counted"),
        (sequence_by_sequence, "each_sequence"),
        (masked_layer_norm, "each_token"),
    ],
)
def test_padding_in_the_wrong_place_is_named(answer, mistake):
    assert told("masked_batch_norm", answer).mistake == mistake


def test_nan_at_the_padding_is_located():
    assert "wrong only where 0 is expected; there it is always NaN" in told("masked_batch_norm", nan_left).message


def backward_of_a_sum(x, axes, eps):
    x = x.clone().requires_grad_()
    y, rows = layer(axes, eps)(x), []
    for i in range(x.shape[1]):
        (gradient,) = torch.autograd.grad(y[:, i].sum(), x, retain_graph=True)
        rows.append(gradient.norm(dim=(0, 2)))
    table = torch.stack(rows)
    return table, bool((table.triu(1) > 1e-4).any())


def first_batch_row(x, axes, eps):
    table = torch.func.jacrev(layer(axes, eps))(x)[0].square().sum((1, 2, 4)).sqrt()
    return table, bool((table.triu(1) > 1e-4).any())


def within_the_first_sequence(x, axes, eps):
    table = torch.func.jacrev(layer(axes, eps))(x)[0, :, :, 0].square().sum((1, 3)).sqrt()
    return table, bool((table.triu(1) > 1e-4).any())


def table_alone_by_axis(x, axes, eps):
    return by_columns(x, axes, eps)[0], 0 in axes or 1 in axes


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (backward_of_a_sum, "outputs_summed_first"),
        (first_batch_row, "first_sequence_only"),
        (within_the_first_sequence, "one_sequence_of_each"),
        (table_alone_by_axis, "other_sequences_counted"),
    ],
)
def test_a_test_that_cannot_fail_is_named(answer, mistake):
    assert told("find_the_future", answer).mistake == mistake


def test_a_change_of_all_features_at_once_is_told():
    def changed(x, axes, eps):
        f, table = layer(axes, eps), torch.zeros(x.shape[1], x.shape[1])
        for j in range(x.shape[1]):
            step = torch.zeros_like(x)
            step[:, j] = 1e-2
            table[:, j] = (f(x + step) - f(x)).square().sum((0, 2)).sqrt() / 1e-2
        return table, bool((table.triu(1) > 1e-4).any())

    assert "do you change all features of a token by the same number" in told("find_the_future", changed).message


def test_small_changes_need_float64():
    def changed(x, axes, eps):
        f, table = layer(axes, eps), torch.zeros(x.shape[1], x.shape[1])
        for index in np.ndindex(*x.shape):
            step = torch.zeros_like(x)
            step[index] = 1e-3
            table[:, index[1]] += ((f(x + step) - f(x)) / 1e-3).square().sum((0, 2))
        return table.sqrt(), bool((table.triu(1) > 1e-8).any())

    assert "Your table is nearly right" in told("find_the_future", changed).message


def no_axis_kept(x, weight, bias, eps):
    return weight * (x - x.mean(-1)) / (x.var(-1, correction=0) + eps).sqrt() + bias


def bias_too_early(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return (weight * centred + bias) / (centred.square().mean(-1, keepdim=True) + eps) ** 0.5


def slide(x, weight, bias, eps):
    return x * weight + bias


def gain_too_early(x, weight, bias, eps):
    return (x * weight - x.mean(-1, True)) / (x.var(-1, False, True) + eps) ** 0.5 + bias


def ucl(x, weight, bias, eps):
    return weight[0] * (x - x.mean(-1, True)) / (x.var(-1, False, True) + eps).sqrt() + bias


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (no_axis_kept, "axis_not_kept"),
        (bias_too_early, "bias_divided"),
        (slide, "gain_of_the_input"),
        (gain_too_early, "gain_before_the_mean"),
        (ucl, "one_gain_for_all"),
    ],
)
def test_a_mistake_in_layer_norm_is_named(answer, mistake):
    assert told("layer_norm", answer).mistake == mistake


def test_a_layer_norm_that_changes_its_argument_or_cannot_be_learned_is_explained():
    def in_place(x, weight, bias, eps):
        x -= x.mean(-1, keepdim=True)
        return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + bias

    assert "changes its argument x" in told("layer_norm", in_place).message

    def filled_module(x, weight, bias, eps):
        norm = nn.GroupNorm(1, len(bias), eps=eps)
        norm.weight.data, norm.bias.data = weight, bias
        return norm(x.reshape(-1, len(bias))).view_as(x)

    message = told("layer_norm", filled_module).message
    assert "back to weight, bias" in message and "a module with parameters of its own" in message


def test_a_lost_shape_is_told():
    def rows(x, weight, bias, eps):
        return std_of_the_library(x.reshape(-1, x.shape[-1]), weight, bias, eps)

    message = told("layer_norm", rows).message
    assert "shape (1, 2) instead of (2,). Your numbers are right and in the right order, but the shape" in message


def statistics_without_gradient(x, weight, bias, eps):
    with torch.no_grad():
        std, mean = torch.std_mean(x, -1, correction=0, keepdim=True)
    return weight * (x - mean) / (std**2 + eps).sqrt() + bias


def mean_detached(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True).detach()
    return weight * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + bias


def variance_detached(x, weight, bias, eps):
    variance = x.var(-1, correction=0, keepdim=True).detach()
    return weight * (x - x.mean(-1, keepdim=True)) / (variance + eps).sqrt() + bias


def weight_detached(x, weight, bias, eps):
    return one_group(x, weight.detach(), bias, eps) + 0 * weight


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (statistics_without_gradient, "the gradient flows through both of them"),
        (mean_detached, "the gradient flows through both of them"),
        (variance_detached, "the gradient flows through both of them"),
        (weight_detached, "the gradient of weight is not"),
    ],
)
def test_a_gradient_that_is_cut_is_noticed(answer, words):
    result = told("layer_norm", answer)
    assert result.status == "failed" and words in result.message


def exchanged(x, kind, n_groups, eps):
    return view_of_groups(x, {"batch": "layer", "layer": "batch"}.get(kind, kind), n_groups, eps)


def always_in_groups(x, kind, n_groups, eps):
    y, axes = x.view(*x.shape[:2], n_groups, -1), {"batch": (0, 1), "layer": 3, "instance": 1, "group": (1, 3)}[kind]
    return ((y - y.mean(axes, True)) / (y.var(axes, False, keepdim=True) + eps).sqrt()).view_as(x)


def in_turn(x, kind, n_groups, eps):
    if kind != "group":
        return view_of_groups(x, kind, n_groups, eps)
    y = x.view(*x.shape[:2], -1, n_groups)
    return ((y - y.mean((1, 2), True)) / (y.var((1, 2), False, True) + eps) ** 0.5).flatten(2)


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (exchanged, "batch_and_layer_exchanged"),
        (in_turn, "features_dealt_out"),
        (always_in_groups, "groups_for_all_kinds"),
    ],
)
def test_the_wrong_axes_are_named(answer, mistake):
    assert told("normalize_as", answer).mistake == mistake


def test_two_wrong_axes_are_told_by_what_they_lead_to():
    def two(x, kind, n_groups, eps):
        if kind in ("batch", "group"):
            return view_of_groups(x, kind, n_groups, eps)
        return F.layer_norm(x, x.shape[1:], eps=eps)

    assert "changes when we change another token" in told("normalize_as", two).message


def as_llama_does(x, weight, eps):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


def dtype_lost(x, weight, eps):
    x = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return (weight * x).to(x.dtype)


def short(x, weight, eps):
    return (x / torch.sqrt(torch.mean(x**2, -1, True) + eps) * weight).to(x.dtype)


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (as_llama_does, "rounded_only_before_the_weight"),
        (dtype_lost, "not_rounded"),
        (short, "computed_in_the_dtype_of_x"),
    ],
)
def test_rounding_in_the_wrong_place_is_named(answer, mistake):
    assert told("rms_norm", answer).mistake == mistake


@pytest.mark.parametrize("own", [1e-5, 1e-6, 1e-8, 1e-12, 0])
def test_an_epsilon_of_one_s_own_is_not_said_to_be_left_out(own):
    def by_the_norm(x, weight, eps):
        return as_gemma_does(x, weight.float() / x.shape[-1] ** 0.5, own / x.shape[-1])

    message = told("rms_norm", lambda x, weight, eps: as_gemma_does(x, weight, own)).message
    assert "or use one of your own instead of `eps`" in message, message
    message = told("rms_norm", by_the_norm).message
    assert "not divided by d" in message and "use one of your own instead of `eps`" in message, message


def in_float32(x, weight, eps):
    return as_gemma_does(x.float(), weight, eps)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda *given: in_float32(*given).bfloat16(), "returns torch.bfloat16 instead of torch.float32"),
        (lambda *given: in_float32(*given).half(), "returns torch.float16 instead of torch.float32"),
        (lambda *given: in_float32(*given).double(), "returns torch.float64 instead of torch.float32"),
        (lambda x, weight, eps: in_float32(x, weight, eps).to(weight.dtype), "It should have that of x."),
        (in_float32, "returns torch.float32 instead of torch.float16 (the dtype of x)"),
    ],
)
def test_a_wrong_dtype_is_told_as_such(answer, words):
    message = told("rms_norm", answer).message
    assert words in message and "With float16" not in message


def test_a_weight_rounded_first_is_named():
    def rounded(x, weight, eps):
        return as_gemma_does(x, weight.to(x.dtype), eps)

    assert told("rms_norm", rounded).mistake == "weight_rounded"


def test_rounding_without_overflow_is_told():
    def by_the_largest(x, weight, eps):
        """Keeps the squares small, but computes in the dtype of x."""
        top = x.abs().amax(-1, keepdim=True).clamp(min=1)
        small = x / top
        return (small / (small.square().mean(-1, keepdim=True) + eps).sqrt() * weight).to(x.dtype)

    result = told("rms_norm", by_the_largest)
    assert result.status == "failed" and "With float16" in result.message


def variance_mended(x, weight, bias, eps):
    rows = x.flatten(1)
    centred = (rows - rows.mean(dim=1, keepdim=True)).view_as(x)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def other_dim(x, weight, bias, eps):
    rows = x.flatten(0, 1)
    centred = rows - rows.mean(dim=0, keepdim=True)
    return (centred / (centred.square().mean(dim=0, keepdim=True) + eps).sqrt()).view_as(x) * weight + bias


@pytest.mark.parametrize(("answer", "mistake"), [(variance_mended, "variance_mended_alone"), (other_dim, "batch_norm")])
def test_a_repair_that_is_none_is_named(answer, mistake):
    assert told("mean_of_the_sequence", answer).mistake == mistake


def columns(w, b, scale, shift, running_mean, running_var, eps):
    factor = scale * torch.rsqrt(running_var + eps)
    return w * factor, (b - running_mean) * factor + shift


def three_terms(w, b, scale, shift, running_mean, running_var, eps):
    factor = scale * torch.rsqrt(running_var + eps)
    return torch.diag(factor) @ w, factor * b + shift


def by_the_deviation(w, b, scale, shift, running_mean, running_var, eps):
    factor = scale * (running_var + eps) ** 0.5
    return torch.diag(factor) @ w, factor * (b - running_mean) + shift


def centred_weight(w, b, scale, shift, running_mean, running_var, eps):
    factor = scale * torch.rsqrt(running_var + eps)
    return torch.diag(factor) @ (w - running_mean.unsqueeze(1)), factor * (b - running_mean) + shift


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (columns, "columns_scaled"),
        (three_terms, "no_running_mean"),
        (by_the_deviation, "multiplied_by_the_deviation"),
        (centred_weight, "mean_in_the_weight"),
    ],
)
def test_a_mistake_in_folding_is_named(answer, mistake):
    assert told("fold_batch_norm", answer).mistake == mistake


def test_a_layer_twice_as_large_is_told():
    """RMSNorm with an epsilon of 0 would not notice the factor."""
    message = told("without_centring", lambda w, b: (2 * projection(w, b)[0], 2 * projection(w, b)[1])).message
    assert "too large by a factor of 2" in message
    centring = lambda w, b: (w @ (torch.eye(w.shape[1]) - 1 / w.shape[1]), b - b.mean())  # noqa: E731
    assert told("without_centring", centring).mistake == "rows_centred"


def summed(x, upstream, eps):
    x = x.clone().requires_grad_()
    F.layer_norm(x, x.shape[-1:], eps=eps).sum().backward()
    return x.grad * upstream


def test_a_gradient_gone_wrong_is_explained():
    assert told("layer_norm_gradient", summed).mistake == "gradient_of_the_sum"
    without_d = lambda x, upstream, eps: x.shape[-1] * common_form(x, upstream, eps)  # noqa: E731
    assert "too large by a factor of d_model" in told("layer_norm_gradient", without_d).message

    def product_of_means(x, upstream, eps):
        y, s = F.layer_norm(x, x.shape[-1:], eps=eps), (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
        mean = upstream.mean(-1, keepdim=True)
        return (upstream - mean - y * mean * y.mean(-1, keepdim=True)) / s

    assert "a product with this mean is zero, too" in told("layer_norm_gradient", product_of_means).message
