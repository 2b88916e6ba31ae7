"""Solutions on the page of a chapter's exercises: folded below each exercise, and in no notebook.

The script ``book/_static/js/solutions.js`` keeps them back until the reader has passed or skipped the exercise. Where
marks are given for it, ``exercise_solutions: false`` in ``_config.yml`` leaves them out.
"""

import ast
from pathlib import Path

import nbformat

from bookbinder.masters import Master, is_import, load_chapter, part

PAGE = "exercises"
SOLUTION = """\
:::{{dropdown}} Solution
:class-container: la-solution

{explanation}```python
{code}
```
:::
"""


def masters(text: Path, root: Path) -> list[Master]:
    """The masters of a page: none if it is not a page of exercises."""
    folder = root / "exercises" / text.parent.name
    return load_chapter(folder)[1] if text.name.startswith(f"{PAGE}.") and folder.is_dir() else []


def added(notebook: str, masters: list[Master]) -> str:
    """The JSON of a notebook with a solution below the cell of each exercise."""
    stored = nbformat.reads(notebook, as_version=4)
    by_tag = {master.tag: master for master in masters}
    cells = []
    for cell in stored.cells:
        cells.append(cell)
        for tag in cell.metadata.get("tags", []):
            if master := by_tag.get(tag):
                explanation = f"{master.explanation}\n\n" if master.explanation else ""
                code = without_imports(part(master.source, {master.function}))
                source = SOLUTION.format(explanation=explanation, code=code)
                cells.append(nbformat.v4.new_markdown_cell(source, id=f"solution-{len(cells)}"))
    stored.cells = cells
    return nbformat.writes(stored)


def without_imports(code: str) -> str:
    """Code without the imports at its head, which are those of the page's set-up cell."""
    first = next(node for node in ast.parse(code).body if not is_import(node))
    return "\n".join(code.splitlines()[first.lineno - 1 :]).strip()
