"""Who the students are: from the names of their files, and from a list, which is refused if it is unclear."""

import pytest

from groundwork import Refusal
from llm_grader.records import SubmissionFile
from llm_grader.students import Student, identify, read_list


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ids.csv"


def file(student, **others):
    return SubmissionFile(student, None, **{"entries": [f"{student}.ipynb"]} | others)


CLASS = [
    file("Béla Tóth_123_assignsubmission_file_", name="Béla Tóth", platform="Moodle", number="123"),
    file("anna"),
    file(
        "doejane_7",
        name="doejane",
        platform="Canvas",
        number="7",
        entries=["doejane_7_9_a.ipynb", "doejane_LATE_7_10_b.ipynb"],
    ),
]


def test_without_a_list_the_names_of_the_files_say_who_the_students_are():
    assert identify(CLASS) == (
        {
            "Béla Tóth_123_assignsubmission_file_": Student("Béla Tóth", "Moodle", "123"),
            "anna": Student("anna"),
            "doejane_7": Student("doejane", "Canvas", "7"),
        },
        [],
    )


@pytest.mark.parametrize("start, separator", [("", ","), ("\ufeff", ","), ("", ";")])
def test_a_list_gives_ids_by_folder_file_or_number(path, start, separator):
    rows = [
        "folder,id,Name",
        " anna.ipynb , 0042 , Anna Ádám",
        "123,s-1,",
        "",
        "doejane_LATE_7_10_b.ipynb,s-2,Jane Doe",
        "x,s-3,",
    ]
    path.write_text(start + "\r\n".join(rows).replace(",", separator), encoding="utf-8")
    assert identify(CLASS, path) == (
        {
            "Béla Tóth_123_assignsubmission_file_": Student("Béla Tóth", "Moodle", "123", "s-1"),
            "anna": Student("Anna Ádám", id="0042"),
            "doejane_7": Student("Jane Doe", "Canvas", "7", "s-2"),
        },
        ["x"],
    )


def test_a_decomposed_name_of_a_file_is_the_same_name(path):
    path.write_text("folder,id\nZoë,1\n", encoding="utf-8")
    students, _ = identify([file("Zoë", entries=["Zoe\u0308.ipynb"])], path)
    assert students["Zoë"].id == "1"


def test_students_of_the_same_name_are_told_apart(path):
    path.write_text("folder,id,name\na,1,Ada\nb,2,Ada\nc,3,Bo\n")
    students, _ = identify([file("a"), file("b"), file("c")], path)
    assert [student.name for student in students.values()] == ["Ada (1)", "Ada (2)", "Bo"]
    students, _ = identify([file("Ada_1_", name="Ada", number="1"), file("Ada_2_", name="Ada", number="2")])
    assert [student.name for student in students.values()] == ["Ada (1)", "Ada (2)"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no column folder; it must begin with a header that has the columns folder and id"),
        ("folder;name\nanna;Anna", "has no column id"),
        ("anna,1\nbela,2", "has no column folder"),
        (
            "folder,id,Matrikelnummer\nanna,1,2",
            "has an unknown column 'matrikelnummer'; .* and may have name and login",
        ),
        ("folder,id,id\nanna,1,2", "has two columns id"),
        ("folder,id\nanna,1\nbela", "row 3: there are 1 cells, but the header has 2 columns"),
        ("folder,id\nanna,1\nbela, ", "row 3: the cell id is empty"),
        ("folder,id\nanna,1\n,2", "row 3: the cell folder is empty"),
        ("folder,id\nanna,1\nbela,2\nanna,3", "row 4: the folder anna has a row already"),
        ("folder,id\nanna,1\nbela,1", "row 3: the ID 1 belongs to anna already"),
        ("folder,id\nbela,1", "has no row for Béla Tóth_123_assignsubmission_file_, anna, doejane_7"),
    ],
)
def test_a_list_that_is_unclear_is_refused(path, text, said):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refusal, match=said) as refused:
        identify(CLASS, path)
    assert str(path) in str(refused.value) and str(refused.value).endswith(".")


def test_a_list_that_fits_two_submissions_in_one_row_is_refused(path):
    path.write_text("folder,id\n5,1\n")
    twins = [file("a_5", number="5"), file("b_5", number="5")]
    with pytest.raises(Refusal, match="the row of 5 fits more than one submission"):
        identify(twins, path)


def test_of_many_missing_rows_a_few_are_named(path):
    path.write_text("folder,id\n")
    with pytest.raises(Refusal, match="has no row for s0, s1, s2, s3, s4 and 25 more.$"):
        identify([file(f"s{n}") for n in range(30)], path)


def test_a_list_that_is_no_text_is_refused(path):
    with pytest.raises(Refusal, match="cannot be read: No such file"):
        read_list(path)
    path.write_bytes("folder,id\nZo\u00eb,1".encode("latin-1"))
    with pytest.raises(Refusal, match="is not in UTF-8"):
        read_list(path)
    path.write_text("folder,id\n" + "x" * 200_000 + ",1")
    with pytest.raises(Refusal, match="is not a CSV file"):
        read_list(path)


def test_two_submissions_never_write_into_one_row_of_the_platform():
    files = [file(f"{name}_5", name=name, platform="Moodle", number="5") for name in ("ada", "bob")]
    with pytest.raises(Refusal, match="2 submissions claim the row of Moodle's number 5: ada_5, bob_5. Remove those"):
        identify([*CLASS, *files])
    assert identify([file("ada", number="5"), files[1]])[1] == []
