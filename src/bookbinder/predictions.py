"""A cell that asks for a guess has the tag ``prediction``: how its notebook keeps the answer back.

The source is hidden, and answer and explanation are encoded in it where they are literals, so that a glance does not
give them away. The text stays plain: whoever edits, reviews or searches it reads what readers will read.
"""

import ast
import base64
import json

from nbformat import NotebookNode

TAG = "prediction"
KINDS = {"Prediction", "Estimate"}
KEPT_BACK = {"answer", "explanation"}
TITLE = "# @title Your prediction\n"  # which Colab shows in place of the code
HIDDEN = {"cellView": "form", "jupyter": {"source_hidden": True}}  # as Colab and as JupyterLab have it
WIDTH = 88


def questions(source: str) -> list[ast.Call]:
    """The calls of ``nb.Prediction`` and ``nb.Estimate`` in a cell, or of the bare names."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with a command of IPython, or one that shows an error
        return []
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if ast.unparse(call.func).removeprefix("nb.") in KINDS]


def kept_back(cell: NotebookNode) -> NotebookNode:
    """The cell of a text as the notebook has it: changed if it has the tag."""
    tags = cell.metadata.get("tags", [])
    if TAG not in tags:
        return cell
    metadata = cell.metadata | {"tags": ["hide-input", *tags]} | HIDDEN
    return NotebookNode(cell | {"source": TITLE + sealed(cell.source), "metadata": NotebookNode(metadata)})


def sealed(source: str) -> str:
    """The source with the literals of ``answer`` and ``explanation`` written as ``Prediction`` decodes them."""
    found = [word.value for call in questions(source) for word in call.keywords if word.arg in KEPT_BACK]
    lines = source.encode().splitlines(keepends=True)  # columns count bytes
    starts = [sum(map(len, lines[:n])) for n in range(len(lines))]
    written = b"".join(lines)
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        try:
            code = base64.b64encode(json.dumps(ast.literal_eval(node)).encode()).decode()
        except ValueError:  # computed, so the source does not show it
            continue
        text = f"base64:{code}"
        pieces = [f'"{text[i : i + WIDTH]}"' for i in range(0, len(text), WIDTH)]
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        written = written[:begin] + "\n    ".join(pieces).encode() + written[end:]
    return written.decode()
