"""Reports of a class: hostile names stay text in every place, and the numbers are those of the records."""

import csv
import hashlib
import io
import re
import resource
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from groundwork import Refusal
from llm_grader import attempts, class_statistics, reports, tables
from llm_grader.journal import Entry, key_version
from llm_grader.records import GRADED, NEEDS_ATTENTION, NOT_GRADED, Mark, Question, SubmissionResult
from llm_grader.students import Student

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    '</title></style></main><a href="javascript:alert(1)">Ada',
    "{{ run }}{% raw %}",
    '=HYPERLINK("http://example.org")',
    "../../x",
    "/etc/passwd",
    "..",
    "",
    "CON",
    "Ada\u202egnp.html",
    "x" * 300,
    "Ada\udc80\udcff",
    "Ada\nBo\r\n=1+1",
    "Ada\0Bo",
    "José 张伟 محمد",
]
FORMULAS = [
    *(
        "=1+1",
        "+1",
        "-1",
        "@SUM(1)",
        "  =1+1",
        "\u00a0=1",
        "\u3000=1",
        "\u200b=1",
        "\u200d=1",
        "\ufeff=1",
        "\uff1d1+1",
        "\uff20x",
    ),
    *(
        "\ufe66=1",
        "\uff0b1",
        "\ufe62\u200b1",
        "\uff0d1",
        "\u22121",
        "\t=1",
        "\r=1",
        "\n=1",
        "\v=1",
        "=cmd|' /C calc'!A0",
    ),
    *("a;=1+1", "a,=1+1", 'a";=1+1', "a;\t=1", "a\t=1", "a\n=1", "-"),
]


def question(name, points):
    sentences = {"wrong_axis": "Look at the axis.", "key_not_value": "You return the key."}
    return Question(
        *(f"course/{name}", f"The {name}", name, ["x"], points, 2.0, f"exercise-{name}", "", [], {}),
        **{
            "solution": "SOLUTION",
            "hidden": "HIDDEN",
            "dtype": "",
            "given": "",
            "mistakes": "MISTAKES",
            "sentences": sentences,
        },
        **{"checks": "", "probes": "PROBES", "observed": False, "calls": False, "gradients": False, "version": "v1"},
    )


TABLES = ("marks", "statistics", "audit", "canvas", "moodle")
QUESTIONS = [question("one", 1.0), question("two", 3.0)]
RUN = reports.RunInfo(
    "python -m llm_grader grade in/ --out marks/",
    *("0123abcd", "g2", datetime(2026, 1, 2, 3, 4, tzinfo=UTC), 61.4, 2, "bubblewrap"),
    [("opens a socket", True, "refused"), ("reads the key", True, "not there")],
    "The names are those of Canvas.",
    ["course/two, case 3: a constant answers it."],
)


def graded(student, one=1.0, two=0.0, mistake=None, **others):
    marks = [
        Mark("course/one", one, 1.0, "right" if one else "not attempted", {"values": one}, None, "A sentence."),
        Mark("course/two", two, 3.0, "right" if two else "wrong values", {"a_probe": two / 3}, mistake, "It differs."),
    ]
    facts = {"file": f"{student}/a.ipynb", "digest": student, "status": GRADED, "marks": marks} | others
    return SubmissionResult(student, **facts)


def attention(student="Cy", reason="This is a web page, not a notebook."):
    return SubmissionResult(student, f"{student}/a.ipynb", "c", NEEDS_ATTENTION, reason)


def failed(student="Dee"):
    return SubmissionResult(student, f"{student}/a.ipynb", "d", NOT_GRADED, "Slot 7 of the sandbox broke.")


class Page(HTMLParser):
    """The elements of a page with their attributes, and its visible text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    @property
    def skeleton(self):
        """What stays the same whatever is filled in."""
        return [(tag, {k: v for k, v in a.items() if k not in ("href", "id")}) for tag, a in self.elements]


def known_by_name(records):
    return {record.student: Student(record.student) for record in records}


def write(out, records, questions=QUESTIONS, run=RUN, title="The course", students=None, history=()):
    """The paths of the feedback pages in the order of the records, and of the summary."""
    students = known_by_name(records) | (students or {})
    paths = reports.write(out, title, questions, records, run, students, list(history))
    assert [path.name for path in paths[:5]] == [f"{name}.csv" for name in TABLES]
    return paths[5:]


def pages(out, records, **others):
    """The feedback pages in the order of the records, and the summary."""
    return [Page(path.read_text(encoding="utf-8")) for path in write(out, records, **others)]


def table(out):
    return list(csv.DictReader(io.StringIO((out / "marks.csv").read_text(encoding="utf-8-sig"), newline="")))


# The table


def test_the_table_has_a_row_for_each_student_and_its_numbers(tmp_path):
    record = graded("Ada", 1.0, 2.000049, notes=["One note.", "Another."])
    write(tmp_path, [record, attention(), failed()])
    assert table(tmp_path)[0] == {
        **{"student": "Ada", "name": "Ada", "id": "", "status": "graded", "points": "3", "possible": "4"},
        **{"course/one": "1", "course/two": "2", "file": "Ada/a.ipynb", "reason": "", "notes": "One note. Another."},
    }
    assert [row["status"] for row in table(tmp_path)] == ["graded", "needs attention", "not graded"]
    assert table(tmp_path)[1]["reason"] == "This is a web page, not a notebook."


def test_points_of_what_is_not_graded_are_empty_and_a_zero_is_a_zero(tmp_path):
    write(tmp_path, [graded("Ada", 0.0, 0.0), attention(), failed()])
    columns = ("points", "course/one", "course/two")
    assert [[row[name] for name in columns] for row in table(tmp_path)] == [["0"] * 3, [""] * 3, [""] * 3]


def test_excel_is_told_the_encoding_and_numbers_are_numbers(tmp_path):
    write(tmp_path, [graded("José", 1.0, 1.5)])
    assert (tmp_path / "marks.csv").read_bytes().startswith('\ufeff"student"'.encode())
    assert '"José","José","","graded",2.5,4,1,1.5,' in (tmp_path / "marks.csv").read_text(encoding="utf-8")


def marks_csv(questions, records):
    return tables.marks_csv(questions, records, known_by_name(records))


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_can_become_a_formula(formula, separator):
    questions = [replace(QUESTIONS[0], id=formula)]
    record = graded(formula, file=formula, reason=formula, notes=[formula])
    rows = list(csv.reader(io.StringIO(marks_csv(questions, [record]), newline=""), delimiter=separator))
    assert len(rows) == 2
    cells = [cell.strip('\ufeff\u200b\u200d \u3000"') for row in rows for cell in row]
    assert not [cell for cell in cells if re.match(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\u2212]", cell)]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_one_row_of_visible_characters(name):
    rows = list(csv.DictReader(io.StringIO(marks_csv(QUESTIONS, [graded(name)]), newline="")))
    assert len(rows) == 1
    student = rows[0]["student"]
    student.encode()
    assert student.isprintable()
    assert student.removeprefix("'") == tables.escape_invisible(name)


def test_what_cannot_be_seen_is_written_out_and_the_rest_stays():
    assert (
        tables.escape_invisible("a\nb\0c\u202ed\udc80e\u2028\u2029f\U000e0041")
        == "a\\nb\\x00c\\u202ed\\udc80e\\u2028\\u2029f\\U000e0041"
    )
    for name in ("José 张伟 محمد", "क्\u200dष", "👩\u200d💻"):
        assert tables.escape_invisible(name) == name


# Statistics, the audit trail, and marks for learning platforms


def rows(out, name):
    """The rows of a table, as the platform or the person reads it."""
    text = (out / f"{name}.csv").read_text(encoding="utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


def test_the_statistics_say_how_many_made_what_of_each_question(tmp_path):
    records = [
        *(graded("Ada", 1.0, 3.0), graded("Bo", 1.0, 1.5, "key_not_value"), graded("Cy", 0.0, 0.0, "wrong_axis")),
        *(graded("Dee", 1.0, 0.0, "wrong_axis"), attention("Eve"), failed("Flo")),
    ]
    write(tmp_path, records)
    assert rows(tmp_path, "statistics") == [
        ["question", "title", "kind", "name", "students", "share", "sentence"],
        ["course/one", "The one", "mean", "share of the points", "", "0.75", ""],
        ["course/one", "The one", "result", "all points", "3", "0.75", ""],
        ["course/one", "The one", "result", "some points", "0", "0", ""],
        ["course/one", "The one", "result", "no points", "0", "0", ""],
        ["course/one", "The one", "result", "no answer", "1", "0.25", ""],
        ["course/two", "The two", "mean", "share of the points", "", "0.375", ""],
        ["course/two", "The two", "result", "all points", "1", "0.25", ""],
        ["course/two", "The two", "result", "some points", "1", "0.25", ""],
        ["course/two", "The two", "result", "no points", "2", "0.5", ""],
        ["course/two", "The two", "result", "no answer", "0", "0", ""],
        ["course/two", "The two", "error", "wrong values", "2", "0.5", ""],
        ["course/two", "The two", "error", "right", "1", "0.25", ""],
        ["course/two", "The two", "known mistake", "wrong_axis", "2", "0.5", "Look at the axis."],
        ["course/two", "The two", "known mistake", "key_not_value", "1", "0.25", "You return the key."],
    ]


PEOPLE = {
    "ada_7": Student("Ada Byron", "Canvas", "7", "s-1"),
    "Bo_8_assignsubmission_file_": Student("Bo", "Moodle", "8"),
    "cy": Student("Cy", id="=1+1", login="cy@example.org"),
    "42": Student("dee", "nbgrader", "42"),
    "eve_9": Student("Eve", "Canvas", "9", "s-9"),
    "flo": Student("flo"),
}
OF_PEOPLE = [
    graded("ada_7", 1.0, 1.5),
    *(graded(name) for name in list(PEOPLE)[1:4]),
    attention("eve_9"),
    failed("flo"),
]


def test_canvas_gets_its_columns_and_an_empty_cell_for_what_is_not_graded(tmp_path):
    write(tmp_path, OF_PEOPLE, students=PEOPLE)
    assert rows(tmp_path, "canvas") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "The course"],
        ["    Points Possible", "", "", "", "", "4"],
        ["Ada Byron", "7", "s-1", "", "", "2.5"],
        ["Bo", "", "", "", "", "1"],
        ["Cy", "", "'=1+1", "cy@example.org", "", "1"],
        ["dee", "", "", "42", "", "1"],
        ["Eve", "9", "s-9", "", "", ""],
        ["flo", "", "", "flo", "", ""],
    ]
    assert (tmp_path / "canvas.csv").read_bytes().startswith(b'"Student"')  # Canvas reads no mark before a quote


def test_moodle_gets_an_identifier_and_no_row_for_what_is_not_graded(tmp_path):
    write(tmp_path, OF_PEOPLE, students=PEOPLE)
    time = "2026-01-02 03:04:00+00:00"
    assert rows(tmp_path, "moodle") == [
        ["Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)"],
        ["s-1", "Ada Byron", "2.5", "4", time],
        ["Participant 8", "Bo", "1", "4", time],
        ["'=1+1", "Cy", "1", "4", time],
        ["42", "dee", "1", "4", time],
    ]


def test_moodle_gets_no_row_for_what_lay_in_its_download_under_another_name(tmp_path):
    stray = {**PEOPLE, "42": Student("by mail", "Moodle")}
    write(tmp_path, OF_PEOPLE, students=stray)
    assert "by mail" not in [row[1] for row in rows(tmp_path, "moodle")]
    assert "by mail" in [row[1] for row in rows(tmp_path, "marks")]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("separator", [",", ";"])
def test_no_cell_for_a_platform_or_of_the_history_can_become_a_formula(formula, separator):
    record = graded(formula, file=formula, reason=formula, digest=formula)
    people = {formula: Student(formula, "Canvas", formula, formula, formula)}
    questions = [replace(QUESTIONS[0], id=formula, title=formula, sentences={})]
    found = class_statistics.of_class(questions, [record])
    for text in (
        tables.canvas_csv(formula, questions, [record], people),
        tables.moodle_csv(questions, [record], people, RUN.started),
        tables.audit_csv([Entry(1, formula, record, {formula: formula})], questions, {formula}),
        tables.statistics_csv(found),
    ):
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            cells = [cell.strip('\u200b\u200d \u3000"') for cell in row]
            assert not [c for c in cells if re.match(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\u2212]", c)]


def test_the_audit_trail_says_who_was_graded_when_on_what_and_how(tmp_path):
    first, again = b"{}", b"{ }"
    digests = [hashlib.sha256(data).hexdigest() for data in (first, again)]
    assert attempts.keep(tmp_path, again).read_bytes() == again
    before = graded("Ada", 1.0, 0.0, digest=digests[0])
    gone = replace(before.marks[1], question="course/gone", grader="g1")
    marks = [replace(before.marks[0], grader="g1"), gone]
    now = graded("Ada", 1.0, 3.0, digest=digests[1])
    versions = {"course/one": "v1", "course/two": "v1"}
    history = [
        Entry(1, "", replace(before, marks=marks), {"course/one": "v0"}),
        Entry(2, "2026-01-02T03:04:05+01:00", attention("Ada"), versions),
        Entry(
            3, "2026-01-02T03:05:00+01:00", replace(now, marks=[marks[0], replace(now.marks[1], grader="g2")]), versions
        ),
    ]
    write(tmp_path, [now], history=history)
    assert rows(tmp_path, "audit") == [
        [
            *("row", "time", "student", "status", "points", "possible", "course/one", "course/two", "course/gone"),
            *("file", "sha256", "kept as", "key", "grader", "reason"),
        ],
        [
            *("1", "", "Ada", "graded", "1", "4", "1", "", "0", "Ada/a.ipynb", digests[0], ""),
            *(key_version({"course/one": "v0"}), "g1", ""),
        ],
        [
            *("2", "2026-01-02T03:04:05+01:00", "Ada", "needs attention", "", "", "", "", "", "Ada/a.ipynb", "c", ""),
            *(key_version(versions), "", "This is a web page, not a notebook."),
        ],
        [
            *("3", "2026-01-02T03:05:00+01:00", "Ada", "graded", "4", "4", "1", "3", "", "Ada/a.ipynb", digests[1]),
            *(f"attempts/{digests[1]}.ipynb", key_version(versions), "g1 g2", ""),
        ],
    ]


def test_an_attempt_is_kept_byte_for_byte_under_its_hash_and_mended(tmp_path):
    data = b"\x00not even\r\na notebook\xff"
    path = attempts.keep(tmp_path / "marks", data)
    assert path == tmp_path / "marks" / "attempts" / f"{hashlib.sha256(data).hexdigest()}.ipynb"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    path.write_bytes(b"changed")
    attempts.keep(tmp_path / "marks", data)
    attempts.keep(tmp_path / "marks", b"another")
    assert path.read_bytes() == data and len(attempts.kept(tmp_path / "marks")) == 2


# Feedback pages


def test_what_waits_for_the_values_is_withheld_and_not_zero(tmp_path):
    feedback = "2 of 5 hidden cases are right; cases that can be guessed do not count."
    shares = {"values": 0.4, "shape": 0.0, "arguments left alone": 0.0, "a_probe": 0.0}
    mark = Mark("course/two", 0.72, 3.0, "wrong values", shares, None, feedback)
    done = replace(mark, criteria=shares | {"values": 1.0, "shape": 1.0})
    page, other, _ = pages(tmp_path, [graded("Ada", marks=[mark]), graded("Bo", marks=[done])])
    withheld = "withheld until all values are right: shape, arguments left alone, a probe."
    assert f"Score of each criterion: values 40 %; {withheld}" in page.text
    assert "shape 0 %" not in page.text and feedback in page.text
    assert "Score of each criterion: values 100 %, shape 100 %, arguments left alone 0 %, a probe 0 %." in other.text


def test_the_marks_of_a_submission_that_is_not_graded_to_the_end_are_not_shown(tmp_path):
    halfway = replace(failed("Dee"), marks=graded("Dee").marks[:1])
    page, _ = pages(tmp_path, [halfway])
    assert "this is not a zero" in page.text and "of 1 points" not in page.text
    assert [table(tmp_path)[0][name] for name in ("points", "course/one", "course/two")] == [""] * 3


def test_a_student_is_called_by_name(tmp_path):
    page, *_, summary = pages(tmp_path, OF_PEOPLE, students=PEOPLE)
    assert "Ada Byron file: ada_7/a.ipynb" in page.text and "Ada Byron graded 2.5 Bo graded 1" in summary.text


def test_names_of_pages_are_safe_and_differ():
    twins = ["José", "Jose", "JOSE", "jose", "J.o.s.e", "Jose\u0301", "x" * 301, "Ada\udc81\udcff"]
    names = [reports.page_name(name) for name in HOSTILE + twins]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]{,60}\.html", name) for name in names)


def test_every_page_lies_in_its_folder_and_the_summary_links_to_it(tmp_path):
    out = tmp_path / "marks"
    paths = write(out, [graded(name) for name in HOSTILE])
    assert sorted(p for p in tmp_path.rglob("*.html") if p.is_file()) == sorted(paths)
    assert sorted(p.name for p in out.glob("*.csv")) == sorted(f"{name}.csv" for name in TABLES)
    assert {p.parent for p in paths[:-1]} == {out / "feedback"}
    links = {a["href"] for tag, a in Page((out / "summary.html").read_text()).elements if tag == "a"}
    assert links == {f"feedback/{p.name}" for p in paths[:-1]}


def test_hostile_text_adds_no_element_to_any_page(tmp_path):
    plain = [graded("Ada", 1, 0, "wrong_axis"), graded("Bo", digest="Ada"), attention(), failed()]
    plain = [replace(record, flags=["A flag."], notes=["A note."]) for record in plain]
    expected = [page.skeleton for page in pages(tmp_path, plain)]
    for name in HOSTILE:
        records = [
            replace(
                *(record,),
                **{"student": f"{name}{i}", "file": name or "x", "reason": name, "flags": [name], "notes": [name]},
                marks=[replace(mark, feedback=name or "x") for mark in record.marks],
            )
            for i, record in enumerate(plain)
        ]
        questions = [replace(q, title=name, sentences={"wrong_axis": name}) for q in QUESTIONS]
        run = replace(RUN, command=name, key=name, sandbox=name, uncounted=[name], findings=[(name, True, name)] * 2)
        assert [
            page.skeleton for page in pages(tmp_path, records, questions=questions, run=run, title=name)
        ] == expected


def test_pages_hold_no_script_ask_for_nothing_and_lead_nowhere_else(tmp_path):
    paths = write(tmp_path, [graded("Ada", mistake="wrong_axis"), attention(), failed()])
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"url\(|@import|https?:", text)
        for tag, attributes in Page(text).elements:
            assert tag not in ("script", "link", "img", "iframe", "object", "form", "base")
            assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "style")]
            assert re.match(r"#|feedback/", attributes.get("href", "#"))


def test_pages_are_built_for_all_readers(tmp_path):
    records = [graded("Ada", mistake="wrong_axis", notes=["A note."]), attention(), failed()]
    for page in pages(tmp_path, records):
        tags = [tag for tag, _ in page.elements]
        assert ("html", {"lang": "en"}) in page.elements
        assert tags.count("title") - tags.count("svg") == 1 and tags.count("main") == tags.count("h1") == 1
        levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
        assert all(a.get("scope") in ("col", "row") for tag, a in page.elements if tag == "th")
        assert tags.count("table") == tags.count("caption")
        assert any(a.get("name") == "viewport" for _, a in page.elements)
        ids = [a["id"] for _, a in page.elements if "id" in a]
        assert len(set(ids)) == len(ids)
        assert all(a["href"][1:] in ids for _, a in page.elements if a.get("href", "").startswith("#"))


def test_a_feedback_page_says_what_was_earned_and_why(tmp_path):
    written, _ = write(tmp_path, [graded("Ada", 1.0)])
    assert "<title>Ada · " in written.read_text(encoding="utf-8")
    page, _ = pages(tmp_path, [graded("Ada", 1.0, 2.25, notes=["Two cells; the last counts."])])
    assert "Ada file: Ada/a.ipynb 3.25 of 4 points" in page.text
    assert "The one right, 1 of 1 points A sentence. Score of each criterion: values 100 %." in page.text
    assert "The two right, 2.25 of 3 points It differs. Score of each criterion: a probe 75 %." in page.text
    assert "Two cells; the last counts." in page.text
    dots = [a["class"] for tag, a in page.elements if tag == "span" and "dot" in a.get("class", "")]
    assert dots == ["dot all", "dot part"] * 2


def test_a_feedback_page_without_a_grade_says_so_and_shows_no_points(tmp_path):
    looked_at, broken, _ = pages(tmp_path, [attention(), failed()])
    assert "A person has to look at your submission" in looked_at.text
    assert "This is a web page, not a notebook." in looked_at.text
    assert "The grader failed, not you, and this is not a zero." in broken.text
    assert "Slot 7" not in broken.text
    assert "points" not in looked_at.text.split("A person")[1] + broken.text.split("Your submission")[1]


def test_what_is_for_instructors_is_not_on_feedback_pages(tmp_path):
    record = graded("Ada", mistake="wrong_axis", flags=["FLAG"])
    *paths, summary = write(tmp_path, [record])
    assert "FLAG" in summary.read_text()
    secret = ("FLAG", "SOLUTION", "HIDDEN", "MISTAKES", "PROBES", "bubblewrap", "0123abcd", "opens a socket", "case 3")
    assert not [word for path in paths for word in secret if word in path.read_text()]


# The summary


def test_the_summary_counts_what_the_records_say(tmp_path):
    records = [
        *(graded("Ada", 1.0, 3.0), graded("Bo", 1.0, 1.5, "key_not_value"), graded("Cy", 0.0, 0.0, "wrong_axis")),
        *(graded("Dee", 1.0, 0.0, "wrong_axis"), attention("Eve"), failed("Flo")),
    ]
    *_, page = pages(tmp_path, records)
    assert "6 submissions Status Submissions graded 4 needs attention 1 not graded 1" in page.text
    assert "Mean 1.88 and median 1.75 of 4 points" in page.text
    assert "The one 1 75 % 3 0 0 1 The two 3 38 % 1 1 2 0" in page.text
    assert "The two: wrong axis Look at the axis. 2 50 % The two: key not value You return the key. 1 25 %" in page.text
    assert "The two wrong values 2, right 1" in page.text
    assert "Eve This is a web page, not a notebook." in page.text
    assert "Flo Slot 7 of the sandbox broke." in page.text
    assert "Ada graded 4 Bo graded 2.5 Cy graded 0 Dee graded 1 Eve needs attention Flo not graded The run" in page.text


def test_identical_files_are_named_unless_they_earned_nothing(tmp_path):
    same = [graded("Ada", digest="x"), graded("Bo", digest="x"), graded("Cy", digest="y")]
    *_, page = pages(tmp_path, same)
    assert "handed in identical files: Ada , Bo Students" in page.text
    untouched = [graded("Ada", 0.0, digest="x"), graded("Bo", 0.0, digest="x")]
    *_, page = pages(tmp_path, untouched)
    assert "No two students with points handed in identical files" in page.text


def test_the_summary_says_how_the_run_was_made_and_how_to_repeat_it(tmp_path):
    *_, page = pages(tmp_path, [graded("Ada")])
    assert "Graded on 2026-01-02 03:04 UTC." in page.text
    assert (
        "Grading took 61 seconds with 2 workers. The version of the key is 0123abcd , that of the grader g2 ."
        in page.text
    )
    assert "course/two, case 3: a constant answers it." in page.text
    assert "Sandbox: bubblewrap, which blocked 2 of 2 attacks. Show each attack Attacks that were tried" in page.text
    assert "opens a socket blocked refused reads the key blocked not there" in page.text
    assert "Run the same command: python -m llm_grader grade in/ --out marks/" in page.text


def test_the_summary_says_how_the_folder_was_read_and_who_handed_in_nothing(tmp_path):
    run = replace(RUN, absent=["gil", "<b>hal"])
    *_, page = pages(tmp_path, [graded("Ada")], run=run)
    assert "The names are those of Canvas." in page.text
    assert "In the list of students, but not among the submissions: gil , <b>hal . All submissions" in page.text


def test_the_summary_counts_the_marks_of_earlier_graders(tmp_path):
    def by(student, *graders):
        record = graded(student)
        return replace(record, marks=[replace(m, grader=g) for m, g in zip(record.marks, graders, strict=True)])

    *_, page = pages(tmp_path, [by("Ada", "g2", "g2"), by("Bo", "g2", "g2")])
    assert "earlier version" not in page.text
    *_, page = pages(tmp_path, [by("Ada", "g1", "g2"), by("Bo", "g0", "g1")])
    assert "3 marks were made by an earlier version of the grader: g0 , g1 . The option --regrade" in page.text


def test_a_sandbox_that_did_not_block_or_was_not_tried_is_no_secret(tmp_path):
    *_, page = pages(tmp_path, [], run=replace(RUN, findings=[("opens a socket", False, "it opened")]))
    assert "Some attacks were not blocked." in page.text and "opens a socket not blocked it opened" in page.text
    *_, page = pages(tmp_path, [], run=replace(RUN, sandbox="none", findings=[]))
    assert "Sandbox: none. No attack was tried on the sandbox" in page.text


def test_a_class_of_which_nothing_is_graded_has_a_summary(tmp_path):
    for records in ([], [attention(), failed()]):
        *_, page = pages(tmp_path, records)
        assert f"{len(records)} submissions" in page.text and "No submission is graded." in page.text
        assert "The one 1 – 0 0 0 0" in page.text


def test_no_number_of_the_drawing_is_missing_from_its_description(tmp_path):
    *_, page = pages(tmp_path, [graded("Ada", 1.0, 3.0), graded("Bo", 1.0, 3.0), graded("Cy", 0.0, 1.0)])
    [svg] = [a for tag, a in page.elements if tag == "svg"]
    [title] = [a for tag, a in page.elements if tag == "title" and a]
    assert svg["role"] == "img" and svg["aria-labelledby"] == title["id"]
    assert (
        "Points of 3 graded submissions out of 4 possible points. The highest bar counts 2 and is at full "
        "marks; the lowest result is 1, the highest is 4; 2 earned full marks." in page.text
    )
    assert [tag for tag, _ in page.elements].count("rect") == len(reports.histogram([4, 4, 1], 4)["bars"])


@pytest.mark.parametrize("possible", [0.5, 1, 3, 4, 7, 12, 12.5, 15, 17, 40, 100, 1000])
def test_each_submission_stands_in_one_bar_and_full_marks_alone(possible):
    points = [possible * i / 60 for i in range(61)] + [possible] * 3
    drawn = reports.histogram(points, possible)
    starts = [float(bar["start"]) for bar in drawn["bars"]]
    counts = [bar["count"] for bar in drawn["bars"]]
    assert starts == sorted(starts) and starts[0] == 0 and starts[-1] == possible and 6 <= len(starts) <= 13
    ends = [*starts[1:], float("inf")]
    expected = [sum(start <= round(p, 6) < end for p in points) for start, end in zip(starts, ends, strict=True)]
    assert counts == expected and sum(counts) == 64 and counts[-1] == 4
    top = drawn["ticks"][-1]["count"]
    assert [bar["height"] for bar in drawn["bars"]] == [count / top for count in counts]
    assert 2 <= len(drawn["ticks"]) <= 5 and max(counts) <= top


def test_points_that_rounding_left_just_below_full_are_full(tmp_path):
    almost = 3 * (1 - 1e-12)
    *_, page = pages(tmp_path, [graded("Ada", 1.0, almost)])
    assert "The two 3 100 % 1 0 0 0" in page.text
    assert reports.histogram([12.5 - 1e-12], 12.5)["bars"][-1]["count"] == 1


# Files


def test_writing_again_replaces_the_reports_and_leaves_other_files(tmp_path):
    first = write(tmp_path, [graded("Ada"), attention("Bo")])
    (tmp_path / "feedback" / "mine.txt").write_text("mine")
    again = write(tmp_path, [graded("Ada", 1.0, 3.0), graded("Bo")])
    assert again == first
    assert [row["points"] for row in table(tmp_path)] == ["4", "1"]
    assert "4 of 4 points" in Page(again[0].read_text()).text and "1 of 4 points" in Page(again[1].read_text()).text
    left = Counter(path.suffix for path in tmp_path.rglob("*") if path.is_file())
    assert left == {".csv": 5, ".html": 3, ".txt": 1}


def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(tmp_path):
    write(tmp_path, [graded("Ada")])
    before = (tmp_path / "marks.csv").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(Refusal, match=f"^{tmp_path}/marks.csv cannot be written: File too large\\.$"):
            write(tmp_path, [graded("Bo")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "marks.csv").read_bytes() == before
    assert not list(tmp_path.rglob("*.part"))
    (tmp_path / "taken").write_text("")
    with pytest.raises(Refusal, match=f"^{tmp_path}/taken/marks.csv cannot be written: "):
        write(tmp_path / "taken", [graded("Ada")])
