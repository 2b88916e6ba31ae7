"""The masters of the book: their ids are known without reading them, and each is read once in a process."""

from functools import cache

import pytest

from bookbinder import ROOT
from bookbinder.masters import Master, load

FOLDERS = {"/".join(path.parts[-3:-1]): path.parent for path in sorted((ROOT / "exercises").glob("*/*/exercise.md"))}
IDS = list(FOLDERS)
each_master = pytest.mark.parametrize("master", IDS, indirect=True)  # the fixture of tests/exercises/conftest.py


@cache
def book_master(exercise_id: str) -> Master:
    return load(FOLDERS[exercise_id])
