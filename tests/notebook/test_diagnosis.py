"""A diagnosis says how a result is wrong; it is true in every wrong case, and not told where it may be so by chance."""

import math

import pytest
import torch

from llm_anatomy.notebook.diagnosis import diagnose

INF, NAN = math.inf, math.nan
SHAPES = [(5, 8), (7, 10)]
CUBES = [(2, 3, 4), (3, 5, 6)]


def numbers(*shape):
    return torch.randn(shape, dtype=torch.float64)


def tens(*shape):
    return 10 * numbers(*shape)


def weights(*shape):
    return torch.softmax(3 * numbers(*shape), -1)


def causal(rows, columns):
    return torch.ones(rows, columns).tril(columns - rows).bool()


def square_causal(rows, _):
    return causal(rows, rows)


def causal_zeros(rows, columns):
    return causal(rows, columns).double().log()


def causal_weights(rows, columns):
    return torch.softmax(numbers(rows, columns) + causal_zeros(rows, columns), -1)


def integers(*shape):
    return torch.randint(0, 30, shape)


def booleans(*shape):
    return torch.rand(shape) < 0.5


def told(wrong, make=numbers, shapes=SHAPES):
    """What is said of ``wrong(expected)`` where ``make(*shape)`` is expected."""
    torch.manual_seed(0)
    expected = [make(*shape) for shape in shapes]
    return diagnose([wrong(e.clone()) for e in expected], expected, [{} for _ in expected])


def new(x):
    return torch.randn(x.shape, dtype=torch.float64)


def nan(x):
    return x * NAN


def half(x):
    return x.shape[1] // 2


def shuffled(x):
    return x[torch.randperm(len(x))]


def in_parts(x):
    first, second = new(x), new(x)
    return torch.stack([first, second, x - first - second])


def where(mask_of, content, before=lambda x: x):
    """Replace the entries of a result that a mask picks."""
    return lambda x: torch.where(mask_of(x), content(x), before(x))


def row(i):
    return lambda x: (torch.arange(len(x)) == i % len(x))[:, None]


def column(holds):
    return lambda x: holds(torch.arange(x.shape[1]), x.shape[1])


def one(x):
    return row(1)(x) & column(lambda i, n: i == 2)(x)


def diagonal(x):
    return torch.eye(*x.shape).bool()


def above(x):
    return torch.ones(x.shape).triu(1).bool()


def sometimes(x):
    return torch.rand(x.shape) < 0.6


@pytest.mark.parametrize(
    ("text", "wrong", "make"),
    [
        ("Your result has the wrong sign.", torch.neg, numbers),
        ("too large by a factor of 2.", lambda x: 2 * x, numbers),
        ("too small by a factor of 3/2.", lambda x: x / 1.5, numbers),
        ("too large by a factor of about 1.23.", lambda x: 1.2345 * x, numbers),
        ("too large by a factor of √3.", lambda x: x * 3**0.5, numbers),
        ("too small by a factor of √(3/2).", lambda x: x / 1.5**0.5, numbers),
        ("too large by a factor of 2π.", lambda x: 2 * math.pi * x, numbers),
        ("too small by a factor of 180/π.", torch.deg2rad, numbers),
        ("has the wrong sign and is too large by a factor of 2.", lambda x: -2 * x, numbers),
        ("up to a factor, which is not the same in all cases", lambda x: x * (1 + 0.37 * len(x)), numbers),
        ("too large by about 0.3.", lambda x: x + 0.3003, numbers),
        ("too small by 1: does a count", lambda x: x - 1, integers),
        ("too large by 1: does a count", lambda x: x + 1, integers),
        ("up to an added number, which is not the same in all cases", lambda x: x + 0.37 * len(x), numbers),
        ("is 1 minus what is expected", lambda x: 1 - x, numbers),
        ("is the square of", torch.square, numbers),
        ("is the square root of", torch.sqrt, weights),
        ("is the exponential of", torch.exp, numbers),
        ("is the logarithm of", torch.log, weights),
        ("is the logarithm of", torch.log, causal_weights),
        ("is 1 divided by", torch.reciprocal, numbers),
        ("is the absolute value of", torch.abs, numbers),
        ("rounded down", torch.floor, tens),
        ("rounded to whole numbers", torch.round, tens),
        ("without its decimals", torch.trunc, tens),
        ("is a sine where a cosine", lambda x: (1 - x * x).sqrt(), lambda *shape: numbers(*shape).sin()),
        ("is inverted: it is True where False is expected", torch.logical_not, causal),
        ("is inverted: it is 1 where 0 is expected", lambda x: 1 - x, lambda *shape: causal(*shape).float()),
    ],
)
def test_what_became_of_each_number(text, wrong, make):
    assert text in told(wrong, make)


@pytest.mark.parametrize(
    ("text", "wrong", "shapes"),
    [
        ("is the expected one transposed.", lambda x: x.mT, SHAPES),
        ("with its last two axes swapped", lambda x: x.mT, CUBES),
        ("with its axes 0 and 1 (counted from 0) swapped", lambda x: x.transpose(0, 1), CUBES),
        ("axes in the order 2, 0, 1", lambda x: x.permute(2, 0, 1), CUBES),
        ("with its rows in reverse order", lambda x: x.flip(0), SHAPES),
        ("with its last two axes both in reverse order", lambda x: x.flip(0, 1), SHAPES),
        ("with its columns in reverse order", lambda x: x.flip(1), SHAPES),
        ("with its entries in reverse order", lambda x: x.flip(0), [(5,), (7,)]),
        ("with its slices along axis 1 of 3 (counted from 0) in reverse order", lambda x: x.flip(1), CUBES),
        ("with its slices along the last axis in reverse order", lambda x: x.flip(-1), [(5, 8), (3, 4, 5)]),
        ("its rows moved by one towards the end and the last one", lambda x: x.roll(1, 0), SHAPES),
        ("its columns moved by one towards the start and the first one", lambda x: x.roll(-1, 1), SHAPES),
        ("its rows moved by one towards the end: is", lambda x: torch.cat([0 * x[:1], x[:-1]]), SHAPES),
        ("columns moved by one towards the start: is", lambda x: torch.cat([x[:, 1:], x[:, -1:]], 1), SHAPES),
        ("with its columns in two halves", lambda x: torch.cat([x[:, ::2], x[:, 1::2]], 1), SHAPES),
        ("with its columns in two halves", lambda x: x.unflatten(-1, (2, -1)).mT.flatten(-2), SHAPES),
        ("the two halves of its columns swapped", lambda x: x.roll(half(x), 1), SHAPES),
        ("columns swapped in pairs", lambda x: x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2), SHAPES),
        ("the right rows in another order", shuffled, SHAPES),
        ("the right columns in another order", lambda x: shuffled(x.T).T, SHAPES),
        ("the right numbers in another order", lambda x: shuffled(x.flatten()).view(x.shape), SHAPES),
        ("the right numbers in another order", lambda x: x.transpose(0, 1).reshape(x.shape), CUBES),
        ("there is one axis of size 1 too many", lambda x: x[:, None], SHAPES),
        ("an axis of size 1 is missing", lambda x: x[0], [(1, 5, 8), (1, 7, 10)]),
        ("right order, but the shape is wrong", lambda x: x.flatten(), SHAPES),
        ("right order, but the shape is wrong", lambda x: x.reshape(-1, x.shape[-1]), [(5,), (2, 3, 4)]),
        ("right order, but the shape is wrong", lambda x: x.flatten(), [(1, 5), (5, 8), (7, 1)]),
        ("is the expected one summed in each row", lambda x: x.sum(1), SHAPES),
        ("is the expected one averaged in each column", lambda x: x.mean(0), SHAPES),
        ("summed step by step in each row", lambda x: x.cumsum(1), SHAPES),
        ("would be right if it were summed along axis 0 of 3", in_parts, SHAPES),
        ("has too few rows at the start", lambda x: x[1:], SHAPES),
        ("has too few columns at the end", lambda x: x[:, :-2], SHAPES),
        ("has too many rows at the end", lambda x: torch.cat([x, x[:1]]), SHAPES),
    ],
)
def test_where_the_numbers_went(text, wrong, shapes):
    assert text in told(wrong, shapes=shapes)


def over_columns(x):
    scores = x.log() + new(x[:, :1])
    return torch.softmax(scores, 0)


@pytest.mark.parametrize(
    ("text", "wrong", "make"),
    [
        ("right if it were passed through a softmax in each row: is", lambda x: x.log() + new(x[:, :1]), weights),
        ("right if it were divided by its sum in each row: is", lambda x: x * new(x[:, :1]).exp(), weights),
        ("sums to 1 in each column, but it should do so in each row", over_columns, weights),
        ("sums to 1 only as a whole, but it", lambda x: torch.softmax(x.flatten(), 0).view(x.shape), weights),
        ("right up to a factor that is different in each row", lambda x: x * new(x[:, :1]), numbers),
        ("right up to an added number that is different in each column", lambda x: x + new(x[:1]), numbers),
        ("constant in each column; the expected", lambda x: new(x[:1]).expand_as(x), numbers),
    ],
)
def test_what_became_of_each_row(text, wrong, make):
    assert text in told(wrong, make)


@pytest.mark.parametrize(
    ("text", "wrong", "make"),
    [
        ("only in the first row.", where(row(0), new), numbers),
        ("only in the last row.", where(row(-1), new), numbers),
        ("only in the third row.", where(row(2), new), numbers),
        (
            "in the last column; there it is always 0.",
            where(column(lambda i, n: i == n - 1), torch.zeros_like),
            numbers,
        ),
        ("only after the first row.", where(lambda x: ~row(0)(x), new), numbers),
        ("only on the diagonal.", where(diagonal, new), numbers),
        ("only on the diagonal; there it is always False.", where(diagonal, torch.logical_not), square_causal),
        ("only off the diagonal; there it has the wrong sign.", where(lambda x: ~diagonal(x), torch.neg), numbers),
        ("only above the diagonal.", where(above, new), numbers),
        ("only below the diagonal; there it is always 0.", torch.triu, numbers),
        ("only where 0 is expected.", where(lambda x: x == 0, new), causal_weights),
        ("only where a number other than 0 is expected.", where(lambda x: x != 0, new), causal_weights),
        ("only where −∞ is expected; there it is always 0.", torch.zeros_like, causal_zeros),
        ("only where a negative number is expected; there it is always 0.", torch.relu, numbers),
        ("only in the first half of each row.", where(column(lambda i, n: i < n // 2), new), numbers),
        ("half of each row; there it has the wrong", where(column(lambda i, n: i >= n // 2), torch.neg), numbers),
        (
            "even indices of each row; there it is too",
            where(column(lambda i, n: i % 2 == 0), lambda x: x + 1),
            integers,
        ),
        ("only at the odd indices of each row.", where(column(lambda i, n: i % 2 == 1), new), numbers),
        (
            "only where 0 is expected; there it is always NaN: 0 / 0, ∞ − ∞",
            where(lambda x: x == 0, nan),
            causal_weights,
        ),
        (
            "only in some rows (the others are right); there it is always NaN",
            where(lambda x: row(2)(x) | row(len(x) // 2 + 1)(x), nan),
            numbers,
        ),
        ("is NaN only in the first row.", where(row(0), nan, new), numbers),
        ("is infinite only on the diagonal.", where(diagonal, lambda x: x * INF, new), numbers),
        ("Your result is always NaN: 0 / 0, ∞ − ∞ and 0 · ∞ all give NaN.", nan, numbers),
        ("Your result is always −∞.", lambda x: torch.full_like(x, -INF), numbers),
        ("Your result is always 0.", torch.zeros_like, numbers),
        ("Your result is always True.", torch.ones_like, booleans),
        ("Where your result is wrong, it has the wrong sign.", where(sometimes, torch.neg), numbers),
        ("Where your result is wrong, it is always 0.", where(sometimes, torch.zeros_like), numbers),
        ("Where your result is wrong, it is too large by 1", where(sometimes, lambda x: x + 1), integers),
    ],
)
def test_where_a_result_is_wrong(text, wrong, make):
    assert text in told(wrong, make)


def sized(factor):
    """What is said of results that are ``factor(case)`` times too large, in three cases with sizes and arguments."""
    torch.manual_seed(0)
    sizes = [{"n_heads": n, "d_head": d} for n, d in ((3, 5), (2, 7), (4, 6))]
    arguments = [{"x": numbers(d + 3, n + 9), "scale": 1.3 + n} for n, d in map(dict.values, sizes)]
    expected = [numbers(4, 3) for _ in sizes]
    found = [factor(**s, **a) * e for s, a, e in zip(sizes, arguments, expected, strict=True)]
    return diagnose(found, expected, arguments, sizes)


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("too large by a factor of √d_head: is a scale missing?", lambda d_head, **_: d_head**0.5),
        ("too small by a factor of √d_head: is it scaled twice?", lambda d_head, **_: d_head**-0.5),
        ("too small by a factor of n_heads.", lambda n_heads, **_: 1 / n_heads),
        ("too small by a factor of d_head².", lambda d_head, **_: d_head**-2),
        ("too large by a factor of scale.", lambda scale, **_: scale),
        ("too large by a factor of x.shape[-1].", lambda x, **_: x.shape[-1]),
        ("too large by a factor of 3.", lambda **_: 3),
        ("factor, which is not the same in all cases", lambda n_heads, d_head, **_: n_heads + d_head / 9),
        ("factor, which is not the same in all cases", lambda n_heads, d_head, **_: 3 if n_heads == 3 else d_head),
    ],
)
def test_a_factor_is_named_if_its_name_fits_in_all_cases(text, factor):
    assert text in sized(factor)


def returned(make):
    """What is said of results made from the arguments; the expected ones have nothing to do with them."""
    torch.manual_seed(0)
    arguments = [{"q": numbers(*s), "pair": (numbers(3, 2), numbers(6, *s[1:]))} for s in SHAPES]
    found = [make(a) for a in arguments]
    return diagnose(found, [numbers(4, 3) if x.dim() == 1 else new(x) for x in found], arguments)


@pytest.mark.parametrize(
    ("text", "make"),
    [
        ("is the argument `q`, unchanged", lambda a: a["q"]),
        ("is the argument `q` with its sign flipped", lambda a: -a["q"]),
        ("is the argument `pair[1]`, unchanged", lambda a: a["pair"][1]),
        ("is the argument `q` transposed", lambda a: a["q"].T),
        ("numbers of the argument `q` in the same order, but in another shape", lambda a: a["q"].flatten()),
    ],
)
def test_an_argument_given_back(text, make):
    assert text in returned(make)


def test_entries_that_a_mask_among_the_arguments_hides():
    torch.manual_seed(0)
    arguments = [{"mask": booleans(s[1])} for s in SHAPES]
    expected = [numbers(*s) for s in SHAPES]
    found = [torch.where(a["mask"], e, new(e)) for a, e in zip(arguments, expected, strict=True)]
    assert diagnose(found, expected, arguments) == "Your result is wrong only where `mask` is False."


def test_only_wrong_cases_count():
    torch.manual_seed(0)
    expected = [numbers(5, 8), numbers(7, 10), numbers(3, 4)]
    assert "factor of 2" in diagnose([expected[0], *(2 * e for e in expected[1:])], expected, [{}] * 3)


def test_a_result_that_varies_in_the_right_cases_is_not_always_the_same():
    torch.manual_seed(0)
    expected, zeros = [numbers(5, 8), numbers(7, 10), 0 * numbers(3, 4)], [torch.zeros(5, 8), torch.zeros(7, 10)]
    assert diagnose([*zeros, expected[2]], expected, [{}] * 3) == "Your result is always 0."
    expected[2] += 1.5
    assert diagnose([*zeros, expected[2]], expected, [{}] * 3) == "Where your result is wrong, it is always 0."


def test_the_same_case_again_is_no_more_evidence():
    found, expected = torch.tensor([0.5, 0.7]), torch.tensor([0.25, 0.49])
    assert diagnose([found] * 5, [expected] * 5, [{}] * 5) is None


def test_zero_has_no_sign():
    assert "it is always 0." in told(where(diagonal, lambda x: -0.0 * x.abs()))


NOTHING = [
    ("right", lambda x: x + 1e-7, SHAPES),
    ("another mistake in each case", lambda x: 2 * x if len(x) == 5 else -x, SHAPES),
    ("a factor in one case only", lambda x: 2 * x if len(x) == 5 else new(x), SHAPES),
    ("a factor with noise", lambda x: 2 * x * (1 + 0.01 * new(x)), SHAPES),
    ("nearly the sign", lambda x: -x + 0.001, SHAPES),
    (
        "transposed but for one number",
        lambda x: where(lambda y: row(1)(y) & column(lambda i, n: i == 2)(y), new)(x.T),
        SHAPES,
    ),
    ("tiny numbers, no squares", lambda x: 1e-7 * new(x), [(5,)]),
    ("one number", lambda x: -x, [()]),
    ("a vector of one number", lambda x: 2 * x, [(1,)]),
    ("two numbers, a factor", lambda x: 2 * x, [(2,)]),
    ("three numbers up to a digit factor", lambda x: 1.2345 * x, [(3,)]),
    ("two scalars", lambda x: x**2, [(), ()]),
    ("one wrong number", where(one, torch.neg), [(5, 8)]),
]


@pytest.mark.parametrize(("wrong", "shapes"), [entry[1:] for entry in NOTHING], ids=[entry[0] for entry in NOTHING])
def test_nothing_is_said_without_evidence(wrong, shapes):
    assert told(wrong, shapes=shapes) is None


CONSTANTS = [(0.0, 0.0, 1.0), (0.5, 0.25, 2.0), (NAN, NAN, 1.0), (INF, 0.0, INF), (2.0, 1.0, 2.0), (-1.0, 1.0, 1.0)]


@pytest.mark.parametrize(("found", "expected", "argument"), CONSTANTS)
def test_constants_are_no_evidence(found, expected, argument):
    def fill(value):
        return [torch.full(shape, value) for shape in SHAPES]

    assert diagnose(fill(found), fill(expected), [{"x": x} for x in fill(argument)], [{"n": 2}] * 2) is None


@pytest.mark.parametrize("make", [numbers, weights, integers, booleans])
def test_nothing_is_said_of_unrelated_results(make):
    torch.manual_seed(0)
    sizes = [{"n_heads": 3, "d_head": 5}, {"n_heads": 2, "d_head": 7}]
    for _ in range(125):
        expected, found = ([make(4, 6), make(5, 7)] for _ in range(2))
        arguments = [{"q": make(4, 3), "k": make(6, 3)}, {"q": make(5, 2), "k": make(7, 2)}]
        assert diagnose(found, expected, arguments, sizes) is None


SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 1e308, INF, -INF, NAN], dtype=torch.float64)
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]


def junk():
    shape = torch.randint(0, 5, (int(torch.randint(0, 5, ())),)).tolist()
    picked = SPECIAL[torch.randint(0, len(SPECIAL), shape)] if torch.rand(()) < 0.5 else numbers(*shape)
    dtype = DTYPES[int(torch.randint(0, len(DTYPES), ()))]
    return picked.to(dtype) if dtype.is_floating_point else picked.nan_to_num(0, 100, 0).clamp(0, 100).to(dtype)


def test_it_never_raises():
    torch.manual_seed(0)
    others = [
        "text",
        None,
        3,
        -0.0,
        NAN,
        INF,
        True,
        10**400,
        {"a": [junk()], 1: ()},
        torch.zeros(2, dtype=torch.complex64),
    ]
    for i in range(600):
        n = 1 + i % 3
        found, expected = ([junk() for _ in range(n)] for _ in range(2))
        if i % 2:
            found = [x if i % 4 == 1 else x.flip(0) if x.dim() else -x.double() for x in map(torch.clone, expected)]
        arguments = [{"x": junk(), "other": others[i % len(others)]} for _ in range(n)]
        said = diagnose(found, expected, arguments, [{"n": i % 5, "m": -1}] * n)
        assert said is None or said[-1] in ".?"


def test_odd_tensors():
    x = numbers(3, 4)
    assert diagnose([], [], []) is None
    assert diagnose([x.to(torch.complex64)], [x], [{}]) is None
    assert diagnose([numbers(300, 300)], [numbers(300, 300)], [{}]) is None
    assert diagnose([numbers(1, 2, 1, 2, 1, 2, 2)], [numbers(1, 2, 1, 2, 1, 2, 2)], [{}]) is None
    assert "wrong sign" in diagnose([(-x).requires_grad_()], [x], [{}])
