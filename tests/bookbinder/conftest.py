"""A small book in a folder of its own, whose notebooks are made with or without a kernel."""

import json
import shutil

import nbformat
import pytest

from bookbinder import ROOT, notebooks, syllabus

CONFIG = """\
title: A small book
repository:  # where it lives
  path_to_book: ""

  url: "https://github.com/someone/a-book"  # here
  branch: main
"""
HEADER = """\
---
jupytext:
  text_representation: {extension: .md, format_name: myst, format_version: 0.13}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

"""
REFERENCES = r"""
@misc{one2001, author = {One, Ada}, title = {A}, year = {2001}}
@misc{three2003, author = {Gonz{\'a}lez, Ann and van der Berg, Bo and C, Cy}, title = {B}, year = {2003}}
@misc{pair2002, author = {One, Ada and Two, Bo}, title = {C}, year = {2002}}
@misc{nobody, title = {A Web Page}}
"""


class SmallBook:
    def __init__(self, root):
        self.root = root

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def page(self, text, name="book/small/page"):
        """A page with this MyST text, read afresh."""
        path = self.write(f"{name}.nb.md", HEADER + text)
        return next(page for page in notebooks.pages(self.root) if page.text == path)

    def store(self, page, *outputs):
        """Its notebook, as if the code cells had been run and had given these lists of outputs."""
        ran = [nbformat.v4.new_code_cell(execution_count=1)]
        for number, _ in enumerate(page.code, 2):
            given = outputs[number - 2] if number - 2 < len(outputs) else []
            ran.append(nbformat.v4.new_code_cell(execution_count=number, outputs=given))
        notebooks.write(page.notebook, notebooks.written(notebooks.bind(page, ran)).encode())

    def edit(self, page, change):
        """Change the stored notebook behind the binder's back."""
        stored = json.loads(page.notebook.read_text())
        change(stored)
        page.notebook.write_text(json.dumps(stored, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


@pytest.fixture
def book(tmp_path):
    made = SmallBook(tmp_path / "book of mine")
    made.write("_config.yml", CONFIG)
    made.write("book/references.bib", REFERENCES)
    return made


@pytest.fixture
def whole_book(book):
    """A book that can be built: configuration, data and palette are those of the real one."""
    for name in ("_config.yml", "src/llm_anatomy/data", "src/llm_anatomy/notebook/palette.json"):
        source, target = ROOT / name, book.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    (book.root / syllabus.DATA / syllabus.SYSTEMS).unlink()  # it names sections of chapters that are not here
    for name in ("src/bookbinder", "src/groundwork.py", "book/_static"):
        (book.root / name).symlink_to(ROOT / name)
    book.write("_toc.yml", "format: jb-book\nroot: book/index\nchapters:\n  - file: book/small/page\n")
    book.write("book/index.md", "# A small book\n\n```{bibliography}\n:all:\n```\n")
    return book
