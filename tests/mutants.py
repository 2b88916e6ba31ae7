"""Wrong answers made by machine: a solution with one place changed, and cases that differ a little from a given one."""

import ast
import copy
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch

from bookbinder.masters import Master, part
from llm_anatomy.notebook.checks import importing
from llm_anatomy.notebook.outcomes import CheckTimeout

PAIRS = (  # a function or method, and one that answers another question
    ("min", "max"),
    ("argmin", "argmax"),
    ("amin", "amax"),
    ("minimum", "maximum"),
    ("sum", "mean"),
    ("sum", "prod"),
    ("cumsum", "cumprod"),
    ("any", "all"),
    ("floor", "ceil"),
    ("tril", "triu"),
    ("rows", "columns"),
    ("log", "log2"),
    ("log2", "log10"),
    ("find", "rfind"),
    ("startswith", "endswith"),
    ("lstrip", "rstrip"),
    ("removeprefix", "removesuffix"),
    ("mean", "median"),
    ("softmax", "log_softmax"),
    ("softmax", "sigmoid"),
    ("sin", "cos"),
    ("repeat", "repeat_interleave"),
    ("intersection", "union"),
    ("items", "elements"),
)
OTHER_NAMES: dict[str, list[str]] = {}
for _a, _b in PAIRS:
    OTHER_NAMES.setdefault(_a, []).append(_b)
    OTHER_NAMES.setdefault(_b, []).append(_a)
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.GtE, ast.LtE),
    ast.NotEq: (ast.Gt, ast.Lt),
}
OPERATORS = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
}
COMMUTE = (ast.Add, ast.Mult)
SELECTED = {"min", "max", "minimum", "maximum"}  # of two arguments, one may be left out
ORDERED = {"sub", "div", "matmul", "zip", "range", "divmod", "pow", "cross_entropy", "where"}
PASSED_BY = {  # methods and functions that may be forgotten
    *("mT", "T", "abs", "exp", "log", "sqrt", "rsqrt", "square", "neg", "norm", "round", "floor", "float", "int"),
    *("softmax", "log_softmax", "sigmoid", "tanh", "relu", "clamp", "clamp_min", "clamp_max", "masked_fill"),
    *("sort", "sorted", "reversed", "flip", "transpose", "movedim", "unique", "set", "fromkeys"),
    *("cumsum", "tril", "triu", "lower", "strip", "ceil"),
}
KEPT = {"dim", "axis", "strict", "dtype", "generator"}  # keywords whose lack is no mistake, or an error


TINY = 1e-4  # a smaller constant is there for rounding


class Mutant(NamedTuple):
    """A function that differs from a right answer in one place."""

    of: str
    change: str  # such as "x < y → x <= y"
    place: tuple[int, int]  # line and column
    function: Callable


def mutants(master: Master, accepted: bool = True, most: int | None = None) -> list[Mutant]:
    """The functions that differ in one place from the solution or, if wanted, from another accepted answer.

    Args:
        most: if given, only so many of them, chosen at equal distances, which are the same on each call.
    """
    wanted, kinds = [], _kinds(master)
    for name in (master.function, *(master.accepted if accepted else ())):
        tree = ast.parse(part(master.source, {name}))
        wanted += [(name, tree, *each) for each in _all_changes(tree, kinds)]
    made, seen = [], set()
    for name, tree, of, place, new in wanted[:: max(1, math.ceil(len(wanted) / most))] if most else wanted:
        parent, field, index, node = place
        put(parent, field, index, new)
        try:
            text = ast.unparse(ast.fix_missing_locations(tree))
        finally:
            put(parent, field, index, node)
        if (name, text) in seen:
            continue
        seen.add((name, text))
        namespace: dict[str, Any] = {"__name__": "mutant"}
        try:
            exec(compile(text, "mutant", "exec"), namespace)
        except Exception:  # it cannot even be defined
            continue
        where = name if of == name else f"{name}, {of}"
        made.append(Mutant(where, f"{_short(node)} → {_short(new)}", _place(node), namespace[name]))
    return made


def _kinds(master: Master) -> dict[str, str]:
    """For each argument whether it is a number, a tensor or of which other type: only such are exchanged."""
    functions = (node for node in ast.parse(master.source).body if isinstance(node, ast.FunctionDef))
    solution = next(node for node in functions if node.name == master.function)
    types = {each.arg: ast.unparse(each.annotation) for each in solution.args.args if each.annotation}
    return {
        name: "number" if text in ("int", "float", "bool") else "tensor" if "Tensor" in text else text.partition("[")[0]
        for name, text in types.items()
    }


def _all_changes(tree: ast.Module, kinds: dict[str, str]) -> Iterator[tuple]:
    """For each change of one place: what is defined there, the place, and what is to stand there."""
    for top in tree.body:
        if isinstance(top, ast.Import | ast.ImportFrom):
            continue
        of = getattr(top, "name", "") or ast.unparse(top)[:30]
        for place in places(top):
            parent, field, _, node = place
            yield from ((of, place, new) for new in changes(node, parent, field, kinds))


def _tiny(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < abs(node.value) < TINY
    return "eps" in ast.unparse(node).rpartition(".")[2]


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _short(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def places(top: ast.AST) -> Iterator[tuple]:
    for parent in ast.walk(top):
        for field, value in ast.iter_fields(parent):
            if field in {"annotation", "returns", "args", "decorator_list", "type_comment"} and isinstance(
                parent, ast.FunctionDef | ast.arg | ast.AnnAssign
            ):
                continue
            if isinstance(value, list):
                for i, child in enumerate(value):
                    if isinstance(child, ast.AST) and not is_docstring(child):
                        yield parent, field, i, child
            elif isinstance(value, ast.AST):
                yield parent, field, None, value


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _index(node: ast.expr, text: str) -> ast.expr:
    return ast.Subscript(node, ast.parse(f"x[{text}]", mode="eval").body.slice, ast.Load())


def _with(node: ast.AST, **fields: Any) -> Any:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def changes(node: ast.AST, parent: ast.AST, field: str, kinds: dict[str, str]) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(comparators=[ast.Constant(value=str())]):  # nobody asks which of two texts is larger
            return
        case ast.Compare(ops=[op]):
            yield from (_with(node, ops=[new()]) for new in COMPARISONS.get(type(op), ()))
        case ast.BoolOp(op=op, values=values):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for i in range(len(values)):
                rest = values[:i] + values[i + 1 :]
                yield _with(node, values=rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield operand
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(n))) if n in (1, 2):
            yield ast.Constant(0)
            yield ast.Constant(1)
            yield ast.UnaryOp(ast.USub(), ast.Constant(3 - n))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield operand
        case ast.BinOp() if _tiny(node.right) or _tiny(node.left):  # keeps a divisor above 0
            return
        case ast.BinOp(left=left, op=op, right=right):
            others = OPERATORS.get(type(op), ())
            if isinstance(right, ast.Constant) and right.value == 1:  # times 1 is like nothing at all
                others = tuple(new for new in others if new not in (ast.Mult, ast.Div))
            yield from (_with(node, op=new()) for new in others)
            if isinstance(op, ast.Div):  # a factor too many
                for name in sorted(kinds.keys() - {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}):
                    if kinds[name] == "number":
                        yield ast.BinOp(node, ast.Mult(), ast.Name(name, ast.Load()))
            if not isinstance(op, ast.MatMult):
                yield left
                yield right
            if not isinstance(op, COMMUTE):
                yield _with(node, left=right, right=left)
        case ast.Constant(value=bool(x)) if not (isinstance(parent, ast.keyword) and parent.arg in KEPT):
            yield ast.Constant(not x)
        case ast.Constant(value=bool()):
            return
        case ast.Constant(value=int(n)) if not (isinstance(parent, ast.UnaryOp)):
            yield from (ast.Constant(m) for m in (n + 1, n - 1) if m >= 0)
            if n == 0:
                yield ast.UnaryOp(ast.USub(), ast.Constant(1))
            if n == 1 and (field == "args" or isinstance(parent, ast.keyword)):
                yield ast.UnaryOp(ast.USub(), ast.Constant(1))
            if n > 9:
                yield ast.Constant(1)
        case ast.Constant(value=float(x)) if math.isfinite(x) and not 0 < abs(x) < TINY:
            yield ast.Constant(0.0)
            yield ast.Constant(2 * x + (x == 0))
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case ast.If():
            yield _with(node, test=ast.Constant(False))
            yield _with(node, test=ast.Constant(True))
        case ast.comprehension(ifs=ifs, iter=it):
            for i in range(len(ifs)):
                yield _with(node, ifs=ifs[:i] + ifs[i + 1 :])
            yield from (_with(node, iter=new) for new in _other_orders(it))
        case ast.For(iter=it):
            yield from (_with(node, iter=new) for new in _other_orders(it))
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step), ctx=ast.Load()):
            yield value
            if bool(lower) != bool(upper) and step is None:
                yield _with(node, slice=ast.Slice(upper, lower))
        case ast.Subscript(value=value, slice=ast.Constant(value=0), ctx=ast.Load()):
            yield _index(value, "-1")
        case ast.Subscript(slice=ast.Tuple(elts=elts), ctx=ast.Load()) if len(elts) == 2:
            yield _with(node, slice=ast.Tuple(elts[::-1], ast.Load()))
        case ast.Attribute(value=value, attr=attr):
            if not (isinstance(parent, ast.Call) and field == "func") and attr in PASSED_BY:
                yield value
            yield from (_with(node, attr=new) for new in OTHER_NAMES.get(attr, ()))
        case ast.Name(id=name, ctx=ast.Load()):
            if isinstance(parent, ast.Call) and field == "func":
                yield from (_with(node, id=new) for new in OTHER_NAMES.get(name, ()))
            elif name in kinds:
                others = (new for new in sorted(kinds) if new != name and kinds[new] == kinds[name])
                yield from (_with(node, id=new) for new in others)
        case ast.Call(func=func, args=args, keywords=keywords):
            called = _called(node)
            for i in range(len(keywords)):
                if keywords[i].arg not in KEPT:
                    yield _with(node, keywords=keywords[:i] + keywords[i + 1 :])
            if called in SELECTED and len(args) == 2:
                yield from args
            if len(args) == 2 and not keywords and (isinstance(func, ast.Name) or called in ORDERED):
                yield _with(node, args=args[::-1])
            if called in PASSED_BY:
                if isinstance(func, ast.Attribute) and not (
                    isinstance(func.value, ast.Name) and func.value.id in ("torch", "math", "F", "functional")
                ):
                    yield func.value
                elif args:
                    yield args[0]
            if called == "sorted" and not any(each.arg == "reverse" for each in keywords):
                yield _with(node, keywords=[*keywords, ast.keyword("reverse", ast.Constant(True))])
            if called in ("var", "std"):
                unbiased = ast.keyword("unbiased", ast.Constant(True))
                rest = [each for each in keywords if each.arg not in ("unbiased", "correction")]
                yield _with(node, keywords=[*rest, unbiased])
            if called in ("sort", "argsort", "topk"):
                for flag in ("descending", "largest", "stable"):
                    if not any(each.arg == flag for each in keywords):
                        yield _with(node, keywords=[*keywords, ast.keyword(flag, ast.Constant(flag != "largest"))])
            if called in ("sum", "Counter") and args and not keywords:
                yield _with(node, args=[_call("list", _call("dict.fromkeys", args[0])), *args[1:]])
        case ast.AugAssign(op=op, target=target, value=value):
            yield from (_with(node, op=new()) for new in OPERATORS.get(type(op), ()))
            yield ast.Assign([_with(target, ctx=ast.Store())], value, lineno=node.lineno)
            yield ast.Pass()


def _other_orders(iterated: ast.expr) -> Iterator[ast.expr]:
    if isinstance(iterated, ast.Call) and _called(iterated) == "range":
        yield _call("reversed", iterated)
        yield _index(iterated, "1:")
        yield _index(iterated, ":-1")
        return
    listed = _call("list", iterated)
    for text in ("::-1", "1:", ":-1", ":1", "-1:"):
        yield _index(listed, text)
    yield _call("sorted", iterated)
    yield _call("dict.fromkeys", iterated)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt what takes more time of the processor, if it runs Python, with CheckTimeout.

    An import is not interrupted, since the module would stay broken for the tests that follow.
    """

    def stop(_, frame):
        if not importing(frame):
            raise CheckTimeout

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# Cases that differ a little from a given one

LIMIT = 2_000  # no size and no number in a changed case is larger, unless it was before


def changed_cases(case: dict, dimensions: dict[str, list[str]], generator: torch.Generator) -> Iterator[dict]:
    """Cases that differ from this one in one argument, or in the length of an axis that its arguments share."""
    fits = _fit(case, dimensions)
    for name, value in case.items():
        for new in changed_values(value, generator):
            changed = case | {name: new}
            if not fits or _fit(changed, dimensions):
                yield changed
    for axis in sorted({axis for argument in dimensions for axis in dimensions[argument] if argument in case}):
        for change in (_without_last, _doubled):
            new = dict(case)
            for argument, axes in dimensions.items():
                value = new.get(argument)
                if isinstance(value, torch.Tensor) and value.ndim == len(axes):
                    for i in (i for i, each in enumerate(axes) if each == axis):
                        value = change(value, i)
                    new[argument] = value
            if isinstance(case.get(axis), int):
                new[axis] = next(new[a].shape[axes.index(axis)] for a, axes in dimensions.items() if axis in axes)
            if not fits or _fit(new, dimensions):
                yield new


def cases_changed_throughout(case: dict) -> Iterator[dict]:
    """Cases in which the same is done to all texts and lists."""
    doubled = _by_entry(lambda x: f"{x} {x}" if isinstance(x, str) else x)
    for change in (doubled, _text(str.upper), _text(lambda x: f" {x} "), _repeated):
        new = {name: change(value) for name, value in case.items() if not isinstance(value, torch.Tensor)}
        if any(repr(value) != repr(case[name]) for name, value in new.items()):
            yield case | new


def _repeated(value: Any) -> Any:
    """Lists with each entry twice."""
    if isinstance(value, list | tuple):
        return type(value)(each for entry in value for each in (entry, entry))
    return value


def _fit(case: dict, dimensions: dict[str, list[str]]) -> bool:
    """Whether axes of one name have one length, that of the whole number of this name if there is one."""
    sizes = {name: value for name, value in case.items() if isinstance(value, int)}
    for argument, axes in dimensions.items():
        value = case.get(argument)
        if isinstance(value, torch.Tensor) and value.ndim == len(axes):
            for axis, size in zip(axes, value.shape, strict=True):
                if sizes.setdefault(axis, size) != size:
                    return False
    return True


def _without_last(value: torch.Tensor, axis: int) -> torch.Tensor:
    return value.narrow(axis, 0, max(value.shape[axis] - 1, 0))


def _doubled(value: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.cat([value, value.flip(axis)], axis)


def changed_values(value: Any, generator: torch.Generator) -> Iterator[Any]:
    """Values of the same type that differ from this one, and that have none of its accidental properties."""
    draw = partial(torch.randint, generator=generator)
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, value - 1, 2 * value, -value, 3 * value + 1)
            yield from draw(1, max(2, min(abs(value) * 2 + 2, LIMIT)), (2,)).tolist()
        case float():
            yield from (value * 1.37, value + 0.31, -value, value / 7, 0.0, float(round(value)))
            yield from (value * math.exp(1.5 * x) for x in torch.randn(4, generator=generator).tolist())
        case str():
            yield from (value[::-1], value + value, value.upper(), value[1:], value[:-1], value + " " + value)
            if value:
                yield "".join(value[i] for i in draw(len(value), (len(value),)).tolist())
                yield "".join(value[i] for i in draw(len(value), (2 * len(value),)).tolist())
        case torch.Tensor():
            yield from _changed_tensors(value, generator)
        case list() | tuple():
            kind = type(value)
            yield kind(value[::-1])
            yield kind(value[:-1])
            yield kind(value[1:])
            yield kind(value[:1])
            yield kind([*value, *value])
            if value:
                yield kind(value[i] for i in draw(len(value), (len(value),)).tolist())
                yield kind(value[i] for i in draw(len(value), (len(value) + 2,)).tolist())
                for i in (0, len(value) - 1, len(value) // 2):
                    for new in list(changed_values(value[i], generator))[:6]:
                        yield kind([*value[:i], new, *value[i + 1 :]])
                changed = [list(changed_values(each, generator)) for each in value]
                for k in range(8):
                    if all(len(each) > k for each in changed):
                        yield kind(each[k] for each in changed)
        case dict():
            names, values = list(value), list(value.values())
            yield dict(zip(names, values[::-1], strict=True))
            yield dict(zip(names[::-1], values[::-1], strict=True))
            yield dict(zip(names[1:], values[1:], strict=True))
            for name in names[:3]:
                for new in list(changed_values(value[name], generator))[:6]:
                    yield value | {name: new}
            changed = [list(changed_values(each, generator)) for each in values]
            for k in range(6):
                if all(len(each) > k for each in changed):
                    yield dict(zip(names, (each[k] for each in changed), strict=True))


def _changed_tensors(value: torch.Tensor, generator: torch.Generator) -> Iterator[torch.Tensor]:
    flat = value.flatten()
    if not len(flat):
        return
    shuffled = flat[torch.randperm(len(flat), generator=generator)].reshape(value.shape)
    yield shuffled
    yield flat[torch.randint(len(flat), (len(flat),), generator=generator)].reshape(value.shape)
    for axis in range(value.ndim):
        yield value.flip(axis)
        yield _without_last(value, axis)
        yield _doubled(value, axis)
        if value.shape[axis] > 1:
            order = torch.randint(value.shape[axis], (value.shape[axis],), generator=generator)
            yield value.index_select(axis, order)
    if value.dtype == torch.bool:
        yield ~value
        yield torch.rand(value.shape, generator=generator) < 0.5
        yield torch.rand(value.shape, generator=generator) < 0.8
    elif value.dtype.is_floating_point:
        yield from (-value, value * 1.7, value + 0.6, value / 9, value * 30, value.round(), value.abs())
        noise = torch.randn(value.shape, generator=generator).to(value.dtype)
        yield noise
        yield value + noise
        yield noise.abs()
    else:
        yield from (value + 1, value * 2, -value, value.clamp(max=flat.max() - 1))
        low, high = int(flat.min()), int(flat.max())
        yield torch.randint(low, max(high, low) + 1, value.shape, generator=generator).to(value.dtype)
        yield torch.randint(low, 2 * abs(high) + low + 2, value.shape, generator=generator).to(value.dtype)


# Properties that the arguments of all cases may share by accident, each as the change that brings it about


def _by_entry(change: Callable) -> Callable:
    """The change of a number, applied to the numbers in a list, a tuple, a dictionary or a tensor."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(entry) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(changed, value))
        return change(value) if isinstance(value, int | float | str | torch.Tensor) else value

    return changed


def _number(change: Callable) -> Callable:
    return _by_entry(lambda x: x if isinstance(x, str | bool) or _is_bool(x) else change(x))


def _text(change: Callable) -> Callable:
    return _by_entry(lambda x: change(x) if isinstance(x, str) else x)


def _is_bool(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype == torch.bool


def _is_float(x: Any) -> bool:
    return x.is_floating_point() if isinstance(x, torch.Tensor) else isinstance(x, float)


def _sequence(change: Callable) -> Callable:
    return lambda value: change(value) if isinstance(value, list | tuple) else value


def _rows(change: Callable) -> Callable:
    return lambda value: (
        change(value) if isinstance(value, torch.Tensor) and value.ndim and not _is_bool(value) else value
    )


def _ordered(value: Any, reverse: bool = False) -> Any:
    try:
        return type(value)(sorted(value, reverse=reverse))
    except (TypeError, RuntimeError):  # they have no order, or are tensors
        return value


def _distinct(value: Any) -> Any:
    try:
        return type(value)(dict.fromkeys(value))
    except (TypeError, RuntimeError):  # they have no order, or are tensors
        return value


def _cut(value: Any) -> Any:
    """The entries as long as the shortest of them."""
    if value and all(isinstance(x, list | tuple | str) for x in value):
        return type(value)(x[: min(map(len, value))] for x in value)
    return value


def _nearest_power(x: Any) -> Any:
    return 2 ** round(math.log2(x)) if isinstance(x, int) and x > 0 else x


FORCED = {
    "no negative number": _number(lambda x: abs(x) if _is_float(x) else x),
    "whole numbers": _number(lambda x: x.round() if isinstance(x, torch.Tensor) else type(x)(round(x))),
    "even numbers": _number(lambda x: x // 2 * 2 if isinstance(x, int) else x),
    "powers of two": _number(_nearest_power),
    "less than 2**24": _number(lambda x: x % 2**24 if isinstance(x, int) and x > 0 else x),
    "lower case": _text(str.lower),
    "no space at an end": _text(str.strip),
    "no two spaces": _text(lambda x: " ".join(x.split())),
    "letters of ASCII": _text(lambda x: x.encode("ascii", "replace").decode()),
    "in order": _sequence(_ordered),
    "in order, largest first": _sequence(lambda x: _ordered(x, reverse=True)),
    "no repetition": _sequence(_distinct),
    "equal lengths inside": _sequence(_cut),
    "names in order": lambda value: dict(sorted(value.items())) if isinstance(value, dict) else value,
    "values in order": lambda value: (
        dict(zip(value, _ordered(list(value.values())), strict=True)) if isinstance(value, dict) else value
    ),
    "rows in order": _rows(lambda value: value.sort(0).values),
    "last axis in order": _rows(lambda value: value.sort(-1).values),
    "last axis in order, largest first": _rows(lambda value: value.sort(-1, descending=True).values),
    "equal numbers": _rows(lambda value: torch.zeros_like(value) + value.flatten()[0] if value.numel() else value),
    "True everywhere": lambda value: torch.ones_like(value) if _is_bool(value) else value,
    "one row": lambda value: value[:1] if isinstance(value, torch.Tensor | list | tuple) and _long(value) else value,
    "at most two rows": lambda v: v[:2] if isinstance(v, torch.Tensor | list | tuple) and _long(v) else v,
}


def _long(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or value.ndim > 0


def forced(master: Master, cases: list[dict]) -> Iterator[Mutant]:
    """The solution, given one argument changed so that it has a property which it has in all these cases.

    Such an answer is right in these cases, and wrong where the argument does not have the property.
    """
    solution = master.right()[master.function]
    for i, argument in enumerate(master.arguments):
        values = [case[argument] for case in cases]
        others = list(changed_values(values[0], torch.Generator().manual_seed(0)))
        for name, change in FORCED.items():
            if not all(_same(value, change(value)) for value in values):
                continue
            if all(_same(value, change(value)) for value in others):  # as for letters, if there are none
                continue

            def answer(*values: Any, i: int = i, change: Callable = change) -> Any:
                return solution(*values[:i], change(values[i]), *values[i + 1 :])

            yield Mutant("forced", f"{argument}: {name}", (0, 0), answer)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[name], b[name]) for name in a)
    return a == b


def sizes(case: dict, dimensions: dict[str, list[str]]) -> dict[str, int]:
    """The sizes of a case by name: whole numbers that are arguments, and the named axes of tensors."""
    found = {name: value for name, value in case.items() if isinstance(value, int) and not isinstance(value, bool)}
    for argument, axes in dimensions.items():
        value = case.get(argument)
        if isinstance(value, torch.Tensor) and value.ndim == len(axes):
            found |= dict(zip(axes, value.shape, strict=True))
    return {name: size for name, size in found.items() if name.isidentifier()}


def whole_numbers(value: Any) -> bool:
    """Whether this is a list of whole numbers."""
    return isinstance(value, list | tuple) and all(type(each) is int for each in value)
