"""README's table of families: what it says of each is what the tests of this folder prove."""

from pathlib import Path

import pytest
from models.checkpoints import test_bare, test_gguf_files, test_parity, test_texts
from models.checkpoints.cases import CASES

from llm_anatomy.models.checkpoints import families

README = Path(__file__).resolve().parents[3] / "README.md"
BEGIN, END = "<!-- families: written by tests/models/checkpoints/test_readme.py -->", "<!-- end of families -->"
HEAD = ("family", "weights", "without a head", "text", "generation", "GGUF")


def parameters(test):
    """The values with which pytest runs a test."""
    given = [value for mark in test.pytestmark if mark.name == "parametrize" for value in mark.args[1]]
    return [getattr(value, "values", (value,))[0] for value in given]


def of_cases(test):
    return {CASES[name].family for name in parameters(test) if name in CASES}


def columns():
    """For each column, the families of which a test has shown that it holds."""
    fixed = {name: family.fixed for name, family in families().items()}
    equal = of_cases(test_parity.test_logits_equal_theirs)
    generating = of_cases(test_parity.test_greedy_generation_is_theirs_token_for_token)
    gguf = parameters(test_gguf_files.test_logits_and_greedy_tokens_are_those_of_the_converted_model)
    return [
        equal,
        of_cases(test_bare.test_hidden_states_equal_theirs)
        | {name for name in equal if not fixed[name].get("unembedding", True)},  # which have none
        set(parameters(test_texts.test_the_files_of_transformers_class_give_its_ids)),
        {name for name in generating if fixed[name].get("kind") != "encoder"},
        {name.split(",")[0].split()[0] for name in gguf},
    ]


def table():
    shown = columns()
    rows = [HEAD, ("---", *[":-:"] * len(shown))]
    for name, family in families().items():
        classes = ", ".join(f"`{architecture}`" for architecture in family.architectures)
        rows.append((classes, *("✓" if name in column else "–" for column in shown)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


@pytest.mark.syllabus("GT-43", "GT-44")
def test_the_table_of_families_is_what_the_tests_prove():
    found = README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert found == table(), f"write this between the marks in README.md:\n\n{table()}"
