"""Find out which names the source of a cell binds and uses, from its syntax tree and without running it.

Lines for IPython (``%time``, ``!pip install``, ``name?``) are ignored. Source that cannot be parsed is searched for
``def name(``. No source makes these functions raise an error.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

MAX_SOURCE_LENGTH, MAX_TOKENS = (
    200_000,
    20_000,
)  # a tree takes up to 1 kB per token, so longer source is only searched
NOT_PYTHON, TOO_LONG = "not Python", "too long"
PYTHON_MAGICS = {"capture", "debug", "prun", "time", "timeit"}  # magics that run their cell as Python in the notebook
MAX_NAME_LENGTH = 100

_TOKEN = re.compile(r"\w+|[^\w\s]")
_HELP = re.compile(r"[\w.]+\?\??")
_ASSIGNED_MAGIC = re.compile(r"[\w., \t]+=[ \t]*[%!]")
_NAME_LOOKUP_FUNCTIONS = {"getattr", "attrgetter", "methodcaller", "__getattribute__"}
_NAME_LOOKUP_FUNCTIONS |= {"import_module", "__import__"}


@dataclass(frozen=True)
class Binding:
    """A name that is bound at the top level of a cell.

    Args:
        name: the name.
        function: whether it is bound by a function definition.
        n_arguments: number of positional arguments of the function, or None if it is unknown.
        stub: whether the body of the function is only a docstring and ``raise NotImplementedError``.
        node: the definition of the function, or None if it is unknown.
        result: whether it is bound to a constant, or to the result of calling the function that had this name.
    """

    name: str
    function: bool = False
    n_arguments: int | None = None
    stub: bool = False
    node: ast.FunctionDef | ast.AsyncFunctionDef | None = field(default=None, repr=False, compare=False)
    result: bool = False

    @property
    def global_names(self) -> set[str]:
        """Names that the function uses and does not bind itself, and so looks up in the notebook."""
        nodes = list(ast.walk(self.node)) if self.node else []
        names = [node for node in nodes if isinstance(node, ast.Name)]
        local = {node.arg for node in nodes if isinstance(node, ast.arg)}
        local |= {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        return {node.id for node in names} - local

    def does_the_same_as(self, given: str) -> bool:
        """Return whether the body of the function is that of a given function, whatever its layout and comments."""
        if self.node is None or not given:
            return False
        try:
            return _body(self.node) == _body(next(_top_level(ast.parse(given))))
        except RecursionError:  # in an expression that is nested too deeply
            return False


@dataclass(frozen=True)
class ParsedSource:
    """The parsed source of a cell.

    Args:
        bindings: name → its last binding at the top level, which is a result only if there is no other.
        imported: name → its full name, for all imports in the cell, such as "F" → "torch.nn.functional".
        used: names that the cell uses.
        problem: :data:`NOT_PYTHON` or :data:`TOO_LONG` if the source could only be searched, or an empty string.
    """

    bindings: dict[str, Binding] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    problem: str = ""


def n_tokens(source: str) -> int:
    """Estimate the number of tokens of the source, up to :data:`MAX_TOKENS` + 1."""
    return sum(1 for _ in islice(_TOKEN.finditer(source), MAX_TOKENS + 1))


def read(source: str, functions: list[str]) -> ParsedSource:
    """Parse a cell, or search it for these functions if it cannot be parsed."""
    if len(source) > MAX_SOURCE_LENGTH or n_tokens(source) > MAX_TOKENS:
        return ParsedSource(search_definitions(source, functions), problem=TOO_LONG)
    magic = re.match(r"\s*%%(\w*)", source)
    if magic and magic[1] not in PYTHON_MAGICS:
        return ParsedSource()  # such as a shell script or a file to write, which binds nothing
    tree = _parse_cell(source)
    if tree is None:
        return ParsedSource(search_definitions(source, functions), problem=NOT_PYTHON)
    bindings: dict[str, Binding] = {}
    for binding in (each for statement in _top_level(tree) for each in _bindings(statement)):
        if not binding.result or binding.name not in bindings:
            bindings[binding.name] = binding
    nodes = list(ast.walk(tree))
    imports = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return ParsedSource(bindings, {name: full for node in imports for name, full in _import_names(node)}, used)


def stored_names(source: str) -> set[str]:
    """Return the names that a cell binds, deletes or changes an entry of, outside its functions and classes."""
    tree = _parse_cell(source) if len(source) <= MAX_SOURCE_LENGTH and n_tokens(source) <= MAX_TOKENS else None
    waiting, found = list[ast.AST]([tree] if tree else []), set[str]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            base = node
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            found |= {base.id} if isinstance(base, ast.Name) else set()
        waiting.extend(ast.iter_child_nodes(node))
    return found


def search_definitions(source: str, functions: list[str]) -> dict[str, Binding]:
    """Return bindings of those functions for which the source contains a line ``def name(``."""
    names = "|".join(map(re.escape, functions))
    found = re.findall(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+({names})[ \t]*\(", source, re.MULTILINE)
    return {name: Binding(name, function=True) for name in found}


@dataclass(frozen=True)
class Use:
    """A use of a name that is watched.

    Args:
        full: full name, such as "torch.softmax".
        line: the line, counted from 1.
        inside: the functions of other answers in whose definitions it is.
        packages_only: whether only the use of a forbidden package is reported, since this is an import.
    """

    full: str
    line: int
    inside: frozenset[str]
    packages_only: bool


def watched_uses(
    source: str, watched: Sequence[str], imported: dict[str, str], own: set[str], functions: Set[str]
) -> list[Use]:
    """Return the uses of names that are watched for any question. This takes long, and is done once for each cell.

    Args:
        source: source of a cell.
        watched: forbidden names and packages of all questions, see :func:`find_uses`.
        imported: imports of the notebook: name → full name.
        own: names that the notebook binds; they count only if they are imported.
        functions: functions that answer questions.
    """
    tree = _parse_cell(source)
    if tree is None:
        return []
    own = own.union(_assigned_names(tree), (node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)))
    lasts, packages = {name.rsplit(".", 1)[-1] for name in watched}, tuple(n for n in watched if n.endswith("."))
    found: dict[tuple, int] = {}
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in functions:
            inside |= {node.name}
        waiting.extend((child, inside) for child in ast.iter_child_nodes(node))
        line = getattr(node, "end_lineno", None) or 1
        names = [(full, False) for full in _full_names(node, imported, own)]
        if isinstance(node, ast.Import | ast.ImportFrom):
            # Imports above all functions may be those of the notebook's first cell: what matters is what is used.
            inner = node not in tree.body
            names += [(full, True) for full in _imported_names(node) if inner or full.endswith(".*")]
        for full, packages_only in names:
            if full.rsplit(".", 1)[-1] in lasts or f"{full}.".startswith(packages):
                use = full, inside, packages_only
                found[use] = min(line, found.get(use, line))
    return [Use(full, line, inside, packages_only) for (full, inside, packages_only), line in found.items()]


def find_uses(
    uses: Sequence[Use], forbidden: Sequence[str], others: Set[str], allowed: Set[str] = frozenset()
) -> dict[str, int]:
    """Find uses of forbidden names, and return each name → the first line that uses it, counted from 1.

    A forbidden name is recognised by its last part, as a method, in any module, or as text given to getattr. For
    "torch.softmax", ``F.softmax`` and ``scores.softmax`` are also reported. Of a forbidden package, which ends in a
    dot, everything is reported. A person looks at the result, so it is better to report too much.

    Args:
        uses: what a cell uses.
        forbidden: forbidden names, such as "torch.softmax" or "softmax", and packages, such as "llm_anatomy.layers.".
        others: functions that answer other questions, whose definitions are skipped.
        allowed: full names that are not reported, nor are their parts.
    """
    packages = [name for name in forbidden if name.endswith(".")]
    found: dict[str, int] = {}
    for use in uses:
        name = None if use.inside & others else _matching(use.full, packages if use.packages_only else forbidden)
        if name and not any(_overlap(use.full, other) for other in allowed):
            found[name] = min(use.line, found.get(name, use.line))
    return found


def names_used(source: str, forbidden: Sequence[str]) -> set[str]:
    """Return the full names of what a source of the key uses among these names and packages."""
    imported = read(source, []).imported
    full_names = (full for node in ast.walk(ast.parse(source)) for full in _full_names(node, imported, set()))
    return {full for full in full_names if _matching(full, forbidden)}


def _matching(full: str, forbidden: Sequence[str]) -> str | None:
    """Return the forbidden name or package that a full name stands for, preferably the name itself."""
    last = full.rsplit(".", 1)[-1]
    names = [name for name in forbidden if name.rsplit(".", 1)[-1] == last]
    names += [name for name in forbidden if name.endswith(".") and f"{full}.".startswith(name)]
    return next((name for name in (full, last) if name in names), names[0] if names else None)


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


# Syntax trees


def _parse_cell(source: str) -> ast.Module | None:
    """Return the syntax tree of Python source with or without lines for IPython, or None if it cannot be parsed."""
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
    """Return the source with ``pass`` in place of the lines for IPython."""
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
    """Yield the statements outside of functions and classes in order, also those inside if, try, with and loops."""
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
        yield Binding(node.name, function=True, n_arguments=n_arguments, stub=_is_stub(node), node=node)
    elif isinstance(node, ast.ClassDef):
        yield Binding(node.name)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (Binding(alias.asname or alias.name.split(".")[0]) for alias in node.names)
    elif isinstance(node, ast.Assign) or isinstance(node, ast.AnnAssign) and node.value:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        inner = (part for target in targets for part in ast.walk(target))
        yield from (
            Binding(part.id, result=_is_result(node.value, part.id))
            for part in inner
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )


def _is_result(value: ast.expr | None, name: str) -> bool:
    """Return whether a value is a constant, or comes from calling this name, as ``name(x)[0].sum()`` does."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            return value.func.id == name
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Constant)


def _assigned_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that are assigned to within a node."""
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def _body(node: Any) -> list[str]:
    """Return the statements of a function without its docstring, in a form that can be compared."""
    return [ast.dump(each) for each in _statements(node)]


def _statements(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = _statements(node)
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


def _imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
    return [f"{module}{alias.name}" for alias in node.names]


def _full_names(node: ast.AST, imported: dict[str, str], own: set[str]) -> list[str]:
    """Return the full names that a node may refer to: "torch.softmax" for ``t.softmax`` if torch is imported as t."""
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
