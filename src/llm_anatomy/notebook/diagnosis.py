"""How a result is wrong if no known mistake matches: a sign, a factor, a transpose, a shifted row, a masked entry.

A hypothesis is a function that yields, for one case, each sentence that is true there and what it is worth: the bits
of evidence for it. A sentence is told if it is true in all cases that came out wrong and if its evidence adds up to
enough, so that it does not hold by chance. The hypotheses are tried from specific to general.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import torch
from torch import Tensor

ENOUGH = 10  # bits: a sentence must be worth more
PER_NUMBER = 5  # what a number that is not whole is worth, or costs if it was fitted; so two numbers are too few
LARGEST = 50_000  # numbers in a tensor: larger ones are not examined
Claims = Iterator[tuple[str, float]]


def diagnose(
    found: list[Tensor],
    expected: list[Tensor],
    arguments: list[dict[str, object]],
    sizes: list[dict[str, int]] | None = None,
) -> str | None:
    """Say in a sentence how wrong results differ from the right ones, or return None where nothing is certain.

    Args:
        found: what the answer returned in each case; a number is a tensor without axes.
        expected: what is right in each case, in the same order.
        arguments: the arguments of each case, by name.
        sizes: the sizes of dimensions in each case, by name, such as ``{"n_heads": 3}``.

    Returns:
        A sentence for the student, true in all cases whose result is wrong.
    """
    given = list(zip(found, expected, arguments, sizes or [{} for _ in found], strict=True))
    if any(x.is_complex() for pair in given for x in pair[:2]):
        return None
    every = list(itertools.starmap(_case, given))
    cases = [case for case in every if case.wrong is None or case.wrong.any()]
    if not cases or any(not 0 < x.numel() <= LARGEST for case in cases for x in (case.found, case.expected)):
        return None
    mixed = len({case.expected.dim() for case in cases}) > 1
    right = tuple(case.found for case in every if case.wrong is not None and not case.wrong.any())
    cases = [replace(case, mixed=mixed, right=right) for case in cases]
    new = [not any(_repeats(case, earlier) for earlier in cases[:i]) for i, case in enumerate(cases)]
    for hypothesis in HYPOTHESES:
        worth = dict(hypothesis(cases[0]))
        for case, counts in zip(cases[1:], new[1:], strict=True):
            told = dict(hypothesis(case)) if worth else {}
            worth = {text: bits + counts * told[text] for text, bits in worth.items() if text in told}
        best = max(worth, key=worth.__getitem__, default="")
        if best and worth[best] > ENOUGH:
            return best
    return None


# A case, and what it is worth


@dataclass(frozen=True)
class Case:
    """A case, with all its numbers in float64.

    Args:
        sizes: what a factor may be: sizes by name, numbers among the arguments, sizes of tensors among them.
        boolean: whether True or False is expected.
        wrong: which entries are wrong; None if the shape is.
        mixed: whether the number of axes varies among the cases, so that axes are counted from the end.
        right: what was returned in the cases that came out right.
    """

    found: Tensor
    expected: Tensor
    arguments: dict[str, Tensor]
    sizes: dict[str, float]
    boolean: bool
    wrong: Tensor | None
    mixed: bool = False
    right: tuple[Tensor, ...] = ()

    @cached_property
    def worth(self) -> float:
        """How telling it is if something predicts the result: as much as all of it tells, and what is wrong in it."""
        both = (self.found, self.expected)
        whole = min(map(_bits, both))
        return whole if self.wrong is None else min(whole, *(2 * _bits(x[self.wrong]) for x in both))

    @cached_property
    def binary(self) -> bool:
        return bool(((self.expected == 0) | (self.expected == 1)).all())

    @cached_property
    def axes(self) -> range:
        """The axes of results of the right shape, counted from the end."""
        return range(0 if self.wrong is None else -self.expected.dim(), 0)

    def at(self, mask: Tensor) -> "Case":
        """The marked entries alone, as vectors."""
        f, e = self.found[mask], self.expected[mask]
        return replace(self, found=f, expected=e, wrong=torch.ones_like(f, dtype=torch.bool), right=())


def _case(found: Tensor, expected: Tensor, arguments: dict[str, object], sizes: dict[str, int]) -> Case:
    f, e = _plain(found), _plain(expected)
    exact = not (found.is_floating_point() or expected.is_floating_point())
    wrong = None if f.shape != e.shape else f != e if exact else ~_agree(f, e, 1e-5)
    given = dict(_tensors(arguments))
    factors = {name: float(n) for name, n in sizes.items()} | {n: x.item() for n, x in given.items() if not x.dim()}
    factors |= {f"{name}.shape[{a}]": float(x.shape[a]) for name, x in given.items() for a in range(-x.dim(), 0)}
    return Case(f, e, given, factors, expected.dtype == torch.bool, wrong)


def _plain(x: Tensor) -> Tensor:
    return x.detach().to("cpu", torch.float64)


def _tensors(arguments: dict) -> Iterator[tuple[str, Tensor]]:
    for name, value in arguments.items():
        if isinstance(value, Tensor) and not value.is_complex() and value.numel() <= LARGEST:
            yield name, _plain(value)
        elif isinstance(value, bool | int | float) and abs(value) < 1e300:
            yield name, torch.tensor(float(value), dtype=torch.float64)
        elif isinstance(value, tuple | list | dict):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            yield from _tensors({f"{name}[{key!r}]": item for key, item in items})


def _repeats(a: Case, b: Case) -> bool:
    return torch.equal(a.found, b.found) and torch.equal(a.expected, b.expected)


def _agree(x: Tensor, y: Tensor, atol: float) -> Tensor:
    gap = (x - y).abs()
    near = (gap <= (1e-4 * torch.maximum(x.abs(), y.abs())).clamp(min=atol)) & (gap < math.inf)
    return near | (x == y) | (x.isnan() & y.isnan())


def _same(x: Tensor, y: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding, which is small beside the largest number of the second."""
    return x.shape == y.shape and bool(_agree(x, y, 1e-5 * min(1.0, _largest(y))).all())


def _largest(x: Tensor) -> float:
    return x.abs().nan_to_num(0.0, 0.0).max().item() if x.numel() else 0.0


def _bits(x: Tensor) -> float:
    """How telling numbers are: whole ones by their entropy, others by how many distinct ones there are."""
    x = x[x.isfinite() & (x.abs() > 1e-5 * min(1.0, _largest(x))) | (x == 0)]
    counts = Counter(float(f"{v:.4g}") for v in x.tolist())
    whole = {v: n for v, n in counts.items() if v.is_integer()}
    total = sum(whole.values())
    return PER_NUMBER * float(len(counts) - len(whole)) + sum(n * math.log2(total / n) for n in whole.values())


# Words


def _line(axis: int, rank: int, plural: bool = False) -> str:
    """Name what an index along an axis picks: a row of a matrix, a slice of a larger tensor."""
    name = {(1, -1): "entry", (2, -2): "row", (2, -1): "column"}.get((rank, axis))
    if not name:
        return f"{'slices' if plural else 'slice'} along {_axis(axis, rank)}"
    return f"{name.replace('y', 'ie')}s" if plural else name


def _axis(axis: int, rank: int) -> str:
    names = {-1: "the last axis", -2: "the second-to-last axis"}
    return f"axis {axis + rank} of {rank} (counted from 0)" if rank else names.get(axis, f"axis {axis}")


def _in_each(axis: int, rank: int) -> str:
    """Name the lines that run along an axis, such as one sums over."""
    return {1: "", 2: f" in each {_line(-3 - axis, 2)}"}.get(rank, f" along {_axis(axis, rank)}")


def _rank(case: Case, x: Tensor) -> int:
    return 0 if case.mixed else x.dim()


def _shown(number: float, boolean: bool) -> str:
    if boolean and number in (0, 1):
        return str(bool(number))
    return "NaN" if math.isnan(number) else f"{number + 0.0:.4g}".replace("-", "−").replace("inf", "∞")


def _named(number: float, case: Case) -> Claims:
    """Yield names of a positive number, each with what it costs: as a simple number, by a size, in digits."""
    for symbol, unit in {"": 1.0, "π": math.pi, "180/π": 180 / math.pi}.items():
        simple = Fraction(number / unit).limit_denominator(1 if symbol else 4)
        if simple.numerator <= 1000 and math.isclose(number, float(simple) * unit, rel_tol=2e-5):
            yield symbol if symbol and simple == 1 else f"{simple}{symbol}", 0.0
    for name, size in case.sizes.items():
        forms = {name: size, f"√{name}": math.sqrt(max(size, 0)), f"{name}²": size * size}
        yield from ((text, 0.0) for text, v in forms.items() if v > 1 and math.isclose(number, v, rel_tol=1e-4))
    square = Fraction(number * number).limit_denominator(4)
    if square.numerator <= 20 and math.isclose(number, math.sqrt(square), rel_tol=2e-5):
        yield f"√{square}" if square.denominator == 1 else f"√({square})", 0.0
    yield f"about {float(f'{number:.5g}'):.3g}", float(PER_NUMBER)


# What became of each number


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "has the wrong sign": torch.neg,
    "is the absolute value of what is expected": torch.abs,
    "is what is expected, rounded down": torch.floor,
    "is what is expected, rounded to whole numbers": torch.round,
    "is what is expected, without its decimals": torch.trunc,
    "is the square of what is expected": torch.square,
    "is the square root of what is expected": torch.sqrt,
    "is the exponential of what is expected": torch.exp,
    "is the logarithm of what is expected": torch.log,
    "is 1 divided by what is expected": torch.reciprocal,
    "is 1 minus what is expected": lambda x: 1 - x,
}


def _values(case: Case) -> Claims:
    f, e = case.found, case.expected
    if case.wrong is None or case.binary or case.worth <= 0:
        return
    yield from ((predicate, case.worth) for predicate, function in FUNCTIONS.items() if _same(f, function(e)))
    if _same(f * f, 1 - e * e):
        yield "is a sine where a cosine is expected, or the other way round", case.worth
    usable = f.isfinite() & e.isfinite()
    x, y = e[usable], f[usable]
    factor, gap = ((x * y).sum() / (x * x).sum()).item(), (y - x).mean().item()
    if math.isfinite(factor) and factor and _same(f / factor, e):
        sign = "" if factor > 0 else "has the wrong sign and "
        large = abs(factor) > 1
        for name, cost in _named(max(abs(factor), 1 / abs(factor)), case):
            rooted = name[0] == "√" and name[1:] in case.sizes
            ask = f": is {'a scale missing' if large else 'it scaled twice'}?" if rooted else ""
            yield f"{sign}is too {'large' if large else 'small'} by a factor of {name}{ask}", case.worth - cost
        if factor > 0:
            yield "is right up to a factor, which is not the same in all cases", case.worth - PER_NUMBER
    if math.isfinite(gap) and gap and _same(f - gap, e):
        for name, cost in _named(abs(gap), case):
            ask = ": does a count begin at 0 where it should begin at 1, or the other way round?" if name == "1" else ""
            yield f"is too {'large' if gap > 0 else 'small'} by {name}{ask}", case.worth - cost
        yield "is right up to an added number, which is not the same in all cases", case.worth - PER_NUMBER


def _constant(case: Case) -> Claims:
    first = case.found.flatten()[0]
    if all(_same(x, first.expand_as(x)) for x in (case.found, *case.right)):
        ask = ": 0 / 0, ∞ − ∞ and 0 · ∞ all give NaN" if first.isnan() else ""
        yield f"is always {_shown(first.item(), case.boolean)}{ask}", _bits(case.expected) + 20 * first.isnan().item()


def _numbers(case: Case, subject: str = "Your result") -> Claims:
    for predicate, worth in itertools.chain(_values(case), _constant(case)):
        yield f"{subject} {predicate}{_stop(predicate)}", worth


def _stop(sentence: str) -> str:
    return "" if sentence.endswith("?") else "."


def _wrong_numbers(case: Case) -> Claims:
    if case.wrong is not None:
        yield from _numbers(case.at(case.wrong), "Where your result is wrong, it")


def _inverted(case: Case) -> Claims:
    if case.binary and _same(case.found, 1 - case.expected):
        no, yes = (_shown(x, case.boolean) for x in (0.0, 1.0))
        yield f"Your result is inverted: it is {yes} where {no} is expected, and the other way round.", case.worth


# Where the numbers went


def _orders(x: Tensor) -> Iterator[tuple[str, Tensor]]:
    n = x.dim()
    for order in itertools.islice(itertools.permutations(range(n)), 1, 120):
        moved = [i for i, axis in enumerate(order) if i != axis]
        text = f"with its axes in the order {', '.join(map(str, order))}"
        if len(moved) == 2:
            axes = "last two axes" if moved[0] == n - 2 else f"axes {moved[0]} and {moved[1]} (counted from 0)"
            text = f"with its {axes} swapped"
        yield "transposed" if n == 2 else text, x.permute(order)


def _moves(x: Tensor, rank: int) -> Iterator[tuple[str, Tensor]]:
    yield from _orders(x)
    for axis in range(-x.dim(), 0):
        lines = _line(axis, rank, plural=True)
        yield f"with its {lines} in reverse order", x.flip(axis)
        if axis == -2:
            yield "with its last two axes both in reverse order", x.flip(-1, -2)
        if x.shape[axis] > 2:
            yield f"with its {lines} moved by one towards the end and the last one put first", x.roll(1, axis)
            yield f"with its {lines} moved by one towards the start and the first one put last", x.roll(-1, axis)
    if x.dim() and x.shape[-1] >= 4 and x.shape[-1] % 2 == 0:
        lines, pairs, halves = _line(-1, rank, plural=True), x.unflatten(-1, (-1, 2)), x.unflatten(-1, (2, -1))
        for moved in (pairs.mT.flatten(-2), halves.mT.flatten(-2)):
            yield f"with its {lines} in two halves where they should alternate, or the other way round", moved
        yield f"with the two halves of its {lines} swapped", halves.flip(-2).flatten(-2)
        yield f"with its {lines} swapped in pairs", pairs.flip(-1).flatten(-2)


def _moved(case: Case) -> Claims:
    f, e = case.found, case.expected
    for how, y in _moves(e, _rank(case, e)):
        if _same(f, y):
            yield f"Your result is the expected one {how}.", case.worth
    if f.shape != e.shape and _same(f.flatten(), e.flatten()):
        squeezed = f.squeeze().shape == e.squeeze().shape and f.dim() != e.dim()
        one = "there is one axis of size 1 too many" if f.dim() > e.dim() else "an axis of size 1 is missing"
        for shape in (one, "the shape is wrong") if squeezed else ("the shape is wrong",):  # what all cases share
            yield f"Your numbers are right and in the right order, but {shape}.", case.worth


def _argument(case: Case) -> Claims:
    for name, x in case.arguments.items():
        for how, y in ((", unchanged", x), (" with its sign flipped", -x)):
            if _same(case.found, y):
                yield f"Your result is the argument `{name}`{how}.", case.worth


def _argument_moved(case: Case) -> Claims:
    for name, x in case.arguments.items():
        if x.numel() == case.found.numel():
            for how, y in _moves(x, x.dim()):
                if _same(case.found, y):
                    yield f"Your result is the argument `{name}` {how}.", case.worth
            if _same(case.found.flatten(), x.flatten()):
                text = f"Your result has the numbers of the argument `{name}` in the same order, but in another shape"
                yield f"{text}. A reshape does not move any number: is a transpose missing?", case.worth


def _reshaped(case: Case) -> Claims:
    for how, y in _orders(case.expected):
        if _same(case.found.flatten(), y.flatten()):
            text = f"Your result has the right numbers in another order: it is the expected one {how} and then reshaped"
            yield f"{text}. A reshape does not move any number: is a transpose missing or misplaced?", case.worth


def _overlapping(case: Case) -> Claims:
    f, e = case.found, case.expected
    for axis in range(-f.dim(), 0) if f.dim() == e.dim() else ():
        lines, m, n = _line(axis, _rank(case, e), plural=True), f.shape[axis], e.shape[axis]
        size, more = min(m, n) - (m == n), "has too many" if m > n else "has too few"
        for end, i, j in (("end", 1, 0), ("start", 0, 1)) if m == n else (("end", 0, 0), ("start", m - size, n - size)):
            x, y = (z.narrow(axis, min(start, z.shape[axis] - size), size) for z, start in ((f, i), (e, j)))
            if size and _same(x, y):
                shift = f"is the expected one with its {lines} moved by one towards the {end}: is a count off by one?"
                cut = f"{more} {lines} at the {end}; the others are right."
                yield f"Your result {shift if m == n else cut}", min(case.worth, _bits(x))


def _shuffled(case: Case) -> Claims:
    f, e = case.found, case.expected
    lines = {_line(axis, _rank(case, e), plural=True): (f.movedim(axis, 0), e.movedim(axis, 0)) for axis in case.axes}
    for name, pair in (lines | {"numbers": (f.flatten(), e.flatten())}).items():
        x, y = (torch.tensor(sorted(z.reshape(len(z), -1).tolist()), dtype=torch.float64) for z in pair)
        if _same(x, y):
            yield f"Your result has the right {name} in another order.", min(case.worth, _bits(f[f != f.round()]))


# What happened along an axis


STEPS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "summed": torch.sum,
    "averaged": torch.mean,
    "reduced to the largest entry": torch.amax,
    "summed step by step": torch.cumsum,
    "divided by its sum": lambda x, axis: x / x.sum(axis, keepdim=True),
    "passed through a softmax": torch.softmax,
}


def _step(case: Case) -> Claims:
    f, e = case.found, case.expected
    for (did, step), (x, y) in itertools.product(STEPS.items(), ((f, e), (e, f))):
        for axis in range(-x.dim(), 0):
            if x.shape[axis] > 1 and _same(step(x, axis), y):
                done = f"{did}{_in_each(axis, _rank(case, x))}"
                missing = f"Your result would be right if it were {done}: is this step missing?"
                yield missing if x is f else f"Your result is the expected one {done}.", case.worth


def _sums(case: Case) -> Claims:
    def to_one(x: Tensor, axes: list[int]) -> bool:
        total = x.sum(axes)
        return total.numel() < x.numel() and _same(total, torch.ones_like(total))

    rank = _rank(case, case.expected)
    for axis in case.axes if case.expected.dim() > 1 else ():
        if to_one(case.expected, [axis]) and not to_one(case.found, [axis]):
            others = {_in_each(other, rank): [other] for other in case.axes} | {" only as a whole": list(case.axes)}
            for where, axes in others.items():
                if to_one(case.found, axes):
                    text = f"Your result sums to 1{where}, but it should do so{_in_each(axis, rank)}"
                    yield f"{text}: is it normalized over the right axis?", case.worth


def _lines_scaled(case: Case) -> Claims:
    f, e = case.found, case.expected
    for axis in case.axes if f.dim() > 1 else ():
        factor = (f * e).sum(axis, keepdim=True) / (e * e).sum(axis, keepdim=True)
        gap = (f - e).mean(axis, keepdim=True)
        for what, fitted, back in (("a factor", factor, f / factor), ("an added number", gap, f - gap)):
            if f.shape[axis] > 2 and len(fitted.flatten().round(decimals=4).unique()) > 2 and _same(back, e):
                text = f"Your result is right up to {what} that is different{_in_each(axis, _rank(case, e))}."
                yield text, case.worth - PER_NUMBER * gap.numel()


def _repeated(case: Case) -> Claims:
    for axis in case.axes if case.found.dim() > 1 else ():
        first = case.found.narrow(axis, 0, 1)
        if case.found.shape[axis] > 1 and _same(case.found, first.expand_as(case.found)):
            where = _in_each(axis, _rank(case, case.found))
            yield f"Your result is constant{where}; the expected one is not.", min(_bits(case.expected), _bits(first))


# Where it is wrong


def _regions(case: Case) -> Iterator[tuple[str, Tensor]]:
    e, rank = case.expected, _rank(case, case.expected)
    indices = [torch.arange(e.shape[a]).view(-1, *[1] * (-a - 1)).expand_as(e) for a in case.axes]
    for axis, index in zip(case.axes, indices, strict=True):
        line, last = _line(axis, rank), e.shape[axis] - 1
        yield f"in the last {line}", index == last
        if e.dim() <= 2:  # a slice of something larger tells a student too little
            yield f"before the last {line}", index < last
            yield f"after the first {line}", index > 0
        for i, name in enumerate(("first", "second", "third", "fourth", "fifth")):
            yield f"in the {name} {line}", index == i
    if e.dim() and e.shape[-1] >= 4:
        half, of = e.shape[-1] / 2, _in_each(-1, rank).replace(" in ", " of ")
        yield f"at the even indices{of}", indices[-1] % 2 == 0
        yield f"at the odd indices{of}", indices[-1] % 2 == 1
        yield f"in the first half{of}", indices[-1] < half
        yield f"in the second half{of}", indices[-1] >= half
    if e.dim() > 1:
        yield "on the diagonal", indices[-2] == indices[-1]
        yield "off the diagonal", indices[-2] != indices[-1]
        yield "above the diagonal", indices[-2] < indices[-1]
        yield "below the diagonal", indices[-2] > indices[-1]
    yield f"where {_shown(0.0, case.boolean)} is expected", e == 0
    yield "where −∞ is expected", e == -math.inf
    yield "where a negative number is expected", e < 0
    yield f"where {'True' if case.boolean else 'a number other than 0'} is expected", e != 0
    for name, x in case.arguments.items():
        fits = x.dim() <= e.dim() and all(n in (1, m) for n, m in zip(x.shape[::-1], e.shape[::-1], strict=False))
        if x.dim() and fits and bool(((x == 0) | (x == 1)).all()):
            yield f"where `{name}` is False", (x == 0).expand_as(e)
            yield f"where `{name}` is True", (x == 1).expand_as(e)


def _within(case: Case, mask: Tensor) -> Claims:
    """Yield regions in which all marked entries lie, worth how unlikely it is that they do so by chance."""
    n, marked = mask.numel(), int(mask.sum())
    for text, region in _regions(case):
        size = int(region.sum())
        if size < n and not bool((mask & ~region).any()):
            yield text, _choices(n, marked) - _choices(size, marked) - 2.0
    for axis in case.axes if mask.dim() == 2 else ():
        lines = mask.all(axis)
        if torch.equal(lines, mask.any(axis)):
            worth = _choices(n, marked) - _choices(lines.numel(), int(lines.sum())) - 2.0
            yield f"in some {_line(-3 - axis, 2, plural=True)} (the others are right)", worth


def _choices(n: int, k: int) -> float:
    """The number of ways to choose k of n, in bits."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


def _regions_wrong(case: Case) -> Claims:
    if case.wrong is None:
        return
    finite = case.expected.isfinite()
    marks = {"NaN": case.found.isnan() & finite, "infinite": case.found.isinf() & finite, "wrong": case.wrong}
    for name, mask in marks.items():
        if not mask.any() or mask.all():
            continue
        there = [""]
        if name == "wrong":
            part = case.at(mask)
            told = [*_constant(part), *((text, worth) for text, worth in _values(part) if worth > ENOUGH)]
            there += [f"; there it {text}" for text, _ in told]
        for where, worth in _within(case, mask):
            for i, what in enumerate(there):
                more = (len(there) - i) / 100 if what else 0
                yield f"Your result is {name} only {where}{what}{_stop(what)}", worth + more


HYPOTHESES: tuple[Callable[[Case], Claims], ...] = (
    _argument,
    _numbers,
    _inverted,
    _moved,
    _overlapping,
    _argument_moved,
    _reshaped,
    _shuffled,
    _step,
    _sums,
    _lines_scaled,
    _regions_wrong,
    _wrong_numbers,
    _repeated,
)
