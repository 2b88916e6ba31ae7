"""The API reference on the built site: it describes the whole package, and it and the chapters lead to each other."""

import ast
import posixpath
import re

import pytest
from sphinx.util.inventory import InventoryFile

from bookbinder import ROOT, syllabus
from bookbinder.reference import FOLDER, PACKAGE

CHAPTERS = {  # docname: the text of the page
    path.relative_to(ROOT).as_posix().removesuffix(".nb.md"): path.read_text("utf-8")
    for path in sorted(ROOT.glob("book/*/*.nb.md"))
    if "chapter" in syllabus.header(path)
}


@pytest.fixture(scope="module")
def inventory(site_folder):
    """What the site says that it describes: for each kind, names with the pages that they are on."""
    with (site_folder / "objects.inv").open("rb") as file:
        found = InventoryFile.load(file, "", posixpath.join)
    return {kind: {name: entry[2].partition("#")[0] for name, entry in names.items()} for kind, names in found.items()}


@pytest.fixture(scope="module")
def articles(site_folder):
    """The page's own part of each page of the reference."""
    texts = {path: path.read_text("utf-8") for path in sorted((site_folder / FOLDER).rglob("*.html"))}
    return {
        path.relative_to(site_folder).as_posix(): text[text.index("<article") : text.index("</article>")]
        for path, text in texts.items()
    }


def leads(page, article, chapter):
    return f'href="{posixpath.relpath(chapter, posixpath.dirname(page))}.html"' in article


def public_modules():
    """Full name and syntax tree of each module that can be imported by names without a leading underscore."""
    for path in sorted((ROOT / "src" / PACKAGE).rglob("*.py")):
        folders = [folder for folder in path.parents if folder.is_relative_to(ROOT / "src" / PACKAGE)]
        names = path.relative_to(ROOT / "src").with_suffix("").parts
        names = names[:-1] if names[-1] == "__init__" else names
        if all((folder / "__init__.py").exists() for folder in folders) and not any(n[0] == "_" for n in names):
            yield ".".join(names), syllabus.parse(path)


def test_every_public_module_and_what_it_defines_is_described(inventory, articles):
    missing = []
    for module, tree in public_modules():
        if module not in inventory["py:module"]:
            missing.append(module)
        for node in tree.body:
            if isinstance(node, syllabus.DEFINITIONS) and node.name[0] != "_" and ast.get_docstring(node):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                if f"{module}.{node.name}" not in inventory[f"py:{kind}"]:
                    missing.append(f"{module}.{node.name}")
    assert missing == [] and len(articles) > 50


def test_a_page_whose_components_have_links_to_sections_names_their_chapters(articles):
    reached = set()
    for page, article in articles.items():
        for link in re.findall(r'href="([^"#]+)\.html#[^"]+">[A-Z]+-\d+</a>', article):
            chapter = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
            assert leads(page, article, chapter), f"{page} names a section of {chapter} and not the chapter"
            reached.add(chapter)
    assert reached == set(CHAPTERS)


def test_every_chapter_links_to_what_it_shows_and_is_linked_from_there(inventory, articles):
    pages = {name: page for kind, names in inventory.items() if kind.startswith("py:") for name, page in names.items()}
    for chapter, text in CHAPTERS.items():
        section = text.partition("\n## From the package\n")[2].partition("\n## ")[0]
        shown = {name.rpartition(".")[2] for name in re.findall(r"^nb\.source\(([\w.]+)", section, re.MULTILINE)}
        linked = re.findall(r"\{py:\w+\}`~?([\w.]+)`", section)
        assert shown and shown <= {name.rpartition(".")[2] for name in linked}, chapter
        for name in linked:
            assert leads(pages[name], articles[pages[name]], chapter), f"{pages[name]} does not name {chapter}"
