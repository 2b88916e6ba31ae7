"""The lecture map, the errata page and the list of problems, on a repository of three items."""

import pytest

from bookbinder import ROOT, lecture_pages, syllabus
from groundwork import Refusal

ITEMS = """\
id,lecture,title,chapter,chapter_title,errata,disagreements,source
UCL-17,UCLouvain,Numerical dictionary,3,Attention: from a to b,,,
UCL-18,UCLouvain,A soft | dictionary with W^O,3,Attention: from a to b,E-83,,
CMU-09,CMU,Standard heads,4,The Transformer,,,
"""
ERRATA = """\
id,lecture,kind,shown,right,evidence,items
E-32,CMU,formula,no output matrix,$W^O$,,CMU-09
E-83,UCLouvain,numerics,"softmax as $\\frac{a_i}{b_*}$, d_ff | x",subtract *max*,exp(1000).,UCL-18
"""
DISAGREEMENTS = """\
id,topic,positions,the_book,items
D-08,Output matrix,CMU: none.,Include it.,"CMU-09, UCL-18"
D-20,Layout,UCL: columns.,Rows.,UCL-18
"""
CHAPTER = """\
---
kernelspec: {name: python3}
chapter: 3
status: draft
---

# 3. Attention

## A dictionary's *keys* (UCL-17)

```{code-cell}
## not a heading (UCL-18)
```

## Soft lookup by $\\alpha$ (UCL-17, UCL-18)

### Large scores

:::{admonition} Erratum E-83: subtract the maximum
:class: erratum
Text.
:::

```{admonition} Disagreement D-20: rows or columns
:class: disagreement
Text.
```
"""
LAYER = '''\
"""Of the module. UCL-17"""

class Attention:
    """Public (UCL-18)."""

    def forward(self):
        """A method: UCL-18."""

    def _hidden(self):
        """UCL-17: not public."""
'''
TESTS = """\
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.syllabus("UCL-17")]


@pytest.mark.syllabus("UCL-18")
def test_soft():
    pass
"""
EXERCISE = """\
---
title: Hard lookup
items: [UCL-17, UCL-18]
---
Statement.
"""


@pytest.fixture
def book(tmp_path):
    """``write(path, text)`` changes one file of a small repository; returns its root."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
        return tmp_path

    write("src/llm_anatomy/data/syllabus_items.csv", ITEMS)
    write("src/llm_anatomy/data/errata.csv", ERRATA)
    write("src/llm_anatomy/data/disagreements.csv", DISAGREEMENTS)
    write("_config.yml", "repository: {url: 'https://git.example/org/repo', branch: trunk}\n")
    write("book/lecture_map.md", "# Lecture map\n\nIntroduction.\n")
    write("book/errata.md", "# Errata\n")
    write("book/attention/attention.nb.md", CHAPTER)
    write("book/attention/exercises.nb.md", "---\n---\n\n# Exercises\n\n## 1. Hard lookup\n")
    write("src/llm_anatomy/layers/attention.py", LAYER)
    write("tests/layers/test_attention.py", TESTS)
    write("exercises/attention/hard_lookup/exercise.md", EXERCISE)
    return write


def finished(chapter, **header):
    lines = "".join(f"{key}: {value}\n" for key, value in header.items())
    return chapter.replace("status: draft\n", f"status: finished\n{lines}")


def facts(page, number):
    """The lines of one item on a generated page."""
    lines = page.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"**{number}"))
    return lines[start : lines.index("", start)]


def test_each_item_leads_to_its_section_source_test_and_exercise(book, tmp_path):
    page = lecture_pages.page("book/lecture_map", tmp_path)
    code = "https://git.example/org/repo/blob/trunk/"
    assert page.startswith("# Lecture map\n\nIntroduction.\n")
    assert facts(page, "UCL-17") == [
        "**UCL-17** Numerical dictionary",
        """: *Section:* <a href="attention/attention.html#a-dictionary-s-keys-ucl-17">A dictionary's *keys*</a>, """
        """<a href="attention/attention.html#soft-lookup-by-alpha-ucl-17-ucl-18">Soft lookup by $\\alpha$</a>""",
        f': *Source:* <a href="{code}src/llm_anatomy/layers/attention.py#L1"><code>layers.attention</code></a>',
        f': *Test:* <a href="{code}tests/layers/test_attention.py#L3"><code>test_attention.py</code></a>',
        ': *Exercise:* <a href="attention/exercises.html#hard-lookup">Hard lookup</a>',
    ]
    assert facts(page, "UCL-18")[0] == r"**UCL-18** A soft \| dictionary with W\^O"
    links = [f'<a href="{code}src/llm_anatomy/layers/attention.py#L{line}"><code>layers.attention.' for line in (3, 6)]
    assert facts(page, "UCL-18")[2] == (
        f": *Source:* {links[0]}Attention</code></a>, {links[1]}Attention.forward</code></a>"
    )
    assert "test_soft" in facts(page, "UCL-18")[3]


def test_coverage_is_stated_first(book, tmp_path):
    page = lecture_pages.page("book/lecture_map", tmp_path)
    assert page.index("**2 of 3 items are covered**.") < page.index("## ")
    assert "| UCLouvain | 2 | 2 | 0 |" in page and "| CMU | 1 | 0 | 0 |" in page
    assert "is a draft. It covers 2 of its 2 items.\n" in page
    assert "## Chapters to come\n\n- **4** The Transformer: 1 item\n" in page


def test_a_chapter_to_come_says_how_many_of_its_items_have_code_and_tests(book, tmp_path):
    book("src/llm_anatomy/layers/position.py", 'def place():\n    """Where.\n\n    Source: CMU-09.\n    """\n')
    code_without_a_test = lecture_pages.page("book/lecture_map", tmp_path)
    assert "- **4** The Transformer: 1 item\n" in code_without_a_test
    book("tests/layers/test_position.py", 'import pytest\n\n\n@pytest.mark.syllabus("CMU-09")\ndef test_place(): ...\n')
    assert "1 item, 1 with code and tests in the package\n" in lecture_pages.page("book/lecture_map", tmp_path)


def test_what_is_missing_is_to_come_or_has_a_reason(book, tmp_path):
    book("tests/layers/test_attention.py", "")
    reason = "no_entry: {UCL-17: {test: it is a *definition*}}"
    book("book/attention/attention.nb.md", CHAPTER.replace("status: draft", f"status: draft\n{reason}"))
    page = lecture_pages.page("book/lecture_map", tmp_path)
    assert facts(page, "UCL-17")[3] == r": *Test:* — (it is a \*definition\*)"
    assert facts(page, "UCL-18")[3] == ": *Test:* to come"
    assert "**1 of 3 items are covered**, and 1 more is begun." in page


def test_errata_that_a_chapter_treats_stand_in_full(book, tmp_path):
    page = lecture_pages.page("book/errata", tmp_path)
    assert "1 of 2 errata and 1 of 2 disagreements" in page
    assert facts(page, "E-83") == [
        "**E-83:** subtract the maximum",
        r": *In the lecture:* softmax as $\frac{a_i}{b_*}$, d\_ff \| x",
        r": *Correct:* subtract \*max\*",
        ": *Evidence:* exp(1000).",
        ': *Shown in:* chapter 3, <a href="attention/attention.html#large-scores">Large scores</a>',
    ]
    assert facts(page, "D-20")[1:4] == [
        ": *Topic:* Layout",
        ": *In the lectures:* UCL: columns.",
        ": *In this book:* Rows.",
    ]
    assert '### Errata to come\n\n- Chapter 4: <span class="la-whole">E-32</span>\n' in page
    assert '### Disagreements to come\n\n- Chapter 3: <span class="la-whole">D-08</span>\n' in page


def test_a_slip_that_a_finished_chapter_leaves_out_stands_on_the_errata_page_alone(book, tmp_path):
    text = finished(CHAPTER).replace("Erratum E-83", "A slip")
    book("book/attention/attention.nb.md", text)
    page = lecture_pages.page("book/errata", tmp_path)
    assert "0 of 2 errata" in page
    assert facts(page, "E-83")[0] == "**E-83**" and "*Shown in:*" not in "".join(facts(page, "E-83"))
    assert '### Errata to come\n\n- Chapter 4: <span class="la-whole">E-32</span>\n' in page
    book("book/attention/attention.nb.md", text.replace("status: finished", "status: draft"))
    page = lecture_pages.page("book/errata", tmp_path)
    assert "**E-83**" not in page and '- Chapter 3: <span class="la-whole">E-83</span>\n' in page


def test_a_slip_without_evidence_has_no_empty_line(book, tmp_path):
    book("book/attention/attention.nb.md", CHAPTER.replace("Erratum E-83", "Erratum E-32"))
    labels = [line.split(":*")[0] for line in facts(lecture_pages.page("book/errata", tmp_path), "E-32")[1:]]
    assert labels == [": *In the lecture", ": *Correct", ": *Shown in"]


def test_a_draft_says_what_is_to_come(book, tmp_path):
    book("book/attention/attention.nb.md", CHAPTER.replace("(UCL-17, UCL-18)", "(UCL-17)"))
    book("tests/layers/test_attention.py", "")
    note = lecture_pages.draft_note("book/attention/attention", tmp_path)
    assert note.startswith(":::{admonition} This chapter is a draft\n") and note.endswith(":::\n")
    assert "\n- UCL-18 A soft \\| dictionary with W\\^O\n" in note
    assert "what is missing is in brackets: UCL-17 (test)." in note
    assert lecture_pages.draft_note("book/attention/exercises", tmp_path) == ""
    book("book/attention/attention.nb.md", finished(CHAPTER))
    assert lecture_pages.draft_note("book/attention/attention", tmp_path) == ""


def test_a_draft_may_lack_items_and_a_finished_chapter_may_not(book, tmp_path):
    book("exercises/attention/hard_lookup/exercise.md", "---\nitems: UCL-17\n---\n")
    assert syllabus.problems(tmp_path) == []
    book("book/attention/attention.nb.md", finished(CHAPTER))
    (problem,) = syllabus.problems(tmp_path)
    assert problem == (
        "book/attention/attention.nb.md:4: the chapter is finished, but UCL-18 (A soft | dictionary with W^O) "
        "has no exercise, and no_entry gives no reason"
    )
    book("book/attention/attention.nb.md", finished(CHAPTER, no_entry="{UCL-18: {exercise: too short}}"))
    assert syllabus.problems(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("book/attention/attention.nb.md", CHAPTER.replace("(UCL-17, UCL-18)", ""), "section"),
        ("src/llm_anatomy/layers/attention.py", LAYER.replace("UCL-18", ""), "source"),
        ("tests/layers/test_attention.py", TESTS.replace("UCL-18", "UCL-17"), "test"),
        ("exercises/attention/hard_lookup/exercise.md", EXERCISE.replace(", UCL-18", ""), "exercise"),
    ],
)
def test_a_finished_chapter_needs_all_four(book, tmp_path, path, text, kind):
    book("book/attention/attention.nb.md", finished(CHAPTER))
    assert syllabus.problems(tmp_path) == []
    book(path, finished(text))
    (problem,) = syllabus.problems(tmp_path)
    assert f"has no {kind}, " in problem


def test_a_section_counts_in_its_own_chapter(book, tmp_path):
    book("book/transformer/transformer.nb.md", "---\nchapter: 4\nstatus: finished\n---\n\n# 4\n")
    book("book/attention/attention.nb.md", CHAPTER + "\n## On loan (CMU-09)\n")
    assert any("CMU-09 (Standard heads) has no section" in problem for problem in syllabus.problems(tmp_path))


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (
            "book/attention/attention.nb.md",
            CHAPTER + "## X (UCL-99)\n",
            "book/attention/attention.nb.md:28: UCL-99 is not",
        ),
        ("book/attention/exercises.nb.md", "# X\n\n## Y (UCL-7)\n", "book/attention/exercises.nb.md:3: UCL-7 is not"),
        ("src/llm_anatomy/layers/x.py", '\ndef f():\n    "GT-77"\n', "src/llm_anatomy/layers/x.py:2: GT-77 is not"),
        ("tests/test_x.py", '\n@mark.syllabus("UCL-1")\ndef test_x(): pass\n', "tests/test_x.py:2: UCL-1 is not"),
        ("tests/test_x.py", "@mark.syllabus(ID)\ndef test_x(): pass\n", "tests/test_x.py:1: the syllabus marker takes"),
        (
            "exercises/attention/x/exercise.md",
            "---\ntitle: X\nitems:\n  - UCL-98\n---\n",
            "exercises/attention/x/exercise.md:4: UCL-98 is not",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("E-83", "E-84"),
            "book/attention/attention.nb.md:19: Erratum E-84 is not in",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("Erratum E-83", "Erratum D-20"),
            "book/attention/attention.nb.md:19: Erratum D-20 is not in",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("draft", "ready"),
            "book/attention/attention.nb.md:3: status is 'ready', allowed are draft and finished",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("chapter: 3", "chapter: 33"),
            "book/attention/attention.nb.md:3: there is no chapter 33",
        ),
        (
            "book/attention/twin.nb.md",
            "---\nchapter: 3\nstatus: draft\n---\n# X\n",
            "book/attention/twin.nb.md:2: chapter 3 is also book/attention/attention.nb.md",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("status: draft", "status: draft\nno_entry: {CMU-09: {test: x}}"),
            "book/attention/attention.nb.md:5: no_entry names CMU-09, which is not an item of this chapter",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("status: draft", "status: draft\nno_entry: {UCL-17: {tests: x}}"),
            "book/attention/attention.nb.md:5: no_entry of UCL-17 must give a reason for one of",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("status: draft", "status: draft\nno_entry: {UCL-17: {test: }}"),
            "book/attention/attention.nb.md:5: no_entry of UCL-17 must give a reason for one of",
        ),
        (
            "book/attention/attention.nb.md",
            CHAPTER.replace("status: draft", "status: draft\nno_entry: {UCL-17: {test: x}}"),
            "book/attention/attention.nb.md:4: no_entry says why UCL-17 has no test, but it has one: tests/layers",
        ),
    ],
)
def test_each_problem_names_its_place(book, tmp_path, path, text, problem):
    assert syllabus.problems(tmp_path) == []
    book(path, text)
    (found,) = syllabus.problems(tmp_path)
    assert found.startswith(problem)


def test_a_header_that_is_no_yaml_is_refused(book, tmp_path):
    book("book/attention/attention.nb.md", "---\nchapter: [3\n---\n")
    with pytest.raises(Refusal, match="attention.nb.md: the header is not valid YAML"):
        syllabus.problems(tmp_path)


def test_code_that_is_no_python_is_refused(book, tmp_path):
    book("tests/test_x.py", "@pytest.mark.syllabus\ndef f(:\n")
    with pytest.raises(Refusal, match="test_x.py:2: this is not valid Python"):
        syllabus.problems(tmp_path)


def test_a_repeated_heading_leads_to_its_page(book, tmp_path):
    book(
        "book/attention/attention.nb.md",
        CHAPTER.replace("### Large scores", "## Soft lookup by alpha (UCL-17, UCL-18)"),
    )
    where = facts(lecture_pages.page("book/errata", tmp_path), "E-83")[-1]
    assert '<a href="attention/attention.html">' in where


def test_without_an_address_code_is_named_and_not_linked(book, tmp_path):
    book("_config.yml", "title: x\n")
    line = facts(lecture_pages.page("book/lecture_map", tmp_path), "UCL-17")[2]
    assert line == ": *Source:* <code>layers.attention</code>"


def test_this_book_has_no_problems():
    assert syllabus.problems(ROOT) == []


SYSTEM = "number,group,name,items,section,code,presets,modification,weights,tables,note\n"


@pytest.mark.parametrize(
    "row, problem",
    [
        ("Hard lookup,UCL-17,sec-soft,,,,,,", None),
        ("Hard lookup,UCL-17,UCL-17 3,,,,,errata,", None),
        ("Hard lookup,CMU-09,4,,,,,,", None),  # the chapter is not written
        ("Hard lookup,CMU-09,3,,,,,,", None),  # the chapter is a draft
        ("Hard lookup,UCL-17,,,,,,,Closed: no weights.", None),
        ("Hard lookup,UCL-99,sec-soft,,,,,,", "names 'UCL-99', which is not an item of the lectures"),
        ("Hard lookup,UCL-17,sec-hard,,,,,,", "names 'sec-hard', which is not the label of a section, an item or"),
        ("Hard lookup,UCL-17,9,,,,,,", "names '9', which is not the label of a section, an item or a chapter"),
        ("Hard lookup,UCL-17,sec-soft,,,,,erata,", "names 'erata', which is not a table"),
        ("Hard lookup,UCL-17,,,,,,,", "has no answer: name a section, code, a preset or a table"),
    ],
)
def test_each_named_system_has_an_answer_that_exists(book, tmp_path, row, problem):
    book("book/attention/attention.nb.md", CHAPTER.replace("## Soft", "(sec-soft)=\n## Soft"))
    before = syllabus.problems(tmp_path)
    book("src/llm_anatomy/data/named_systems.csv", f"{SYSTEM}1,Lookups,{row}\n")
    found = [line for line in syllabus.problems(tmp_path) if line not in before]
    where = "src/llm_anatomy/data/named_systems.csv:2: row 1 (Hard lookup) "
    assert not found if problem is None else found and all(line.startswith(where + problem) for line in found)


def test_a_finished_chapter_is_no_answer_by_its_number_alone(book, tmp_path):
    book("src/llm_anatomy/data/named_systems.csv", f"{SYSTEM}1,Lookups,Hard lookup,UCL-17,3,,,,,,\n")
    assert not any("has no answer" in line for line in syllabus.problems(tmp_path))
    book("book/attention/attention.nb.md", finished(CHAPTER))
    assert any("row 1 (Hard lookup) has no answer" in line for line in syllabus.problems(tmp_path))


def test_the_page_of_named_systems_says_where_each_works(book, tmp_path):
    book("book/attention/attention.nb.md", CHAPTER.replace("## Soft", "(sec-soft)=\n## Soft"))
    book("book/named_systems.md", "# Named systems\n")
    rows = "1,Lookups,Hard | lookup,UCL-17,sec-soft 4,layers.attention.Attention,gpt,,gpt2,errata,\n"
    rows += "2,Lookups,Bard,CMU-09,4,,,,,,Closed: a*b.\n3,Variants,GELU,CMU-09,,m.ALL,,gelu,,,\n"
    book("src/llm_anatomy/data/named_systems.csv", SYSTEM + rows)
    page = lecture_pages.page("book/named_systems", tmp_path)
    assert "**2 of 3 names have code in the package.** Of the others, 1 waits for a chapter that" in page
    assert "| Lookups | 2 | 1 | 1 |\n| Variants | 1 | 1 | 0 |" in page
    assert facts(page, "1*") == [
        r"**1** Hard \| lookup",
        ": *Items:* UCL-17",
        """: *Chapter:* 3: <a href="attention/attention.html#sec-soft">Soft lookup by $\\alpha$</a>; 4: to come""",
        ": *Code:* {py:obj}`~llm_anatomy.layers.attention.Attention`",
        ": *Presets:* `gpt`",
        ": *Weights:* `gpt2`",
        ": *Tables:* `errata`",
    ]
    assert facts(page, "2*")[1:] == [": *Items:* CMU-09", ": *Chapter:* 4: to come", r": *Note:* Closed: a\*b."]
    assert facts(page, "3*")[2] == ': *Code:* {py:obj}`ALL["gelu"] <llm_anatomy.m.ALL>`'
