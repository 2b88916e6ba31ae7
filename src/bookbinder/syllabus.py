"""What covers what: the lectures' items against the sections, code, tests and exercises that treat them.

The facts stand in ``src/llm_anatomy/data`` (items, errata, disagreements). What treats an item says so where it
stands: a heading of a chapter, a docstring of the package, a test's marker, the header of an exercise's master. Here
it is collected, without importing anything, and becomes two pages, a note on each draft, and a list of problems.
"""

import ast
import csv
import html
import re
from collections import Counter
from dataclasses import dataclass, field
from os.path import relpath
from pathlib import Path

import yaml
from docutils.nodes import make_id

from bookbinder import ROOT, Refusal

KINDS = ("section", "source", "test", "exercise")
STATUSES = ("draft", "finished")
ITEM = re.compile(r"\b(?:IITD|CMU|GT|UCL)-\d+\b")
HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
ITEMS_AT_END = re.compile(rf"\s*\({ITEM.pattern}(?:,\s*{ITEM.pattern})*\)$")
FENCE = re.compile(r"\s*(`{3,}|~{3,})")
BOX = re.compile(r"\s*(?::{3,}|`{3,})\{admonition\}\s+(Erratum|Disagreement)\s+([A-Z]-\d+):?\s*(.*?)\s*$")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
DATA = "src/llm_anatomy/data"


@dataclass(frozen=True)
class Entry:
    """One thing that treats an item: what the page shows of it, where the link leads, where it stands."""

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
        return self.path.removesuffix(".nb.md")


@dataclass
class Syllabus:
    items: dict[str, dict]
    slips: dict[str, dict]  # errata and disagreements, by number
    chapters: dict[int, Chapter] = field(default_factory=dict)
    entries: dict[str, dict[str, list[Entry]]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    boxes: dict[str, tuple[str, Entry]] = field(default_factory=dict)  # slip -> title of its box, where it stands
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


# Reading


def rows(root: Path, name: str) -> dict[str, dict]:
    with (root / DATA / name).open(newline="", encoding="utf-8") as lines:
        return {row["id"]: row for row in csv.DictReader(lines)}


def header(path: Path) -> dict:
    """The YAML between the first two lines of three dashes."""
    text = path.read_text(encoding="utf-8")
    match = re.match(r"---\n(.*?)\n---\s*\n", text + "\n", re.DOTALL)
    try:
        values = yaml.safe_load(match[1]) if match else {}
    except yaml.YAMLError as error:
        raise Refusal(f"{path}: the header is not valid YAML: {str(error).splitlines()[0]}") from None
    return values if isinstance(values, dict) else {}


def parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise Refusal(f"{path}:{error.lineno}: this is not valid Python: {error.msg}") from None


def line_of(path: Path, word: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((n for n, line in enumerate(lines, 1) if re.search(rf"\b{re.escape(word)}\b", line)), 1)


def prose(path: Path):
    """The numbered lines of a text outside its code; the line that opens a fence is among them."""
    fence = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None:
            yield number, line
            fence = mark and mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip(" `~"):
            fence = None


def anchor(heading: str) -> str:
    """The id that Sphinx gives to a section: from the heading's text, without its markup."""
    text = re.sub(r"\{[\w:-]+\}`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", heading)  # roles
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)  # links
    return make_id(re.sub(r"[`*$]", "", text))


def read_chapter(book: Syllabus, root: Path, path: Path, values: dict) -> None:
    where = path.relative_to(root).as_posix()
    docname = where.removesuffix(".nb.md")
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

    shown, link, seen = title, f"{docname}.html", set()
    for line, text in prose(path):
        if heading := HEADING.match(text):
            name = anchor(heading[2])
            # A repeated heading gets a number for its id: then the link leads to the page.
            link = f"{docname}.html" + (f"#{name}" if name and name not in seen else "")
            seen.add(name)
            shown = ITEMS_AT_END.sub("", heading[2])
            book.add("section", ITEM.findall(heading[2]), Entry(shown, link, where, line))
        elif box := BOX.match(text):
            if box[2] in book.slips and box[2][0] == box[1][0]:
                book.boxes.setdefault(box[2], (box[3], Entry(shown, link, where, line)))
            else:
                book.problems.append(f"{where}:{line}: {box[1]} {box[2]} is not in {DATA}")


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
        for line, text in prose(path):  # exercises and other pages: their headings must name real items too
            for name in ITEM.findall(text) if HEADING.match(text) else []:
                if name not in book.items:
                    where = path.relative_to(root).as_posix()
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
        where = path.relative_to(root).as_posix()
        tree = parse(path)
        for node in ast.walk(tree):
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
        titles = [HEADING.match(text) for _, text in prose(page)] if page.exists() else []
        link = f"book/{chapter}/exercises.html" if page.exists() else ""
        place = next((anchor(heading[2]) for heading in titles if heading and title in heading[2]), None)
        items = values.get("items") or []
        for item in items if isinstance(items, list) else [items]:
            entry = Entry(title, f"{link}#{place}" if place else link, where, line_of(path, str(item)))
            book.add("exercise", [str(item)], entry)


def collect(root: Path = ROOT) -> Syllabus:
    """Everything that treats an item of the lectures, and what is wrong with how it says so."""
    book = Syllabus(rows(root, "syllabus_items.csv"), rows(root, "errata.csv") | rows(root, "disagreements.csv"))
    config = root / "_config.yml"
    place = (yaml.safe_load(config.read_text(encoding="utf-8")) or {}).get("repository", {}) if config.exists() else {}
    if place.get("url"):
        book.repository = f"{place['url'].rstrip('/')}/blob/{place.get('branch', 'main')}"
    read_pages(book, root)
    read_package(book, root)
    read_tests(book, root)
    read_exercises(book, root)
    return book


def problems(root: Path = ROOT) -> list[str]:
    """One sentence for each thing that the book claims and does not hold; empty if all is well."""
    book = collect(root)
    found = list(book.problems)
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


# Writing


def escape(text: str) -> str:
    """Text for a Markdown page: formulas between dollars stay, everything else means itself."""
    parts = re.split(r"(\$[^$]+\$)", text)
    return "".join(part if n % 2 else re.sub(r"([\\`*_{}\[\]<>#|^~$])", r"\\\1", part) for n, part in enumerate(parts))


def shown(entry: Entry, code: bool = False) -> str:
    """An entry on a page of ``book/``: its name, as a link if there is somewhere to go."""
    text = f"<code>{html.escape(entry.text)}</code>" if code else entry.text
    if not entry.link:
        return text
    link = entry.link if "://" in entry.link else relpath(entry.link, "book").replace("\\", "/")
    return f'<a href="{html.escape(link)}">{text}</a>'


def count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def lecture_map(book: Syllabus) -> str:
    covered = {name for name in book.items if not book.missing(name)}
    begun = {name for name in book.items if name not in covered and "section" not in book.missing(name)}
    lectures = Counter(item["lecture"] for item in book.items.values())
    lines = [
        f"**{len(covered)} of {count(len(book.items), 'item')} are covered**, and {len(begun)} more are begun.",
        "",
        ":::{container} la-coverage",
        "",
        "| Lecture | Items | Covered | Begun |",
        "| :-- | --: | --: | --: |",
    ]
    for lecture, total in lectures.items():
        here = {name for name, item in book.items.items() if item["lecture"] == lecture}
        lines.append(f"| {escape(lecture)} | {total} | {len(here & covered)} | {len(here & begun)} |")
    lines += ["", ":::", ""]
    for number, chapter in sorted(book.chapters.items()):
        link = relpath(f"{chapter.docname}.html", "book").replace("\\", "/")
        done, open_ = len(covered.intersection(chapter.items)), len(begun.intersection(chapter.items))
        state = "a draft" if chapter.status == "draft" else "finished"
        lines += [
            f"## {number}. {escape(chapter.title)}",
            "",
            f'<a href="{link}">The chapter</a> is {state}: {done} of its {count(len(chapter.items), "item")} covered, '
            f"{open_} begun.",
            "",
            "::::{container} la-facts",
            "",
        ]
        for name in chapter.items:
            lines.append(f"**{name}** {escape(book.items[name]['title'])}")
            lines += [f": *{kind.capitalize()}:* {cell(book, name, kind)}" for kind in KINDS]
            lines.append("")
        lines += ["::::", ""]
    to_come = {int(i["chapter"]): i["chapter_title"] for i in book.items.values()}
    waiting = [n for n in sorted(to_come) if n not in book.chapters]
    if waiting:
        lines += ["## Chapters to come", ""]
        for n in waiting:
            items = [name for name, item in book.items.items() if item["chapter"] == str(n)]
            ready = sum(bool(book.found(name, "source") and book.found(name, "test")) for name in items)
            code = f", {ready} with code and tests in the package" if ready else ""
            lines.append(f"- **{n}** {escape(to_come[n])}: {count(len(items), 'item')}{code}")
        lines.append("")
    return "\n".join(lines)


def cell(book: Syllabus, name: str, kind: str) -> str:
    found = book.found(name, kind)
    if found:
        return ", ".join(dict.fromkeys(shown(entry, code=kind in ("source", "test")) for entry in found))
    if reason := book.reason(name, kind):
        return f"— ({escape(reason)})"
    return "to come"


def errata(book: Syllabus) -> str:
    numbers = {letter: [n for n in book.slips if n.startswith(letter)] for letter in "ED"}
    treated = {letter: [n for n in numbers[letter] if n in book.boxes] for letter in "ED"}
    lines = [
        f"{len(treated['E'])} of {len(numbers['E'])} errata and {len(treated['D'])} of {len(numbers['D'])} "
        "disagreements are treated in a chapter so far.",
        "",
        "## Errata",
        "",
    ]
    lectures = [item["lecture"] for item in book.items.values()]  # in their order, then slips that several share
    for lecture in dict.fromkeys(lectures + [book.slips[n]["lecture"] for n in numbers["E"]]):
        if here := [n for n in treated["E"] if book.slips[n]["lecture"] == lecture]:
            lines += [f"### {escape(lecture.replace(' / ', ', '))}", "", "::::{container} la-facts", ""]
            for number in here:
                slip = book.slips[number]
                lines += slip_lines(
                    book, number, {"Shown": slip["shown"], "Right": slip["right"], "Evidence": slip["evidence"]}
                )
            lines += ["::::", ""]
    lines += waiting_list(book, numbers["E"], "### Errata to come")
    lines += ["## Where the lectures disagree", ""]
    if treated["D"]:
        lines += ["::::{container} la-facts", ""]
        for number in treated["D"]:
            slip = book.slips[number]
            lines += slip_lines(
                book,
                number,
                {"Topic": slip["topic"], "Positions": slip["positions"], "This book": slip["the_book"]},
            )
        lines += ["::::", ""]
    lines += waiting_list(book, numbers["D"], "### Disagreements to come")
    return "\n".join(lines)


def slip_lines(book: Syllabus, number: str, facts: dict[str, str]) -> list[str]:
    """One slip as a term and its definitions, the last of them the section that shows it."""
    title, place = book.boxes[number]
    chapter = next(n for n, chapter in book.chapters.items() if chapter.path == place.path)
    return [
        f"**{number}:** {title}",
        *(f": *{name}:* {escape(text)}" for name, text in facts.items() if text),
        f": *Where:* chapter {chapter}, {shown(place)}",
        "",
    ]


def waiting_list(book: Syllabus, numbers: list[str], title: str) -> list[str]:
    """What no chapter treats yet, under the first chapter that has an item it bears on."""
    groups: dict[int, list[str]] = {}
    for number in numbers:
        if number not in book.boxes:
            chapters = [int(book.items[i]["chapter"]) for i in ITEM.findall(book.slips[number]["items"])]
            groups.setdefault(min(chapters), []).append(number)
    if not groups:
        return []
    whole = {n: ", ".join(f'<span class="la-whole">{number}</span>' for number in groups[n]) for n in sorted(groups)}
    return [title, "", *(f"- Chapter {n}: {numbers}" for n, numbers in whole.items()), ""]


PAGES = {"book/lecture_map": lecture_map, "book/errata": errata}


def page(docname: str, root: Path = ROOT, book: Syllabus | None = None) -> str:
    """A page named in ``PAGES``: its own title and introduction, then what is generated."""
    introduction = (root / f"{docname}.md").read_text(encoding="utf-8")
    return introduction.rstrip() + "\n\n" + PAGES[docname](book or collect(root))


def draft_note(docname: str, root: Path = ROOT) -> str:
    """For the page of a draft chapter, a note that names what is to come; for any other page nothing."""
    if header(root / f"{docname}.nb.md").get("status") != "draft":
        return ""  # nearly every page: nothing needs to be collected for it
    book = collect(root)
    chapter = next((c for c in book.chapters.values() if c.docname == docname), None)
    if chapter is None:
        return ""
    absent = [name for name in chapter.items if "section" in book.missing(name)]
    partial = {name: book.missing(name) for name in chapter.items if name not in absent and book.missing(name)}
    lines = [":::{admonition} This chapter is a draft", ":class: note la-draft", ""]
    if absent:
        lines += ["To come, with their numbers in the lecture map:", ""]
        lines += [f"- {name} {escape(book.items[name]['title'])}" for name in absent]
        lines.append("")
    if partial:
        kinds = "; ".join(f"{name} ({', '.join(missing)})" for name, missing in partial.items())
        lines += [f"Begun, and still without: {kinds}.", ""]
    if not absent and not partial:
        lines += ["All its items are there; it is being read and corrected.", ""]
    return "\n".join([*lines, ":::", ""])
