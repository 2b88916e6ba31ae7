"""What one build of the book leaves to the next, in a folder of its own: pages that need not be made again.

A page is made again if its text or its notebook has changed, or what the pages tell each other: titles, labels, works
that are cited. If anything else has changed on which pages depend, all of them are made again.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from docutils import nodes

from groundwork import write_whole

FOLDER = "_build/kept"
PAGES = (".md", ".ipynb")
LINES = {"line", "lineno", "end_lineno", "col_offset", "end_col_offset"}  # where something stands is not on any page


def digest(*parts: object) -> str:
    """A short text that differs where the parts do."""
    made = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode()
        made.update(b"%d:" % len(content) + content)
    return made.hexdigest()


def files(root: Path, *tops: str) -> Iterable[Path]:
    """The files and those in the folders of these names, in their order."""
    for top in tops:
        if (root / top).is_file():
            yield root / top
        for folder, inside, names in os.walk(root / top, followlinks=True):
            inside[:] = sorted(name for name in inside if name not in ("__pycache__", ".ipynb_checkpoints"))
            yield from (Path(folder, name) for name in sorted(names))


def contents(root: Path, *tops: str, suffix: str = "") -> str:
    """A digest of files and folders, or of the files in them with a suffix."""
    found = (path for path in files(root, *tops) if path.name.endswith(suffix))
    return digest(*(part for path in found for part in (path.relative_to(root), path.read_bytes())))


def foundation(root: Path) -> str:
    """A digest of all that any page may depend on, save the pages themselves: of these, which there are."""
    packages = sorted(path.name for entry in sys.path for path in Path(entry).glob("*-info"))
    book = list(files(root, "book"))
    api = root / "book/api"  # made in each build, of the package
    pages = [path for path in book if path.suffix in PAGES]
    others = [path for path in book if path.suffix not in PAGES and api not in path.parents]
    return digest(
        sys.version,
        packages,
        contents(root, "_config.yml", "_toc.yml", "src", "exercises"),
        [path.relative_to(root) for path in pages],
        *(part for path in others for part in (path.relative_to(root), path.read_bytes())),
    )


def once(root: Path, name: str, key: str, make: Callable[[], object]) -> object:
    """What ``make`` returns, as JSON has it: kept under the name, and made again where the key is another.

    Where there is no folder to keep it in, it is made each time.
    """
    path = root / FOLDER / f"{name}.json"
    if not path.parent.exists():
        return make()
    kept = _read(path)
    if kept.get("key") != key:
        kept = {"key": key, "value": make()}
        write_whole(path, json.dumps(kept).encode())
    return kept["value"]


def _read(path: Path) -> dict:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}


class Passed:
    """What was found to be without problems, so that it is not looked at again while it is the same."""

    def __init__(self, root: Path):
        self.path = root / FOLDER / "passed.json"
        self.keeps = self.path.parent.exists()
        self.before = set(_read(self.path).get("passed", ())) if self.keeps else set()
        self.now: set[str] = set()

    def problems(self, key: str, find: Callable[[], list[str]]) -> list[str]:
        if key not in self.before and (found := find()):
            return found
        self.now.add(key)
        return []

    def save(self) -> None:
        if self.keeps:
            write_whole(self.path, json.dumps({"passed": sorted(self.now)}).encode())


def plain(value: object, inside: tuple[int, ...] = ()) -> str:
    """A text that is the same for values that make the same pages, in whatever order they were collected."""
    if isinstance(value, nodes.Node):
        return value.pformat()
    if value is None or isinstance(value, str | bytes | int | float):
        return repr(value)
    if id(value) in inside:
        return "above"
    inside = (*inside, id(value))
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{plain(k, inside)}: {plain(v, inside)}' for k, v in value.items()))}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(plain(each, inside) for each in value))}}}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        value = {name: getattr(value, name) for name in value._fields if name not in LINES}
        return plain(value, inside)
    if isinstance(value, list | tuple):
        return f"[{', '.join(plain(each, inside) for each in value)}]"
    held = {name: each for name, each in getattr(value, "__dict__", {}).items() if name not in LINES}
    return f"{getattr(value, '__qualname__', type(value).__qualname__)}{plain(held, inside)}"
