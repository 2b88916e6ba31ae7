"""MyST to plain Markdown, for a notebook that is opened where MyST is unknown: Colab, JupyterLab, the code host.

Directives become quoted blocks with a bold lead, folds, code or pictures; roles become links to the site or plain
words. What has no plain form is refused, so that nothing raw is ever shown.
"""

import ast
import html
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace

import yaml

from bookbinder import ROOT, Refusal, address

BIBLIOGRAPHY = "book/bibliography"
GLOSSARY = "book/glossary"
TEXT_SUFFIX = ".nb.md"

FENCE = re.compile(r"(?P<indent>\s*)(?P<marks>`{3,}|~{3,}|:{3,})(?P<info>.*)$")
DIRECTIVE = re.compile(r"\{(?P<name>[^\s{}]+)\}\s*(?P<argument>.*)$")
OPTION = re.compile(r"\s*:([\w-]+):(?:\s+(.*))?$")
LABEL = re.compile(r"\s*\(([^()\s]+)\)=\s*$")
END_OF_MATH = re.compile(r"(?P<math>.*)\$\$(?:\s*\((?P<label>[^()\s]+)\))?\s*$")
ROLE_OR_CODE = r"(?<![`\\])(?:\{(?P<role>[a-zA-Z][\w:.+-]*)\})?(?P<ticks>`+)(?P<body>.+?)(?<!`)(?P=ticks)(?!`)"
SPAN = re.compile(ROLE_OR_CODE + r"|\\[^\w\s]|(?<!\\)\$[^$]+?\$", re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)(?P<rest>(?:\s[^()]*)?)\)")
TARGETED = re.compile(r"(?P<shown>.*?)\s*<(?P<target>[^<>]+)>$", re.DOTALL)
NUMBERED = re.compile(r"%s|\{(?:number|name)\}")

ADMONITIONS = {"seealso": "See also", "margin": "Aside", "sidebar": "Aside", "admonition": "", "topic": ""}
ADMONITIONS |= {
    name: name.capitalize()
    for name in ("attention", "caution", "danger", "error", "hint", "important", "note", "tip", "warning")
}
TITLED = {"admonition", "topic", "margin", "sidebar"}  # their argument is a title, not the beginning of the text
WRAPPERS = {"container", "div", "tab-set"}


class Book:
    """What a page may refer to: titles, labels and numbers of all pages, works cited, addresses."""

    def __init__(self, root: Path):
        self.root = root

    @cached_property
    def site(self) -> str:
        return address.site(self.root)

    @cached_property
    def blob(self) -> str:
        return address.blob(self.root)

    @cached_property
    def raw(self) -> str:
        return address.raw(self.root)

    @cached_property
    def texts(self) -> dict[str, str]:
        """Of every page, by the name it has in the table of contents."""
        paths = sorted((self.root / "book").rglob("*.md"))
        names = {path: path.relative_to(self.root).as_posix() for path in paths}
        return {
            name.removesuffix(TEXT_SUFFIX).removesuffix(".md"): path.read_text(encoding="utf-8")
            for path, name in names.items()
        }

    @cached_property
    def titles(self) -> dict[str, str]:
        headings = {name: re.search(r"^# +(.+?)\s*$", text, re.MULTILINE) for name, text in self.texts.items()}
        return {name: heading[1] if heading else name for name, heading in headings.items()}

    @cached_property
    def labels(self) -> dict[str, tuple[str, str]]:
        """Label -> page, and the heading that it stands above, if it does."""
        found = {}
        for name, text in self.texts.items():
            for label in re.finditer(r"^\(([^()\s]+)\)=\s*\n+(?:#+ +(.+?)\s*$)?", text, re.MULTILINE):
                found[label[1]] = (name, label[2] or "")
            for label in re.finditer(r"^\s*:(?:name|label): +(\S+)", text, re.MULTILINE):
                found[label[1]] = (name, "")
        return found

    @cached_property
    def equations(self) -> dict[str, tuple[str, int]]:
        """Label -> page, and the number that the equation has there."""
        found = {}
        for name, text in self.texts.items():
            marks = r"^.*\$\$[ \t]*\(([^()\s]+)\)[ \t]*$|^[`:]{3,}\{math\}[^\n]*\n(?::[\w-]+:[^\n]*\n)*?:label: +(\S+)"
            for number, mark in enumerate(re.finditer(marks, text, re.MULTILINE), 1):
                found[mark[1] or mark[2]] = (name, number)
        return found

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
        return f"{self.site}/{docname}.html" + (f"#{anchor}" if anchor else "")


def plain(markdown: str, book: Book, docname: str, glued: Mapping[str, str], at: Callable[[int], str]) -> str:
    """The plain form of one Markdown cell.

    Args:
        markdown: MyST text.
        book: what it may refer to.
        docname: the page it stands on, such as ``book/attention/attention``.
        glued: texts that the page's code has glued, by name.
        at: makes a place for the eye, ``page.nb.md:12``, from the number of a line in this text, from 0.
    """
    lines = list(enumerate(markdown.split("\n")))
    return "\n".join(_Cell(book, docname, glued, at).blocks(lines))


def leftovers(markdown: str) -> list[str]:
    """What of a notebook's Markdown would be shown raw: directives, roles, labels."""
    found, prose, fence = [], [], None
    for line in markdown.split("\n"):
        bare = re.sub(r"^[\s>]*", "", line)
        mark = FENCE.match(bare)
        if fence:
            if mark and mark["marks"].startswith(fence) and not mark["info"].strip():
                fence = None
        elif mark and (mark["marks"][0] == ":" or mark["info"].lstrip().startswith("{")):
            found.append(bare.strip())
        elif mark:
            fence = mark["marks"]
        elif LABEL.match(bare) or bare.strip() == "+++" or re.match(r".*\$\$\s*\([^()\s]+\)\s*$", bare):
            found.append(bare.strip())
        else:
            prose.append(bare)
    return found + [span[0] for span in SPAN.finditer("\n".join(prose)) if span["role"]]


def text_of_glue(output: Mapping) -> tuple[str, str] | None:
    """Name and text of an output that ``glue`` has stored."""
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

    def refuse(self, words: str, line: int | None = None):
        raise Refusal(f"{self.at(self.line if line is None else line)}: {words}")

    # Blocks

    def blocks(self, lines: list[tuple[int, str]]) -> list[str]:
        out, paragraph, i = [], [], 0

        def flush():
            if paragraph:
                self.line = paragraph[0][0]
                out.extend(self.inline("\n".join(text for _, text in paragraph)).split("\n"))
                paragraph.clear()

        def blank():
            flush()
            if out and out[-1]:
                out.append("")

        while i < len(lines):
            number, text = lines[i]
            i += 1
            fence = FENCE.match(text)
            if fence and not (fence["marks"][0] == "`" and "`" in fence["info"]):
                flush()
                self.line = number
                directive = DIRECTIVE.match(fence["info"].strip())
                if fence["marks"][0] == ":" and not directive:
                    self.refuse(f"`{text.strip()}` opens no directive; write `:::{{name}}`")
                body, i = self.body(lines, i, fence)
                if directive:
                    inner = self.directive(number, directive["name"], directive["argument"], body)
                    blank()
                    out += [(fence["indent"] + line).rstrip() for line in inner]
                    blank()
                else:
                    out += [line for _, line in lines[i - len(body) - 2 : i]]
            elif text.strip().startswith("$$"):
                flush()
                begin = i - 1
                if not (len(text.strip()) > 2 and END_OF_MATH.match(text.strip()[2:])):
                    while i < len(lines) and "$$" not in lines[i][1]:
                        i += 1
                    i += 1
                out += self.math(lines[begin:i])
            elif not text.strip() or LABEL.match(text):
                blank()
            elif text.startswith("%"):
                flush()  # a comment of the author
            else:
                paragraph.append((number, text))
        flush()
        return "\n".join(out).strip("\n").split("\n")

    def body(self, lines, i, fence) -> tuple[list[tuple[int, str]], int]:
        """The lines up to the closing fence, without the indent of the opening one, and where to go on."""
        indent, marks = len(fence["indent"]), fence["marks"]
        for end in range(i, len(lines)):
            text = lines[end][1].strip()
            if text and set(text) == {marks[0]} and len(text) >= len(marks):
                strip = re.compile(rf"^\s{{0,{indent}}}")
                return [(n, strip.sub("", line)) for n, line in lines[i:end]], end + 1
        self.refuse(f"`{marks}{fence['info']}` is not closed")

    def math(self, lines: list[tuple[int, str]]) -> list[str]:
        text = uncoloured("\n".join(line for _, line in lines))
        self.line = lines[0][0]
        end = re.match(END_OF_MATH.pattern, text, re.DOTALL)
        if not end or text.count("$$") < 2:
            self.refuse("the formula that begins with $$ is not closed")
        if not end["label"]:
            return text.rstrip().split("\n")
        between = "\n" if end["math"].endswith("\n") else " "
        return f"{end['math'].rstrip()}{between}{self.tag(end['label'])}{between}$$".split("\n")

    def tag(self, label: str) -> str:
        return rf"\tag{{{self.equation(label)[1]}}}"

    # Directives

    def directive(self, line: int, name: str, argument: str, body: list[tuple[int, str]]) -> list[str]:
        options, body = self.options(line, body)
        if name in ADMONITIONS:
            return self.admonition(name, argument, options, body)
        if name == "dropdown":
            return self.fold(argument or "Details", self.blocks(body))
        if name in WRAPPERS:
            return self.blocks(body)
        if name in ("tab-item", "rubric"):
            return [f"**{self.inline(argument)}**", "", *self.blocks(body)]
        if name in ("figure", "image"):
            return self.picture(line, name, argument, options, body)
        if name == "math":
            tag = [self.tag(options["label"])] if "label" in options else []
            lines = [*([argument] if argument else []), *(text for _, text in body)]
            return ["$$", *(uncoloured(text) for text in lines), *tag, "$$"]
        if name in ("code", "code-block"):
            return _fenced([text for _, text in body], argument)
        if name == "literalinclude":
            return self.included(line, argument, options)
        self.refuse(f"the directive {name!r} has no plain form, so a notebook would show it raw; use another", line)

    def options(self, line: int, body: list[tuple[int, str]]) -> tuple[dict, list[tuple[int, str]]]:
        options = {}
        if body and body[0][1].strip() == "---":
            end = next((i for i, (_, text) in enumerate(body[1:], 1) if text.strip() == "---"), None)
            if end is None:
                self.refuse("the options that begin with --- are not closed", line)
            options = yaml.safe_load("\n".join(text for _, text in body[1:end])) or {}
            body = body[end + 1 :]
        while body and (option := OPTION.match(body[0][1])):
            options[option[1]] = option[2] or ""
            body = body[1:]
        return options, body

    def admonition(self, name, argument, options, body) -> list[str]:
        if name not in TITLED and argument:
            body = [(self.line, argument), *body]
        title = argument if name in TITLED and argument else ADMONITIONS[name]
        inner = self.blocks(body)
        if "dropdown" in options.get("class", ""):
            return self.fold(title, inner)
        lead = [f"**{self.inline(title)}**", ""] if title else []
        return [f"> {text}".rstrip() for text in [*lead, *inner]]

    def fold(self, title: str, inner: list[str]) -> list[str]:
        words = re.sub(r"\[([^\]]*)\]\([^()]*\)", r"\1", self.inline(title))
        summary = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", html.escape(words, quote=False))
        return [f"<details><summary>{summary}</summary>", "", *inner, "", "</details>"]

    def picture(self, line, name, target, options, body) -> list[str]:
        alt = " ".join(str(options.get("alt", "")).split())
        if not alt:
            self.refuse(f"the {name} {target} has no :alt:, which says what it shows", line)
        return [f"![{alt}]({self.address_of(target, file=self.book.raw)})", "", *self.blocks(body)]

    def included(self, line: int, target: str, options: dict) -> list[str]:
        from sphinx.directives.code import LiteralIncludeReader

        path = self.book.root / self.path_of(target)
        language = options.pop("language", "python" if path.suffix == ".py" else "")
        try:
            options = {name: int(value) if name == "dedent" and value else value for name, value in options.items()}
            text, _ = LiteralIncludeReader(str(path), options, SimpleNamespace(source_encoding="utf-8")).read()
        except (OSError, ValueError) as error:
            self.refuse(f"{target} cannot be included: {str(error).splitlines()[0]}", line)
        return _fenced(text.rstrip("\n").split("\n"), language)

    # Roles and links

    def inline(self, text: str) -> str:
        """A paragraph with its roles and relative links resolved; code and formulas are left as they are."""
        kept = []

        def keep(span: re.Match) -> str:
            if span["role"]:
                kept.append(self.role(span["role"], " ".join(span["body"].split())))
            else:
                kept.append(uncoloured(span[0]) if span[0].startswith("$") else span[0])
            return f"\0{len(kept) - 1}\0"

        def back(place: re.Match) -> str:
            return kept[int(place[1])]

        return re.sub(r"\0(\d+)\0", back, LINK.sub(self.link, SPAN.sub(keep, text)))

    def role(self, role: str, body: str) -> str:
        targeted = TARGETED.match(body)
        shown, target = (targeted["shown"], targeted["target"]) if targeted else ("", body)
        match role:
            case "cite" | "cite:p":
                return f"({'; '.join(self.work(key.strip(), '{} {}') for key in body.split(','))})"
            case "cite:t":
                return " and ".join(self.work(key.strip(), "{} ({})") for key in body.split(","))
            case "doc":
                docname = self.path_of(target)
                if docname not in self.book.titles:
                    self.refuse(f"there is no page {target!r} to refer to")
                return f"[{shown or self.book.titles[docname]}]({self.book.page(docname)})"
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
                if name not in self.glued:
                    self.refuse(f"no cell of this page glues {name!r}")
                return format(float(self.glued[name]), form) if form else self.glued[name]
            case "math":
                return f"${uncoloured(body)}$"
            case "code":
                return f"`{body}`"
            case "abbr":
                return re.sub(r"\s*\(([^()]*)\)$", r" (\1)", body)
            case "sub" | "sup":
                return f"<{role}>{body}</{role}>"
        self.refuse(f"the role {role!r} has no plain form, so a notebook would show it raw; use another")

    def work(self, key: str, form: str) -> str:
        if key not in self.book.works:
            self.refuse(f"{key!r} is not in book/references.bib")
        authors, year = self.book.works[key]
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
        if label not in self.book.equations:
            self.refuse(f"there is no formula labelled {label!r}")
        return self.book.equations[label]

    def labelled(self, label: str, shown: str) -> str:
        if label in self.book.equations:  # [text](#label) may mean a formula
            return self.role("eq", f"{shown} <{label}>" if shown else label)
        if label not in self.book.labels:
            self.refuse(f"there is no label {label!r}")
        docname, heading = self.book.labels[label]
        return f"[{shown or heading or self.book.titles[docname]}]({self.book.page(docname, make_id(label))})"

    def link(self, link: re.Match) -> str:
        text, target, rest = link["text"], link["target"], link["rest"]
        if re.match(r"[a-zA-Z][\w+.-]*:", target):
            return link[0]
        if link["image"]:
            if not text.strip():
                self.refuse(f"the image {target} has no alternative text")
            return f"![{text}]({self.address_of(target, file=self.book.raw)}{rest})"
        if target.startswith("#"):
            return self.labelled(target[1:], text)
        return f"[{text or self.title_of(target)}]({self.address_of(target, file=self.book.blob)}{rest})"

    def title_of(self, target: str) -> str:
        return self.book.titles.get(_docname(self.path_of(target.partition("#")[0])), target)

    def address_of(self, target: str, file: str) -> str:
        """Of a page on the site; of any other file in the repository, under the address ``file``."""
        if re.match(r"[a-zA-Z][\w+.-]*:", target):
            return target
        path, _, anchor = target.partition("#")
        path = self.path_of(path)
        docname = _docname(path)
        return self.book.page(docname, anchor) if docname in self.book.titles else f"{file}/{path}"

    def path_of(self, target: str) -> str:
        """From the root of the repository, of a target given relative to the page or, with a slash, to the root."""
        return posixpath.normpath(posixpath.join("/", posixpath.dirname(self.docname), target)).lstrip("/")


def _docname(path: str) -> str:
    for suffix in (TEXT_SUFFIX, ".md", ".ipynb"):
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    return ""


def _fenced(lines: list[str], language: str) -> list[str]:
    longest = max((len(marks) for marks in re.findall("`{3,}", "\n".join(lines))), default=2)
    fence = "`" * (longest + 1)
    return [f"{fence}{language}", *lines, fence]


def make_id(text: str, case: bool = False) -> str:
    """The id that the page gives to a label, or, with its case kept, to a term."""
    if case:
        from sphinx.util.nodes import _make_id as keep_case

        return keep_case(text)
    from docutils.nodes import make_id

    return make_id(text)
