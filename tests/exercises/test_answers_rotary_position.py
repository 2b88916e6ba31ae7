"""What a student reads below an answer: right ones that were refused, and wrong ones that were misled or not named."""

import math

import pytest
import torch

from llm_anatomy.notebook.checks import check


def frequencies(d_head, base):
    return base ** (-torch.arange(0, d_head, 2) / d_head)


def turned(x, positions, base):
    angles = positions[:, None, :, None] * frequencies(x.shape[-1], base)
    first, second = x[..., 0::2], x[..., 1::2]
    pairs = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
    return torch.stack(pairs, -1).flatten(-2)


def named(exercise, answer):
    return check(f"rotary_position/{exercise}", answer).mistake


# Right answers


def stack_of_matrices(x, positions, theta):
    cos, sin = torch.cos(positions * theta), torch.sin(positions * theta)
    return (torch.stack((cos, -sin, sin, cos), -1).view(-1, 2, 2) @ x[:, :, None]).squeeze(-1)


def scores_in_float32(query, key, offsets, base):
    query, key = (torch.complex(x[0::2].float(), x[1::2].float()) for x in (query, key))
    products = query.conj() * key
    turns = torch.exp(1j * offsets[:, None] * frequencies(2 * len(query), base))
    steps = torch.cat((products, torch.zeros(1))).diff().abs()
    return (products * turns).sum(-1).real, steps.max() * turns.cumsum(-1).abs().sum(-1)


def table_of_lists(angles, positions, theta):
    a = [x + m * theta for x, m in zip(angles.tolist(), positions.tolist(), strict=True)]
    return torch.tensor([[math.cos(y - x) for y in a] for x in a])


def permutation_matrix(weight, n_heads, d_rotary):
    order = []
    for head in range(n_heads):
        start, half = head * len(weight) // n_heads, d_rotary // 2
        order += [start + i + j * half for i in range(half) for j in (0, 1)]
        order += range(start + d_rotary, (head + 1) * len(weight) // n_heads)
    return torch.eye(len(weight))[order] @ weight


def just_sharp_enough(n_back, d_head, base):
    """A query as long as 0.99 takes, and hardly longer."""
    angles = -n_back * frequencies(d_head, base)
    profile = torch.cos((torch.arange(200.0)[:, None] - n_back) * frequencies(d_head, base)).sum(-1) / d_head**0.5
    length = next(s for s in range(1, 1000) if torch.softmax(s * profile, 0)[n_back] >= 0.99)
    return length * torch.stack((angles.cos(), angles.sin()), -1).flatten(), torch.tensor([1.0, 0] * (d_head // 2))


def frequencies_in_float64(d_head, base, factor, n_trained):
    plain = torch.tensor([base ** (-2 * i / d_head) for i in range(d_head // 2)], dtype=torch.float64)
    kept = ((n_trained * plain / math.tau - 1) / 3).clamp(0, 1)
    return plain * kept + plain / factor * (1 - kept)


RIGHT = {
    "scale_by_turns": frequencies_in_float64,
    "rotate_in_the_plane": stack_of_matrices,
    "score_and_bound": scores_in_float32,
    "turned_cosines": table_of_lists,
    "half_split_to_interleaved": permutation_matrix,
    "look_back": just_sharp_enough,
}


@pytest.mark.parametrize("exercise", RIGHT)
def test_a_right_answer_is_not_refused_for_what_no_statement_asks(exercise):
    result = check(f"rotary_position/{exercise}", RIGHT[exercise])
    assert result.status == "passed", result


def test_a_dtype_that_is_stated_is_asked_for():
    def in_float64(positions, d_head, base):
        return positions.double()[:, None] * frequencies(d_head, base)

    result = check("rotary_position/frequencies_and_angles", in_float64)
    assert result.status == "failed" and "torch.float64 instead of torch.float32" in result.message


# Wrong answers


def attention_with(turn_queries_by="query", turn_keys_by="key", hide=lambda s, m: s.masked_fill(~m, -math.inf)):
    def answer(queries, keys, values, query_positions, key_positions, mask, base):
        positions = {"query": query_positions, "key": key_positions}
        queries = turned(queries, positions[turn_queries_by], base)
        keys = turned(keys, positions[turn_keys_by], base)
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
        return hide(scores, mask[:, None]).softmax(-1) @ values

    return answer


ATTENTION = {
    "key_positions_for_both": attention_with(turn_queries_by="key"),
    "query_positions_for_both": attention_with(turn_keys_by="query"),
    "masked_scores_zero": attention_with(hide=lambda s, m: s * m),
    "mask_inverted": attention_with(hide=lambda s, m: s.masked_fill(m, -math.inf)),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_rotary_attention_names_positions_and_masks_that_are_wrong(name):
    assert named("rotary_attention", ATTENTION[name]) == name


def test_rotary_attention_takes_planes_laid_apart_and_rotate_efficiently_names_them():
    """Side by side or woven, the products of queries and keys are the same; the turned vector is not."""

    def laid_apart(x, angles):
        first, second, angles = x[..., 0::2], x[..., 1::2], angles[:, None]
        pairs = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.cat(pairs, -1)

    def halves_laid_apart(x, angles):
        (first, second), angles = x.chunk(2, -1), angles[:, None]
        pairs = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.cat(pairs, -1)

    def attention(queries, keys, values, query_positions, key_positions, mask, base):
        angles = (p[..., None] * frequencies(queries.shape[-1], base) for p in (query_positions, key_positions))
        queries, keys = map(laid_apart, (queries, keys), angles)
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
        return scores.masked_fill(~mask[:, None], -math.inf).softmax(-1) @ values

    assert check("rotary_position/rotary_attention", attention).status == "passed"
    assert named("rotate_efficiently", laid_apart) == "not_woven"
    assert named("rotate_efficiently", halves_laid_apart) == "paired_across_halves"


def looking_back(length, key):
    def answer(n_back, d_head, base):
        angles, k = -n_back * frequencies(d_head, base), torch.tensor(key * (d_head // 2))
        rotors, planes = torch.polar(torch.ones(d_head // 2), angles), torch.view_as_complex(k.view(-1, 2))
        return length * torch.view_as_real(rotors * planes).flatten(), k

    return answer


@pytest.mark.parametrize("key", [[1.0, 0.0], [1.0, 1.0]])
@pytest.mark.parametrize("length", [5, 12, 20, 34])
def test_a_head_that_is_a_little_too_soft_is_told_so(length, key):
    result = check("rotary_position/look_back", looking_back(length, key))
    assert result.mistake and result.mistake.startswith("too_soft"), result
    assert "less than 0.99" in result.message and "values where" not in result.message


def test_a_head_of_an_unknown_kind_reads_where_its_weight_goes():
    def three_too_far(n_back, d_head, base):
        return looking_back(1000.0, [1.0, 0.0])(n_back + 3, d_head, base)

    result = check("rotary_position/look_back", three_too_far)
    assert result.mistake is None and "most weight goes to the token 53 positions back" in result.message, result


def test_mixing_models_is_named_although_one_model_alone_would_give_nan():
    assert named("mean_without", lambda s: (s.sum(0, keepdim=True) - s) / (len(s) - 1)) == "models_left_out"
    assert named("mean_without", lambda s: (s.sum(1) - s) / (s.shape[1] - 1)) == "axis_not_kept"


# Measure and decide


def measured(conclusion, distances=lambda r: r, kinds=2):
    def answer(seed):
        torch.manual_seed(seed)
        table = []
        for equal in (False, True)[:kinds]:
            query = torch.randn(1000, 1, 1, 128)
            key = query if equal else torch.randn(1000, 1, 1, 128)
            for first in (1, 201):
                positions = distances(torch.arange(first, first + 10))
                far = turned(query.expand(-1, -1, 10, -1), positions.expand(1000, -1), 10000)
                table.append((far * key).sum(-1).square().mean().sqrt())
        return torch.stack(table).view(kinds, 2), conclusion

    return answer


@pytest.mark.parametrize("conclusion", ["both kinds fall", "only independent pairs fall", "neither falls"])
def test_a_conclusion_that_the_measurements_do_not_support_is_named(conclusion):
    assert named("near_and_far", measured(conclusion)) == "conclusion_of_the_slides"


def test_measurements_that_support_the_conclusion_pass():
    result = check("rotary_position/near_and_far", measured("only equal pairs fall"))
    assert result.status == "passed" and "√128" in result.message


def test_measurements_do_not_pass_with_the_right_conclusion_alone():
    assert named("near_and_far", measured("only equal pairs fall", lambda r: 0 * r)) == "not_turned"
    result = check("rotary_position/near_and_far", measured("only equal pairs fall", kinds=1))
    assert result.status == "failed" and "the table has shape (1, 2), not (2, 2)" in result.message


def size_of_equal_pairs(first, base):
    """The root of the mean square that is expected: the squares of a plane's two entries sum to 2, with variance 4."""
    cosines = (torch.arange(first, first + 10)[:, None] * frequencies(128, base).double()).cos()
    return ((2 * cosines.sum(-1)) ** 2 + 4 * cosines.square().sum(-1)).mean().sqrt()


@pytest.mark.parametrize("base", [100, 10000, 500000])
def test_the_explanation_states_how_far_the_size_falls_with_each_base(base):
    explanation = check("rotary_position/near_and_far", measured("only equal pairs fall")).message
    near, far = (size_of_equal_pairs(first, base) for first in (1, 201))
    assert f"from {near:.0f} to {far:.0f} with base {base}" in explanation


def test_equal_pairs_do_not_fall_by_a_quarter_with_every_base():
    assert size_of_equal_pairs(201, 10.0**12) > 0.75 * size_of_equal_pairs(1, 10.0**12)
    message = check("rotary_position/near_and_far", measured("only equal pairs fall")).message
    assert "With base 10¹² it falls by less than a quarter" in message
