"""Keys: from a folder of masters to what the student gets and what the grader keeps to itself.

``bookbinder.masters`` says what a master is. The repository's own are practice for everyone; a marked course keeps
others of the same shape in a private folder. Where only a written key is read, as on Gradescope, no master is needed.
"""

import base64
import difflib
import hashlib
import json
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from groundwork import Refusal, write_whole
from llm_grader.records import Key, Question

KEYED = 1
"""The version of the form in which a key is written."""


def load(where: str | Path) -> Key:
    """The key of an assignment.

    Args:
        where: a chapter of the repository, such as "attention", a folder of masters anywhere, or a key file that
            :func:`build` wrote.

    Raises:
        Refusal: there is none, or it is incomplete.
    """
    if (path := Path(where)).is_file():
        return _read(path)
    return _key(*_masters(where))


def build(where: str | Path, out: Path) -> list[Path]:
    """Write the student's notebook to ``out/student`` and the key, for the grader's eyes alone, to ``out/private``.

    Masters from elsewhere are run for this, since their public checks travel in the notebook.

    Returns:
        The two files.
    """
    folder, title, masters = _masters(where)
    key = _key(folder, title, masters)
    notebook = _book_notebook(folder.name).read_bytes() if _is_ours(folder) else _notebook(folder, title, masters)
    student, private = out / "student", out / "private"
    student.mkdir(parents=True, exist_ok=True)
    private.mkdir(mode=0o700, exist_ok=True)
    private.chmod(0o700)  # it may have been there before
    paths = [student / f"{key.name}.ipynb", private / f"{key.name}.key.json"]
    write_whole(paths[0], notebook)
    write_whole(paths[1], written(key).encode(), 0o600)
    return paths


def written(key: Key) -> str:
    """The text of a key file."""
    questions = [{name: value for name, value in asdict(q).items() if name != "version"} for q in key.questions]
    content = {"keyed": KEYED, "name": key.name, "title": key.title, "questions": questions}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


# A key that was written


def _read(path: Path) -> Key:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        content = None
    if not isinstance(content, dict) or "keyed" not in content:
        raise Refusal(f"{path} is not a key: name a chapter, a folder of masters or a file NAME.key.json.")
    if content["keyed"] != KEYED:
        raise Refusal(f"{path} is a key of form {content['keyed']!r}, not {KEYED}: build it anew.")
    try:
        questions = [_versioned(Question(**question, version="")) for question in content["questions"]]
        return Key(content["name"], content["title"], questions)
    except (KeyError, TypeError, ValueError) as e:
        raise Refusal(f"{path} is not a complete key: build it anew.") from e


def _versioned(question: Question) -> Question:
    """With the hash of all that can change a mark."""
    question = replace(question, points=float(question.points), seconds=float(question.seconds))
    about = {name: value for name, value in asdict(question).items() if name not in ("title", "version")}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return replace(question, version=digest[:16])


# Masters


def _masters(where: str | Path) -> tuple[Path, str, list]:
    """Folder, title and masters of a chapter."""
    from bookbinder import ROOT, masters

    own = sorted(path.parent.name for path in (ROOT / "exercises").glob("*/chapter.yml"))
    folder = (ROOT / "exercises" / where if str(where) in own else Path(where)).resolve()
    if not (folder / "chapter.yml").is_file():
        raise Refusal(_nothing_there(str(where), folder, own))
    return folder, *masters.load_chapter(folder)


def _nothing_there(where: str, folder: Path, own: list[str]) -> str:
    if folder.is_file():
        return f"{where} is a file of which no student notebook can be built: name a chapter or a folder of masters."
    if folder.is_dir():
        inside = sorted(path.parent.name for path in folder.glob("*/chapter.yml"))
        hint = f"; the folders {', '.join(inside)} in it do" if inside else ""
        return f"The folder {where} holds no chapter.yml, so there are no masters in it{hint}."
    close = difflib.get_close_matches(where, own, n=1)
    meant = f"; did you mean {close[0]}?" if close else "."
    return f"There is no chapter, folder or key {where}{meant} The book's chapters with exercises are {', '.join(own)}."


def _key(folder: Path, title: str, masters: list) -> Key:
    if _is_ours(folder):
        cells = _cells_of_the_book(folder.name, masters)
    else:
        cells = {master.tag: master.tag for master in masters}
    return Key(folder.name, title, [_question(master, cells[master.tag]) for master in masters])


def _question(master: Any, cell: str) -> Question:
    source = {path.stem: path.read_text(encoding="utf-8") for path in master.folder.glob("*.py")}
    return _versioned(
        Question(
            id=master.id,
            title=master.title,
            function=master.function,
            arguments=master.arguments,
            points=master.points,
            seconds=master.seconds,
            tag=master.tag,
            cell=cell,
            forbidden=master.forbidden,
            tolerance=master.tolerance,
            solution=source["solution"],
            hidden=source["hidden"],
            mistakes=source["mistakes"],
            sentences=master.mistakes,
            checks=source["checks"],
            probes=source.get("probes", ""),
            version="",
        )
    )


# The student's notebook


def _is_ours(folder: Path) -> bool:
    from bookbinder import ROOT

    return folder.parent == (ROOT / "exercises").resolve()


def _book_notebook(chapter: str) -> Path:
    from bookbinder import ROOT

    return ROOT / "book" / chapter / "exercises.ipynb"


def _cells_of_the_book(chapter: str, masters: list) -> dict[str, str]:
    """Tag → id of the cells of exercises in the book's notebook, which is what students have."""
    path = _book_notebook(chapter)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    found = {tag: cell for cell in cells for tag in cell["metadata"].get("tags", [])}
    for master in masters:
        if master.tag not in found or "".join(found[master.tag]["source"]) != master.code:
            raise Refusal(
                f"book/{chapter}/exercises.ipynb does not hold {master.id} as its master has it: "
                "run `python -m bookbinder notebooks`."
            )
    return {master.tag: found[master.tag]["id"] for master in masters}


def _notebook(folder: Path, title: str, masters: list) -> bytes:
    """A notebook with all that its student needs: statements, stubs, and the public checks."""
    import nbformat

    from bookbinder import ROOT, address, exercises, myst, notebooks
    from bookbinder.plain import Book, plain

    cells = []

    def add(kind: str, source: str, cell_id: str = "", **metadata: Any) -> None:
        digest = hashlib.sha256(f"{len(cells)}\0{source}".encode()).hexdigest()[:8]
        cell = {"id": cell_id or digest, "cell_type": kind, "source": source, "metadata": metadata}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))

    book, docname = Book(ROOT), f"book/{folder.name}/exercises"
    text = exercises.page(title, masters)
    add("code", address.first_cell(), **notebooks.BOOTSTRAP)
    for cell, _ in myst.cells(text):
        if cell.cell_type == "markdown":
            at = f"{folder.name}: in the statement or a hint of “{cell.source.strip().splitlines()[0].strip('# ')}”"
            add("markdown", plain(cell.source, book, docname, {}, lambda line, at=at: at))
        elif tags := cell.metadata.get("tags"):
            add("code", cell.source, cell_id=tags[0], tags=tags)
        else:
            add("code", cell.source)
    add("code", _public_checks(masters), "public-checks", **HIDDEN)
    cells.insert(3, cells.pop())  # after fetching the package, the first words and the set-up
    made = {"cells": cells, "metadata": notebooks.METADATA, "nbformat": 4, "nbformat_minor": 5}
    return notebooks.written(nbformat.from_dict(made)).encode()


HIDDEN = {"tags": ["public-checks"], "jupyter": {"source_hidden": True}, "cellView": "form"}


def _public_checks(masters: list) -> str:
    """The code of a cell that brings the public checks: :func:`llm_anatomy.notebook.checks.use_checks` reads them."""
    from bookbinder import exercises

    found = {
        master.id: {
            "exercise": json.loads(exercises.public_checks(master)),
            "checks": (master.folder / "checks.py").read_text(encoding="utf-8"),
        }
        for master in masters
    }
    text = base64.b64encode(zlib.compress(json.dumps(found, separators=(",", ":")).encode(), 9)).decode()
    lines = "\n".join(text[i : i + 100] for i in range(0, len(text), 100))
    return (
        "# @title The public checks: run this cell, there is nothing to read in it\n"
        f'from llm_anatomy.notebook.checks import use_checks\n\nuse_checks("""\n{lines}\n""")'
    )
