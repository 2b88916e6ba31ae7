"""Former names of arguments, attributes and functions, which work for one release and warn."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def renamed_arguments(**names: str) -> Callable[[F], F]:
    """Let a function take arguments by their former names, too.

    Args:
        names: the present name of each former one.

    Source: PEP 387, which asks for a warning in at least one release.

    >>> @renamed_arguments(weights="quantize")
    ... def pack(*, quantize=None):
    ...     return quantize
    >>> with warnings.catch_warnings(record=True) as said:
    ...     pack(weights="int8"), str(said[0].message)
    ('int8', 'weights is now called quantize; the former name will go with the next release')
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def taking_both(*args: Any, **kwargs: Any) -> Any:
            for former in names.keys() & kwargs.keys():
                _warn(former, names[former])
                kwargs.setdefault(names[former], kwargs.pop(former))
            return function(*args, **kwargs)

        return cast(F, taking_both)

    return decorate


def renamed_attribute(former: str, present: str) -> Any:
    """A property that reads an attribute, or a method, by its former name.

    Args:
        former, present: both names.

    Source: as :func:`renamed_arguments`.

    >>> class Part:
    ...     n_activations = 3
    ...     n_kept = renamed_attribute("n_kept", "n_activations")
    >>> with warnings.catch_warnings(record=True) as said:
    ...     Part().n_kept, len(said)
    (3, 1)
    """

    def read(self: Any) -> Any:
        _warn(former, present)
        return getattr(self, present)

    return property(read, doc=f"The former name of ``{present}``.")


def renamed_function(former: str, present: F) -> F:
    """A function that can be called by its former name, too.

    Args:
        former: its former name.
        present: the function under its present name.

    Source: as :func:`renamed_arguments`.

    >>> def fastest(*numbers):
    ...     return max(numbers)
    >>> quickest = renamed_function("quickest", fastest)
    >>> with warnings.catch_warnings(record=True) as said:
    ...     quickest(1, 3), str(said[0].message)
    (3, 'quickest is now called fastest; the former name will go with the next release')
    """

    @functools.wraps(present)
    def called_by_former_name(*args: Any, **kwargs: Any) -> Any:
        _warn(former, present.__name__)
        return present(*args, **kwargs)

    called_by_former_name.__name__ = called_by_former_name.__qualname__ = former
    called_by_former_name.__doc__ = f"The former name of :func:`{present.__name__}`."
    return cast(F, called_by_former_name)


def _warn(former: str, present: str) -> None:
    text = f"{former} is now called {present}; the former name will go with the next release"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
