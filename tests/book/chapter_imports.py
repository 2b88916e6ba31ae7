"""What the cells of a page import, for tests that run some of them."""

import ast
from functools import cache

from bookbinder import ROOT, notebooks


@cache
def _names(docname: str) -> dict:
    [page] = [page for page in notebooks.pages(ROOT) if page.docname == f"book/{docname}"]
    names = {}
    for cell in page.code:
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                exec(ast.unparse(node), names)
    return names


def imported(docname: str) -> dict:
    """All names that a page imports, such as that of ``attention/attention``, in a dict of the caller's own."""
    return dict(_names(docname))
