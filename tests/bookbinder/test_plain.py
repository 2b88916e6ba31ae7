"""MyST to plain Markdown, one case for each thing that a page may hold."""

import pytest

from bookbinder.myst import leftovers
from bookbinder.plain import Book, plain
from groundwork import Refusal

SITE = "https://someone.github.io/a-book/book"


@pytest.fixture
def convert(book):
    book.write(
        "book/small/page.nb.md", "# The *page*\n\n(here)=\n## A heading\n\n$$\na\n$$ (first)\n\n$$ b $$ (second)\n"
    )
    book.write("book/notation.md", "# Notation\n\n(sizes)=\n## Sizes\n")
    book.write("src/code.py", "def f():\n    return 1\n\n\ndef g():\n    return 2\n")

    def convert(text, **glued):
        done = plain(text, Book(book.root), "book/small/page", glued, lambda line: f"page:{line + 1}")
        assert leftovers(done) == []
        return done

    return convert


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("words `{ref}` and $a[1](x.md)$", "words `{ref}` and $a[1](x.md)$"),
        ("`` `{cite}`x` ``", "`` `{cite}`x` ``"),
        (
            "```python\n{ref}`x`\n:::{note}\n% not a comment\n```",
            "```python\n{ref}`x`\n:::{note}\n% not a comment\n```",
        ),
        ("~~~\n```{note}\n~~~", "~~~\n```{note}\n~~~"),
        ("```\n\n\n\ntext\n```", "```\n\n\n\ntext\n```"),
        ("(here)=\n## A heading\n% a comment\ntext", "## A heading\ntext"),
        ("one\n% a comment\ntwo", "one\ntwo"),
        ("$$\na % b\n$$ (first)", "$$\na % b\n\\tag{1}\n$$"),
        ("$$ b $$ (second)", "$$ b \\tag{2} $$"),
        ("$$\na\n$$\n\nwords", "$$\na\n$$\n\nwords"),
        ("```{math}\n:label: first\na = b\n```", "$$\na = b\n\\tag{1}\n$$"),
        (":::{math}\na\n:::", "$$\na\n$$"),
        # Colours of symbols are the site's alone.
        (r"$\query{q_{i}}^\key{K}$ and `\query{q}`", r"${q_{i}}^{K}$ and `\query{q}`"),
        (r"{math}`\value {v}\values`", r"$ {v}\values$"),
        ("$$\n\\weights{\\query{q}\\key{k}}\n$$ (first)", "$$\n{{q}{k}}\n\\tag{1}\n$$"),
        ("```{math} \\query{q}\n\\key{k}\n```", "$$\n{q}\n{k}\n$$"),
    ],
)
def test_code_formulas_and_comments(convert, text, expected):
    assert convert(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":::{note}\nOne\ntwo.\n:::", "> **Note**\n>\n> One\n> two."),
        (":::{tip} One\ntwo.\n:::", "> **Tip**\n>\n> One\n> two."),
        ("```{warning}\nOne.\n```\nafter", "> **Warning**\n>\n> One.\n\nafter"),
        ("before\n:::{admonition} A *title*\n:class: erratum\nOne.\n:::", "before\n\n> **A *title***\n>\n> One."),
        (":::{admonition} Title\n---\nclass: erratum\n---\nOne.\n:::", "> **Title**\n>\n> One."),
        (":::{seealso}\nOne.\n:::", "> **See also**\n>\n> One."),
        (":::{margin}\nOne.\n:::", "> **Aside**\n>\n> One."),
        (
            "::::{note}\nOne.\n:::{tip}\nTwo.\n:::\n```python\n:::{x}\n```\n::::",
            "> **Note**\n>\n> One.\n>\n> > **Tip**\n> >\n> > Two.\n>\n> ```python\n> :::{x}\n> ```",
        ),
        ("- item\n\n  :::{note}\n  One.\n  :::", "- item\n\n  > **Note**\n  >\n  > One."),
        (
            ":::{dropdown} Why `a < b`?\n:open:\nOne.\n\nTwo.\n:::",
            "<details><summary>Why <code>a &lt; b</code>?</summary>\n\nOne.\n\nTwo.\n\n</details>",
        ),
        (
            ":::{admonition} Answer\n:class: dropdown tip\nOne.\n:::",
            "<details><summary>Answer</summary>\n\nOne.\n\n</details>",
        ),
        ("::::{tab-set}\n:::{tab-item} First\nOne.\n:::\n::::", "**First**\n\nOne."),
        (":::{container} la-x\nOne.\n:::", "One."),
        ("```{code-block} text\na\n```", "```text\na\n```"),
        ("````{code-block}\n```\n````", "````\n```\n````"),
        ("```{literalinclude} ../../src/code.py\n:pyobject: g\n```", "```python\ndef g():\n    return 2\n```"),
        ("```{literalinclude} /src/code.py\n:lines: 2\n:dedent: 4\n```", "```python\nreturn 1\n```"),
        (
            ":::{figure} ../a.svg\n:alt: A line.\n\nCaption.\n:::",
            "![A line.](https://github.com/someone/a-book/raw/main/book/a.svg)\n\nCaption.",
        ),
        ("```{image} https://x.org/a.png\n:alt: A\n```", "![A](https://x.org/a.png)"),
        ("![A](a.png)", "![A](https://github.com/someone/a-book/raw/main/book/small/a.png)"),
    ],
)
def test_directives(convert, text, expected):
    assert convert(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{cite}`one2001`", f"([One 2001]({SITE}/bibliography.html#one2001))"),
        (
            "{cite:p}`three2003, nobody`",
            f"([González et al. 2003]({SITE}/bibliography.html#three2003); "
            f"[A Web Page]({SITE}/bibliography.html#nobody))",
        ),
        ("{cite:t}`one2001` says", f"[One (2001)]({SITE}/bibliography.html#one2001) says"),
        ("{cite:t}`pair2002`", f"[One and Two (2002)]({SITE}/bibliography.html#pair2002)"),
        ("{doc}`../notation`", f"[Notation]({SITE}/notation.html)"),
        ("{doc}`symbols </book/notation>`", f"[symbols]({SITE}/notation.html)"),
        ("{ref}`here`", f"[A heading]({SITE}/small/page.html#here)"),
        ("{ref}`sizes <sizes>`", f"[sizes]({SITE}/notation.html#sizes)"),
        ("{numref}`part %s <here>`", f"[part]({SITE}/small/page.html#here)"),
        ("{eq}`second`", f"[(2)]({SITE}/small/page.html#equation-second)"),
        ("a {term}`KV\ncache`", f"a [KV cache]({SITE}/glossary.html#term-KV-cache)"),
        ("{term}`keys <key>`", f"[keys]({SITE}/glossary.html#term-key)"),
        ("{abbr}`KV (key and value)`", "KV (key and value)"),
        ("{math}`a_1`", "$a_1$"),
        ("x{sub}`1`", "x<sub>1</sub>"),
        ("{code}`a`", "`a`"),
        ("{glue:text}`weight`", "0.6457"),
        ("{glue:text}`weight:.2f` of it", "0.65 of it"),
        ("> {math}`a`\n> b", "> $a$\n> b"),
        ("| {math}`a` | `{b}` |", "| $a$ | `{b}` |"),
        ("[there](../notation.md) [here](page.ipynb)", f"[there]({SITE}/notation.html) [here]({SITE}/small/page.html)"),
        ("[](../notation.md#sizes)", f"[Notation]({SITE}/notation.html#sizes)"),
        ("[`f`](../../src/code.py)", "[`f`](https://github.com/someone/a-book/blob/main/src/code.py)"),
        ("[x](#sizes)", f"[x]({SITE}/notation.html#sizes)"),
        ("[x](https://x.org/a.md) <https://x.org>", "[x](https://x.org/a.md) <https://x.org>"),
    ],
)
def test_roles_and_links(convert, text, expected):
    assert convert(text, weight="0.6457") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text\n\n:::{mermaid}\nx\n:::", "page:3: the directive 'mermaid' has no plain form"),
        ("::::{note}\n:::{mermaid}\n:::\n::::", "page:2: the directive 'mermaid' has no plain form"),
        ("text\n\nmore {kbd}`x`", "page:3: the role 'kbd' has no plain form"),
        ("{py:func}`x`", "page:1: 'x' is not in the API reference"),
        (":::{note}\nOne.", "page:1: `:::{note}` is not closed"),
        ("text\n:::", "page:2: `:::` opens no directive"),
        ("text\n```", "page:2: ````` is not closed"),
        ("$$\na\n\ntext", "page:1: the formula that begins with $$ is not closed"),
        ("{cite}`two2002`", "page:1: 'two2002' is not in book/references.bib"),
        ("{doc}`nothing`", "page:1: there is no page 'nothing'"),
        ("{ref}`nothing`", "page:1: there is no label 'nothing'"),
        ("[x](#nothing)", "page:1: there is no label 'nothing'"),
        ("{eq}`here`", "page:1: there is no formula labelled 'here'"),
        ("{glue:text}`nothing`", "page:1: no cell of this page glues 'nothing'"),
        ("```{literalinclude} nothing.py\n```", "page:1: nothing.py cannot be included"),
        (":::{image} a.png\n:::", "page:1: the image a.png has no :alt:"),
        ("![](a.png)", "page:1: the image a.png has no alternative text"),
        ("$$ a $$ (third)", "page:1: there is no formula labelled 'third'"),
    ],
)
def test_what_has_no_plain_form_is_refused_with_its_line(convert, text, message):
    with pytest.raises(Refusal) as refusal:
        convert(text)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("a\n:::{note} b\nc", ":::{note} b"),
        ("> > ```{note}", "```{note}"),
        ("a\n  :::", ":::"),
        ("a {ref}`b` c", "{ref}`b`"),
        ("(label)=\n# A", "(label)="),
        ("$$ a $$ (label)", "$$ a $$ (label)"),
        ("+++", "+++"),
        ("<details><summary>{ref}`a`</summary>\n\nb\n\n</details>", "{ref}`a`"),
    ],
)
def test_leftovers_are_found(text, raw):
    assert leftovers(text) == [raw]


@pytest.mark.parametrize(
    "text", ["`{ref}`", "```\n:::{note}\n{ref}`a`\n```", "> ~~~\n> (a)=\n> ~~~", "$\\text{a}`b`$", "{a}"]
)
def test_code_is_no_leftover(text):
    assert leftovers(text) == []
