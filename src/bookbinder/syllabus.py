"""What covers what: the lectures' items against the sections, code, tests and exercises that treat them.

The facts are in ``src/llm_anatomy/data`` (items, errata, disagreements, named systems). What treats an item says so
itself: a heading of a chapter, a docstring of the package, a test's marker, the header of an exercise. All of it is
collected here, without importing anything; :mod:`bookbinder.lecture_pages` makes pages of it.
"""

import ast
import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from docutils.nodes import make_id
from markdown_it.tree import SyntaxTreeNode

from bookbinder import ROOT, address, kept, myst
from groundwork import Refusal

KINDS = ("section", "source", "test", "exercise")
STATUSES = ("draft", "finished")
ITEM = re.compile(r"\b(?:IITD|CMU|GT|UCL)-\d+\b")
ITEMS_AT_END = re.compile(rf"\s*\({ITEM.pattern}(?:,\s*{ITEM.pattern})*\)$")
SLIP = re.compile(r"(Erratum|Disagreement)\s+([A-Z]-\d+):?\s*(.*?)")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
DATA = "src/llm_anatomy/data"
SYSTEMS = "named_systems.csv"


@dataclass(frozen=True)
class Entry:
    """One thing that treats an item: its text and link on the lecture map, and the file and line that it is in."""

    text: str
    link: str
    path: str
    line: int


@dataclass
class Chapter:
    """A page whose header names a chapter."""

    number: int
    title: str
    path: str
    status: str
    items: list[str]
    no_entry: dict[str, dict[str, str]]

    @property
    def docname(self) -> str:
        return self.path.removesuffix(myst.TEXT_SUFFIX)


@dataclass
class Syllabus:
    items: dict[str, dict]
    slips: dict[str, dict]  # errata and disagreements, by number
    chapters: dict[int, Chapter] = field(default_factory=dict)
    entries: dict[str, dict[str, list[Entry]]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    boxes: dict[str, tuple[str, Entry]] = field(default_factory=dict)  # slip → title and section of its box
    systems: list[dict[str, str]] = field(default_factory=list)  # what the lectures name, in the order of the table
    labels: dict[str, Entry] = field(default_factory=dict)  # label of a chapter's section → the section
    repository: str | None = None  # the address under which a file of the repository can be read
    problems: list[str] = field(default_factory=list)

    def add(self, kind: str, ids: list[str], entry: Entry) -> None:
        for name in dict.fromkeys(ids):
            if name in self.items:
                self.entries[kind].setdefault(name, []).append(entry)
            else:
                self.problems.append(f"{entry.path}:{entry.line}: {name} is not an item of the lectures")

    def found(self, name: str, kind: str) -> list[Entry]:
        return self.entries[kind].get(name, [])

    def reason(self, name: str, kind: str) -> str | None:
        chapter = self.chapters.get(int(self.items[name]["chapter"]))
        return chapter.no_entry.get(name, {}).get(kind) if chapter else None

    def missing(self, name: str) -> list[str]:
        """What the item still needs. A section counts in the item's own chapter."""
        chapter = self.chapters.get(int(self.items[name]["chapter"]))
        has = {kind: self.found(name, kind) or self.reason(name, kind) for kind in KINDS}
        own = [e for e in self.found(name, "section") if chapter and e.path == chapter.path]
        has["section"] = own or self.reason(name, "section")
        return [kind for kind in KINDS if not has[kind]]

    def sections(self, system: dict[str, str]) -> list[Entry]:
        """The sections that treat a named system; a number stands for a whole chapter."""
        found = []
        for where in system["section"].split():
            if where.isdigit():
                chapter = self.chapters.get(int(where))
                found += [Entry(chapter.title, f"{chapter.docname}.html", chapter.path, 1)] if chapter else []
            elif where in self.items:
                found += self.found(where, "section")
            elif where in self.labels:
                found.append(self.labels[where])
        return found

    def waits_for(self, system: dict[str, str]) -> list[int]:
        """The chapters that are to treat a named system and are not finished."""
        numbers = [int(where) for where in system["section"].split() if where.isdigit()]
        return [n for n in numbers if n not in self.chapters or self.chapters[n].status != "finished"]


# Reading


def rows(root: Path, name: str) -> dict[str, dict]:
    with (root / DATA / name).open(newline="", encoding="utf-8") as file:
        return _rows(file.read())


@cache
def _rows(text: str) -> dict[str, dict]:
    """A table by the ids of its rows. It is asked for once for each exercise, and nobody changes it."""
    return {row["id"]: row for row in csv.DictReader(io.StringIO(text, newline=""))}


def header(path: Path) -> dict:
    return myst.header(path.read_text(encoding="utf-8"), str(path))


def parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise Refusal(f"{path}:{error.lineno}: this is not valid Python: {error.msg}") from None


def line_of(path: Path, word: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((n for n, line in enumerate(lines, 1) if re.search(rf"\b{re.escape(word)}\b", line)), 1)


def blocks(path: Path) -> Iterator[tuple[int, SyntaxTreeNode]]:
    return myst.blocks(path.read_text(encoding="utf-8"))


def headings(path: Path) -> list[SyntaxTreeNode]:
    return _headings(path.read_text(encoding="utf-8")) if path.exists() else []


@lru_cache(maxsize=2)
def _headings(text: str) -> list[SyntaxTreeNode]:
    """The headings of a page, which is asked for them once for each of its exercises."""
    return [node for _, node in myst.blocks(text) if node.type == "heading"]


def read_chapter(book: Syllabus, root: Path, path: Path, values: dict) -> None:
    where = path.relative_to(root).as_posix()
    docname = where.removesuffix(myst.TEXT_SUFFIX)
    number, status, no_entry = values["chapter"], values.get("status"), values.get("no_entry") or {}
    items = [name for name, item in book.items.items() if item["chapter"] == str(number)]
    at = f"{where}:{line_of(path, 'chapter')}"
    if not items or not isinstance(number, int):
        book.problems.append(
            f"{at}: there is no chapter {number!r}; syllabus_items.csv has the chapters and their items"
        )
        return
    if number in book.chapters:
        book.problems.append(f"{at}: chapter {number} is also {book.chapters[number].path}")
        return
    if status not in STATUSES:
        book.problems.append(f"{at}: status is {status!r}, allowed are {' and '.join(STATUSES)}")
    no_entry = read_reasons(book, path, where, items, no_entry)
    title = book.items[items[0]]["chapter_title"]
    book.chapters[number] = Chapter(number, title, where, status, items, no_entry)

    shown, link, seen, labels = title, f"{docname}.html", set(), []
    for line, node in blocks(path):
        if node.type == "myst_target":
            labels.append(node.content)
        elif node.type == "heading":
            text, name = myst.source(node), make_id(myst.words(node))
            # Sphinx numbers the id of a repeated heading, so the link to such a one leads to the page alone.
            link = f"{docname}.html" + (f"#{name}" if name and name not in seen else "")
            seen.add(name)
            shown = ITEMS_AT_END.sub("", text)
            book.add("section", ITEM.findall(text), Entry(shown, link, where, line))
            book.labels |= {label: Entry(shown, f"{docname}.html#{label}", where, line) for label in labels}
            labels = []
        elif (box := myst.directive(node)) and (slip := box.name == "admonition" and SLIP.fullmatch(box.argument)):
            kind, number, words = slip.groups()
            if number in book.slips and number[0] == kind[0]:
                book.boxes.setdefault(number, (words, Entry(shown, link, where, line)))
            else:
                book.problems.append(f"{where}:{line}: {kind} {number} is not in {DATA}")


def read_reasons(book: Syllabus, path: Path, where: str, items: list[str], no_entry) -> dict[str, dict[str, str]]:
    reasons = {}
    for name, kinds in no_entry.items() if isinstance(no_entry, dict) else [(no_entry, None)]:
        at = f"{where}:{line_of(path, str(name))}"
        if name not in items:
            book.problems.append(f"{at}: no_entry names {name}, which is not an item of this chapter")
        elif not isinstance(kinds, dict) or not all(k in KINDS and v and isinstance(v, str) for k, v in kinds.items()):
            book.problems.append(f"{at}: no_entry of {name} must give a reason for one of {', '.join(KINDS)}")
        else:
            reasons[name] = kinds
    return reasons


def read_pages(book: Syllabus, root: Path) -> None:
    for path in sorted((root / "book").rglob("*.nb.md")):
        values = header(path)
        if "chapter" in values:
            read_chapter(book, root, path, values)
            continue
        where = path.relative_to(root).as_posix()
        for line, node in blocks(path):  # exercises and other pages: their headings must name real items too
            for name in ITEM.findall(myst.source(node)) if node.type == "heading" else []:
                if name not in book.items:
                    book.problems.append(f"{where}:{line}: {name} is not an item of the lectures")


def file_link(book: Syllabus, where: str, line: int) -> str:
    return f"{book.repository}/{where}#L{line}" if book.repository else ""


def read_package(book: Syllabus, root: Path) -> None:
    for path in sorted((root / "src/llm_anatomy").rglob("*.py")):
        parts = path.relative_to(root / "src").with_suffix("").parts
        module = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in module):
            read_docstrings(book, path.relative_to(root).as_posix(), parse(path), module)


def read_docstrings(book: Syllabus, where: str, node: ast.AST, name: tuple[str, ...]) -> None:
    ids = ITEM.findall(ast.get_docstring(node) or "")
    line = getattr(node, "lineno", 1)
    book.add("source", ids, Entry(".".join(name[1:] or name), file_link(book, where, line), where, line))
    for child in node.body if isinstance(node, (ast.Module, ast.ClassDef)) else []:
        if isinstance(child, DEFINITIONS) and not child.name.startswith("_"):
            read_docstrings(book, where, child, (*name, child.name))


def read_tests(book: Syllabus, root: Path) -> None:
    for path in sorted((root / "tests").rglob("*.py")):
        where, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        body = parse(path).body if "syllabus" in text else []
        for node in [*body, *(child for one in body if isinstance(one, ast.ClassDef) for child in one.body)]:
            if isinstance(node, DEFINITIONS):
                marks, name = node.decorator_list, node.name
            elif isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "pytestmark" for t in node.targets):
                marks = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
                name = path.name
            else:
                continue
            for mark in marks:
                if isinstance(mark, ast.Call) and getattr(mark.func, "attr", "") == "syllabus":
                    read_mark(book, where, mark, name)


def read_mark(book: Syllabus, where: str, mark: ast.Call, name: str) -> None:
    ids = [arg.value for arg in mark.args if isinstance(arg, ast.Constant)]
    if len(ids) != len(mark.args) or not ids:
        book.problems.append(f"{where}:{mark.lineno}: the syllabus marker takes items as plain strings")
    book.add("test", [str(i) for i in ids], Entry(name, file_link(book, where, mark.lineno), where, mark.lineno))


def read_exercises(book: Syllabus, root: Path) -> None:
    for path in sorted((root / "exercises").glob("*/*/exercise.md")):
        where = path.relative_to(root).as_posix()
        values = header(path)
        chapter, name = path.parts[-3:-1]
        title = str(values.get("title", name))
        page = root / "book" / chapter / "exercises.nb.md"
        link = f"book/{chapter}/exercises.html" if page.exists() else ""
        anchor = next((make_id(myst.words(node)) for node in headings(page) if title in myst.source(node)), "")
        items = values.get("items") or []
        for item in items if isinstance(items, list) else [items]:
            entry = Entry(title, f"{link}#{anchor}" if anchor else link, where, line_of(path, str(item)))
            book.add("exercise", [str(item)], entry)


def collect(root: Path = ROOT) -> Syllabus:
    """Collect everything that treats an item of the lectures, and every mistake in how it names the item."""
    book = Syllabus(rows(root, "syllabus_items.csv"), rows(root, "errata.csv") | rows(root, "disagreements.csv"))
    with suppress(Refusal):  # a repository without an address: code is named then and not linked
        book.repository = address.read(root).blob
    if (path := root / DATA / SYSTEMS).exists():
        with path.open(newline="", encoding="utf-8") as lines:
            book.systems = list(csv.DictReader(lines))
    read_pages(book, root)
    code = kept.contents(root, "src/llm_anatomy", "tests", suffix=".py")
    exercises = kept.contents(root, "exercises", suffix=".md"), kept.contents(root, "book", suffix="exercises.nb.md")
    key = kept.digest(code, *exercises, book.repository, list(book.items), Path(__file__).read_bytes())
    found = kept.once(root, "syllabus", key, lambda: _elsewhere(root, book))
    for kind, entries in found["entries"].items():
        book.entries[kind] = {name: [Entry(*entry) for entry in each] for name, each in entries.items()}
    book.problems += found["problems"]
    return book


def _elsewhere(root: Path, book: Syllabus) -> dict:
    """What is not in the chapters: entries as lists, by kind and item, and problems."""
    found = Syllabus(book.items, book.slips, repository=book.repository)
    read_package(found, root)
    read_tests(found, root)
    read_exercises(found, root)
    entries = {
        kind: {name: [astuple(entry) for entry in each] for name, each in found.entries[kind].items()}
        for kind in ("source", "test", "exercise")
    }
    return {"entries": entries, "problems": found.problems}


def problems(root: Path = ROOT) -> list[str]:
    """One sentence for each claim about items that does not hold; empty if all is well."""
    book = collect(root)
    found = book.problems + system_problems(book, root)
    for chapter in book.chapters.values():
        at = f"{chapter.path}:{line_of(root / chapter.path, 'status')}"
        for name in chapter.items:
            needed = book.missing(name) if chapter.status == "finished" else []
            found += [
                f"{at}: the chapter is finished, but {name} ({book.items[name]['title']}) has no {kind}, "
                "and no_entry gives no reason"
                for kind in needed
            ]
            found += [
                f"{at}: no_entry says why {name} has no {kind}, but it has one: {book.found(name, kind)[0].path}"
                for kind in chapter.no_entry.get(name, {})
                if book.found(name, kind)
            ]
    return found


def system_problems(book: Syllabus, root: Path = ROOT) -> list[str]:
    """One sentence for each named system without an answer, and for each answer that leads nowhere."""
    found = []
    chapters = {item["chapter"] for item in book.items.values()}
    known = {
        "items": (book.items, "an item of the lectures"),
        "section": ({*book.labels, *book.items, *chapters}, "the label of a section, an item or a chapter"),
        "tables": ({path.stem for path in (root / DATA).glob("*.csv")}, "a table"),
    }
    for line, system in enumerate(book.systems, 2):
        at = f"{DATA}/{SYSTEMS}:{line}: row {system['number']} ({system['name']})"
        for column, (names, what) in known.items():
            found += [
                f"{at} names {name!r}, which is not {what}" for name in system[column].split() if name not in names
            ]
        answers = any(system[column] for column in ("code", "presets", "tables", "note"))
        sections = [where for where in system["section"].split() if not where.isdigit()]
        if not answers and not sections and not book.waits_for(system):
            found.append(f"{at} has no answer: name a section, code, a preset or a table, or say in the note why not")
    return found
