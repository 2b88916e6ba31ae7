"""Read MyST as the site reads it: header, headings, labels, directives, cells, roles and links of a text.

The parser is MyST-Parser's, with the extensions that ``_config.yml`` switches on. It knows on which line a block stands
but not where in its line a role or a link does: these are found by regular expressions, here and nowhere else.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

import yaml
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.tree import SyntaxTreeNode
from nbformat import NotebookNode

from groundwork import Refusal

TEXT_SUFFIX = ".nb.md"
EXTENSIONS = {"amsmath", "colon_fence", "deflist", "dollarmath"}
FENCES = {"fence", "colon_fence"}
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is faster
MATH = {"math_block", "math_block_label"}
ROLE_OR_CODE = r"(?<![`\\])(?:\{(?P<role>[a-zA-Z][\w:.+-]*)\})?(?P<ticks>`+)(?P<body>.+?)(?<!`)(?P=ticks)(?!`)"
SPAN = re.compile(ROLE_OR_CODE + r"|\\[^\w\s]|(?<!\\)\$[^$]+?\$", re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)(?P<rest>(?:\s[^()]*)?)\)")


@cache
def _parser() -> MarkdownIt:
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    return create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)


@lru_cache(maxsize=1024)
def _tree(text: str) -> SyntaxTreeNode:
    """The syntax tree of a text. A page is asked for its headings once for each of its exercises: parse it once."""
    return SyntaxTreeNode(_parser().parse(text))


def nodes(text: str) -> Iterator[SyntaxTreeNode]:
    """The nodes of a text's syntax tree, in their order; the lines in ``map`` count from 0."""
    return _tree(text).walk(include_self=False)


def blocks(text: str, first: int = 1) -> Iterator[tuple[int, SyntaxTreeNode]]:
    """The blocks of a text, and those inside directives written with colons, each with the number of its first line."""
    for node in nodes(text):
        if node.map and node.type != "inline":
            yield first + node.map[0], node
            if node.type == "colon_fence" and (inside := directive(node)):
                yield from blocks(inside.body, first + node.map[0] + inside.offset)


def header(text: str, where: str) -> dict:
    """The values between two lines of dashes with which a text begins; ``where`` begins the message of a Refusal."""
    node = next(nodes(text), None)
    try:
        values = yaml.load(node.content, YAML) if node and node.type == "front_matter" else {}
    except yaml.YAMLError as error:
        raise Refusal(f"{where}: the header is not valid YAML: {' '.join(str(error).split())}") from None
    return values if isinstance(values, dict) else {}


def sections(text: str) -> dict[str, str]:
    """The sections of the second level: title → text."""
    lines = text.split("\n")
    headings = [node for node in nodes(text) if node.tag == "h2" and node.level == 0]
    ends = [*(heading.map[0] for heading in headings), len(lines)][1:]
    return {source(h): "\n".join(lines[h.map[1] : end]).strip() for h, end in zip(headings, ends, strict=True)}


def source(heading: SyntaxTreeNode) -> str:
    """The text of a heading as it is written."""
    return heading.children[0].content


def words(heading: SyntaxTreeNode) -> str:
    """The text of a heading as it is read, without markup."""
    parts = ((node, node.content) for node in heading.walk() if node.type != "inline" and not node.children)
    return "".join((titled(text)[0] or text) if node.type == "myst_role" else text for node, text in parts)


def cells(text: str) -> Iterator[tuple[NotebookNode, int]]:
    """The cells of a page, each with the number of the line on which its source begins."""
    import jupytext

    lines, end = f"\n{text}\n", 0
    for cell in jupytext.reads(text, fmt="md:myst").cells:
        cell.source = cell.source.strip("\n")
        begin = lines.find(f"\n{cell.source}\n", end)
        yield cell, lines.count("\n", 0, end if begin < 0 else begin + 1)
        end = end if begin < 0 else begin + len(cell.source)


class Directive(NamedTuple):
    """A directive; its body begins ``offset`` lines below its opening."""

    name: str
    argument: str
    options: dict[str, str]
    body: str
    offset: int


def directive(node: SyntaxTreeNode) -> Directive | None:
    """The directive that a node is; None if it is something else, code for instance."""
    from docutils.parsers.rst.directives.misc import TestDirective as AnyDirective
    from myst_parser.parsers.directives import parse_directive_text

    opening = re.fullmatch(r"\{([^\s{}]+)\}\s*(.*)", node.info.strip()) if node.type in FENCES else None
    if not opening:
        return None
    if node.content.lstrip().startswith(":::"):  # a directive, which the parser would take for an option
        return Directive(*opening.groups(), {}, node.content.rstrip("\n"), 1)
    read = parse_directive_text(AnyDirective, "", node.content)
    return Directive(*opening.groups(), read.options, "\n".join(read.body), read.body_offset + 1)


def titled(body: str) -> tuple[str, str]:
    """Title and target of a role's text, ``title <target>``; the title is empty where there is none."""
    found = re.fullmatch(r"(.*?)\s*<([^<>]+)>", body, re.DOTALL)
    return found.groups() if found else ("", body)


def rewritten(text: str, role: Callable, formula: Callable, link: Callable) -> str:
    """A paragraph with its roles, formulas and links replaced; code stays as it is.

    Args:
        role: receives name and text of a role.
        formula: receives a formula with its dollars.
        link: receives a match of :data:`LINK`.
    """
    kept = []

    def keep(span: re.Match) -> str:
        if span["role"]:
            kept.append(role(span["role"], " ".join(span["body"].split())))
        else:
            kept.append(formula(span[0]) if span[0].startswith("$") else span[0])
        return f"\0{len(kept) - 1}\0"

    return re.sub(r"\0(\d+)\0", lambda number: kept[int(number[1])], LINK.sub(link, SPAN.sub(keep, text)))


def leftovers(markdown: str) -> list[str]:
    """What of a notebook's Markdown would be shown raw: directives, roles, labels."""
    lines, found = markdown.split("\n"), []
    for node in nodes(markdown):
        if node.type == "myst_role":
            found.append(f"{{{node.meta['name']}}}`{node.content}`")
        elif node.type == "html_block":  # what it holds is not parsed, but shown all the same
            found += [span[0] for span in SPAN.finditer(node.content) if span["role"]]
        elif node.type in {"colon_fence", "myst_target", "math_block_label", "myst_block_break"} or directive(node):
            found.append(lines[node.map[0]].lstrip("> \t").rstrip())
    return found
