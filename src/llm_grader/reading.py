"""Read the bytes of a notebook into a :class:`~llm_grader.records.Submission` without running any of it.

An answer is found by the id of its cell, by the tag of its cell, or by the name of its function, so that it is also
found in an untidy notebook. The bytes may be hostile, so the memory
that they would take is estimated before they are parsed.
"""

import json
import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from llm_grader import source
from llm_grader.records import AnotherNotebook, Answer, Key, NeedsAttention, Question, Submission
from llm_grader.source import MAX_NAME_LENGTH, NOT_PYTHON, TOO_LONG, Binding, ParsedSource

SIZE_LIMIT = 10 * 2**20
MAX_CELLS = 2_000
MAX_PARSED_TOKENS = 100_000  # tokens of Python in a notebook; later cells are only searched
MAX_JSON_MEMORY = 30 * 2**20  # bytes that the parsed values may take in addition to their text
BYTES_PER_CONTAINER, BYTES_PER_VALUE = 250, 70  # a dictionary of one entry, a short string
FILE_SIGNATURES = {
    b"%PDF": "a PDF file",
    b"PK\x03\x04": "a zip archive or an office document",
    b"\x1f\x8b": "a compressed file",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a rar archive",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
}
# What could do the work that an exercise asks for: the rest of this package, and attention as one function. Its use is
# reported unless the reference uses it too. The modules notebook and shapes belong to every notebook's first cell.
SHORTCUTS = (
    *(
        f"llm_anatomy.{name}."
        for name in ("layers", "models", "tokenizers", "training", "evaluation", "config", "data")
    ),
    *("transformers.", "xformers.", "flash_attn."),
    *(f"torch.nn.functional.{name}" for name in ("scaled_dot_product_attention", "multi_head_attention_forward")),
    *("torch.nn.attention.flex_attention.flex_attention", "torch.nn.MultiheadAttention", "torch.nn.Transformer"),
    *(f"torch.nn.Transformer{part}{layer}" for part in ("Encoder", "Decoder") for layer in ("", "Layer")),
)
DOWNLOAD_HINT = "download the notebook as an .ipynb file and hand that in"


def read(data: bytes, key: Key, size_limit: int = SIZE_LIMIT) -> Submission:
    """Read a notebook and find the answers to the key's questions.

    Args:
        data: the file.
        key: key of the assignment.
        size_limit: largest size of the file in bytes.

    Raises:
        NeedsAttention: the bytes are not a notebook of this assignment. No bytes make it raise anything else.
    """
    notebook, notes = _parse_notebook(_decode(data, size_limit))
    cells = _read_cells(notebook, [question.function for question in key.questions])
    return _find_answers(cells, key, notes)


def file_too_large(size_limit: int) -> NeedsAttention:
    """Return the error for a file that is larger than allowed."""
    limit = f"{size_limit / 2**20:g} MB"
    return NeedsAttention(
        f"The file is larger than {limit}: clear the outputs, save the notebook and hand it in again."
    )


# From bytes to a notebook


def _decode(data: bytes, size_limit: int) -> str:
    """Decode the JSON text of a notebook, and check that it is small enough to be parsed."""
    if len(data) > size_limit:
        raise file_too_large(size_limit)
    for beginning, kind in FILE_SIGNATURES.items():
        if data.startswith(beginning):
            raise NeedsAttention(f"The file is {kind}, not a notebook: {DOWNLOAD_HINT}.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or data[:2] in (b"{\0", b"\0{"):
        raise NeedsAttention("The file is encoded in UTF-16, but a notebook is encoded in UTF-8: save it as UTF-8.")
    data = data.removeprefix(b"\xef\xbb\xbf")
    beginning = data[:2000].strip().lower()
    if not beginning:
        raise NeedsAttention("The file is empty." if not data.strip() else "The file begins with 2000 spaces.")
    if beginning.startswith(b"<"):
        raise NeedsAttention(f"The file is a web page, not a notebook: {DOWNLOAD_HINT}.")
    if b"\0" in beginning:
        raise NeedsAttention(f"The file is neither text nor a notebook: {DOWNLOAD_HINT}.")
    if not beginning.startswith((b"{", b"[", b'"')):
        raise NeedsAttention(f"The file is plain text, such as a Python script, and not a notebook: {DOWNLOAD_HINT}.")
    if _json_memory(data) > MAX_JSON_MEMORY:
        raise NeedsAttention(
            "The notebook holds too many values: clear the outputs, save the notebook and hand it in again."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise NeedsAttention(f"The file is not text encoded in UTF-8, so it is not a notebook: {DOWNLOAD_HINT}.") from e


def _json_memory(data: bytes) -> int:
    """Estimate how many bytes the values of JSON text take in addition to their text, without parsing it.

    All operations take linear time. After escaped quotes are removed, every second piece between quotes lies outside
    the strings.
    """
    data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if (n_strings := data.count(b'"') // 2) * BYTES_PER_VALUE > MAX_JSON_MEMORY:
        return n_strings * BYTES_PER_VALUE
    outside = b"".join(data.split(b'"')[::2])
    containers = outside.count(b"{") + outside.count(b"[")
    return containers * BYTES_PER_CONTAINER + (outside.count(b",") + outside.count(b":")) * BYTES_PER_VALUE


def _parse_notebook(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the JSON text of a notebook, convert it to version 4 of the format, and return it with notes on that."""
    try:  # only the version number matters; Python parses long numbers slowly or refuses them
        notebook = json.loads(text, parse_int=lambda digits: int(digits[:6]), parse_float=str, parse_constant=str)
    except RecursionError as e:
        raise NeedsAttention("The file is nested too deeply to be a notebook.") from e
    except ValueError as e:
        cut = isinstance(e, json.JSONDecodeError) and (e.msg.startswith("Unterminated") or e.pos >= len(text.rstrip()))
        problem = "is incomplete, as after a failed upload" if cut else "is not valid JSON, so it is not a notebook"
        raise NeedsAttention(f"The file {problem}: {DOWNLOAD_HINT}.") from e
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells", notebook.get("worksheets")), list):
        raise NeedsAttention(f"The file is JSON, but it has no cells, so it is not a notebook: {DOWNLOAD_HINT}.")
    version = notebook.get("nbformat", 4 if "cells" in notebook else 3)
    if not isinstance(version, int) or not 1 <= version <= 4:
        raise NeedsAttention("The version of the notebook format is unknown; the grader reads versions 1 to 4.")
    if version == 4:
        return notebook, []
    return _convert(notebook, version), [f"The notebook has format version {version} and was converted to version 4."]


def _convert(notebook: dict[str, Any], version: int) -> dict[str, Any]:
    """Convert an old notebook to version 4. Outputs are removed first, since converting them would take longest."""
    import nbformat  # rarely needed, and it takes a fifth of the grader's memory

    sheets = notebook["worksheets"] if version == 3 and isinstance(notebook.get("worksheets"), list) else [notebook]
    cells = [cell for sheet in map(_as_dict, sheets) for cell in _as_list(sheet.get("cells"))]
    _check_cell_count(cells)
    for cell in map(_as_dict, cells):
        cell["outputs"] = []
    logging.getLogger("traitlets").addFilter(_drop_log_record)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return nbformat.convert(nbformat.from_dict(notebook), 4)
        except Exception as e:  # the type of the error depends on what is wrong in the notebook
            raise NeedsAttention(f"The notebook has format version {version}, which cannot be converted.") from e
        finally:
            logging.getLogger("traitlets").removeFilter(_drop_log_record)


def _drop_log_record(record: logging.LogRecord) -> bool:
    return False


def _check_cell_count(cells: list) -> None:
    if len(cells) > MAX_CELLS:
        raise NeedsAttention(f"The notebook has {len(cells)} cells, but only {MAX_CELLS} are allowed.")


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list:
    return value if isinstance(value, list) else []


# From a notebook to cells


@dataclass(frozen=True)
class _Cell:
    """A cell of any type, with the labels (id and tags) by which it is recognised."""

    is_code: bool
    labels: set[str]
    source: str
    code: ParsedSource

    def is_for(self, question: Question) -> bool:
        return question.tag in self.labels or question.cell in self.labels


def _read_cells(notebook: dict[str, Any], functions: list[str]) -> list[_Cell]:
    plain = _as_list(notebook.get("cells"))
    _check_cell_count(plain)
    cells, n_parsed = [], 0
    for cell in map(_as_dict, plain):
        text, is_code = _cell_source(cell.get("source")), cell.get("cell_type") == "code"
        if n_parsed > MAX_PARSED_TOKENS:
            code = ParsedSource(source.search_definitions(text, functions), problem=TOO_LONG)
        elif is_code or "def " in text:  # an answer whose cell was turned into a text cell
            n_parsed += source.n_tokens(text)
            code = source.read(text, functions)
        else:
            code = ParsedSource()
        cells.append(_Cell(is_code, _cell_labels(cell), text, code))
    return cells


def _cell_source(value: Any) -> str:
    """Return the text of a cell, which may be stored as a list of lines, with a question mark for lone surrogates."""
    text = value if isinstance(value, str) else "".join(part for part in _as_list(value) if isinstance(part, str))
    return text.encode("utf-8", "replace").decode().replace("\r\n", "\n")


def _cell_labels(cell: dict[str, Any]) -> set[str]:
    """Return the id and the tags of a cell. Colab keeps the id in the metadata."""
    metadata = _as_dict(cell.get("metadata"))
    labels = [cell.get("id"), metadata.get("id"), metadata.get("tags"), *_as_list(metadata.get("tags"))]
    return {label for label in labels if label and isinstance(label, str)}


# From cells to answers


@dataclass(frozen=True)
class _Candidate:
    """A cell that may answer a question.

    Args:
        cell_index: index of the cell among all cells.
        name: name of the function in that cell.
        attempted: whether it is more than the stub.
        is_python: whether the cell can be parsed as Python.
        has_expected_name: whether the function has the name that the question asks for.
    """

    cell_index: int
    name: str
    attempted: bool
    is_python: bool = True
    has_expected_name: bool = True


def _find_answers(cells: list[_Cell], key: Key, notes: list[str]) -> Submission:
    functions = {question.function for question in key.questions}
    candidates = {question.id: _candidates(question, cells, functions) for question in key.questions}
    if not any(candidates.values()) and not any(cell.is_for(q) for cell in cells for q in key.questions):
        raise AnotherNotebook(f"This is another notebook: none of its cells belongs to the assignment {key.name}.")
    chosen = {name: max(found, key=_rank) for name, found in candidates.items() if found}
    answering = {answer.cell_index for answer in chosen.values()}
    cell_indices = [cell_index for cell_index, cell in enumerate(cells) if cell.is_code or cell_index in answering]
    index = {cell_index: i for i, cell_index in enumerate(cell_indices)}  # notes count from 1
    return Submission(
        cells=[cells[cell_index].source for cell_index in cell_indices],
        answers={
            name: Answer(index[answer.cell_index], answer.name, answer.attempted) for name, answer in chosen.items()
        },
        notes=notes + _notes(cells, key, candidates, chosen, index),
        flags=_flags(cells, key, chosen, index),
    )


def _rank(answer: _Candidate) -> tuple:
    """Rank attempts above stubs, and valid Python above other cells. The last of equals counts, as in a notebook."""
    return answer.attempted, answer.is_python, answer.has_expected_name, answer.cell_index


def _candidates(question: Question, cells: list[_Cell], functions: set[str]) -> list[_Candidate]:
    """Return all cells that may answer a question. Text cells count only if no code cell has an attempt."""
    found = [(cell, _candidate_in_cell(question, cell_index, cell, functions)) for cell_index, cell in enumerate(cells)]
    code = [answer for cell, answer in found if answer and cell.is_code]
    text = [answer for cell, answer in found if answer and not cell.is_code and answer.attempted]
    return code if any(answer.attempted for answer in code) else text or code


def _candidate_in_cell(question: Question, cell_index: int, cell: _Cell, functions: set[str]) -> _Candidate | None:
    is_python, labelled = cell.code.problem != NOT_PYTHON, cell.is_for(question)
    binding = cell.code.bindings.get(question.function)
    if binding and not binding.result and (cell.is_code or is_python or labelled):
        return _Candidate(cell_index, binding.name, _attempted(binding, question), is_python)
    if not labelled:
        return None
    if renamed := _find_renamed(question, cell.code, functions):
        return _Candidate(cell_index, renamed.name, _attempted(renamed, question), is_python, has_expected_name=False)
    return None if is_python else _Candidate(cell_index, question.function, True, is_python)


def _attempted(binding: Binding, question: Question) -> bool:
    return not binding.stub and not binding.does_the_same_as(question.given)


def _find_renamed(question: Question, code: ParsedSource, functions: set[str]) -> Binding | None:
    """Return the function in a question's cell that may answer it under another name."""
    others = [binding for name, binding in code.bindings.items() if binding.function and name not in functions]
    others = [binding for binding in others if len(binding.name) <= MAX_NAME_LENGTH]
    fitting = [binding for binding in others if binding.n_arguments == len(question.arguments)]
    return others[0] if len(others) == 1 else fitting[-1] if fitting else None


# Notes and flags, which never repeat the student's text


def _notes(
    cells: list[_Cell],
    key: Key,
    candidates: dict[str, list[_Candidate]],
    chosen: dict[str, _Candidate],
    index: dict[int, int],
) -> list[str]:
    notes = []
    for question in key.questions:
        if question.id not in chosen:
            notes.append(f"{question.function} is not answered.")
            continue
        answer, name = chosen[question.id], question.function
        number = index[answer.cell_index] + 1
        attempts = [
            other.cell_index for other in candidates[question.id] if other.attempted and other.has_expected_name
        ]
        if len(attempts) > 1:
            which = f"the last one, cell {number}," if answer.cell_index == max(attempts) else f"cell {number}"
            notes.append(f"{name} is defined in {len(attempts)} cells; {which} counts.")
        if not answer.has_expected_name:
            notes.append(f"The function in cell {number} counts as {name}, although it has another name.")
        if not cells[answer.cell_index].is_code:
            notes.append(f"{name} is in a text cell; it is run as code, as cell {number}.")
    unlabelled = [q for q in key.questions if q.id in chosen and not cells[chosen[q.id].cell_index].is_for(q)]
    if unlabelled:
        names = _enumerate(question.function for question in unlabelled)
        notes.append(f"Answers that were found by name, since their cells lack id and tag: {names}.")
    order = [answer.cell_index for answer in chosen.values()]
    if order != sorted(order):
        notes.append("The answers are in a different order from the assignment.")
    for problem, words in ((NOT_PYTHON, "not valid Python"), (TOO_LONG, "too long to be parsed")):
        if numbers := [index[cell_index] + 1 for cell_index in index if cells[cell_index].code.problem == problem]:
            notes.append(f"Cells that are {words}: {_enumerate(numbers)}.")
    return notes


def _flags(cells: list[_Cell], key: Key, chosen: dict[str, _Candidate], index: dict[int, int]) -> list[str]:
    """Return a sentence for each forbidden name, and each of :data:`SHORTCUTS`, that an answer uses.

    An answer uses what its cell uses, and what the cells use that hold its helpers.
    """
    imported = {name: full for cell in cells if cell.is_code for name, full in cell.code.imported.items()}
    own = {name for cell in cells if cell.is_code for name in cell.code.bindings}
    flags, answering = [], {answer.cell_index for answer in chosen.values()}
    definers: dict[str, set[int]] = {}
    for i, cell in enumerate(cells):
        for name in cell.code.bindings.keys() - cell.code.imported.keys() | ({"*"} & cell.code.imported.keys()):
            definers.setdefault(name, set()).update({i} - answering if cell.is_code else ())
    watched = [*SHORTCUTS, *(name for question in key.questions for name in question.forbidden)]
    uses = cache(
        lambda i: source.watched_uses(cells[i].source, watched, imported, own, {q.function for q in key.questions})
    )
    n_tokens = cache(lambda i: source.n_tokens(cells[i].source))
    for question in key.questions:
        answer = chosen.get(question.id)
        if not answer or not answer.attempted:
            continue
        if cells[answer.cell_index].code.problem == TOO_LONG:
            number = index[answer.cell_index] + 1
            flags.append(f"{question.function}: cell {number} is too long to be searched for forbidden names.")
            continue
        others = {other.function for other in key.questions} - {question.function}
        allowed = source.names_used(f"{question.solution}\n{question.given}", SHORTCUTS)
        for i in _with_helpers(cells, answer.cell_index, definers, n_tokens):
            used = source.find_uses(uses(i), [*question.forbidden, *SHORTCUTS], others, allowed)
            where = f"in cell {index[i] + 1}, line"
            flags.extend(f"{question.function} uses {name.rstrip('.')} {where} {line}." for name, line in used.items())
    return flags


def _with_helpers(
    cells: list[_Cell], cell_index: int, definers: dict[str, set[int]], n_tokens: Callable[[int], int]
) -> list[int]:
    """Return a cell and those that define what it uses, and so on, as far as they can be searched in a short time."""
    found, total, names_seen = [cell_index], 0, set()
    for i in found:  # which grows meanwhile
        if (total := total + n_tokens(i)) >= source.MAX_TOKENS:
            continue
        names = {*cells[i].code.used, "*"} - names_seen
        names_seen |= names
        found.extend(sorted(set().union(*(definers.get(name, set()) for name in names)).difference(found)))
    return found


def _enumerate(entries: Iterable[Any]) -> str:
    entries = [str(entry) for entry in entries]
    return ", ".join(entries[:20]) + (f" and {len(entries) - 20} more" if len(entries) > 20 else "")
