"""Answers that a student would write to the exercises on relative position, and what the check says to each."""

import math

import numpy as np
import pytest
import torch

from bookbinder import ROOT
from bookbinder.masters import load
from llm_anatomy.notebook.checks import check


def distance_vector(t, d_model):
    """The chapter's own function, for any width."""
    angles = t[..., None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def test_the_chapters_own_vectors_of_distances_pass():
    def answer(query, key, u, v, w_position, query_positions, key_positions):
        R = distance_vector(query_positions[:, None] - key_positions, w_position.shape[-1]) @ w_position.mT[:, None]
        words, everyone = query @ key.mT, (key @ u[..., None]).mT
        asked = torch.einsum("hqd,hqkd->hqk", query, R)
        distant = torch.einsum("hd,hqkd->hqk", v, R)
        return torch.stack([words, asked, everyone.expand_as(words), distant]) / math.sqrt(query.shape[-1])

    assert check("relative_position/transformer_xl_terms", answer).status == "passed"


FLOATS = ["biased_weights", "bleu_gains", "deberta_scores", "shaw_attention"]
FLOATS += ["transformer_xl_terms", "tupe_scores", "weights_by_offset"]


@pytest.mark.parametrize("name", FLOATS)
def test_double_precision_and_a_result_that_is_not_contiguous_pass(name):
    master = load(ROOT / "exercises/relative_position" / name)
    solution = master.right()[master.function]

    def answer(*arguments):
        double = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in arguments]
        returned = solution(*double)
        return returned if isinstance(returned, tuple) else returned.mT.contiguous().mT

    assert check(master.id, answer).status == "passed"


def slopes(n_heads):
    lower = 2 ** (n_heads.bit_length() - 1)
    own = [2 ** (-8 * h / lower) for h in range(1, lower + 1)]
    return own + [2 ** (-4 * h / lower) for h in range(1, 2 * lower, 2)][: n_heads - lower]


def test_alibi_in_double_precision_is_told_its_dtype():
    def answer(n_heads, query_positions, key_positions):
        distance = np.abs(key_positions.numpy() - query_positions.numpy()[:, None])
        return torch.from_numpy(-np.array(slopes(n_heads))[:, None, None] * distance)

    result = check("relative_position/alibi_bias", answer)
    assert result.status == "failed"
    assert "torch.float64 instead of torch.float32, which the exercise asks for" in result.message


def test_short_buckets_are_told_their_dtype():
    def answer(offset, n_buckets, max_distance):
        n = n_buckets // 2
        e = n // 2
        far = e + (n - e) * torch.log(offset.abs().clamp(min=1) / e) / math.log(max_distance / e)
        bucket = torch.where(offset.abs() < e, offset.abs(), far.long().clamp(max=n - 1)) + n * (offset > 0)
        return bucket.to(torch.int32)

    result = check("relative_position/t5_bucket", answer)
    assert result.status == "failed" and "torch.int32 instead of torch.int64" in result.message


def shaw(query, key, value, key_vectors, value_vectors, key_rows, value_rows, mask):
    scores = query @ key.mT + torch.einsum("bhqd,bqkd->bhqk", query, key_vectors[key_rows])
    weights = (scores / math.sqrt(query.shape[-1])).masked_fill(~mask, -math.inf).softmax(-1)
    return weights @ value + torch.einsum("bhqk,bqkd->bhqd", weights, value_vectors[value_rows])


def rows(query_positions, key_positions, table):
    r_max = len(table) // 2
    return (key_positions[:, None] - query_positions[:, :, None]).clamp(-r_max, r_max) + r_max


def values_reversed(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    r = rows(query_positions, key_positions, key_vectors)
    return shaw(query, key, value, key_vectors, value_vectors.flip(0), r, r, mask[:, None])


def wrapped_round(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    r = (key_positions[:, None] - query_positions[:, :, None] + len(key_vectors) // 2) % len(key_vectors)
    return shaw(query, key, value, key_vectors, value_vectors, r, r, mask[:, None])


def one_bound(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    r = key_positions[:, None] - query_positions[:, :, None] + len(key_vectors) // 2
    r = r.clamp(max=len(key_vectors) - 1)
    return shaw(query, key, value, key_vectors, value_vectors, r, r, mask[:, None])


def mask_without_an_axis(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    r = rows(query_positions, key_positions, key_vectors)
    return shaw(query, key, value, key_vectors, value_vectors, r, r, mask)


def third_term_gathered_by_queries(query, key, position_query, position_key, query_positions, key_positions):
    k = position_key.shape[1] // 2
    distance = query_positions[:, None] - key_positions
    second = (query @ position_key.mT).gather(-1, (distance.clamp(-k, k - 1) + k).expand(len(query), -1, -1))
    third = (key @ position_query.mT).gather(-1, ((-distance).clamp(-k, k - 1) + k).expand(len(query), -1, -1))
    return (query @ key.mT + second + third) / math.sqrt(3 * query.shape[-1])


def same_bounds_on_both_sides(query, key, position_query, position_key, query_positions, key_positions):
    k = position_key.shape[1] // 2
    distance = (query_positions[:, None] - key_positions).clamp(-k, k)
    second = torch.einsum("hqd,hqkd->hqk", query, position_key[:, k + distance])
    third = torch.einsum("hkd,hqkd->hqk", key, position_query[:, k - distance])
    return (query @ key.mT + second + third) / math.sqrt(3 * query.shape[-1])


def no_axis_for_the_heads(weights, query_positions, key_positions, r_max):
    columns = (key_positions - query_positions[:, None]).clamp(-r_max, r_max) + r_max
    return torch.zeros(*weights.shape[:2], 2 * r_max + 1).scatter_add(-1, columns[None], weights)


def one_column_short(weights, query_positions, key_positions, r_max):
    columns = (key_positions - query_positions[:, None]).clamp(-r_max, r_max) + r_max
    one_hot = torch.nn.functional.one_hot(columns, 2 * r_max).float()
    return torch.einsum("hqk,qkc->hqc", weights, one_hot)


def only_the_words_divided(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    a, b = position_table[query_positions] @ u_query, position_table[key_positions] @ u_key
    return query @ key.mT + a @ b.mT / math.sqrt(2 * query.shape[-1]) + bias


def new_axes_in_front(query_positions, key_positions):
    return key_positions[None] - query_positions[:, None]


def without_a_clip(query, key, table, query_positions, key_positions):
    columns = (key_positions - query_positions[:, None] + table.shape[1] // 2).expand(len(query), -1, -1)
    bias = table[:, None].expand(-1, query.shape[1], -1).gather(-1, columns)
    return (query @ key.mT / math.sqrt(query.shape[-1]) + bias).softmax(-1)


def largest_gain(bleu):
    gains = bleu[:, 1] - bleu[:, 0]
    return gains, gains.max(dim=0).values


def second_model_minus_first(bleu):
    gains = bleu[1] - bleu[0]
    return gains, gains.argmax(dim=0)


def slopes_from_one(n_heads, query_positions, key_positions):
    n = 2 ** int(math.log2(n_heads))
    slopes = [2 ** (-8 * h / n) for h in range(n)] + [2 ** (-4 * h / n) for h in range(0, 2 * n, 2)][: n_heads - n]
    return -torch.tensor(slopes)[:, None, None] * (key_positions - query_positions[:, None]).abs()


def buckets_not_halved(offset, n_buckets, max_distance):
    e = n_buckets // 2
    far = e + (n_buckets - e) * torch.log(offset.abs().clamp(min=1) / e) / math.log(max_distance / e)
    near = torch.where(offset.abs() < e, offset.abs(), far.long().clamp(max=n_buckets - 1))
    return near + n_buckets * (offset > 0)


def transposed_projection(query, key, u, v, w_position, query_positions, key_positions):
    projected = distance_vector(query_positions[:, None] - key_positions, w_position.shape[-1]) @ w_position[:, None]
    words = query @ key.mT
    terms = [words, torch.einsum("hqd,hqkd->hqk", query, projected), (key @ u[..., None]).mT.expand_as(words)]
    return torch.stack([*terms, torch.einsum("hd,hqkd->hqk", v, projected)]) / math.sqrt(query.shape[-1])


WRONG = {
    "alibi_bias": [(slopes_from_one, "counted_from_zero")],
    "biased_weights": [(without_a_clip, "not_clipped")],
    "bleu_gains": [(largest_gain, "gain_not_model"), (second_model_minus_first, "first_against_second")],
    "deberta_scores": [
        (third_term_gathered_by_queries, "key_numbered_like_the_query"),
        (same_bounds_on_both_sides, "row_outside_the_tables"),
    ],
    "offset_matrix": [(new_axes_in_front, "axes_beside_the_batch")],
    "shaw_attention": [
        (values_reversed, "values_reversed"),
        (mask_without_an_axis, "mask_without_heads"),
        (wrapped_round, "wrapped_round"),
        (one_bound, "lower_bound_missing"),
    ],
    "t5_bucket": [(buckets_not_halved, "halves_as_large_as_the_whole")],
    "transformer_xl_terms": [(transposed_projection, "projection_transposed")],
    "tupe_scores": [(only_the_words_divided, "positions_alone_scaled")],
    "weights_by_offset": [(no_axis_for_the_heads, "first_head_only"), (one_column_short, "one_column_short")],
}
ANSWERS = [(name, *pair) for name, pairs in WRONG.items() for pair in pairs]


@pytest.mark.parametrize(("name", "answer", "mistake"), ANSWERS, ids=[mistake for _, _, mistake in ANSWERS])
def test_a_wrong_answer_is_named(name, answer, mistake):
    result = check(f"relative_position/{name}", answer)
    assert (result.status, result.mistake) == ("mistake", mistake), result


def test_a_prediction_is_explained_once_it_is_right():
    result = check("relative_position/shaw_numbers", lambda: 12 * 2 * 33 * 64)
    assert result.status == "passed" and "a naive program copies a row for each pair" in result.message


@pytest.mark.parametrize(("number", "words"), [(33 * 64, "You count one table."), (12345, "not the right value")])
def test_a_wrong_prediction_does_not_give_the_number_away(number, words):
    result = check("relative_position/shaw_numbers", lambda: number)
    assert result.status != "passed" and words in result.message
    assert not {"50688", "50,688"} & set(repr(result).split())
