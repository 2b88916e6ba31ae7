"""Answers that students give to the exercises on attention: right ones pass, wrong ones are told what is wrong."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

from bookbinder import ROOT
from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"attention/{name}", answer)


# Right answers


def score_of_the_last_token(n_tokens):
    """Hint 2 to the letter, with the number of tokens that the last token sees."""
    s = math.log(99 * (n_tokens - 1)) * math.sqrt(n_tokens)
    return s * torch.eye(n_tokens).roll(1, 0), torch.eye(n_tokens)


def score_of_each_token(n_tokens):
    """Hint 2 to the letter, with the number of tokens that each token sees."""
    w_query = torch.zeros(n_tokens, n_tokens)
    for i in range(1, n_tokens):
        w_query[i, i - 1] = math.log(99 * i) * math.sqrt(n_tokens)
    return w_query, torch.eye(n_tokens)


@pytest.mark.parametrize("answer", [score_of_the_last_token, score_of_each_token])
def test_the_second_hint_leads_to_a_right_head(answer):
    assert told("previous_token_head", answer).status == "passed"


def loop_into_zeros(queries, keys, values):
    result = torch.zeros(len(queries), values.shape[1])
    for i, query in enumerate(queries):
        best = 0
        for j, key in enumerate(keys):
            if query @ key > query @ keys[best]:
                best = j
        result[i] = values[best]
    return result


def one_hot(queries, keys, values):
    return F.one_hot((queries @ keys.T).argmax(1), len(keys)).float() @ values


@pytest.mark.parametrize("answer", [loop_into_zeros, one_hot])
def test_a_lookup_may_make_tensors_of_its_own(answer):
    assert told("hard_lookup", answer).status == "passed"


def far_below(queries, keys, values, mask):
    scores = queries @ keys.T / math.sqrt(queries.shape[1])
    return scores.masked_fill(mask == 0, -1e9).softmax(-1) @ values


def added_matrix(queries, keys, values, mask):
    m = torch.zeros(mask.shape)
    m[~mask] = -math.inf
    return torch.softmax(queries @ keys.T / keys.size(1) ** 0.5 + m, dim=1) @ values


def loops_into_zeros(queries, keys, values, mask):
    result = torch.zeros(len(queries), values.shape[1])
    for i in range(len(queries)):
        scores = torch.full((len(keys),), -math.inf)
        for j in range(len(keys)):
            if mask[i, j]:
                scores[j] = queries[i] @ keys[j] / math.sqrt(len(keys[j]))
        result[i] = scores.softmax(0) @ values
    return result


@pytest.mark.parametrize("answer", [far_below, added_matrix, loops_into_zeros])
def test_a_mask_may_be_applied_in_many_ways(answer):
    assert told("masked_attention", answer).status == "passed"


# Functions that the exercise asks to do without


@pytest.mark.parametrize(
    "answer",
    [
        lambda scores: torch.softmax(scores, -1),
        lambda scores: scores.softmax(dim=1),
        lambda scores: F.log_softmax(scores, dim=-1).exp(),
        torch.nn.Softmax(dim=-1),
    ],
)
def test_a_ready_made_softmax_is_right_and_not_what_is_asked(answer):
    result = told("stable_softmax", answer)
    assert result.status == "forbidden"
    assert result.message == "Right, but this exercise asks you not to use torch.softmax."


def through_numpy(scores):
    table = scores.detach().numpy()
    exponentials = np.exp(table - table.max(axis=1, keepdims=True))
    return torch.from_numpy(exponentials / exponentials.sum(axis=1, keepdims=True))


def test_that_gradients_are_needed_is_said_where_an_answer_without_them_is_refused():
    statement = (ROOT / "exercises" / "attention" / "stable_softmax" / "exercise.md").read_text(encoding="utf-8")
    statement = " ".join(statement.partition("## Hint 1")[0].split())
    assert "PyTorch cannot follow your weights" in told("stable_softmax", through_numpy).message
    assert "use tensor operations throughout; otherwise PyTorch cannot compute their gradients" in statement


def test_ready_made_attention_is_right_and_not_what_is_asked():
    result = told("masked_attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    assert result.status == "forbidden"
    assert "not to use torch.nn.functional.scaled_dot_product_attention" in result.message


def test_a_wrong_answer_with_a_forbidden_function_is_told_both():
    result = told("stable_softmax", lambda scores: torch.softmax(scores, 0))
    assert result.mistake == "over_the_queries" and "not to use torch.softmax" in result.message


# Wrong answers


def inverted(n_queries, n_keys):
    return torch.ones(n_queries, n_keys).triu(diagonal=1).bool()


def inverted_square(n_queries, n_keys):
    return torch.triu(torch.ones(n_keys, n_keys), diagonal=1).bool()


def inverted_square_of_queries(n_queries, n_keys):
    return torch.ones(n_queries, n_queries).triu(diagonal=1).bool()


@pytest.mark.parametrize("answer", [inverted, inverted_square, inverted_square_of_queries])
def test_the_commonest_mask_is_called_inverted(answer):
    result = told("causal_mask", answer)
    assert result.status == "mistake" and "Your mask is inverted" in result.message


def scores_of(queries, keys):
    return queries @ keys.T / math.sqrt(keys.shape[-1])


def infinity_and_own_exponentials(queries, keys, values, mask):
    exponentials = scores_of(queries, keys).masked_fill(~mask, -math.inf).exp()
    return exponentials / exponentials.sum(-1, keepdim=True) @ values


def own_exponentials_times_the_mask(queries, keys, values, mask):
    exponentials = scores_of(queries, keys).exp() * mask
    return exponentials / exponentials.sum(-1, keepdim=True) @ values


@pytest.mark.parametrize("answer", [infinity_and_own_exponentials, own_exponentials_times_the_mask])
def test_own_exponentials_are_told_where_they_become_0_divided_by_0(answer):
    result = told("masked_attention", answer)
    assert result.mistake == "own_exponentials" and "the row becomes 0/0" in result.message
    assert "nan" in result.example


def values_masked(queries, keys, values, mask):
    seen = mask.any(dim=0)
    return torch.softmax(scores_of(queries, keys), -1) @ values.masked_fill(~seen.unsqueeze(1), 0.0)


def keys_masked(queries, keys, values, mask):
    return torch.softmax(scores_of(queries, keys * mask.any(0).unsqueeze(1)), -1) @ values


def weights_divided_again(queries, keys, values, mask):
    weights = torch.softmax(scores_of(queries, keys), -1) * mask
    return weights / weights.sum(-1, keepdim=True) @ values


def root_of_n_queries(queries, keys, values, mask):
    return torch.softmax((queries @ keys.T / queries.shape[0] ** 0.5).masked_fill(~mask, -math.inf), -1) @ values


def not_low_enough(queries, keys, values, mask):
    return torch.softmax(scores_of(queries, keys).masked_fill(~mask, -1000), -1) @ values


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (values_masked, "mask_on_the_values"),
        (keys_masked, "mask_on_the_keys"),
        (weights_divided_again, "weights_that_vanish"),
        (root_of_n_queries, "scale_by_number_of_queries"),
        (not_low_enough, "hidden_scores_not_low_enough"),
    ],
)
def test_a_mistake_in_masked_attention_is_named(answer, mistake):
    assert told("masked_attention", answer).mistake == mistake


def zero_times_infinity(queries, keys, values, mask):
    return torch.softmax(scores_of(queries, keys) + ~mask * -math.inf, -1) @ values


def test_zero_times_infinity_is_shown_as_nan():
    result = told("masked_attention", zero_times_infinity)
    assert result.status == "failed" and "always NaN" in result.message and "∞" in result.message
    assert "nan" in result.example


def heads(x, n_heads):
    return x.reshape(len(x), n_heads, -1).transpose(0, 1)


def finish(q, k, v, w_output, mask, scale):
    found = torch.softmax((q @ k.mT / scale).masked_fill(~mask, -math.inf), -1) @ v
    return found.transpose(0, 1).reshape(len(mask), -1) @ w_output


def share_of_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    d_head = x.shape[1] // n_heads
    q, k, v = ((x @ w).view(-1, n_heads, d_head).transpose(0, 1) for w in (w_query, w_key, w_value))
    return finish(q, k, v, w_output, mask, d_head**0.5)


def reshaped_share_of_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    n_tokens, d_model = x.shape
    shape = n_tokens, n_heads, d_model // n_heads
    q, k, v = ((x @ w).reshape(shape).transpose(0, 1) for w in (w_query, w_key, w_value))
    return finish(q, k, v, w_output, mask, math.sqrt(q.shape[-1]))


def pattern_with_a_share_of_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    d = x.shape[1] // n_heads
    q, k, v = (rearrange(x @ w, "n (h d) -> h n d", h=n_heads, d=d) for w in (w_query, w_key, w_value))
    return finish(q, k, v, w_output, mask, d**0.5)


def root_of_n_tokens(x, w_query, w_key, w_value, w_output, n_heads, mask):
    q, k, v = (heads(x @ w, n_heads) for w in (w_query, w_key, w_value))
    return finish(q, k, v, w_output, mask, q.shape[1] ** 0.5)


def view_for_the_join(x, w_query, w_key, w_value, w_output, n_heads, mask):
    q, k, v = (heads(x @ w, n_heads) for w in (w_query, w_key, w_value))
    found = torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -math.inf), -1) @ v
    return found.transpose(0, 1).view(len(x), -1) @ w_output


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (share_of_d_model, "Do you take d_model // n_heads"),
        (reshaped_share_of_d_model, "Do you take d_model // n_heads"),
        (pattern_with_a_share_of_d_model, "Do you take d_model // n_heads"),
        (root_of_n_tokens, "Your scale comes from the number of tokens"),
        (view_for_the_join, "Do you call view after a transpose?"),
    ],
)
def test_a_mistake_in_multi_head_attention_is_named(answer, words):
    result = told("multi_head_attention", answer)
    assert result.status == "mistake" and words in result.message


def low_but_not_enough(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -100), -1)


def own_exponentials(scores, mask):
    exponentials = scores.masked_fill(~mask, -math.inf).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("weights", "words"),
    [(low_but_not_enough, "is not low enough"), (own_exponentials, "your output is not finite")],
)
def test_large_numbers_show_what_moderate_ones_hide(weights, words):
    def answer(x, w_query, w_key, w_value, w_output, n_heads, mask):
        q, k, v = (heads(x @ w, n_heads) for w in (w_query, w_key, w_value))
        found = weights(q @ k.mT / math.sqrt(q.shape[-1]), mask) @ v
        return found.transpose(0, 1).flatten(1) @ w_output

    result = told("multi_head_attention", answer)
    assert result.status == "failed" and words in result.message


def logarithm_of_zero(n_tokens):
    s = torch.log(99 * torch.arange(n_tokens)) * math.sqrt(n_tokens)
    return s[:, None] * torch.eye(n_tokens).roll(1, 0), torch.eye(n_tokens)


def two_matrices_exchanged(n_tokens):
    return torch.eye(n_tokens), 20 * math.sqrt(n_tokens) * torch.eye(n_tokens).roll(1, 0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (logarithm_of_zero, "Do you take the logarithm of 0?"),
        (two_matrices_exchanged, "which of the two matrices comes first?"),
        (lambda n_tokens: 99 * torch.eye(n_tokens).roll(1, 0), "Two matrices are needed"),
    ],
)
def test_a_mistake_in_the_previous_token_head_is_named(answer, words):
    result = told("previous_token_head", answer)
    assert result.status == "mistake" and words in result.message


# The code that is to be mended


def test_a_repair_that_changes_nothing_is_not_an_attempt():
    def last_axis_but_one(queries, keys, values):
        n_tokens, d_head = queries.shape[-2:]
        future = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
        scores = queries @ keys.mT / math.sqrt(d_head)
        return torch.softmax(scores.masked_fill(future, -math.inf), dim=-2) @ values

    assert told("leaking_heads", last_axis_but_one).status == "not attempted"


def test_a_mended_function_explains_itself():
    result = told("leaking_heads", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert result.status == "passed" and "denominator" in result.message
