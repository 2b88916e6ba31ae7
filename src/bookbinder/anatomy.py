"""The front page's drawing: a Transformer whose parts open their chapters, drawn from the list of chapters.

It is read from top to bottom, as text flows through a model. It is SVG in the page itself, so that its parts are links
for keyboard and screen reader and its colours follow the page. A part whose chapter is not written yet is no link.
"""

import re
from dataclasses import dataclass
from html import escape
from os.path import relpath

from bookbinder.lecture_pages import count
from bookbinder.lecture_pages import escape as escape_markdown
from bookbinder.syllabus import Syllabus

PAGE = "book/index"
WIDTH, HEIGHT = 380, 556
SPINE = 34  # x of the residual stream


@dataclass(frozen=True)
class Part:
    """A box of the drawing.

    Attributes:
        chapter: The number of the chapter that it opens.
        words: The text in the box.
        colour: The palette's name for what the part is about.
        x, y, width, height: Position and size of the box.
        wire: A path from the box to what it acts on.
    """

    chapter: int
    words: str
    colour: str
    x: int
    y: int
    width: int = 153
    height: int = 30
    wire: str = ""


SIDE = 225  # x of the parts that stand beside the stream
PARTS = (  # in the order in which the Tab key visits them
    Part(1, "Tokens", "residual", 14, 42, 124),
    Part(15, "Instruction data", "residual", SIDE, 2, wire="M225 17H160"),
    Part(2, "Embeddings", "residual", 14, 88, 124),
    Part(5, "Absolute position", "position", SIDE, 122, wire="M225 137H44"),
    Part(4, "The block", "residual", 18, 153, 104),
    Part(8, "Normalization", "normalization", 58, 200, 146),
    Part(3, "Attention", "weights", 58, 262, 146, 40),
    Part(6, "Relative position", "position", SIDE, 229, wire="M225 244H217V274H206"),
    Part(7, "Rotary position", "position", SIDE, 267, wire="M225 282H206"),
    Part(11, "KV cache", "key", SIDE, 305, wire="M225 320H217V290H206"),
    Part(9, "Norm placement", "normalization", 58, 342, 146),
    Part(10, "Feed-forward", "feedforward", 58, 388, 146, 40),
    Part(14, "What helps?", "residual", SIDE, 367, wire="M225 382H216"),
    Part(13, "Open models", "residual", SIDE, 405, wire="M225 420H216"),
    Part(12, "Optimization", "residual", SIDE, 474, wire="M225 489H140"),
    Part(16, "Evaluation", "residual", SIDE, 520, wire="M225 535H72"),
)
SUMS = (137, 312, 438)  # y of the additions to the stream
PROJECTIONS = {"q": 85, "k": 131, "v": 177}  # x of the lines into attention


def scenery() -> str:
    """The parts of the drawing that open no chapter: the stream, its branches, the sentence, Q, K and V."""
    sums = "".join(f'<circle cx="{SPINE}" cy="{y}" r="8"/><path d="M{SPINE - 4} {y}h8m-4-4v8"/>' for y in SUMS)
    lines = "".join(
        f'<path class="la-{name}" d="M{x} 230v32"/><text class="la-{name}" x="{x + 6}" y="248">{name.upper()}</text>'
        for name, x in PROJECTIONS.items()
    )
    branches = f"M{SPINE} 193H131V200M131 302V312H{SPINE}M{SPINE} 334H131V342M131 372V388M131 428V438H{SPINE}"
    return f"""\
<g aria-hidden="true">
<g class="la-words"><text x="14" y="22">the pig chased a …</text><text x="14" y="540">… dog</text></g>
<rect class="la-frame" x="6" y="168" width="210" height="288" rx="12"/>
<text class="la-times" x="204" y="186">× <tspan>n</tspan><tspan dy="4" dx="1">layers</tspan></text>
<path class="la-stream" d="M{SPINE} 28V522"/>
<path class="la-branch" d="{branches}"/>
<path class="la-tip" d="M{SPINE - 5} 514l5 10 5-10z"/>
<g class="la-sum">{sums}</g>
<g class="la-qkv">{lines}</g>
<g class="la-plain"><rect x="14" y="474" width="124" height="30" rx="7"/><text x="25" y="489">Unembedding</text></g>
</g>
"""


def titles(book: Syllabus) -> dict[int, str]:
    """Number and title of every chapter, written or not."""
    return dict(sorted((int(item["chapter"]), item["chapter_title"]) for item in book.items.values()))


def address(book: Syllabus, chapter: int) -> str:
    """The link from the front page to a chapter that is written."""
    return relpath(f"{book.chapters[chapter].docname}.html", "book").replace("\\", "/")


def state(book: Syllabus, chapter: int) -> str:
    written = book.chapters.get(chapter)
    return {None: "to come", "draft": "draft"}.get(written and written.status, "")


def drawn(part: Part, book: Syllabus) -> str:
    said = f"Chapter {part.chapter}: {titles(book)[part.chapter]}"
    if note := state(book, part.chapter):
        said += f" ({note})"
    middle = part.y + part.height / 2
    box = f'x="{part.x}" y="{part.y}" width="{part.width}" height="{part.height}" rx="7"'
    ring = f'x="{part.x - 4}" y="{part.y - 4}" width="{part.width + 8}" height="{part.height + 8}" rx="10"'
    wire = f'<path d="{part.wire}"/>' if part.wire else ""
    inside = (
        f'{wire}<rect {box}/><text class="la-number" x="{part.x + 25}" y="{middle:g}">{part.chapter}</text>'
        f'<text x="{part.x + 32}" y="{middle:g}">{escape(part.words)}</text>'
    )
    style = f'style="--part: var(--la-{part.colour})" aria-label="{escape(said)}"'
    if part.chapter in book.chapters:
        link = escape(address(book, part.chapter))
        return f'<a class="la-part" {style} href="{link}">{inside}<rect class="la-ring" {ring}/></a>'
    return f'<g class="la-part la-to-come" {style} role="img">{inside}</g>'


def drawing(book: Syllabus) -> str:
    """The drawing and its caption, as HTML without an empty line."""
    caption = "A Transformer, read from top to bottom. Each coloured part is a link to its chapter"
    if len(book.chapters) < len(titles(book)):
        caption += "; the chapters of the dashed parts are still to come"
    words = (
        "The text is split into tokens. Each token becomes an embedding, to which its position may be added. Each "
        "block normalizes the vectors, lets the tokens attend to each other and adds the result to the residual "
        "stream; then it normalizes again and adds the output of a feed-forward layer. After the last block, the model "
        "predicts the next word."
    )
    return (
        '<figure class="la-anatomy">\n'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-labelledby="la-anatomy-title la-anatomy-words">\n'
        '<title id="la-anatomy-title">Anatomy of a Transformer</title>\n'
        f'<desc id="la-anatomy-words">{words}</desc>\n'
        + scenery()
        + "\n".join(drawn(part, book) for part in PARTS)
        + f"\n</svg>\n<figcaption>{caption}.</figcaption>\n</figure>"
    )


def contents(book: Syllabus) -> str:
    """The list of all chapters, and how much of the book is written, as Markdown."""
    here, all_ = book.chapters, titles(book)
    covered = sum(not book.missing(name) for name in book.items)
    drafts = sum(chapter.status == "draft" for chapter in here.values())
    which = "" if len(here) == 1 else "all " if drafts == len(here) else f"{drafts} "
    lines = [
        f"**{len(here)} of {count(len(all_), 'chapter')}** {'is' if len(here) == 1 else 'are'} here"
        + (f", {which}as a draft" if drafts else "")
        + f"; {covered} of the {count(len(book.items), 'item')} of the lectures are covered."
        + (" Chapters without a link are still to come." if len(here) < len(all_) else ""),
        "",
        ":::{container} la-chapters",
        "",
    ]
    for number, title in all_.items():
        name = escape_markdown(title)
        if number in here:
            name = f'<a href="{escape(address(book, number))}">{name}</a>'
            name += " *draft*" if here[number].status == "draft" else ""
        lines.append(f"{number}. {name}")
    return "\n".join([*lines, "", ":::"])


MARKERS = {"anatomy": drawing, "chapters": contents}


def filled(page: str, book: Syllabus) -> str:
    """The front page with ``<!-- anatomy -->`` and ``<!-- chapters -->`` filled in."""
    return re.sub(rf"<!-- ({'|'.join(MARKERS)}) -->", lambda marker: MARKERS[marker[1]](book), page)
