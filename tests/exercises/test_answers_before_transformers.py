"""Answers that students give to the exercises of chapter 2: right ones pass, wrong ones are told what is wrong."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"before_transformers/{name}", answer)


# Right answers


def clipped_by_the_library(gradients, max_norm):
    copies = {name: value.clone() for name, value in gradients.items()}
    parameters = [torch.zeros_like(value, requires_grad=True) for value in copies.values()]
    for parameter, value in zip(parameters, copies.values(), strict=True):
        parameter.grad = value
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return copies


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("saved_by_embedding", lambda: np.int64(76_670_464)),
        ("rows_of_gpt2", lambda: np.prod([50257, 1600])),
        ("clip_by_norm", clipped_by_the_library),
        ("read_the_radius", lambda: (0.914, 1.1, 25.6)),
        ("read_the_radius", lambda: np.array([0.886, 1.112, 19.0])),
        ("read_the_radius", lambda: (0.914, 1.1, 21.9)),
        ("read_the_radius", lambda: [torch.tensor(0.912), 1.1, 27]),
    ],
)
def test_a_right_answer_passes(name, answer):
    assert told(name, answer).status == "passed", told(name, answer)


# Wrong answers


def gradient_of_the_given_table(table, ids, targets):
    table.requires_grad_()
    return torch.autograd.grad(F.cross_entropy(table[ids] @ table.T, targets), table)[0]


def test_the_given_table_must_not_ask_for_gradients():
    result = told("tied_gradient", gradient_of_the_given_table)
    assert result.status == "failed" and "Work with a copy" in result.message


def without_keepdim(ids, n_vocab, alpha):
    counts = torch.full((n_vocab, n_vocab), alpha)
    counts.index_put_((ids[:-1], ids[1:]), torch.ones(len(ids) - 1), accumulate=True)
    return counts / counts.sum(1)


def test_a_forgotten_keepdim_is_named():
    assert told("bigram_table", without_keepdim).mistake == "sums_along_the_wrong_axis"


def rand_for_randn(seed):
    w = torch.rand(20, 32, 32, generator=torch.Generator().manual_seed(seed))
    w = 0.95 * w / torch.linalg.eigvals(w).abs().amax(-1)[:, None, None]
    norms = [torch.linalg.matrix_norm(torch.linalg.matrix_power(w, n), ord=2).mean() for n in (1, 3, 200)]
    return torch.stack(norms), "shrinks from the first step"


def scaled_by_theory(seed):
    w = 0.95 * torch.randn(20, 32, 32, generator=torch.Generator().manual_seed(seed)) / 32**0.5
    norms = [torch.linalg.matrix_norm(torch.linalg.matrix_power(w, n), ord=2).mean() for n in (1, 3, 200)]
    return torch.stack(norms), "grows for ever"


def test_norms_of_other_matrices_are_not_mistaken_for_the_radius():
    assert "randn" in told("first_steps", rand_for_randn).message
    assert "radius of 1 instead" not in told("first_steps", scaled_by_theory).message


def lengthened(gradients, max_norm):
    length = torch.cat([value.flatten() for value in gradients.values()]).norm()
    return {name: value * max_norm / length if length < max_norm else value for name, value in gradients.items()}


def test_a_property_of_clipping_says_which_gradients_it_is_about():
    result = told("clip_by_norm", lengthened)
    assert "max_norm=1" in result.example.replace(" ", "") and "expected" in result.example
    assert "are clipped with max_norm = 2, all of them together should have the length 2." in result.message


def added_output(gates, c):
    i, f, g, o = gates.chunk(4, -1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() + new.tanh(), new


def test_a_wrong_output_is_told_what_it_should_be():
    assert "σ(o) · tanh(c′)" in told("late_output", added_output).message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((0.8, 1.3, 21.85), ["Your first number is too small", "Your second number is too large"]),
        ((1 / 0.9, 1.1, 6.6), ["the solid curve falls", "falls to a half"]),
        ((0.35, 1.0, 60), ["of the dashed curve", "of the solid curve", "are too small", "not from step 0"]),
        ((0.7, 0.5, 21.85), ["Your first number is too small", "Your second number is too small"]),
        ((0.8, 1.1, 10.32), ["Your first number is too small, and so is your number of steps"]),
        ((0.93, 1.1, 31.7), ["spectral radius of the solid curve", "number of steps", "are too large. The hints"]),
        ((0.914, 1.1, 7.71), ["falls to a half"]),
        ((0.914, 1.1, 33), ["Your number of steps is too large"]),
    ],
)
def test_each_number_that_is_misread_is_told(answer, words):
    result = told("read_the_radius", lambda: answer)
    assert result.status in ("failed", "mistake") and all(each in result.message for each in words), result
    assert not any(each in result.message for each in ("0.9", "1.1", "22", "ten_steps", "inverted", "level", "follows"))


def test_steps_that_follow_from_a_misread_radius_are_not_said_to_be_those_to_another_share():
    assert "1/e" not in told("read_the_radius", lambda: (0.8, 1.1, 10.32)).message
