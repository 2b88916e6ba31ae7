"""Make executed notebooks of texts, and check them.

A page is written as MyST text, ``NAME.nb.md``. The notebook ``NAME.ipynb`` beside it begins with a cell that installs
the package and holds the same cells in plain Markdown, with the outputs of one run. Notebooks are committed, so that
readers see what was checked.
"""

import base64
import hashlib
import io
import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from bookbinder import ROOT, address, myst, predictions
from bookbinder.address import first_cell
from bookbinder.myst import TEXT_SUFFIX
from bookbinder.plain import Book, plain, text_of_glue
from groundwork import Refusal, write_whole

MOST_LINES = 40
MOST_UNCOMPARED = 2
WIDEST = 46  # characters of a printed line: what a phone shows
SECONDS_PER_CELL = 120
KEPT = {"tags", "mystnb"}
BOOTSTRAP = {"tags": ["remove-cell"]}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
AGAIN = "run `python -m bookbinder notebooks`"
UNCOMPARED = re.compile(r"^\s*#\s*(?:NBVAL_IGNORE_OUTPUT|NBVAL_SKIP|PYTEST_VALIDATE_IGNORE_OUTPUT)", re.MULTILINE)
MEMORY = re.compile(r"\bat 0x[0-9a-fA-F]{6,}|\b0x[0-9a-fA-F]{10,}")
MACHINE = re.compile(
    r"(?<![\w./:-])(?:/(?:home|Users|root|tmp|content|private|usr|opt|mnt)/|[A-Z]:\\)|(?:site|dist)-packages"
)
IMAGE = re.compile(r"data:image/(png|svg\+xml);base64,([A-Za-z0-9+/=]+)")
CONSTANT = re.compile(r'(\["([fq])", \[[\d, ]*\]), "([A-Za-z0-9+/=]+)"(?:, "([A-Za-z0-9+/=]+)")?')  # of a widget
NAMED_BY_NUMBERS = re.compile(r'\bdata-la="[\w-]+"|(?<=\bid=")\w+(?=")|(?<=#)\w+(?=[")])')
PATH = re.compile(r'(?<= d=")[^"]+')
COORDINATE = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|(?<=[ \"(,A-Za-z])-?\d+(?=[ \"),A-Za-z])")
# In the alternative text of a figure of times:
MEASURED = re.compile(r"\b(?:on this machine|on the machine that ran)\b")
TOLERANCE = 0.1
"""How much a real number may differ between two processors, as a share of the largest beside it. The weights of a layer
that the page has just trained differ by six hundredths."""
NO_ALT = re.compile(r"<img\b(?![^>]*\balt=(?:\"[^\"]|'[^']))[^>]*>")
WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass
class Page:
    """A page with code: its text, and the notebook that is made of it."""

    text: Path
    book: Book

    @property
    def notebook(self) -> Path:
        return self.text.with_name(self.text.name.removesuffix(TEXT_SUFFIX) + ".ipynb")

    @property
    def name(self) -> str:
        return self.text.relative_to(self.book.root).as_posix()

    @property
    def docname(self) -> str:
        return self.name.removesuffix(TEXT_SUFFIX)

    @cached_property
    def numbered_cells(self) -> list[tuple[NotebookNode, int]]:
        """The cells of the text, in MyST, but code as the notebook has it; each with the number of its first line."""
        found = list(myst.cells(self.text.read_text(encoding="utf-8")))
        for cell, line in found:
            if cell.cell_type not in ("markdown", "code"):
                raise Refusal(f"{self.name}:{line}: a {cell.cell_type} cell has no place in the book")
            if unknown := sorted(set(cell.metadata) - KEPT):
                raise Refusal(
                    f"{self.name}:{line}: the cell has the option {unknown[0]!r}; allowed are tags and mystnb"
                )
        return [(predictions.kept_back(cell), line) for cell, line in found]

    @property
    def cells(self) -> list[NotebookNode]:
        return [cell for cell, _ in self.numbered_cells]

    @property
    def code(self) -> list[NotebookNode]:
        return [cell for cell in self.cells if cell.cell_type == "code"]

    def stored(self) -> NotebookNode | None:
        """The notebook in the repository; None if there is none."""
        if not self.notebook.exists():
            return None
        try:
            return nbformat.reads(self.notebook.read_text(encoding="utf-8"), as_version=4)
        except (ValueError, KeyError, AttributeError):
            raise Refusal(f"{self.docname}.ipynb is not a notebook; {AGAIN}") from None


def pages(root: Path = ROOT, paths: list[Path] | None = None) -> list[Page]:
    """All pages with code, or those that ``paths`` name: texts, notebooks or folders."""
    book = Book(root)
    every = {path.resolve(): Page(path, book) for path in sorted((root / "book").rglob(f"*{TEXT_SUFFIX}"))}
    if not paths:
        return list(every.values())
    chosen = {}
    for path in paths:
        wanted = Path(path).resolve()
        found = [t for t, page in every.items() if wanted in (t, page.notebook.resolve()) or wanted in t.parents]
        if not found:
            raise Refusal(f"{path} is not a page: name a text NAME{TEXT_SUFFIX}, its notebook, or a folder of texts.")
        chosen |= {text: every[text] for text in found}
    return list(chosen.values())


# Making


def bind(page: Page, ran: list[NotebookNode]) -> NotebookNode:
    """Make the notebook of a page: its text in plain Markdown, with the outputs of the code cells that ran."""
    glued = dict(filter(None, (text_of_glue(output) for cell in ran for output in cell.outputs)))
    ran, cells, seen = iter(ran), [], Counter()

    def add(kind: str, source: str, metadata: dict) -> None:
        digest = hashlib.sha256(f"{kind}\0{source}".encode()).hexdigest()[:8]
        seen[digest] += 1
        cell = {"cell_type": kind, "source": source, "metadata": dict(metadata)}
        cell["id"] = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        if kind == "code":
            run = next(ran)
            cell |= {"execution_count": run.execution_count, "outputs": [settled(output) for output in run.outputs]}
        cells.append(cell)

    add("code", first_cell(root=page.book.root), BOOTSTRAP)
    for cell, line in page.numbered_cells:
        source = cell.source
        if cell.cell_type == "markdown":
            source = plain(source, page.book, page.docname, glued, lambda n, line=line: f"{page.name}:{line + n}")
        add(cell.cell_type, source, cell.metadata)
    return nbformat.from_dict({"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5})


def settled(output: NotebookNode) -> NotebookNode:
    """An output without what differs between two runs: of a traceback the last line stays."""
    if output.output_type != "error":
        return output
    return NotebookNode(output | {"traceback": [f"{output.ename}: {output.evalue}"]})


def written(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def write(path: Path, content: bytes) -> bool:
    """Write a file whole unless it has this content already; return whether it was written."""
    if path.exists() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True


def same_code(page: Page, stored: NotebookNode) -> bool:
    """Whether the notebook's code, after its first cell, is that of the text."""
    return [_inputs(c) for c in stored.cells if c.cell_type == "code"][1:] == [_inputs(c) for c in page.code]


def _inputs(cell: NotebookNode) -> tuple[str, dict]:
    return cell.source, dict(cell.metadata)


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def rebind(page: Page) -> bool:
    """Update the first cell and the Markdown of a notebook whose code has not changed, without running it."""
    return write(page.notebook, written(bind(page, _code(page.stored()))).encode("utf-8"))


def move(url: str, root: Path = ROOT) -> list[Path]:
    """Make ``url`` the address of the repository in ``_config.yml`` and in all notebooks, without running them.

    Returns:
        The files that changed.
    """
    config = root / "_config.yml"
    before, after = address.config_with(url, root)
    chosen = pages(root)
    for page in chosen:
        stored = page.stored()
        if stored is None or not same_code(page, stored):
            raise Refusal(f"{page.name} has changed since its notebook was made; {AGAIN} first.")
    write(config, after)
    try:
        changed = [page.notebook for page in chosen if rebind(page)]
    except BaseException:
        write(config, before)
        raise
    return [config] * (after != before) + changed


def run(page: Page) -> list[NotebookNode]:
    """Run the code cells of a page, the first cell of its notebook included, with this Python, and return them."""
    try:
        from ipykernel.kernelspec import get_kernel_dict
        from jupyter_client.kernelspec import KernelSpec
        from jupyter_client.manager import AsyncKernelManager
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    except ImportError as error:
        raise Refusal(f"Running notebooks needs {error.name}: `make notebooks` installs it.") from None

    class ThisInterpreter(AsyncKernelManager):  # whatever kernels are installed under the name python3
        @property
        def kernel_spec(self):
            quiet = {"python_arguments": ["-Xfrozen_modules=off"], "extra_arguments": ["--log-level=ERROR"]}
            return KernelSpec(**get_kernel_dict(**quiet))

    sources = [first_cell(root=page.book.root), *(cell.source for cell in page.code)]
    metadata = [BOOTSTRAP, *(cell.metadata for cell in page.code)]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(s, metadata=m) for s, m in zip(sources, metadata, strict=True)]
    )
    begun, log = [], logging.getLogger(__name__)
    log.disabled = True  # what goes wrong is said once, below
    client = NotebookClient(
        notebook,
        kernel_manager_class=ThisInterpreter,
        timeout=SECONDS_PER_CELL,
        record_timing=False,
        coalesce_streams=True,
        log=log,
        on_cell_execute=lambda cell, cell_index: begun.append(cell_index),
        resources={"metadata": {"path": str(page.text.parent)}},
    )
    try:
        client.execute(env=os.environ | {"LLM_ANATOMY_STATIC": "1"})
    except CellExecutionError as error:
        words = f"fails with {error.ename}: {(error.evalue.strip().splitlines() or [''])[0]}"
    except CellTimeoutError:
        words = f"takes more than {SECONDS_PER_CELL} seconds"
    except DeadKernelError:
        words = "ends the kernel"
    else:
        return notebook.cells
    raise Refusal(f"{locations(page)[begun[-1]]} {words}; the old notebook stays as it was.")


def make(page: Page, force: bool = False) -> str | None:
    """Make the notebook of a page where it differs from its text; return what was done, or None."""
    begin = time.perf_counter()
    stored = page.stored() if page.notebook.exists() and not force else None
    runs = stored is None or not same_code(page, stored) or not all(c.execution_count for c in _code(stored))
    ran = run(page) if runs else _code(stored)
    changed = write(page.notebook, written(bind(page, ran)).encode("utf-8"))
    if runs:
        return f"run in {time.perf_counter() - begin:.1f} s" + ("" if changed else ", unchanged")
    return "text updated, code not run" if changed else None


# Checking


def locations(page: Page) -> list[str]:
    """The code cells of the notebook as messages name them: by their line in the text, and by their number."""
    lines = [line for cell, line in page.numbered_cells if cell.cell_type == "code"]
    return [f"{page.name}: cell 1", *(f"{page.name}:{line}: cell {n}" for n, line in enumerate(lines, 2))]


def problems(page: Page) -> list[str]:
    """Everything that is wrong with a notebook, one line each, with page and cell."""
    try:
        stored = page.stored()
        if stored is None:
            return [f"{page.docname}.ipynb is missing; {AGAIN}"]
        return list(_problems(page, stored))
    except Refusal as refusal:
        return [str(refusal)]


def _problems(page: Page, stored: NotebookNode) -> Iterator[str]:
    code = _code(stored)
    current = same_code(page, stored)
    where = locations(page) if current else [f"{page.docname}.ipynb: cell {n}" for n in range(1, len(code) + 1)]

    wanted = ("code", first_cell(root=page.book.root), BOOTSTRAP)
    begins = [(cell.cell_type, *_inputs(cell)) for cell in stored.cells[:1]] == [wanted]
    if not begins:
        yield f"{page.docname}.ipynb: cell 1 is not the cell that installs the package; {AGAIN}"
    if not current:
        yield f"{page.docname}.ipynb: {_first_difference(page, code)}; {AGAIN}"
    else:
        try:
            bound = bind(page, code)
        except Refusal as refusal:
            yield str(refusal)
        else:
            if [_inputs(c) for c in bound.cells[1:]] != [_inputs(c) for c in stored.cells[1:]]:
                yield f"{page.docname}.ipynb: its Markdown is not that of its text; {AGAIN}"
            elif begins and written(bound) != page.notebook.read_text(encoding="utf-8"):
                yield f"{page.docname}.ipynb: it was not written by bookbinder; {AGAIN} --force"

    for number, (cell, at) in enumerate(zip(code, where, strict=True), 1):
        yield from (f"{at} {words}" for words in _faults_of_code(number, cell))
    uncompared = [at for cell, at in zip(code, where, strict=True) if _uncompared(cell)]
    if len(uncompared) > MOST_UNCOMPARED:
        yield (
            f"{page.docname}.ipynb: {len(uncompared)} cells are not compared (nbval-ignore-output, nbval-skip); "
            f"at most {MOST_UNCOMPARED} may be"
        )
    for cell in stored.cells:
        if cell.cell_type == "markdown":
            for raw in myst.leftovers(cell.source):
                yield f"{page.docname}.ipynb: a reader of the notebook would see {_quoted(raw)}"
            for image in re.findall(r"!\[\s*\]\([^()]*\)", cell.source) + NO_ALT.findall(cell.source):
                yield f"{page.docname}.ipynb: the image {image} has no alternative text"


def _quoted(code: str) -> str:
    ticks = "`" * (1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{ticks} {code} {ticks}" if len(ticks) > 1 else f"`{code}`"


def _first_difference(page: Page, code: list[NotebookNode]) -> str:
    pairs = zip_longest([_inputs(cell) for cell in code[1:]], [_inputs(cell) for cell in page.code])
    number, (there, here) = next((n, pair) for n, pair in enumerate(pairs, 2) if pair[0] != pair[1])
    if there is None or here is None:
        return f"its text has {'more' if there is None else 'fewer'} code cells than the notebook"
    return f"cell {number} is not that of {locations(page)[number - 1].rpartition(': ')[0]}"


def _uncompared(cell: NotebookNode) -> bool:
    tags = cell.metadata.get("tags", [])
    return "nbval-ignore-output" in tags or "nbval-skip" in tags or bool(UNCOMPARED.search(cell.source))


def _faults_of_code(number: int, cell: NotebookNode) -> Iterator[str]:
    if cell.execution_count is None:
        yield f"was not run; {AGAIN}"
    elif cell.execution_count != number:
        yield f"was run out of order; {AGAIN} --force"
    if cell.source.rstrip().endswith(";"):
        yield "ends with a semicolon; write `_ = …` to hide a value"
    if (length := len(cell.source.splitlines())) > MOST_LINES:
        yield f"has {length} lines of code; at most {MOST_LINES} are allowed"
    tags = cell.metadata.get("tags", [])
    if predictions.questions(cell.source) and predictions.TAG not in tags:
        yield f"asks for a prediction; give it the tag {predictions.TAG}, which keeps the answer back"
    expected = "raises-exception" in tags
    for output in cell.outputs:
        if output.output_type == "error" and not expected:
            yield f"stores an error, {output.ename}"
        if output.output_type == "stream" and output.name == "stderr":
            yield "writes to stderr"
        if WIDGET in output.get("data", {}):
            yield "stores a live widget, which does not work on the page"
        if line := next((line for line in _printed(output).splitlines() if len(line) > WIDEST), None):
            yield f"prints a line of {len(line)} characters, {line!r}; a phone shows {WIDEST}"
        words = IMAGE.sub("", _words_of(output))
        if address := MEMORY.search(words):
            yield f"prints a memory address, {address[0]}"
        if path := re.search(re.escape(str(ROOT)), words) or MACHINE.search(words):
            yield f"prints a path of this machine, {path[0]}"
        yield from _faults_of_images(output)


def _faults_of_images(output: NotebookNode) -> Iterator[str]:
    data = output.get("data", {})
    alt = data.get("text/plain", "").strip()
    if any(mime.startswith("image/") for mime in data) and (not alt or alt.startswith("<")):
        yield "shows an image without alternative text"
    yield from (f"shows {image[:60]} without alternative text" for image in NO_ALT.findall(data.get("text/html", "")))


def _printed(output: NotebookNode) -> str:
    """What the page shows of an output in letters of one width."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return output.data.get("text/plain", "") if set(output.data) == {"text/plain"} else ""


def _words_of(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return f"{output.evalue}\n" + "\n".join(output.traceback)
    texts = (content for mime, content in sorted(output.data.items()) if not mime.startswith("image/"))
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts)


def differences(page: Page) -> list[str]:
    """Run the page again and name the cells whose output is no longer the stored one.

    Words and printed numbers must be equal. The last digits of others depend on the processor: the constants with which
    a widget computes, the coordinates of figures and the pixels of maps may differ by ``TOLERANCE``. Of a figure that
    shows times of the machine, the alternative text is compared.
    """
    stored = page.stored()
    if stored is None or not same_code(page, stored):
        return problems(page)
    again = _code(bind(page, run(page)))
    return [
        f"{at} now prints something else; {AGAIN} --force and look at what changed"
        for old, new, at in zip(_code(stored), again, locations(page), strict=True)
        if not _uncompared(old) and not _same(old, new)
    ]


def _same(old: NotebookNode, new: NotebookNode) -> bool:
    import numpy as np

    def close(one, other) -> bool:
        scale = np.abs(one[np.isfinite(one)]).max(initial=0)
        return one.shape == other.shape and np.allclose(one, other, rtol=0, atol=TOLERANCE * scale, equal_nan=True)

    kinds = [[(output.output_type, sorted(output.get("data", {}))) for output in cell.outputs] for cell in (old, new)]
    if kinds[0] != kinds[1]:
        return False
    for one, other in zip(old.outputs, new.outputs, strict=True):
        if (
            MEASURED.search(one.get("data", {}).get("text/plain", ""))
            and one.data["text/plain"] == other.data["text/plain"]
        ):
            continue
        (words, numbers), (other_words, other_numbers) = _apart(_words_of(one)), _apart(_words_of(other))
        if words != other_words or not all(map(close, numbers, other_numbers)):
            return False
    return True


def _apart(text: str) -> tuple[str, list]:
    """What must be equal of an output, and the arrays of real numbers in it."""
    import numpy as np  # neither is needed where pages are built
    from PIL import Image

    numbers = []

    def constant(match: re.Match) -> str:
        head, kind, values, scales = match.groups()
        array = np.frombuffer(base64.b64decode(values), "<f4" if kind == "f" else "i1").astype(float)
        if scales:
            rows = np.frombuffer(base64.b64decode(scales), "<f4").astype(float)
            array = (array.reshape(len(rows), -1) * rows[:, None]).ravel()
        numbers.append(array)
        return head

    def extent(path: re.Match) -> str:  # matplotlib leaves out points of a path that hardly matter, not always the same
        points = np.array(re.findall(r"-?[\d.]+(?:e-?\d+)?", path[0]), float).reshape(-1, 2)
        return " ".join(f"{number:.2f}" for number in (*points.min(0), *points.max(0)))

    def image(match: re.Match) -> str:
        kind, content = match[1], base64.b64decode(match[2])
        if kind == "png":
            with Image.open(io.BytesIO(content)) as picture:
                numbers.append(np.asarray(picture.convert("RGB"), float))
            return kind
        drawing = NAMED_BY_NUMBERS.sub("", IMAGE.sub(image, content.decode("utf-8")))
        drawing = PATH.sub(extent, drawing)
        numbers.append(np.array([float(number) for number in COORDINATE.findall(drawing)]))
        return COORDINATE.sub("#", drawing)

    return NAMED_BY_NUMBERS.sub("", CONSTANT.sub(constant, IMAGE.sub(image, text))), numbers


def orphans(root: Path = ROOT) -> list[str]:
    """Name the notebooks that have no text."""
    found = {page.notebook for page in pages(root)}
    return [
        f"{path.relative_to(root).as_posix()} has no text {path.stem}{TEXT_SUFFIX} beside it"
        for path in sorted((root / "book").rglob("*.ipynb"))
        if path not in found and ".ipynb_checkpoints" not in path.parts
    ]
