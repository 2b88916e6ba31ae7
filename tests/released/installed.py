"""Released files, which ``.ci/run`` installs into ``_build/released``; they are no part of this project."""

from pathlib import Path

import pytest

RELEASED = Path(__file__).resolve().parents[2] / "_build" / "released"


def released(*parts):
    """A file or folder that was installed, or a skip that says how to get it."""
    path = RELEASED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"there is no {path.relative_to(RELEASED)}; .ci/run installs the released files")
    return path
