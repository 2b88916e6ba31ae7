"""The three properties and decay: the definitions written out in loops, and schemes whose answers are known."""

import itertools
import math

import pytest
import torch

from llm_anatomy.layers.positions import metrics
from llm_anatomy.layers.positions.absolute import (
    BinaryCounter,
    IntegerIndex,
    Learned,
    LengthScaledIndex,
    SingleSine,
    Sinusoidal,
)
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.positions.buckets import Clip
from llm_anatomy.layers.positions.metrics import (
    asymmetry,
    half_distance,
    mean_by_distance,
    monotonicity,
    score_matrix,
    translation_variance,
)
from llm_anatomy.layers.positions.relative import ALiBi, ScalarBias, alibi_slopes
from llm_anatomy.layers.positions.rotary import HalfSplitRotary, InterleavedRotary

MEASURES = [monotonicity, translation_variance, asymmetry, mean_by_distance, half_distance]


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dots(scheme, n_positions):
    code = scheme.encoding(torch.arange(n_positions), torch.float64)
    return code @ code.T


# --- Equal to the definitions ---


def slow_monotonicity(phi):
    n, holds, total = len(phi), 0, 0
    for x in range(n):
        for j, k in itertools.combinations(range(x, n), 2):
            total += 1
            holds += phi[x][k] < phi[x][j]
    return holds / total


def slow_translation_variance(phi):
    n, spread = len(phi), 0.0
    for (i, j), (k, m) in itertools.combinations(itertools.product(range(n), repeat=2), 2):
        if j - i == m - k:
            spread = max(spread, abs(phi[i][j] - phi[k][m]))
    return spread / (max(map(max, phi)) - min(map(min, phi)))


def slow_asymmetry(phi):
    n = len(phi)
    most = max(abs(phi[i][j] - phi[j][i]) for i in range(n) for j in range(n))
    return most / (max(map(max, phi)) - min(map(min, phi)))


def slow_curve(phi):
    n = len(phi)
    queries = range(n - n // 2)
    return [sum(phi[x][x + r] for x in queries) / len(queries) for r in range(n // 2 + 1)]


def slow_half(phi):
    curve = slow_curve(phi)
    half = (curve[0] + min(curve)) / 2
    if half == curve[0]:
        return None
    return next((r for r in range(len(curve)) if all(f <= half for f in curve[r:])), None)


@pytest.mark.syllabus("IITD-14")
@pytest.mark.parametrize("n_positions", [2, 3, 6, 7])
@pytest.mark.parametrize("kind", ["noise", "ties", "decay", "flat"])
def test_measures_equal_their_definitions(kind, n_positions):
    noise = randn(n_positions, n_positions, seed=n_positions)
    away = (torch.arange(n_positions) - torch.arange(n_positions)[:, None]).abs()
    phi = {"noise": noise, "ties": noise.round(), "decay": 0.2 * noise - away, "flat": torch.zeros_like(noise)}[kind]
    rows = phi.tolist()
    assert monotonicity(phi) == pytest.approx(slow_monotonicity(rows))
    assert mean_by_distance(phi).tolist() == pytest.approx(slow_curve(rows))
    assert half_distance(phi) == slow_half(rows)
    if kind == "flat":
        assert translation_variance(phi) == asymmetry(phi) == 0
    else:
        assert translation_variance(phi) == pytest.approx(slow_translation_variance(rows))
        assert asymmetry(phi) == pytest.approx(slow_asymmetry(rows))


@pytest.mark.parametrize("measure", MEASURES)
def test_a_positive_factor_and_a_constant_change_nothing(measure):
    phi = randn(9, 9)
    if measure is mean_by_distance:
        torch.testing.assert_close(measure(3 * phi - 2), 3 * measure(phi) - 2)
    else:
        assert measure(3 * phi - 2) == pytest.approx(measure(phi))


@pytest.mark.syllabus("IITD-14")
def test_looking_back_is_flipping_both_axes():
    n = 8
    offset = torch.arange(n)[None] - torch.arange(n)[:, None]
    past = torch.where(offset <= 0, offset, -20.0 + offset % 3).double()  # falls into the past, jumps about ahead
    assert monotonicity(past.flip(0, 1)) == 1 > monotonicity(past)
    assert half_distance(past.flip(0, 1)) == 2
    assert asymmetry(past) > 0.5 and translation_variance(past) == 0


# --- Schemes whose answers are known ---


@pytest.mark.syllabus("IITD-14", "GT-28", "GT-29")
def test_sinusoids_are_invariant_and_symmetric_and_roughly_monotonic():
    phi = dots(Sinusoidal(512), 160)
    assert translation_variance(phi) < 1e-12 and asymmetry(phi) < 1e-12
    assert 0.9 < monotonicity(phi) < 1  # erratum E-71
    assert monotonicity(phi[:44, :44]) == 1  # the first rise is from 43 to 44
    curve = mean_by_distance(phi)
    assert [round(curve[k].item(), 1) for k in (0, 1, 2, 3, 10)] == [256.0, 249.1, 231.7, 211.7, 173.8]
    assert ((curve.diff() > 0).nonzero().flatten() + 1)[:4].tolist() == [44, 50, 56, 62]
    assert curve[half_distance(phi)] <= (256 + curve.min()) / 2 < curve[half_distance(phi) - 1]


@pytest.mark.syllabus("IITD-04", "IITD-05", "IITD-14")
@pytest.mark.parametrize("scheme", [IntegerIndex(3), LengthScaledIndex(3)])
def test_the_rejected_options_have_proximity_grow_with_the_index(scheme):
    phi = dots(scheme, 12)
    assert asymmetry(phi) < 1e-12 and monotonicity(phi) == 0 and half_distance(phi) is None
    assert translation_variance(phi) == pytest.approx(1)  # 0 · 0 against 11 · 11


@pytest.mark.syllabus("IITD-07", "IITD-09", "IITD-14")
def test_a_counter_and_a_single_sine_are_neither_invariant_nor_monotonic():
    # of the sine's products, (cos(difference) - cos(sum)) / 2, half depends on the sum
    for scheme, variance in ((BinaryCounter(5), 1.0), (SingleSine(4, period=12.0), 0.5)):
        phi = dots(scheme, 32)
        assert asymmetry(phi) < 1e-12 and monotonicity(phi) < 0.5
        assert translation_variance(phi) == pytest.approx(variance)


@pytest.mark.syllabus("GT-29", "IITD-14", "CMU-24")
def test_nothing_makes_a_table_invariant():
    scheme = Learned(40, 64)
    with torch.no_grad():
        scheme.table.copy_(randn(40, 64))
    code = scheme.encoding(torch.arange(40), torch.float64)
    cosines = torch.nn.functional.normalize(code, dim=-1)
    phi = cosines @ cosines.T
    assert asymmetry(phi) < 1e-12 and translation_variance(phi) > 0.3 and 0.4 < monotonicity(phi) < 0.65


@pytest.mark.syllabus("IITD-14")
def test_relative_and_rotary_schemes():
    zeros, query, key = torch.zeros(2, 6, dtype=torch.float64), randn(2, 6), randn(2, 6, seed=1)
    for head, slope in zip(score_matrix(ALiBi(2), zeros, zeros, 15), alibi_slopes(2), strict=True):
        torch.testing.assert_close(head[0], -slope.double() * torch.arange(15))
        assert monotonicity(head) == 1 and translation_variance(head) == asymmetry(head) == 0
        assert half_distance(head) == 4  # of the 7 that are measured
    for rotary in (InterleavedRotary(6), HalfSplitRotary(4)):
        same, apart = score_matrix(rotary, query, query, 15)[0], score_matrix(rotary, query, key, 15)[0]
        assert translation_variance(same) < 1e-6 and translation_variance(apart) < 1e-6  # frequencies are float32
        assert asymmetry(same) < 1e-6 < 0.01 < asymmetry(apart)
    bias = ScalarBias(2, Clip(-3, 5))
    with torch.no_grad():
        bias.table.copy_(randn(9, 2))
    head = score_matrix(bias, query, key, 15)[1]
    assert translation_variance(head) == 0 and asymmetry(head) > 0.1


# --- The matrix of any scheme ---


class Everything(PositionScheme):
    """All the hooks that reach the scores, each in its own way."""

    def embed(self, x, positions):
        return x + positions[..., None].to(x.dtype) / 10

    def rotate(self, x, positions, tables=None):
        return x * (1 + positions)[:, None, :, None].to(x.dtype)

    def scale(self, d_head):
        return 1 / d_head

    def bias(self, query, key, context):
        heads = torch.arange(query.shape[1], dtype=query.dtype)[:, None, None]
        return (heads * (2 * context.query_positions[:, :, None] + context.key_positions[:, None]))[None]


@pytest.mark.syllabus("IITD-16")
def test_score_matrix_calls_every_hook():
    query, key, n = randn(3, 4), randn(3, 4, seed=1), 5
    result = score_matrix(Everything(), query, key, n)
    assert result.shape == (3, n, n)
    for h, i, j in itertools.product(range(3), range(n), range(n)):
        q, k = (query[h] + i / 10) * (1 + i), (key[h] + j / 10) * (1 + j)
        torch.testing.assert_close(result[h, i, j], q @ k / 4 + h * (2 * i + j))


@pytest.mark.syllabus("IITD-14", "IITD-16")
def test_score_matrix_of_nothing_but_positions_is_their_dot_products():
    zeros = torch.zeros(1, 10, dtype=torch.float64)
    result = score_matrix(Sinusoidal(10), zeros, zeros, 23)[0]
    torch.testing.assert_close(result, dots(Sinusoidal(10), 23) / math.sqrt(10))
    content = randn(1, 10)
    flat = (content @ content.T / math.sqrt(10)).expand(1, 4, 4)
    torch.testing.assert_close(score_matrix(PositionScheme(), content, content, 4), flat)


# --- Bad input ---


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("phi", "sentence"),
    [
        (torch.zeros(3, 4), r"proximity has shape \(3, 4\); it must be square"),
        (torch.zeros(1, 1), r"proximity has shape \(1, 1\).*at least 2 positions"),
        (torch.zeros(2, 3, 3), r"proximity has shape \(2, 3, 3\)"),
        (torch.tensor([[0.0, -math.inf], [0.0, 0.0]]), "proximity has entries that are not finite"),
        (torch.tensor([[0.0, math.nan], [0.0, 0.0]]), "proximity has entries that are not finite"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(measure, phi, sentence):
    # jaxtyping speaks first where it is installed; this is what others read
    with pytest.raises(ValueError, match=sentence):
        getattr(measure, "__wrapped__", measure)(phi)


@pytest.mark.parametrize(
    ("query", "key", "n_positions", "sentence"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 3), 0, "n_positions=0 must be at least 1"),
        (torch.zeros(2, 3), torch.zeros(2, 4), 5, r"query \(2, 3\) and key \(2, 4\) must both be \(heads, width\)"),
        (torch.zeros(3), torch.zeros(3), 5, r"query \(3,\)"),
    ],
)
def test_contents_that_do_not_fit_are_refused(query, key, n_positions, sentence):
    bare = getattr(score_matrix, "__wrapped__", score_matrix)
    with pytest.raises(ValueError, match=sentence):
        bare(PositionScheme(), query, key, n_positions)


@pytest.mark.parametrize("fault", ["rows as keys", "ties count", "one diagonal left out"])
def test_the_definitions_see_planted_faults(fault, monkeypatch):
    phi = randn(6, 6).round()
    rows = phi.tolist()
    if fault == "rows as keys":
        assert monotonicity(phi.T.contiguous()) != pytest.approx(slow_monotonicity(rows))
    elif fault == "ties count":
        monkeypatch.setattr(torch.Tensor, "__gt__", torch.Tensor.__ge__)
        assert monotonicity(phi) != pytest.approx(slow_monotonicity(rows))
    else:
        phi = torch.zeros(6, 6)
        phi[0, 4], phi[1, 5] = 1.0, -1.0
        expected = slow_translation_variance(phi.tolist())
        monkeypatch.setattr(
            metrics, "range", lambda first, last: [r for r in range(first, last) if r != 4], raising=False
        )
        assert translation_variance(phi) != pytest.approx(expected)
