"""A prediction's cell as the notebook has it: hidden, and without the answer in plain sight."""

import ast

import pytest

from bookbinder import notebooks, predictions
from llm_anatomy.notebook import Estimate, Prediction

CELL = """\
```{code-cell}
:tags: [prediction, nbval-skip]

less = 1  # größer
Prediction(
    "Größer?", choices=["More.", "Less."], answer=1,
    explanation="Since “it” shrinks, "
    'and "keeps" '
    "shrinking, by 3 °C each time: that is what shrinking means, and nothing else would be called by this name.",
)
```
"""


def cell(book, text):
    return book.page(text).code[0]


def test_the_source_is_hidden_in_colab_and_jupyter(book):
    found = cell(book, CELL)
    assert found.metadata == {
        "tags": ["hide-input", "prediction", "nbval-skip"],
        "cellView": "form",
        "jupyter": {"source_hidden": True},
    }
    assert found.source.startswith("# @title Your prediction\nless = 1  # größer\n")


def test_literals_are_encoded_and_decoded_again(book):
    source = cell(book, CELL).source
    assert not any(words in source for words in ("shrink", "answer=1"))
    assert max(map(len, source.splitlines())) <= 120
    made = eval(compile(ast.Expression(ast.parse(source).body[-1].value), "", "eval"), {"Prediction": Prediction})
    assert made.question == "Größer?" and made.answer == 1
    assert made.explanation.startswith('Since “it” shrinks, and "keeps" shrinking, by 3 °C')
    assert predictions.sealed("Estimate('How much?', answer=-0.5, low=-1, high=1)").count("base64:") == 1
    assert predictions.sealed("nb.Estimate('How much?', answer=-0.5, low=-1, high=1)").count("base64:") == 1
    assert eval(predictions.sealed("Estimate('?', answer=-0.5, low=-1, high=1)"), {"Estimate": Estimate}).answer == -0.5


def test_what_is_computed_stays_as_it_is():
    source = "Prediction('A?', ['a', 'b'], answer=['a', 'b'].index('a'), explanation=f'{2 * x}, twice.')\nf(answer=1)"
    assert predictions.sealed(source) == source


def test_other_cells_stay_as_they_are(book):
    assert cell(book, "```{code-cell}\n:tags: [hide-input]\n\nf(answer=1)\n```\n").metadata == {"tags": ["hide-input"]}


def test_the_notebook_agrees_with_its_text(book):
    page = book.page(CELL)
    book.store(page)
    assert notebooks.problems(page) == []
    assert "shrink" not in page.notebook.read_text()
    other = book.page(CELL.replace("3 °C", "4 °C"))
    assert notebooks.problems(other) == [
        "book/small/page.ipynb: cell 2 is not that of book/small/page.nb.md:10; run `python -m bookbinder notebooks`"
    ]


@pytest.mark.parametrize("kind", ["Prediction", "Estimate"])
def test_a_prediction_without_the_tag_is_refused(book, kind):
    page = book.page(f"```{{code-cell}}\n:tags: [hide-input]\n\n{kind}('?', answer=f(1))\n```\n")
    book.store(page)
    assert notebooks.problems(page) == [
        "book/small/page.nb.md:10: cell 2 asks for a prediction; give it the tag prediction, which keeps the answer "
        "back"
    ]
