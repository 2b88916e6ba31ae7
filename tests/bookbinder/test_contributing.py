"""The skeletons of CONTRIBUTING pass the checks as they stand; the widget's is tested in tests/book."""

import re

from bookbinder import ROOT, exercises, lecture_pages, notebooks, syllabus
from llm_anatomy.notebook import checks

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Skeletons")[2]
CHAPTER, STATEMENT = re.findall(r"^````markdown\n(.*?)^````$", TEXT, re.MULTILINE | re.DOTALL)
OUTSIDE = re.sub(r"^````markdown\n.*?^````$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
EXERCISE, MISTAKES, _ = re.findall(r"^```python\n(.*?)^```$", OUTSIDE, re.MULTILINE | re.DOTALL)


def test_the_chapter_runs_and_is_not_refused(whole_book):
    text = whole_book.write("book/counting/counting.nb.md", CHAPTER)
    (page,) = notebooks.pages(whole_book.root, [text])
    notebooks.make(page)
    assert notebooks.problems(page) == [] and syllabus.problems(whole_book.root) == []
    assert (
        "CMU-21" not in lecture_pages.draft_note("book/counting/counting", whole_book.root).partition("not complete")[0]
    )


def test_the_exercise_is_a_whole_master(tmp_path, monkeypatch):
    folder = tmp_path / "exercises/counting/double"
    folder.mkdir(parents=True)
    for name, content in {"exercise.md": STATEMENT, "exercise.py": EXERCISE, "mistakes.py": MISTAKES}.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder.parent / "chapter.yml").write_text("title: counting\ncore: [double]\n")
    written = exercises.generate(root=tmp_path)
    assert "book/counting/exercises.nb.md" in written and len(written) == 2
    assert exercises.generate(check=True, root=tmp_path) == []
    (double,) = exercises.chapters(tmp_path)["counting"][1]
    monkeypatch.setattr(checks, "FOLDER", tmp_path / exercises.SHIPPED)
    assert {checks.check("counting/double", answer).status for answer in double.right().values()} == {"passed"}
