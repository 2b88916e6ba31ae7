"""What ``la`` offers is documented: every parameter, every public method, every error, a source and an example."""

import ast
import inspect
import re
import textwrap

import pytest

import llm_anatomy as la


def section(docstring, title):
    """The indented lines below a title such as ``Args:``."""
    found = re.search(rf"^{title}:\n((?:[ \t].*\n|\n)*)", inspect.cleandoc(docstring) + "\n", re.MULTILINE)
    return found[1] if found else ""


def documented(docstring):
    """The parameters that a docstring explains; ``a, b: as in :meth:`x``` counts for both."""
    names = re.findall(r"^ {4}(\w[\w, ]*): ", section(docstring, "Args"), re.MULTILINE)
    return {name.strip() for line in names for name in line.split(",")}


def missing(function, docstring):
    signature = inspect.signature(inspect.unwrap(function))
    wanted = [name for name in signature.parameters if name not in ("self", "cls")]
    return [name for name in wanted if name not in documented(docstring)]


def raises(function):
    """Whether an error is raised in the function itself, except where a subclass must implement it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except OSError:  # a dataclass has no source of __init__
        return False
    errors = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    return any("NotImplementedError" not in ast.unparse(error) for error in errors)


def methods(cls):
    """The public methods and properties of a class that are defined here, and ``__call__``, with the docstring that
    ``help`` shows: their own, or that of the class that they inherit from."""
    for name in dir(cls):
        owners = [vars(owner)[name] for owner in cls.__mro__ if name in vars(owner) and is_ours(owner)]
        value = owners[0] if owners else None
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(function) and (not name.startswith("_") or name == "__call__"):
            docstring = next((owner.__doc__ for owner in owners if owner.__doc__), "")
            yield name, function, docstring, isinstance(value, property)


def is_ours(owner):
    return owner.__module__.startswith("llm_anatomy")


def faults(name, thing):
    """What the docstrings of a class or function, and of its methods, lack."""
    docstring = thing.__doc__ or ""
    yield from (f"{name}: no {word}" for word in ("Source:", ">>>") if word not in docstring)
    function = thing.__init__ if inspect.isclass(thing) else thing
    if function is not object.__init__:
        yield from (f"{name}: {parameter} is not in Args" for parameter in missing(function, docstring))
        if raises(function) and not section(docstring, "Raises"):
            yield f"{name}: no Raises"
    for method, function, its_docstring, is_property in methods(thing) if inspect.isclass(thing) else ():
        where = f"{name}.{method}"
        if not its_docstring:
            yield f"{where}: no docstring"
        elif not is_property:
            yield from (f"{where}: {parameter} is not in Args" for parameter in missing(function, its_docstring))
        if its_docstring and raises(function) and not section(its_docstring, "Raises"):
            yield f"{where}: no Raises"


@pytest.mark.parametrize("name", la._HOMES)
def test_what_la_offers_is_documented(name):
    found = [*faults(name, getattr(la, name))]
    assert not found, "\n".join(found)


class Documented:
    """Count.

    Args:
        first, second: numbers.

    Source: this test.

    >>> Documented(1, 2).total(third=3)
    6
    """

    def __init__(self, first, second):
        if first < 0:
            raise ValueError(first)
        self.sum = first + second

    def total(self, third):
        """Add another number.

        Args:
            third: as in :class:`Documented`.
        """
        return self.sum + third

    def undocumented(self):
        return self.sum

    @property
    def half(self):
        return self.sum / 2


def test_what_is_missing_is_found(monkeypatch):
    monkeypatch.setattr(f"{__name__}.is_ours", lambda owner: owner is Documented)
    left = ["half: no docstring", "undocumented: no docstring"]
    assert [*faults("D", Documented)] == ["D: no Raises", *(f"D.{fault}" for fault in left)]
    monkeypatch.setattr(Documented, "__doc__", Documented.__doc__.replace("first, ", "").replace("Source", "From"))
    monkeypatch.setattr(Documented.total, "__doc__", "Add another number.")
    found = [*faults("D", Documented)]
    assert found[:3] == ["D: no Source:", "D: first is not in Args", "D: no Raises"]
    assert "D.total: third is not in Args" in found
