"""From the bytes of a notebook to a :class:`~llm_grader.records.Submission`; nothing of it is run.

An answer is found by the id of its cell, by the cell's tag, or by the name of its function, whatever became of the
notebook. The bytes are hostile until shown otherwise: they are weighed before they are parsed.
"""

import json
import logging
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llm_grader import source
from llm_grader.records import Answer, Key, NeedsAttention, Question, Submission
from llm_grader.source import LONGEST_NAME, NOT_PYTHON, TOO_LONG, Binding, Code

SIZE_LIMIT = 10 * 2**20
MOST_CELLS = 2_000
MOST_PARSED = 200_000  # tokens of Python in a notebook; the cells after that are only searched
HEAVIEST = 30 * 2**20  # bytes of memory that the parsed values may take besides their text
PER_CONTAINER, PER_VALUE = 250, 70  # bytes: a dictionary of one entry, a short string
KINDS = {
    b"%PDF": "a PDF file",
    b"PK\x03\x04": "a zip archive or an office document",
    b"\x1f\x8b": "a compressed file",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a rar archive",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
}
DOWNLOAD = "download the notebook itself, as an .ipynb file, and hand that in"


def read(data: bytes, key: Key, size_limit: int = SIZE_LIMIT) -> Submission:
    """Read a notebook and find the answers to the key's questions.

    Raises:
        NeedsAttention: the bytes are not a notebook of this assignment; nothing else is raised, whatever the bytes.
    """
    notebook, notes = _notebook(_text(data, size_limit))
    cells = _cells(notebook, [question.function for question in key.questions])
    return _submission(cells, key, notes)


def too_large(size_limit: int) -> NeedsAttention:
    """What is said of a file with more bytes than allowed."""
    limit = f"{size_limit / 2**20:g} MB"
    return NeedsAttention(f"The file is larger than {limit}: clear the outputs, save, and hand it in again.")


# From bytes to a notebook


def _text(data: bytes, size_limit: int) -> str:
    """The JSON of a notebook, still as text but small enough to be parsed."""
    if len(data) > size_limit:
        raise too_large(size_limit)
    for beginning, kind in KINDS.items():
        if data.startswith(beginning):
            raise NeedsAttention(f"The file is {kind}, not a notebook: {DOWNLOAD}.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or data[:2] in (b"{\0", b"\0{"):
        raise NeedsAttention("The file is text in UTF-16, where a notebook is in UTF-8: save it as UTF-8.")
    data = data.removeprefix(b"\xef\xbb\xbf")
    beginning = data[:2000].strip().lower()
    if not beginning:
        raise NeedsAttention("The file is empty." if not data.strip() else "The file begins with 2000 blanks.")
    if beginning.startswith(b"<"):
        raise NeedsAttention(f"The file is a web page, not a notebook: {DOWNLOAD}.")
    if b"\0" in beginning:
        raise NeedsAttention(f"The file is neither text nor a notebook: {DOWNLOAD}.")
    if not beginning.startswith((b"{", b"[", b'"')):
        raise NeedsAttention(f"The file is plain text, such as a Python script, and not a notebook: {DOWNLOAD}.")
    if _weight(data) > HEAVIEST:
        raise NeedsAttention("The notebook holds too many values: clear the outputs, save, and hand it in again.")
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise NeedsAttention(f"The file is not text in UTF-8, as a notebook is: {DOWNLOAD}.") from e


def _weight(data: bytes) -> int:
    """About how many bytes of memory JSON's values will take besides their text: counted, not parsed.

    Works by whole-file operations of linear time. Without escaped quotes, every second piece between quotes lies
    outside the strings.
    """
    data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if (n_strings := data.count(b'"') // 2) * PER_VALUE > HEAVIEST:
        return n_strings * PER_VALUE
    outside = b"".join(data.split(b'"')[::2])
    containers = outside.count(b"{") + outside.count(b"[")
    return containers * PER_CONTAINER + (outside.count(b",") + outside.count(b":")) * PER_VALUE


def _notebook(text: str) -> tuple[dict[str, Any], list[str]]:
    """The notebook as version 4 of its format has it, without outputs; and what was unusual."""
    try:  # of all numbers only the version counts, and a long one would be slow or refused by Python
        notebook = json.loads(text, parse_int=lambda digits: int(digits[:6]), parse_float=str, parse_constant=str)
    except RecursionError as e:
        raise NeedsAttention("The file is nested too deeply to be a notebook.") from e
    except ValueError as e:
        cut = isinstance(e, json.JSONDecodeError) and (e.msg.startswith("Unterminated") or e.pos >= len(text.rstrip()))
        what = "is cut short, as by an incomplete upload" if cut else "is not a notebook, since it is not valid JSON"
        raise NeedsAttention(f"The file {what}: {DOWNLOAD}.") from e
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells", notebook.get("worksheets")), list):
        raise NeedsAttention(f"The file is JSON, but not a notebook, since it has no cells: {DOWNLOAD}.")
    version = notebook.get("nbformat", 4 if "cells" in notebook else 3)
    if not isinstance(version, int) or not 1 <= version <= 4:
        raise NeedsAttention("The notebook is in a format whose version is not known: versions 1 to 4 can be read.")
    if version == 4:
        return notebook, []
    return _converted(notebook, version), [f"The notebook is in version {version} of the format and was converted."]


def _converted(notebook: dict[str, Any], version: int) -> dict[str, Any]:
    """An old notebook in version 4. Outputs go first, since converting them would cost most."""
    import nbformat  # rarely needed, and a fifth of the grader's memory

    sheets = notebook["worksheets"] if version == 3 and isinstance(notebook.get("worksheets"), list) else [notebook]
    cells = [cell for sheet in map(_dict, sheets) for cell in _list(sheet.get("cells"))]
    _count(cells)
    for cell in map(_dict, cells):
        cell["outputs"] = []
    logging.getLogger("traitlets").addFilter(_silent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return nbformat.convert(nbformat.from_dict(notebook), 4)
        except Exception as e:  # what the conversion raises depends on what is wrong in the notebook
            raise NeedsAttention(f"The notebook is in version {version} of the format and cannot be converted.") from e
        finally:
            logging.getLogger("traitlets").removeFilter(_silent)


def _silent(record: logging.LogRecord) -> bool:
    return False


def _count(cells: list) -> None:
    if len(cells) > MOST_CELLS:
        raise NeedsAttention(f"The notebook has {len(cells)} cells, where {MOST_CELLS} are allowed.")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list:
    return value if isinstance(value, list) else []


# From a notebook to cells


@dataclass(frozen=True)
class _Cell:
    """A cell of any type: the marks by which it is known, and what is written in it."""

    is_code: bool
    marks: set[str]
    source: str
    code: Code

    def marked(self, question: Question) -> bool:
        return question.tag in self.marks or question.cell in self.marks


def _cells(notebook: dict[str, Any], functions: list[str]) -> list[_Cell]:
    plain = _list(notebook.get("cells"))
    _count(plain)
    cells, n_parsed = [], 0
    for cell in map(_dict, plain):
        text, is_code = _source(cell.get("source")), cell.get("cell_type") == "code"
        if n_parsed > MOST_PARSED:
            code = Code(source.search(text, functions), problem=TOO_LONG)
        elif is_code or "def " in text:  # an answer whose cell became one of text
            n_parsed += source.n_tokens(text)
            code = source.read(text, functions)
        else:
            code = Code()
        cells.append(_Cell(is_code, _marks(cell), text, code))
    return cells


def _source(value: Any) -> str:
    """A cell's text, which may be a list of lines. What cannot be encoded becomes a question mark."""
    text = value if isinstance(value, str) else "".join(part for part in _list(value) if isinstance(part, str))
    return text.encode("utf-8", "replace").decode().replace("\r\n", "\n")


def _marks(cell: dict[str, Any]) -> set[str]:
    """Id and tags of a cell. Colab keeps the id in the metadata."""
    metadata = _dict(cell.get("metadata"))
    marks = [cell.get("id"), metadata.get("id"), metadata.get("tags"), *_list(metadata.get("tags"))]
    return {mark for mark in marks if mark and isinstance(mark, str)}


# From cells to answers


@dataclass(frozen=True)
class _Written:
    """An answer in a cell.

    Args:
        place: index of the cell among all.
        name: of the function there.
        attempted: whether it is more than the stub.
        runs: whether its cell is Python.
        named: whether it has the name that the question asks for.
    """

    place: int
    name: str
    attempted: bool
    runs: bool = True
    named: bool = True


def _submission(cells: list[_Cell], key: Key, notes: list[str]) -> Submission:
    functions = {question.function for question in key.questions}
    written = {question.id: _written(question, cells, functions) for question in key.questions}
    if not any(written.values()) and not any(cell.marked(q) for cell in cells for q in key.questions):
        raise NeedsAttention(f"This is another notebook: no cell of it belongs to the assignment {key.name}.")
    chosen = {name: max(found, key=_rank) for name, found in written.items() if found}
    answering = {answer.place for answer in chosen.values()}
    places = [place for place, cell in enumerate(cells) if cell.is_code or place in answering]
    index = {place: i for i, place in enumerate(places)}  # a person counts from 1
    return Submission(
        cells=[cells[place].source for place in places],
        answers={name: Answer(index[answer.place], answer.name, answer.attempted) for name, answer in chosen.items()},
        notes=notes + _notes(cells, key, written, chosen, index),
        flags=_flags(cells, key, chosen, index),
    )


def _rank(answer: _Written) -> tuple:
    """What is untouched or cannot run gives way to what can; of equals the last counts, as when the notebook is run."""
    return answer.attempted, answer.runs, answer.named, answer.place


def _written(question: Question, cells: list[_Cell], functions: set[str]) -> list[_Written]:
    """All that may answer a question. A cell of text is asked only where no cell of code has an attempt."""
    found = [(cell, _in_cell(question, place, cell, functions)) for place, cell in enumerate(cells)]
    code = [answer for cell, answer in found if answer and cell.is_code]
    text = [answer for cell, answer in found if answer and not cell.is_code and answer.attempted]
    return code if any(answer.attempted for answer in code) else text or code


def _in_cell(question: Question, place: int, cell: _Cell, functions: set[str]) -> _Written | None:
    runs, marked = cell.code.problem != NOT_PYTHON, cell.marked(question)
    if (binding := cell.code.bindings.get(question.function)) and (cell.is_code or runs or marked):
        return _Written(place, binding.name, not binding.stub, runs)
    if not marked:
        return None
    if renamed := _renamed(question, cell.code, functions):
        return _Written(place, renamed.name, not renamed.stub, runs, named=False)
    return None if runs else _Written(place, question.function, True, runs)


def _renamed(question: Question, code: Code, functions: set[str]) -> Binding | None:
    """The function in a question's cell that may answer it under another name."""
    others = [binding for name, binding in code.bindings.items() if binding.function and name not in functions]
    others = [binding for binding in others if len(binding.name) <= LONGEST_NAME]
    fitting = [binding for binding in others if binding.n_arguments == len(question.arguments)]
    return others[0] if len(others) == 1 else fitting[-1] if fitting else None


# What is said of it. Of the student's text nothing is repeated.


def _notes(
    cells: list[_Cell],
    key: Key,
    written: dict[str, list[_Written]],
    chosen: dict[str, _Written],
    index: dict[int, int],
) -> list[str]:
    notes = []
    for question in key.questions:
        if question.id not in chosen:
            notes.append(f"{question.function} is not answered.")
            continue
        answer, name = chosen[question.id], question.function
        number = index[answer.place] + 1
        attempts = [other.place for other in written[question.id] if other.attempted and other.named]
        if len(attempts) > 1:
            which = f"the last one, cell {number}," if answer.place == max(attempts) else f"cell {number}"
            notes.append(f"{name} is written in {len(attempts)} cells; {which} counts.")
        if not answer.named:
            notes.append(f"The function in the cell of {name}, cell {number}, has another name; it is taken for it.")
        if not cells[answer.place].is_code:
            notes.append(f"{name} stands in a cell of text; it is run as code, as cell {number}.")
    strayed = [q for q in key.questions if q.id in chosen and not cells[chosen[q.id].place].marked(q)]
    if strayed:
        notes.append(f"Found by name, since the cell has neither id nor tag: {_listed(q.function for q in strayed)}.")
    order = [answer.place for answer in chosen.values()]
    if order != sorted(order):
        notes.append("The answers stand in another order than in the assignment.")
    for problem, words in ((NOT_PYTHON, "not Python that can be run"), (TOO_LONG, "so long that they are not parsed")):
        if numbers := [index[place] + 1 for place in index if cells[place].code.problem == problem]:
            notes.append(f"Cells that are {words}: {_listed(numbers)}.")
    return notes


def _flags(cells: list[_Cell], key: Key, chosen: dict[str, _Written], index: dict[int, int]) -> list[str]:
    """The forbidden names that each answer's cell uses."""
    imported = {name: full for cell in cells if cell.is_code for name, full in cell.code.imported.items()}
    own = {name for cell in cells if cell.is_code for name in cell.code.bindings}
    flags = []
    for question in key.questions:
        answer = chosen.get(question.id)
        if not answer or not question.forbidden:
            continue
        cell, number = cells[answer.place], index[answer.place] + 1
        if cell.code.problem == TOO_LONG:
            flags.append(f"{question.function}: cell {number} is too long to be searched for forbidden names.")
            continue
        others = {other.function for other in key.questions} - {question.function}
        used = source.uses(cell.source, question.forbidden, imported, own, others)
        flags.extend(f"{question.function} uses {name} in cell {number}, line {line}." for name, line in used.items())
    return flags


def _listed(entries: Iterable[Any]) -> str:
    entries = [str(entry) for entry in entries]
    return ", ".join(entries[:20]) + (f" and {len(entries) - 20} more" if len(entries) > 20 else "")
