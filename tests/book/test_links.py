"""Every link of the built site leads somewhere, and no page needs another host for its parts."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html

ASSETS = {  # what a browser fetches by itself to show a page; a link that a reader may follow is none
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "iframe": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
LINKED_ASSETS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect", "manifest"}
STYLE_URL = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")


def assets(page: html.HtmlElement):
    for tag in page.iter(*ASSETS):
        for name in ASSETS[tag.tag]:
            if name == "srcset":
                yield from (part.split()[0] for part in tag.get(name, "").split(",") if part.strip())
            elif tag.get(name):
                yield tag.get(name)
    for tag in page.iterfind(".//link[@href]"):
        if LINKED_ASSETS.intersection(tag.get("rel", "").split()):
            yield tag.get("href")
    for style in page.xpath("//style/text() | //@style"):
        yield from STYLE_URL.findall(style)


def defects(site: Path) -> list[str]:
    """One line for each link, asset or anchor of the pages under ``site`` that leads nowhere or to another host."""
    found = []
    styles = set()

    @cache
    def read(path: Path) -> html.HtmlElement:
        return html.document_fromstring(path.read_bytes(), html.HTMLParser(encoding="utf-8"))

    @cache
    def anchors(path: Path) -> set[str]:
        return set(read(path).xpath("//@id | //a/@name"))

    @cache
    def target_of(folder: Path, path: str) -> Path | None:
        """The file of the site that a path leads to from a folder: most pages lead to the same ones."""
        target = (folder / unquote(path)).resolve()
        target = target / "index.html" if target.is_dir() else target
        return target if target.is_file() and target.is_relative_to(site) else None

    def follow(base: Path, link: str, where: str) -> Path | None:
        """The file that an internal link of ``base`` leads to."""
        parts = urlsplit(link)
        if parts.path.startswith("/"):  # the site may live in a folder of its host
            found.append(f"{where}: {link} starts at the root of the host")
            return None
        target = target_of(base.parent, parts.path) if parts.path else base
        if not target:
            found.append(f"{where}: {link} leads to no file of the site")
            return None
        if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in anchors(target):
            found.append(f"{where}: {link} names an anchor that is not there")
        return target

    def asset(base: Path, link: str, where: str) -> None:
        parts = urlsplit(link)
        if parts.netloc or parts.scheme in ("http", "https"):
            found.append(f"{where}: {link} is fetched from another host")
        elif parts.scheme not in ("data", "blob") and not link.startswith("#"):
            target = follow(base, link, where)
            if target is not None and target.suffix == ".css":
                styles.add(target)

    site = site.resolve()
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.relative_to(site).parts:  # templates of the theme, not pages
            continue
        where = path.relative_to(site).as_posix()
        for link in dict.fromkeys(assets(read(path))):
            asset(path, link, where)
        links = read(path).xpath("//a/@href | //area/@href")
        for tag in read(path).iterfind(".//meta[@http-equiv]"):
            if tag.get("http-equiv").lower() == "refresh":
                links += re.findall(r"url=(.+)", tag.get("content"))
        for link in dict.fromkeys(links):
            if not urlsplit(link).scheme and not urlsplit(link).netloc and link not in ("", "#"):
                follow(path, link, where)
    done = set()
    while styles - done:  # a style sheet may import another
        path = (styles - done).pop()
        done.add(path)
        for link in dict.fromkeys(STYLE_URL.findall(path.read_text(encoding="utf-8"))):
            asset(path, link, path.relative_to(site).as_posix())
    return found


GOOD = {
    "index.html": '<link rel="stylesheet" href="_static/a.css?v=1"><link rel="canonical" href="https://elsewhere.example/">'
    '<a href="book/page.html#here">in</a><a href="https://elsewhere.example/x">out</a><a href="#">top</a>'
    '<a href="mailto:someone@elsewhere.example">mail</a><img src="data:image/png;base64,AA=="><h1 id="top">T</h1>',
    "book/page.html": '<script src="../_static/a.js"></script><a href="../">home</a><a href="#here">h</a>'
    '<p id="here">x</p>'
    "<style>p { background: url(#gradient) }</style>",
    "_static/a.css": '@import "b.css"; p { background: url("data:image/png;base64,AA==") }',
    "_static/b.css": "p { background: url(a.js) }",
    "_static/a.js": "",
    "_static/template.html": '<script src="{{ nowhere }}"></script>',
}


def write_site(folder: Path, **changed: str) -> Path:
    for name, text in (GOOD | changed).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_good_site_has_no_defects(tmp_path):
    assert defects(write_site(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "text", "defect"),
    [
        ("index.html", '<a href="gone.html">x</a>', "index.html: gone.html leads to no file of the site"),
        ("index.html", '<a href="../x.html">x</a>', "index.html: ../x.html leads to no file of the site"),
        ("index.html", '<a href="/book/page.html">x</a>', "index.html: /book/page.html starts at the root of the host"),
        ("index.html", '<a href="#gone">x</a>', "index.html: #gone names an anchor that is not there"),
        (
            "index.html",
            '<a href="book/page.html#gone">x</a>',
            "index.html: book/page.html#gone names an anchor that is not there",
        ),
        (
            "index.html",
            '<meta http-equiv="refresh" content="0; url=gone.html">',
            "index.html: gone.html leads to no file of the site",
        ),
        ("index.html", '<img src="gone.png">', "index.html: gone.png leads to no file of the site"),
        ("index.html", '<img srcset="gone.png 2x">', "index.html: gone.png leads to no file of the site"),
        (
            "index.html",
            "<p style=\"background: url('gone.png')\">",
            "index.html: gone.png leads to no file of the site",
        ),
        (
            "book/page.html",
            '<p id="here"><script src="https://cdn.example/x.js"></script>',
            "book/page.html: https://cdn.example/x.js is fetched from another host",
        ),
        (
            "index.html",
            '<link rel="stylesheet" href="//cdn.example/x.css">',
            "index.html: //cdn.example/x.css is fetched from another host",
        ),
        (
            "index.html",
            '<svg><image href="https://cdn.example/x.svg"/></svg>',
            "index.html: https://cdn.example/x.svg is fetched from another host",
        ),
        (
            "_static/a.css",
            "@font-face { src: url(https://fonts.example/x.woff2) }",
            "_static/a.css: https://fonts.example/x.woff2 is fetched from another host",
        ),
        ("_static/b.css", "p { background: url(gone.png) }", "_static/b.css: gone.png leads to no file of the site"),
    ],
)
def test_each_defect_is_named(tmp_path, name, text, defect):
    assert defects(write_site(tmp_path, **{name: text})) == [defect]


def test_the_book_has_no_defects(site_folder):
    found = defects(site_folder)
    assert not found, "\n".join(found)
