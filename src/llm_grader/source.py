"""What a cell's source binds and what it uses: read from its syntax tree, never run.

Lines for IPython (``%time``, ``!pip install``, ``name?``) are passed over. Source that cannot be parsed is searched for
``def name(``. Nothing here raises, whatever the source.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

MAX_SOURCE_LENGTH, MAX_TOKENS = (
    200_000,
    20_000,
)  # a tree takes up to 1 kB a token, so that denser source is only searched
NOT_PYTHON, TOO_LONG = "not Python", "too long"
PYTHON_MAGICS = {"capture", "debug", "prun", "time", "timeit"}  # the cell below is Python of this notebook
MAX_NAME_LENGTH = 100

_TOKEN = re.compile(r"\w+|[^\w\s]")
_HELP = re.compile(r"[\w.]+\?\??")
_ASSIGNED_MAGIC = re.compile(r"[\w., \t]+=[ \t]*[%!]")
_NAME_LOOKUP_FUNCTIONS = {"getattr", "attrgetter", "methodcaller", "__getattribute__"}


@dataclass(frozen=True)
class Binding:
    """What a name is bound to at a cell's top level.

    Args:
        name: the name.
        function: whether it is a function defined here.
        n_arguments: how many positional arguments that function has; None where this is unknown.
        stub: whether its body is a docstring and ``raise NotImplementedError``.
    """

    name: str
    function: bool = False
    n_arguments: int | None = None
    stub: bool = False


@dataclass(frozen=True)
class ParsedSource:
    """A cell's source as read.

    Args:
        bindings: name → its last binding at the top level.
        imported: name → what it stands for in full, of the imports anywhere in the cell: "F" → "torch.nn.functional".
        problem: "", :data:`NOT_PYTHON` or :data:`TOO_LONG`; then ``bindings`` comes from a search.
    """

    bindings: dict[str, Binding] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def n_tokens(source: str) -> int:
    """About how many tokens source has; above :data:`MOST_TOKENS`, one more than that."""
    return sum(1 for _ in islice(_TOKEN.finditer(source), MAX_TOKENS + 1))


def read(source: str, functions: list[str]) -> ParsedSource:
    """Parse a cell, or search it for these functions where it cannot be parsed."""
    if len(source) > MAX_SOURCE_LENGTH or n_tokens(source) > MAX_TOKENS:
        return ParsedSource(search_definitions(source, functions), problem=TOO_LONG)
    magic = re.match(r"\s*%%(\w*)", source)
    if magic and magic[1] not in PYTHON_MAGICS:
        return ParsedSource()  # a shell script, a file to write: it binds nothing here
    tree = _parse_cell(source)
    if tree is None:
        return ParsedSource(search_definitions(source, functions), problem=NOT_PYTHON)
    bindings = {binding.name: binding for statement in _top_level(tree) for binding in _bindings(statement)}
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return ParsedSource(bindings, {name: full for node in imports for name, full in _import_names(node)})


def search_definitions(source: str, functions: list[str]) -> dict[str, Binding]:
    """Which of these functions have a line ``def name(`` in source that is not parsed."""
    names = "|".join(map(re.escape, functions))
    found = re.findall(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+({names})[ \t]*\(", source, re.MULTILINE)
    return {name: Binding(name, function=True) for name in found}


def find_uses(
    source: str, forbidden: list[str], imported: dict[str, str], own: set[str], others: set[str]
) -> dict[str, int]:
    """Forbidden names that source uses → the line where it first does, from 1.

    A forbidden name is recognised by its last part, as a method, below any module, or as text given to getattr: for
    "torch.softmax" also ``F.softmax`` and ``scores.softmax``. This is for a person to look at, so that it rather says
    too much.

    Args:
        source: a cell.
        forbidden: such as "torch.softmax" or "softmax".
        imported: what the notebook imports: name → in full.
        own: names that the notebook binds; alone, they are not the forbidden ones unless they are imported.
        others: functions whose definitions are passed over, since they answer other questions.
    """
    tree = _parse_cell(source)
    if tree is None:
        return {}
    own = own.union(_assigned_names(tree), (node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)))
    found: dict[str, int] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in others:
            continue
        waiting.extend(ast.iter_child_nodes(node))
        for full in _full_names(node, imported, own):
            last = full.rsplit(".", 1)[-1]
            candidates = [name for name in forbidden if name.rsplit(".", 1)[-1] == last]
            if candidates:
                name = next((name for name in (full, last) if name in candidates), candidates[0])
                found[name] = min(node.end_lineno, found.get(name, node.end_lineno))
    return found


# The tree and its parts


def _parse_cell(source: str) -> ast.Module | None:
    """The tree of Python with or without lines for IPython."""
    if (tree := _parse(source)) is not None:
        return tree
    plain = _without_magics(source)
    return _parse(plain) if plain != source else None


def _parse(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):  # all seen or documented
            return None


def _without_magics(source: str) -> str:
    """The same lines, with those for IPython replaced by ``pass``."""
    lines = source.split("\n")
    continued = False
    for i, line in enumerate(lines):
        bare = line.strip()
        if continued:
            lines[i] = ""
        elif bare[:1] in ("%", "!", "?") or _HELP.fullmatch(bare) or _ASSIGNED_MAGIC.match(bare):
            lines[i] = line[: len(line) - len(line.lstrip())] + "pass"
        else:
            continue
        continued = bare.endswith("\\")
    return "\n".join(lines)


def _top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements that run with the cell, also those below if, try, with and loops, in their order."""
    waiting = tree.body[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = [getattr(node, name, []) for name in ("body", "handlers", "orelse", "finalbody", "cases")]
            waiting.extend(sum(inner, [])[::-1])


def _bindings(node: ast.AST) -> Iterator[Binding]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        n_arguments = len(node.args.posonlyargs) + len(node.args.args)
        yield Binding(node.name, function=True, n_arguments=n_arguments, stub=_is_stub(node))
    elif isinstance(node, ast.ClassDef):
        yield Binding(node.name)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (Binding(alias.asname or alias.name.split(".")[0]) for alias in node.names)
    elif isinstance(node, ast.Assign) or isinstance(node, ast.AnnAssign) and node.value:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        inner = (part for target in targets for part in ast.walk(target))
        yield from (
            Binding(part.id) for part in inner if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )


def _assigned_names(node: ast.AST) -> Iterator[str]:
    """The names that are assigned to within a node."""
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if len(body) != 1 or not isinstance(body[0], ast.Raise):
        return False
    raised = body[0].exc.func if isinstance(body[0].exc, ast.Call) else body[0].exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _import_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"
        else:  # import torch.nn binds torch
            root = alias.name.split(".")[0]
            yield alias.asname or root, alias.name if alias.asname else root


def _full_names(node: ast.AST, imported: dict[str, str], own: set[str]) -> list[str]:
    """What a node may stand for: ``t.softmax`` for "torch.softmax" where torch is imported as t."""
    if isinstance(node, ast.Attribute):
        parts, value = [node.attr], node.value
        while isinstance(value, ast.Attribute) and len(parts) < 8:
            parts.append(value.attr)
            value = value.value
        root = imported.get(value.id, value.id) if isinstance(value, ast.Name) else ""
        return [".".join([root, *parts[::-1]])]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return [imported[node.id]] if node.id in imported else [node.id] if node.id not in own else []
    if isinstance(node, ast.Call):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        texts = (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
        return list(texts) if called in _NAME_LOOKUP_FUNCTIONS else []
    return []
