"""The pages generated from the syllabus: lecture map, errata, named systems; and the note on a draft chapter."""

import html
import re
from collections import Counter
from os.path import relpath
from pathlib import Path

from bookbinder import ROOT
from bookbinder.syllabus import ITEM, KINDS, Entry, Syllabus, collect, header

FACTS = {  # on the errata page, by the first letter of a slip's number: name → column of its table
    "E": {"In the lecture": "shown", "Correct": "right", "Evidence": "evidence"},
    "D": {"Topic": "topic", "In the lectures": "positions", "In this book": "the_book"},
}


def escape(text: str) -> str:
    """Escape a text for a Markdown page; formulas between dollars stay as they are."""
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
        f"**{len(covered)} of {count(len(book.items), 'item')} are covered**"
        + (f", and {len(begun)} more {'is' if len(begun) == 1 else 'are'} begun." if begun else "."),
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
            f'<a href="{link}">The chapter</a> is {state}. It covers {done} of its {count(len(chapter.items), "item")}'
            + (f" and has begun {open_} more." if open_ else "."),
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


def first_chapter(book: Syllabus, number: str) -> int:
    """The first chapter that has an item which the slip concerns."""
    return min(int(book.items[item]["chapter"]) for item in ITEM.findall(book.slips[number]["items"]))


def is_stated(book: Syllabus, number: str) -> bool:
    """Whether the errata page states the slip: a chapter treats it, or is finished and leaves a typing slip to it."""
    chapter = book.chapters.get(first_chapter(book, number))
    return number in book.boxes or chapter is not None and chapter.status == "finished"


def errata(book: Syllabus) -> str:
    numbers = {letter: [n for n in book.slips if n.startswith(letter)] for letter in "ED"}
    treated = {letter: sum(n in book.boxes for n in numbers[letter]) for letter in "ED"}
    stated = {letter: [n for n in numbers[letter] if is_stated(book, n)] for letter in "ED"}
    lines = [
        f"So far, the chapters show {treated['E']} of {len(numbers['E'])} errata and {treated['D']} of "
        f"{len(numbers['D'])} disagreements. Slips of typing are listed on this page alone.",
        "",
        "## Errata",
        "",
    ]
    lectures = [item["lecture"] for item in book.items.values()]  # in their order, then slips that several share
    for lecture in dict.fromkeys(lectures + [book.slips[n]["lecture"] for n in numbers["E"]]):
        if here := [n for n in stated["E"] if book.slips[n]["lecture"] == lecture]:
            lines += [f"### {escape(lecture.replace(' / ', ', '))}", "", *slips(book, here)]
    lines += waiting_list(book, numbers["E"], "### Errata to come")
    lines += ["## Where the lectures disagree", "", *slips(book, stated["D"])]
    lines += waiting_list(book, numbers["D"], "### Disagreements to come")
    return "\n".join(lines)


def slips(book: Syllabus, numbers: list[str]) -> list[str]:
    """Slips, each a term with its definitions; the last one is the section of a chapter that shows it, if one does."""
    lines = []
    for number in numbers:
        title, section = book.boxes.get(number, ("", None))
        facts = {name: book.slips[number][column] for name, column in FACTS[number[0]].items()}
        lines += [
            f"**{number}:** {title}" if title else f"**{number}**",
            *(f": *{name}:* {escape(text)}" for name, text in facts.items() if text),
        ]
        if section:
            chapter = next(n for n, chapter in book.chapters.items() if chapter.path == section.path)
            lines.append(f": *Shown in:* chapter {chapter}, {shown(section)}")
        lines.append("")
    return ["::::{container} la-facts", "", *lines, "::::", ""] if lines else []


def waiting_list(book: Syllabus, numbers: list[str], title: str) -> list[str]:
    """What no chapter treats yet, under the first chapter that has an item which it concerns."""
    groups: dict[int, list[str]] = {}
    for number in numbers:
        if not is_stated(book, number):
            groups.setdefault(first_chapter(book, number), []).append(number)
    if not groups:
        return []
    whole = {n: ", ".join(f'<span class="la-whole">{number}</span>' for number in groups[n]) for n in sorted(groups)}
    return [title, "", *(f"- Chapter {n}: {numbers}" for n, numbers in whole.items()), ""]


def named_systems(book: Syllabus) -> str:
    groups = {}
    for system in book.systems:
        groups.setdefault(system["group"], []).append(system)
    runs = {system["number"] for system in book.systems if system["code"]}
    waiting = sum(system["number"] not in runs and bool(book.waits_for(system)) for system in book.systems)
    lines = [
        f"**{len(runs)} of {count(len(book.systems), 'name')} have code in the package.** "
        + (
            f"Of the others, {waiting} wait{'s' * (waiting == 1)} for a chapter that is not finished."
            if waiting
            else ""
        ),
        "",
        ":::{container} la-coverage",
        "",
        "| Group | Names | With code | Without |",
        "| :-- | --: | --: | --: |",
    ]
    for group, systems in groups.items():
        n = sum(system["number"] in runs for system in systems)
        lines.append(f"| {escape(group)} | {len(systems)} | {n} | {len(systems) - n} |")
    lines += ["", ":::", ""]
    for group, systems in groups.items():
        lines += [f"## {escape(group)}", "", "::::{container} la-facts", ""]
        for system in systems:
            lines.append(f"**{system['number']}** {escape(system['name'])}")
            lines += [f": *{name}:* {text}" for name, text in answers(book, system).items() if text]
            lines.append("")
        lines += ["::::", ""]
    return "\n".join(lines)


def answers(book: Syllabus, system: dict[str, str]) -> dict[str, str]:
    """What the page says of a named system, by label."""
    numbers = {chapter.path: number for number, chapter in book.chapters.items()}
    sections: dict[int, list[str]] = {}
    for entry in book.sections(system):
        sections.setdefault(numbers[entry.path], []).append(shown(entry))
    sections |= {n: ["to come"] for n in book.waits_for(system) if n not in book.chapters}
    code = [f"{{py:obj}}`~llm_anatomy.{name}`" for name in system["code"].split()]
    if key := system["modification"]:
        name = system["code"].rpartition(".")[2]
        code = [f'{{py:obj}}`{name}["{key}"] <llm_anatomy.{system["code"]}>`']
    quoted = {
        name: ", ".join(f"`{word}`" for word in system[name].split()) for name in ("presets", "weights", "tables")
    }
    return {
        "Items": ", ".join(system["items"].split()),
        "Chapter": "; ".join(f"{number}: {', '.join(names)}" for number, names in sections.items()),
        "Code": ", ".join(code),
        "Presets": quoted["presets"],
        "Weights": quoted["weights"],
        "Tables": quoted["tables"],
        "Note": escape(system["note"]),
    }


PAGES = {"book/lecture_map": lecture_map, "book/errata": errata, "book/named_systems": named_systems}


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
        lines += ["These items of the lectures are still to come:", ""]
        lines += [f"- {name} {escape(book.items[name]['title'])}" for name in absent]
        lines.append("")
    if partial:
        kinds = "; ".join(f"{name} ({', '.join(missing)})" for name, missing in partial.items())
        lines += [f"These items are not complete; what is missing is in brackets: {kinds}.", ""]
    if not absent and not partial:
        lines += ["All its items are there; we are still correcting the text.", ""]
    return "\n".join([*lines, ":::", ""])
