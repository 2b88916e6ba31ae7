"""Turn MyST into plain Markdown, for a notebook that is opened where MyST is unknown: Colab, JupyterLab, GitHub.

A directive becomes a quoted block with a bold lead, a fold, code or a picture; a role becomes a link to the site or
plain words. What has no plain form is refused, so that no reader of a notebook sees raw MyST.
"""

import ast
import html
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, TypeVar

from bookbinder import ROOT, address, myst
from bookbinder.address import Address
from groundwork import Refusal

BIBLIOGRAPHY = "book/bibliography"
GLOSSARY = "book/glossary"

NUMBERED = re.compile(r"%s|\{(?:number|name)\}")

ADMONITIONS = {"seealso": "See also", "margin": "Aside", "sidebar": "Aside", "admonition": "", "topic": ""}
ADMONITIONS |= {
    name: name.capitalize()
    for name in ("attention", "caution", "danger", "error", "hint", "important", "note", "tip", "warning")
}
TITLED = {"admonition", "topic", "margin", "sidebar"}  # their argument is a title, not the beginning of the text
WRAPPERS = {"container", "div", "tab-set"}
SPECIAL = {"code_block", "myst_target", "myst_line_comment", *myst.FENCES, *myst.MATH}

T = TypeVar("T")


class Book:
    """What a page may refer to: titles, labels and numbers of all pages, works cited, addresses."""

    def __init__(self, root: Path):
        self.root = root

    @cached_property
    def address(self) -> Address:
        return address.read(self.root)

    @cached_property
    def blocks(self) -> dict[str, list]:
        """The blocks of every page, by the name that the page has in the table of contents."""
        paths = sorted((self.root / "book").rglob("*.md"))
        names = [path.relative_to(self.root).as_posix().removesuffix(".md").removesuffix(".nb") for path in paths]
        texts = (path.read_text(encoding="utf-8") for path in paths)
        return {name: [node for _, node in myst.blocks(text)] for name, text in zip(names, texts, strict=True)}

    @cached_property
    def titles(self) -> dict[str, str]:
        headings = {name: (node for node in nodes if node.tag == "h1") for name, nodes in self.blocks.items()}
        return {name: next(map(myst.source, found), name) for name, found in headings.items()}

    @cached_property
    def labels(self) -> dict[str, tuple[str, str]]:
        """Label -> page, and the heading that it stands above, if it does."""
        found = {}
        for name, nodes in self.blocks.items():
            for node in nodes:
                if node.type == "myst_target":
                    below = node.next_sibling
                    found[node.content] = (name, myst.source(below) if below and below.type == "heading" else "")
                elif inner := myst.directive(node):
                    found |= {inner.options[key]: (name, "") for key in ("name", "label") if key in inner.options}
        return found

    @cached_property
    def equations(self) -> dict[str, tuple[str, int]]:
        """Label -> page, and the number that the equation has there."""
        labels = {name: filter(None, map(_label, nodes)) for name, nodes in self.blocks.items()}
        return {label: (name, n) for name, found in labels.items() for n, label in enumerate(found, 1)}

    @cached_property
    def works(self) -> dict[str, tuple[str, str]]:
        """Key -> authors and year, as a reader names them."""
        from pybtex.database import parse_file
        from pybtex.richtext import Text

        found = {}
        for path in sorted((self.root / "book").glob("*.bib")):
            for key, entry in parse_file(str(path), bib_format="bibtex").entries.items():
                people = entry.persons.get("author") or entry.persons.get("editor") or []
                names = [str(Text.from_latex(" ".join(p.prelast_names + p.last_names))) for p in people]
                authors = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
                found[key] = (authors or entry.fields.get("title", key), entry.fields.get("year", ""))
        return found

    @cached_property
    def reference(self):
        from bookbinder.reference import Reference

        return Reference(self.root)

    def page(self, docname: str, anchor: str = "") -> str:
        return f"{self.address.site}/{docname}.html" + (f"#{anchor}" if anchor else "")


def plain(markdown: str, book: Book, docname: str, glued: Mapping[str, str], at: Callable[[int], str]) -> str:
    """Turn the text of one Markdown cell into plain Markdown.

    Args:
        markdown: MyST text.
        book: what the text may refer to.
        docname: the page that the cell is on, such as ``book/attention/attention``.
        glued: the texts that the page's code has glued, by name.
        at: gives for the index of a line in this text its location in a message, such as ``page.nb.md:12``.
    """
    return "\n".join(_Cell(book, docname, glued, at).blocks(markdown))


def _label(node) -> str | None:
    """The label of an equation."""
    if node.type == "math_block_label":
        return node.info
    inner = myst.directive(node)
    return inner.options.get("label") if inner and inner.name == "math" else None


def text_of_glue(output: Mapping) -> tuple[str, str] | None:
    """Name and text of an output that ``glue`` has stored; None for any other output."""
    mark = output.get("metadata", {}).get("scrapbook")
    if not mark:
        return None
    stored = output["data"].get(mark["mime_prefix"] + "text/plain", "''")
    try:
        value = ast.literal_eval(stored)
    except (ValueError, SyntaxError):
        value = stored
    return mark["name"], str(value)


@cache
def _colouring() -> re.Pattern:
    r"""The commands that colour a symbol, ``\query{Q}``: one for each name of the palette, known to the site alone."""
    names = json.loads((ROOT / "src/llm_anatomy/notebook/palette.json").read_text(encoding="utf-8"))
    return re.compile(rf"\\(?:{'|'.join(names)})(?=\s*\{{)")


def uncoloured(formula: str) -> str:
    return _colouring().sub("", formula)


class _Cell:
    def __init__(self, book: Book, docname: str, glued: Mapping[str, str], at: Callable[[int], str]):
        self.book, self.docname, self.glued, self.at = book, docname, glued, at
        self.line = 0

    def refuse(self, words: str) -> NoReturn:
        raise Refusal(f"{self.at(self.line)}: {words}")

    # Blocks

    def blocks(self, text: str, first: int = 0) -> list[str]:
        """The lines of a text in plain Markdown; ``first`` is the number of its first line in the cell."""
        lines, out, done = text.split("\n"), [], 0
        for node in myst.nodes(text):
            if node.type not in SPECIAL:
                continue
            begin, end = node.map
            self.paragraphs(lines[done:begin], first + done, out)
            done, self.line = end, first + begin
            if node.type in myst.FENCES:
                self.fence(node, lines, out)
            elif node.type in myst.MATH:
                out += self.math("\n".join(lines[begin:end]), node.info)
            elif node.type == "code_block":
                out += lines[begin:end]
            elif node.type == "myst_target":
                _end_paragraph(out)
        self.paragraphs(lines[done:], first + done, out)
        return "\n".join(out).strip("\n").split("\n")

    def paragraphs(self, lines: list[str], first: int, out: list[str]) -> None:
        for blank, run in groupby(enumerate(lines, first), lambda line: not line[1].strip()):
            if blank:
                _end_paragraph(out)
                continue
            numbers, texts = zip(*run, strict=True)
            self.line, text = numbers[0], "\n".join(texts)
            if text.lstrip().startswith("$$") and text.count("$$") % 2:
                self.refuse("the formula that begins with $$ is not closed")
            out += self.inline(text).split("\n")

    def fence(self, node, lines: list[str], out: list[str]) -> None:
        begin, end = node.map
        indent, _, info = lines[begin].partition(node.markup)
        last = lines[end - 1].strip(" >")
        directive = myst.directive(node)
        if node.type == "colon_fence" and not directive:
            self.refuse(f"`{node.markup}{info}` opens no directive; write `:::{{name}}`")
        if end == begin + 1 or len(last) < len(node.markup) or set(last) != {node.markup[0]}:
            self.refuse(f"`{node.markup}{info}` is not closed")
        if not directive or indent.strip():
            out += lines[begin:end]
        else:
            inner = self.directive(directive, self.line)
            _end_paragraph(out)
            out += [(indent + line).rstrip() for line in inner]
            _end_paragraph(out)

    def math(self, text: str, label: str) -> list[str]:
        text = uncoloured(text)
        if not label:
            return text.rstrip().split("\n")
        body = text[: text.rindex("$$")]
        between = "\n" if body.endswith("\n") else " "
        return f"{body.rstrip()}{between}{self.tag(label)}{between}$$".split("\n")

    def tag(self, label: str) -> str:
        return rf"\tag{{{self.equation(label)[1]}}}"

    # Directives

    def directive(self, it: myst.Directive, line: int) -> list[str]:
        """The lines of a directive that opens on this line."""
        body = partial(self.blocks, it.body, line + it.offset)
        if it.name in ADMONITIONS:
            return self.admonition(it, line)
        if it.name == "dropdown":
            return self.fold(it.argument or "Details", body())
        if it.name in WRAPPERS:
            return body()
        if it.name in ("tab-item", "rubric"):
            return [f"**{self.inline(it.argument)}**", "", *body()]
        if it.name in ("figure", "image"):
            alt = " ".join(it.options.get("alt", "").split())
            if not alt:
                self.refuse(f"the {it.name} {it.argument} has no :alt:, which says what it shows")
            return [f"![{alt}]({self.address_of(it.argument, file=self.book.address.raw)})", "", *body()]
        if it.name == "math":
            tag = [self.tag(it.options["label"])] if "label" in it.options else []
            return ["$$", *(uncoloured(text) for text in [it.argument, *it.body.split("\n")] if text), *tag, "$$"]
        if it.name in ("code", "code-block"):
            return _fenced(it.body.split("\n"), it.argument)
        if it.name == "literalinclude":
            return self.included(it.argument, it.options)
        self.refuse(f"the directive {it.name!r} has no plain form, so a notebook would show it raw; use another")

    def admonition(self, it: myst.Directive, line: int) -> list[str]:
        title, text, first = ADMONITIONS[it.name], it.body, line + it.offset
        if it.argument and it.name in TITLED:
            title = it.argument
        elif it.argument:
            text, first = f"{it.argument}\n{text}", first - 1
        inner = self.blocks(text, first)
        if "dropdown" in it.options.get("class", ""):
            return self.fold(title, inner)
        lead = [f"**{self.inline(title)}**", ""] if title else []
        return [f"> {text}".rstrip() for text in [*lead, *inner]]

    def fold(self, title: str, inner: list[str]) -> list[str]:
        words = re.sub(r"\[([^\]]*)\]\([^()]*\)", r"\1", self.inline(title))
        summary = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", html.escape(words, quote=False))
        return [f"<details><summary>{summary}</summary>", "", *inner, "", "</details>"]

    def included(self, target: str, options: dict) -> list[str]:
        from sphinx.directives.code import LiteralIncludeReader

        path = self.book.root / self.path_of(target)
        language = options.pop("language", "python" if path.suffix == ".py" else "")
        try:
            options = {name: int(value) if name == "dedent" and value else value for name, value in options.items()}
            text, _ = LiteralIncludeReader(str(path), options, SimpleNamespace(source_encoding="utf-8")).read()
        except (OSError, ValueError) as error:
            self.refuse(f"{target} cannot be included: {str(error).splitlines()[0]}")
        return _fenced(text.rstrip("\n").split("\n"), language)

    # Roles and links

    def inline(self, text: str) -> str:
        """A paragraph with its roles and relative links resolved; code and formulas are left as they are."""
        return myst.rewritten(text, self.role, uncoloured, self.link)

    def role(self, role: str, body: str) -> str:
        shown, target = myst.titled(body)
        match role:
            case "cite" | "cite:p":
                return f"({'; '.join(self.work(key.strip(), '{} {}') for key in body.split(','))})"
            case "cite:t":
                return " and ".join(self.work(key.strip(), "{} ({})") for key in body.split(","))
            case "doc":
                docname = self.path_of(target)
                title = self.known(self.book.titles, docname, f"there is no page {target!r} to refer to")
                return f"[{shown or title}]({self.book.page(docname)})"
            case "ref" | "numref":
                return self.labelled(target, NUMBERED.sub("", shown).strip())
            case "eq":
                docname, number = self.equation(target)
                return f"[{shown or f'({number})'}]({self.book.page(docname, make_id(f'equation-{target}'))})"
            case "term":
                return f"[{shown or target}]({self.book.page(GLOSSARY, make_id(f'term-{target}', case=True))})"
            case "py:mod" | "py:class" | "py:func" | "py:meth" | "py:data" | "py:attr":
                return self.documented(target, shown, called=role in ("py:func", "py:meth"))
            case "glue:text" | "glue:":
                name, _, form = body.partition(":")
                text = self.known(self.glued, name, f"no cell of this page glues {name!r}")
                return format(float(text), form) if form else text
            case "math":
                return f"${uncoloured(body)}$"
            case "code":
                return f"`{body}`"
            case "abbr":
                return re.sub(r"\s*\(([^()]*)\)$", r" (\1)", body)
            case "sub" | "sup":
                return f"<{role}>{body}</{role}>"
        self.refuse(f"the role {role!r} has no plain form, so a notebook would show it raw; use another")

    def known(self, names: Mapping[str, T], name: str, otherwise: str) -> T:
        if name not in names:
            self.refuse(otherwise)
        return names[name]

    def work(self, key: str, form: str) -> str:
        authors, year = self.known(self.book.works, key, f"{key!r} is not in book/references.bib")
        shown = form.format(authors, year) if year else authors
        return f"[{shown}]({self.book.page(BIBLIOGRAPHY, make_id(key))})"

    def documented(self, target: str, shown: str, called: bool) -> str:
        name = target.removeprefix("~")
        try:
            page = self.book.page(*self.book.reference.locate(name))
        except Refusal as refusal:
            self.refuse(str(refusal))
        shown = shown or (name if name == target else name.rpartition(".")[2]) + "()" * called
        return f"[`{shown}`]({page})"

    def equation(self, label: str) -> tuple[str, int]:
        return self.known(self.book.equations, label, f"there is no formula labelled {label!r}")

    def labelled(self, label: str, shown: str) -> str:
        if label in self.book.equations:  # [text](#label) may mean a formula
            return self.role("eq", f"{shown} <{label}>" if shown else label)
        docname, heading = self.known(self.book.labels, label, f"there is no label {label!r}")
        return f"[{shown or heading or self.book.titles[docname]}]({self.book.page(docname, make_id(label))})"

    def link(self, link: re.Match) -> str:
        text, target, rest = link["text"], link["target"], link["rest"]
        if re.match(r"[a-zA-Z][\w+.-]*:", target):
            return link[0]
        if link["image"]:
            if not text.strip():
                self.refuse(f"the image {target} has no alternative text")
            return f"![{text}]({self.address_of(target, file=self.book.address.raw)}{rest})"
        if target.startswith("#"):
            return self.labelled(target[1:], text)
        return f"[{text or self.title_of(target)}]({self.address_of(target, file=self.book.address.blob)}{rest})"

    def title_of(self, target: str) -> str:
        return self.book.titles.get(_docname(self.path_of(target.partition("#")[0])), target)

    def address_of(self, target: str, file: str) -> str:
        """The address of a page on the site, or of any other file below the address ``file``."""
        if re.match(r"[a-zA-Z][\w+.-]*:", target):
            return target
        path, _, anchor = target.partition("#")
        path = self.path_of(path)
        docname = _docname(path)
        return self.book.page(docname, anchor) if docname in self.book.titles else f"{file}/{path}"

    def path_of(self, target: str) -> str:
        """The path from the root of a target that is given relative to the page or, with a slash, to the root."""
        return posixpath.normpath(posixpath.join("/", posixpath.dirname(self.docname), target)).lstrip("/")


def _end_paragraph(out: list[str]) -> None:
    if out and out[-1]:
        out.append("")


def _docname(path: str) -> str:
    return next((path.removesuffix(end) for end in (myst.TEXT_SUFFIX, ".md", ".ipynb") if path.endswith(end)), "")


def _fenced(lines: list[str], language: str) -> list[str]:
    longest = max((len(marks) for marks in re.findall("`{3,}", "\n".join(lines))), default=2)
    fence = "`" * (longest + 1)
    return [f"{fence}{language}", *lines, fence]


def make_id(text: str, case: bool = False) -> str:
    """The id that Sphinx gives to a label or, with its case kept, to a term."""
    if case:
        from sphinx.util.nodes import _make_id as keep_case

        return keep_case(text)
    from docutils.nodes import make_id

    return make_id(text)
