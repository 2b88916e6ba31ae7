"""The lectures' tables as CSV files; SOURCES.md says for each which lecture it comes from."""

import csv
from importlib.resources import files

_FOLDER = files(__name__)


def table(name: str) -> list[dict[str, str | int | float | None]]:
    """Read a table as a list of rows. Numbers are converted, and empty cells become None.

    Args:
        name: name of the file without ``.csv``.

    Raises:
        ValueError: if there is no such table; the message lists the tables.

    Source: the lectures, as each row says; UCL-32.

    >>> table("soft_dictionary")[2]["first"]
    0.6456563
    """
    names = sorted(file.name.removesuffix(".csv") for file in _FOLDER.iterdir() if file.name.endswith(".csv"))
    if name not in names:
        raise ValueError(f"{name=} must be one of the tables {', '.join(names)}")
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8") as lines:
        return [{column: _value(cell) for column, cell in row.items()} for row in csv.DictReader(lines)]


def _value(cell: str) -> str | int | float | None:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell or None
