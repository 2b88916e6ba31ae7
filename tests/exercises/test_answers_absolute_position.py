"""Answers to the exercises of absolute position as students write them, and what they are told."""

import math

import pytest
import torch

from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.notebook.checks import check


def told(name, answer):
    """The result of the check, and its example and message in one line."""
    result = check(f"absolute_position/{name}", answer)
    return result, " ".join(repr(result).split())


# Right answers that were refused


def test_attention_without_padding_is_not_refused_for_its_gradient():
    def one_sequence_at_a_time(x, positions, w_query, w_key, w_value):
        output = x.new_zeros(*x.shape[:2], w_value.shape[1])
        for row, sequence, row_positions in zip(output, x, positions, strict=True):
            tokens = sequence[row_positions >= 0] + Sinusoidal(x.shape[-1]).encoding(row_positions[row_positions >= 0])
            scores = (tokens @ w_query) @ (tokens @ w_key).T / math.sqrt(w_key.shape[1])
            row[row_positions >= 0] = torch.softmax(scores, -1) @ (tokens @ w_value)
        return output

    assert told("absolute_attention", one_sequence_at_a_time)[0].status == "passed"


def test_attention_as_two_sums_is_not_refused_for_padding_of_a_large_size():
    def two_sums(x, positions, w_query, w_key, w_value):
        tokens = x + Sinusoidal(x.shape[-1]).encoding(positions)
        scores = (tokens @ w_query) @ (tokens @ w_key).mT / math.sqrt(w_query.shape[1])
        shares = torch.exp(scores - scores.amax(-1, keepdim=True)) * (positions >= 0)[:, None]
        return shares @ (tokens @ w_value) / shares.sum(-1, keepdim=True)

    assert told("absolute_attention", two_sums)[0].status == "passed"


def in_double_precision(positions, d_model):
    coordinates = torch.arange(d_model)
    angles = positions.double()[..., None] * 10000.0 ** (-(coordinates - coordinates % 2).double() / d_model)
    return torch.where(coordinates % 2 == 0, angles.sin(), angles.cos())


def options_in_double_precision(is_word):
    index = ((is_word.cumsum(1) - 1) * is_word).double()
    last = index.amax(1)
    step = torch.where(last > 0, 1 / last.clamp(min=1), 0)
    return index, index * step[:, None], step


def products_in_double_precision(x, positions, table):
    if (outside := positions[(positions < -1) | (positions >= table.shape[1])]).numel():
        raise ValueError(f"no column for {outside.tolist()}")
    one_hot = positions[..., None] == torch.arange(table.shape[1])
    return x + one_hot.double() @ table.T.double()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("sinusoidal_encoding", in_double_precision),
        ("two_options", options_in_double_precision),
        ("learned_positions", products_in_double_precision),
        ("undo_the_shuffle", lambda outputs, order: torch.eye(len(order))[order].T.double() @ outputs.double()),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_dtype_that_is_not_stated_is_not_refused(name, answer):
    assert told(name, answer)[0].status == "passed"


@pytest.mark.parametrize(
    "read",
    [
        (61.3, 32, 9),
        [63, 32.6, 9],
        (torch.tensor(62.0), 31, torch.tensor(9)),
        (65, round(8 / math.log(65 / 6.28, 1e4)), 9),
    ],
    ids=["tuple", "list", "tensors", "calculated"],
)
def test_a_figure_is_read_with_a_margin(read):
    assert told("read_the_waves", lambda: read)[0].status == "passed"


# Learned positions: the bound


def learned(refused):
    """An answer that refuses positions where refused(positions, n_ctx) is true."""

    def answer(x, positions, table):
        if (outside := positions[refused(positions, table.shape[1])]).numel():
            raise ValueError(f"position {outside[0]} is not in the table")
        return x + table.T[positions.clamp(min=0)] * (positions >= 0)[..., None]

    return answer


def test_a_bound_one_too_high_is_named():
    result, words = told("learned_positions", learned(lambda at, n: (at < -1) | (at > n)))
    assert result.status == "failed" and "Your bound is off by one." in words and "but position 6 does not" in words


def test_a_bound_one_too_low_is_named():
    result, words = told("learned_positions", learned(lambda at, n: (at < -1) | (at >= n - 1)))
    assert result.mistake == "last_position_refused" and "Your bound is off by one" in words


def test_refusing_padding_is_named():
    assert told("learned_positions", learned(lambda at, n: (at < 0) | (at >= n)))[0].mistake == "padding_refused"


def test_no_bound_is_not_called_off_by_one():
    words = told("learned_positions", learned(lambda at, n: at < -1))[1]
    assert "off by one" not in words and "Position 17 of a table for 6 positions raises IndexError." in words


def test_no_lower_bound_is_named():
    words = told("learned_positions", learned(lambda at, n: at >= n))[1]
    assert "Position -2 is neither padding nor a position." in words


def test_an_error_must_name_the_position_and_not_only_the_size_of_the_table():
    def answer(x, positions, table):
        if (positions < -1).any() or (positions >= table.shape[1]).any():
            raise ValueError(f"positions must be below {table.shape[1]}")
        return x + table.T[positions.clamp(min=0)] * (positions >= 0)[..., None]

    assert "does not name that position" in told("learned_positions", answer)[1]


def test_rows_of_the_table_are_named_although_they_fit_only_a_square_one():
    def answer(x, positions, table):
        return x + table[positions]

    assert told("learned_positions", answer)[0].mistake == "rows_looked_up"


# Absolute attention: padding


def attention(hide, combine=lambda x, code: x + code):
    """An answer that hides scores with hide(scores, mask), whose mask is True for padding."""

    def answer(x, positions, w_query, w_key, w_value):
        tokens = combine(x, Sinusoidal(x.shape[-1]).encoding(positions))
        scores = (tokens @ w_query) @ (tokens @ w_key).mT / math.sqrt(w_query.shape[1])
        return hide(scores, (positions < 0)[:, None]).softmax(-1) @ (tokens @ w_value)

    return answer


@pytest.mark.parametrize("low", [-math.inf, -1e9])
def test_any_low_score_hides_padding(low):
    assert told("absolute_attention", attention(lambda s, m: s.masked_fill(m, low)))[0].status == "passed"


def test_minus_infinity_times_the_mask_is_told_from_other_numbers():
    result, words = told("absolute_attention", attention(lambda s, m: s + m * -math.inf))
    assert result.mistake is None and "0 is multiplied by ∞" in words


def test_padding_with_a_score_of_zero_is_named():
    answer = attention(lambda s, m: s.masked_fill(m, 0.0))
    assert told("absolute_attention", answer)[0].mistake == "scores_of_padding_zero"


def test_padding_set_to_zero_is_named():
    def answer(x, positions, w_query, w_key, w_value):
        tokens = (x + Sinusoidal(x.shape[-1]).encoding(positions)) * (positions >= 0)[..., None]
        weights = torch.softmax((tokens @ w_query) @ (tokens @ w_key).mT / math.sqrt(w_query.shape[1]), -1)
        return weights @ (tokens @ w_value)

    assert told("absolute_attention", answer)[0].mistake == "padding_set_to_zero"


def test_codes_added_to_queries_and_keys_are_named():
    def answer(x, positions, w_query, w_key, w_value):
        code = Sinusoidal(w_query.shape[1]).encoding(positions)
        scores = (x @ w_query + code) @ (x @ w_key + code).mT / math.sqrt(w_query.shape[1])
        return scores.masked_fill((positions < 0)[:, None], -math.inf).softmax(-1) @ (x @ w_value)

    assert told("absolute_attention", answer)[0].mistake == "added_to_queries_and_keys"


# The others


def test_odd_width_that_raises_is_named():
    def answer(positions, d_model):
        code = torch.zeros(*positions.shape, d_model)
        angles = positions[..., None] * torch.exp(torch.arange(0, d_model, 2) * -math.log(10000) / d_model)
        code[..., 0::2], code[..., 1::2] = angles.sin(), angles.cos()
        return code

    assert told("sinusoidal_encoding", answer)[0].mistake == "odd_width_raises"


def test_a_first_rise_that_skips_distance_one_is_named():
    def answer(proximity):
        rises = (proximity.diff() > 0).long().triu(1)
        return torch.where(rises.any(1), rises.argmax(1) + 1 - torch.arange(len(proximity)), -1)

    assert told("first_rise", answer)[0].mistake == "distance_one_left_out"


def slowest(query_codes, key_codes):
    (s_q, c_q), (s_k, c_k) = query_codes[:, -2:].T, key_codes[:, -2:].T
    return s_k * c_q - c_k * s_q, c_k * c_q + s_k * s_q, 10000 ** ((query_codes.shape[1] - 2) / query_codes.shape[1])


def test_a_distance_from_the_cosine_alone_has_no_sign():
    def answer(query_codes, key_codes):
        _, cosine, slow = slowest(query_codes, key_codes)
        return (cosine.clamp(-1, 1).acos() * slow).round().long()

    assert told("read_distance", answer)[0].mistake == "without_a_sign"


@pytest.mark.parametrize(
    "cut", [lambda angle, slow: (angle * slow).long(), lambda angle, slow: (angle / (1 / slow)).int()]
)
def test_a_distance_that_is_not_rounded_is_told_to_be(cut):
    def answer(query_codes, key_codes):
        sine, cosine, slow = slowest(query_codes, key_codes)
        return cut(torch.atan2(sine, cosine), slow)

    assert "ound first" in told("read_distance", answer)[1]


def test_angles_subtracted_do_not_pass():
    def answer(query_codes, key_codes):
        angles = [torch.atan2(codes[:, -2], codes[:, -1]) for codes in (query_codes, key_codes)]
        return ((angles[1] - angles[0]) * slowest(query_codes, key_codes)[2]).round().long()

    assert told("read_distance", answer)[0].mistake == "angles_subtracted"


def remainders(positions, d_model):
    return torch.remainder(positions[:, None], 2 * math.pi * 10000 ** (torch.arange(0, d_model, 2) / d_model))


@pytest.mark.parametrize(
    ("mistake", "answer"),
    [
        ("from_n_on", lambda positions, d_model, n_trained: remainders(positions, d_model) >= n_trained),
        ("one_position_more", lambda positions, d_model, n_trained: remainders(positions, d_model) > n_trained),
        ("last_position_unseen", lambda positions, d_model, n_trained: remainders(positions, d_model) >= n_trained - 1),
        (
            "whole_wavelengths",
            lambda positions, d_model, n_trained: (
                positions[:, None] % (2 * math.pi * 10000 ** (torch.arange(0, d_model, 2) / d_model)).long()
                > n_trained - 1
            ),
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bounds_of_training_are_told_apart(mistake, answer):
    assert told("unseen_angles", answer)[0].mistake == mistake


def test_a_step_with_an_axis_too_many_is_named():
    def answer(is_word):
        last = is_word.sum(1, keepdim=True) - 1
        index = (is_word.cumsum(1) - 1) * is_word
        step = torch.where(last > 0, 1 / last.clamp(min=1), 0.0)
        return index, index * step, step

    assert told("two_options", answer)[0].mistake == "step_keeps_its_axis"


def test_digits_multiplied_in_place_are_named():
    def answer(digits):
        digits *= 2 ** torch.arange(digits.shape[1]).flip(0)
        return digits.sum(1)

    assert told("read_counter", answer)[0].mistake == "changes_the_digits"


def test_columns_taken_for_tokens_are_named():
    assert told("undo_the_shuffle", lambda outputs, order: outputs[:, order.argsort()])[0].mistake == "columns_moved"


def test_half_a_wave_is_named_without_giving_the_answer_away():
    result, words = told("read_the_waves", lambda: (31, round(8 / math.log(31 / 6.28, 1e4) / 2) * 2, 9))
    assert result.mistake == "half_a_wave" and "32" not in words and "63" not in words


def test_a_width_that_follows_from_no_wavelength_is_not_given_away():
    result, words = told("read_the_waves", lambda: (63, 512, 9))
    assert result.status == "failed" and "Your width is too large." in words and "32" not in words


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((31, 32, 24), ["You read half a wave", "half the width further on"]),
        ((70, 16, 8), ["Your wavelength is too long", "Your width is half", "the solid curve that starts at 0"]),
        ((57, 33.3, 11), ["your width follows from it", "Your number of the column is not right"]),
        ((90, 400, 9), ["Your wavelength is too long", "Your width is too large"]),
    ],
)
def test_each_number_that_is_misread_is_told(answer, words):
    result, message = told("read_the_waves", lambda: answer)
    assert result.status == "failed" and all(each in message for each in words)
    assert not any(each in message for each in ("wavelength:", "width:", "column:", "62", "63", "32"))
