"""What the lectures name: each answer exists and is true, in the package and in the book."""

import csv
from functools import cache
from itertools import groupby

import pytest

from bookbinder import ROOT
from bookbinder.lecture_pages import answers, named_systems
from bookbinder.reference import Reference
from bookbinder.syllabus import collect, system_problems
from llm_anatomy.models.checkpoints import families
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.presets import preset, presets

with (ROOT / "src/llm_anatomy/data/named_systems.csv").open(newline="", encoding="utf-8") as lines:
    SYSTEMS = list(csv.DictReader(lines))
BUILT = ("models.transformer.Transformer", "models.block.ParallelBlock")


@cache
def book():
    return collect(ROOT)


def of(system, column):
    return system[column].split()


def can_be_built(name):
    try:
        return bool(preset(name))
    except ValueError:
        return False


def can_hold(family, name):
    config = preset(name)
    try:
        return isinstance(config, family.config_class) and bool(family.hf_config(config))
    except ValueError:
        return False


def test_there_are_214_in_eleven_groups():
    assert [system["number"] for system in SYSTEMS] == [str(number) for number in range(1, 215)]
    assert len([*groupby(SYSTEMS, lambda system: system["group"])]) == 11
    assert len({(system["group"], system["name"]) for system in SYSTEMS}) == 214


def test_each_has_an_answer_that_exists():
    assert book().systems == SYSTEMS and system_problems(book()) == []


def test_each_class_and_function_is_in_the_reference():
    reference = Reference(ROOT)
    for name in {name for system in SYSTEMS for name in of(system, "code")}:
        assert not reference.objects[f"llm_anatomy.{name}"].is_module, name


def test_the_variants_are_the_rows_of_the_table():
    rows = [system for system in SYSTEMS if system["modification"]]
    assert [system["modification"] for system in rows] == [*MODIFICATIONS] and len(rows) == 52
    assert all(system["code"] == "models.modifications.MODIFICATIONS" for system in rows)
    for system in rows:
        title = MODIFICATIONS[system["modification"]].title.partition(",")[0]
        assert system["name"].casefold().replace("-", " ") == title.casefold()


def test_a_preset_is_closed_or_can_be_built_as_the_row_says():
    for system in SYSTEMS:
        for name in of(system, "presets"):
            assert name in presets(), name
            if system["note"].startswith("Closed"):
                assert not system["code"] and not can_be_built(name), name
            elif set(of(system, "code")) & {*BUILT}:
                assert can_be_built(name), name


def test_released_weights_fit_one_of_the_presets():
    known = families()
    for system in SYSTEMS:
        for name in of(system, "weights"):
            assert name in known, name
        if system["weights"] and system["presets"]:
            pairs = [(known[family], name) for family in of(system, "weights") for name in of(system, "presets")]
            assert any(can_hold(family, name) for family, name in pairs), system["name"]


def test_the_page_counts_what_it_shows():
    page = named_systems(book())
    terms = [line for line in page.splitlines() if line.startswith("**") and "names have code" not in line]
    assert len(terms) == 214
    n = sum(bool(system["code"]) for system in SYSTEMS)
    assert page.startswith(f"**{n} of 214 names have code in the package.**") and page.count(": *Code:* ") == n


@pytest.mark.parametrize("number, chapter", [("56", "3: "), ("96", "12: "), ("58", "11: ")])
def test_a_section_is_named_with_its_chapter(number, chapter):
    said = answers(book(), SYSTEMS[int(number) - 1])["Chapter"]
    assert said.startswith(chapter) and ".html#sec-" in said
