"""Keys: make the student notebook and the private key of an assignment from a folder of masters.

:mod:`bookbinder.masters` explains what a master is. The masters of this repository are public practice; a marked
course keeps masters of its own in a private folder. Reading a key file, as on Gradescope, needs no masters.
"""

import contextlib
import difflib
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from groundwork import Refusal, write_whole
from llm_grader import provisions, source
from llm_grader.records import Key, Question

KEY_FORMAT = 3
"""Version of the format of key files."""

DEFINED = ["observe", "property_gradient", "call"]
"""Functions of a master that a question names in its fields ``observed``, ``gradients`` and ``calls``."""


def load(exercises: str | Path) -> Key:
    """Load the key of an assignment.

    Args:
        exercises: name of a chapter of the book, such as "attention", a folder of masters, or a key file that
            :func:`build` wrote.

    Raises:
        Refusal: there is no such key, or it is incomplete.
    """
    if (path := Path(exercises)).is_file():
        return _read_key_file(path)
    return _make_key(*_load_masters(exercises))


def build(
    exercises: str | Path,
    out: Path,
    install_from: str | None = None,
    check: Callable[[Key, Path], object] = lambda key, folder: None,
) -> list[Path]:
    """Write the student's notebook to ``out/student`` and the private key to ``out/private``.

    The notebook of masters outside this repository contains their public checks, for which the masters are run.

    Args:
        exercises: name of a chapter of the book, or a folder of masters.
        out: the folder.
        install_from: from where the notebook of masters outside this repository installs the package; by default the
            address of the book, see :func:`bookbinder.address.requirement`.
        check: called with the key and the folder of the masters before anything is written.

    Returns:
        The paths of the two files, and of the folder with the data files for students if there are any.
    """
    folder, title, masters = _load_masters(exercises)
    key = _make_key(folder, title, masters)
    if _is_book_chapter(folder):
        if install_from is not None:
            raise Refusal(f"{folder.name} is a chapter of the book, whose notebook says itself from where it installs.")
        notebook = _book_notebook(folder.name).read_bytes()
    else:
        notebook = _make_notebook(folder, title, masters, install_from, key)
    check(key, folder)
    student, private = out / "student", out / "private"
    student.mkdir(parents=True, exist_ok=True)
    private.mkdir(mode=0o700, exist_ok=True)
    private.chmod(0o700)  # the folder may have existed before
    paths = [student / f"{key.name}.ipynb", private / f"{key.name}.key.json"]
    write_whole(paths[0], notebook)
    write_whole(paths[1], to_json(key).encode(), 0o600)
    for name, content in key.data.items():
        (path := student / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    return paths + ([student / "data"] if key.data else [])


def to_json(key: Key) -> str:
    """Return a key as the text of a key file."""
    questions = [{name: value for name, value in asdict(q).items() if name != "version"} for q in key.questions]
    content = {"keyed": KEY_FORMAT, "name": key.name, "title": key.title, "questions": questions}
    content |= provisions.to_key(key.requirements, key.data)
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


# Key files


def _read_key_file(path: Path) -> Key:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        content = None
    if not isinstance(content, dict) or "keyed" not in content:
        raise Refusal(f"{path} is not a key file; name a chapter, a folder of questions or a file NAME.key.json.")
    if content["keyed"] != KEY_FORMAT:
        raise Refusal(
            f"{path} has key format {content['keyed']!r}, and this grader reads only {KEY_FORMAT}; build it again."
        )
    try:
        questions = [_with_version(Question(**question, version="")) for question in content["questions"]]
        return _provided(Key(content["name"], content["title"], questions), *provisions.from_key(content))
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise Refusal(f"{path} is not a complete key; build it again.") from e


def _with_version(question: Question) -> Question:
    """Return the question with a version, which is a hash of everything that can change a mark."""
    question = replace(question, points=float(question.points), seconds=float(question.seconds))
    about = {name: value for name, value in asdict(question).items() if name not in ("title", "version")}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return replace(question, version=digest[:16])


def _provided(key: Key, requirements: list[str], data: dict[str, bytes]) -> Key:
    """Return the key with packages and data files, on which the versions of its questions depend as well."""
    questions = [replace(each, version=provisions.version(each.version, requirements, data)) for each in key.questions]
    return replace(key, questions=questions, requirements=requirements, data=data)


# Masters


def _load_masters(exercises: str | Path) -> tuple[Path, str, list]:
    """Return the folder, the title and the masters of a chapter."""
    from bookbinder import ROOT
    from bookbinder.masters import load_chapter

    chapters = sorted(path.parent.name for path in (ROOT / "exercises").glob("*/chapter.yml"))
    folder = (ROOT / "exercises" / exercises if str(exercises) in chapters else Path(exercises)).resolve()
    if not (folder / "chapter.yml").is_file():
        raise Refusal(_missing_masters_message(str(exercises), folder, chapters))
    return folder, *load_chapter(folder, private=not _is_book_chapter(folder))


def _missing_masters_message(exercises: str, folder: Path, chapters: list[str]) -> str:
    if folder.is_file():
        return f"No student notebook can be built from the file {exercises}; name a chapter or a folder of questions."
    if folder.is_dir():
        inside = sorted(path.parent.name for path in folder.glob("*/chapter.yml"))
        hint = f" Its subfolders {', '.join(inside)} do." if inside else ""
        return f"The folder {exercises} holds no chapter.yml, so there are no questions in it.{hint}"
    matches = difflib.get_close_matches(exercises, chapters, n=1)
    suggestion = f"; did you mean {matches[0]}?" if matches else "."
    known = f"The book's chapters with exercises are {', '.join(chapters)}."
    return f"There is no chapter, folder or key {exercises}{suggestion} {known}"


def _make_key(folder: Path, title: str, masters: list) -> Key:
    if _is_book_chapter(folder):
        cells = _book_cell_ids(folder.name, masters)
    else:
        cells = {master.tag: master.tag for master in masters}
    key = Key(folder.name, title, [_make_question(master, cells[master.tag]) for master in masters])
    return _provided(key, provisions.read_requirements(folder), provisions.read_data(folder))


def _make_question(master: Any, cell: str) -> Question:
    checks, probes = (source.read(text, DEFINED).bindings for text in (master.checks, master.probing))
    return _with_version(
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
            dtype=master.dtype,
            given=master.stub if master.kind == "debug" else "",
            solution=master.solution,
            hidden=master.hidden,
            mistakes=master.catalogue,
            sentences=master.mistakes,
            checks=master.checks,
            probes=master.probing,
            observed="observe" in checks,
            calls="call" in probes,
            gradients="property_gradient" in checks,
            version="",
        )
    )


# The student's notebook


def _is_book_chapter(folder: Path) -> bool:
    from bookbinder import ROOT

    return folder.parent == (ROOT / "exercises").resolve()


def _book_notebook(chapter: str) -> Path:
    from bookbinder import ROOT

    return ROOT / "book" / chapter / "exercises.ipynb"


def _book_cell_ids(chapter: str, masters: list) -> dict[str, str]:
    """Return tag → cell id of the exercises in the book's notebook, which is the one that students have."""
    path = _book_notebook(chapter)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    found = {tag: cell for cell in cells for tag in cell["metadata"].get("tags", [])}
    for master in masters:
        if master.tag not in found or "".join(found[master.tag]["source"]) != master.code:
            raise Refusal(
                f"The exercise {master.id} in book/{chapter}/exercises.ipynb differs from its master; "
                "run `python -m bookbinder notebooks`."
            )
    return {master.tag: found[master.tag]["id"] for master in masters}


def _make_notebook(folder: Path, title: str, masters: list, install_from: str | None, key: Key) -> bytes:
    """Return a notebook with everything that a student needs: statements, stubs and public checks."""
    import nbformat

    from bookbinder import ROOT, address, exercises, myst, notebooks
    from bookbinder.plain import Book, plain

    with contextlib.chdir(folder):  # where masters find the folder data, as students' code does
        for master in masters:
            exercises.encoded_cases(master, "hidden_cases")
        checks = _public_checks_cell(checked) if (checked := [each for each in masters if each.checked]) else ""
    cells = []

    def add(kind: str, source: str, metadata: dict[str, Any] | None = None, cell_id: str = "") -> None:
        digest = hashlib.sha256(f"{len(cells)}\0{source}".encode()).hexdigest()[:8]
        cell = {"id": cell_id or digest, "cell_type": kind, "source": source, "metadata": metadata or {}}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))

    book, docname = Book(ROOT), f"book/{folder.name}/exercises"
    text = exercises.page(title, masters)
    add("code", address.first_cell(install_from), notebooks.BOOTSTRAP)
    for cell, _ in myst.cells(text):
        if cell.cell_type == "markdown":
            at = f"{folder.name}: in the statement or a hint of “{cell.source.strip().splitlines()[0].strip('# ')}”"
            add("markdown", plain(cell.source, book, docname, {}, lambda line, at=at: at))
        elif tags := cell.metadata.get("tags"):
            add("code", cell.source, {"tags": tags}, tags[0] if tags[0].startswith("exercise-") else "")
        else:
            add("code", cell.source)
    if checks:
        add("code", checks, HIDDEN_CELL_METADATA, "public-checks")
        cells.insert(3, cells.pop())  # below the cell that installs the package, the introduction and the set-up
    if key.requirements or key.data:
        add("markdown", provisions.statement(key.requirements, key.data), cell_id="what-may-be-imported")
        cells.insert(2, cells.pop())
        if key.requirements:
            add("code", provisions.install_cell(key.requirements), cell_id="install-packages")
            cells.insert(3, cells.pop())
    notebook = {"cells": cells, "metadata": notebooks.METADATA, "nbformat": 4, "nbformat_minor": 5}
    return notebooks.written(cast(nbformat.NotebookNode, nbformat.from_dict(notebook))).encode()


HIDDEN_CELL_METADATA = {"tags": ["public-checks"], "jupyter": {"source_hidden": True}, "cellView": "form"}


def _public_checks_cell(masters: list) -> str:
    """Return the code of a cell with the public checks, for :func:`llm_anatomy.notebook.checks.use_checks`."""
    from bookbinder import exercises

    text = exercises.pack({master.id: exercises.public_checks(master) for master in masters})
    return (
        "# @title Public checks: run this cell; there is nothing to read in it\n"
        f'from llm_anatomy.notebook.checks import use_checks\n\nuse_checks("""\n{text}""")'
    )
