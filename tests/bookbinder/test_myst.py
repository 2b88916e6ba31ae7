"""What is read of a text in MyST, and on which line it is."""

import pytest

from bookbinder import myst
from groundwork import Refusal

TEXT = """\
---
title: A page
---

(here)=
# A *page*

```python
# no heading
```

::::{note}
:class: wide

## Inside

:::{tip}
### Deeper
:::
::::

```{code-cell}
:tags: [hide-input]

1
```
"""


def test_blocks_inside_directives_know_their_lines():
    headings = [(line, myst.source(node)) for line, node in myst.blocks(TEXT) if node.type == "heading"]
    assert headings == [(6, "A *page*"), (15, "Inside"), (18, "Deeper")]
    lines = TEXT.splitlines()
    assert all(text in lines[line - 1] for line, text in headings)


def test_cells_know_the_line_on_which_their_source_begins():
    cells = [(cell.cell_type, line) for cell, line in myst.cells(TEXT)]
    assert cells == [("markdown", 5), ("code", 25)]
    assert TEXT.splitlines()[24] == "1"


def test_a_directive_has_a_name_an_argument_options_and_a_body():
    found = [myst.directive(node) for _, node in myst.blocks(":::{figure} a.png\n:alt: A line: x\n\nCaption.\n:::\n")]
    assert found[0] == myst.Directive("figure", "a.png", {"alt": "A line: x"}, "Caption.", 3)


def test_a_header_is_at_the_beginning_or_missing():
    assert myst.header(TEXT, "page") == {"title": "A page"}
    assert myst.header("# A page\n\n---\na: 1\n---\n", "page") == {}
    with pytest.raises(Refusal, match="^page: the header is not valid YAML"):
        myst.header("---\na: [1\n---\n", "page")


def test_a_section_ends_at_the_next_of_its_level_and_not_in_code():
    text = "Before.\n\n## One\n\n```\n## Two\n```\n\n### Three\n\n## Four\n"
    assert myst.sections(text) == {"One": "```\n## Two\n```\n\n### Three", "Four": ""}


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("A *b* `c_d` $\\alpha$", "A b c_d \\alpha"),
        ("{doc}`the page <x>` and [a *link*](y.md)", "the page and a link"),
        (r"d\_ff {ref}`x`", "d_ff x"),
    ],
)
def test_the_words_of_a_heading_are_without_markup(heading, words):
    assert myst.words(next(myst.nodes(f"# {heading}\n"))) == words
