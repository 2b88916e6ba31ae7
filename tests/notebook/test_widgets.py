"""Widgets as objects: their words, their markup, and their form with a kernel."""

import gzip
import re
import sys
import types

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.notebook import SoftDictionary
from llm_anatomy.notebook.widgets.base import fixed

KEYS, VALUES = [[1, 0], [0, 1]], [[1, 1], [-1, 1]]
VIEW = "application/vnd.jupyter.widget-view+json"


def soft_dictionary(**changes):
    return SoftDictionary(**{"keys": KEYS, "values": VALUES} | changes)


@pytest.fixture
def kernel(monkeypatch):
    """As in a notebook that a reader runs."""
    monkeypatch.delenv("LLM_ANATOMY_STATIC")


@pytest.mark.syllabus("UCL-17")
@pytest.mark.parametrize("query", [(1, 0), (0.8, 0.2)])
def test_hard_lookup_gives_the_lectures_value(query):
    assert soft_dictionary().look_up(query, 0)[1:] == ([1, 0], [1, 1])


@pytest.mark.syllabus("UCL-18")
def test_soft_lookup_gives_the_lectures_numbers():
    scores, weights, output = soft_dictionary().look_up((0.8, 0.2), 1)
    assert scores == pytest.approx([0.8, 0.2])
    assert weights == pytest.approx([0.6456563, 0.3543437], abs=1e-6)
    assert output == pytest.approx([0.2913126, 1], abs=1e-6)


@pytest.mark.syllabus("UCL-18")
def test_a_longer_query_and_a_lower_temperature_approach_the_hard_lookup():
    longer, colder = soft_dictionary().look_up((8, 2), 1), soft_dictionary().look_up((0.8, 0.2), 0.1)
    assert longer[1] == pytest.approx(colder[1])
    assert longer[2] == pytest.approx([1, 1], abs=0.01)


def test_words_are_rounded_and_complete():
    assert repr(soft_dictionary(query=torch.tensor([0.8, -0.2]))) == (
        "Query (0.80, −0.20) at temperature 1: key 1 has score 0.80 and weight 0.7311; "
        "key 2 has score −0.20 and weight 0.2689; the output is (0.4621, 1.0000)."
    )


@pytest.mark.parametrize(
    "number, written",
    [(-0.00001, "0.0000"), (-0.5, "−0.5000"), (0.64566, "0.6457"), (2, "2.0000"), (0.03125, "0.0313")],
)
def test_numbers_are_written_as_on_the_page(number, written):
    assert fixed(number, 4) == written


def test_static_form_is_markup_and_words_and_always_the_same():
    bundle = soft_dictionary(caption="Look.")._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle == soft_dictionary(caption="Look.")._repr_mimebundle_()
    keys = {w.html().split('data-la="')[1][:13] for w in (soft_dictionary(), soft_dictionary(query=(0, 1)))}
    assert len(keys) == 2


def test_markup_asks_nobody_and_is_light():
    page = soft_dictionary().html()
    assert re.findall(r"https?://[\w./]+", page) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert not re.search(r"\b(src|href)=|url\(|@import|fetch\(|import\(", page)
    assert len(page) < 14_000
    assert len(gzip.compress(page.encode())) < 5_300


def test_markup_holds_what_the_caption_says_and_nothing_of_it():
    page = soft_dictionary(caption="</script><b>x").html()
    assert "&lt;/script&gt;&lt;b&gt;x" in page
    assert page.count("</script>") == 2


def test_with_a_kernel_there_is_one_live_control(kernel):
    widget = soft_dictionary()
    first, second = widget._repr_mimebundle_(), widget._repr_mimebundle_()
    assert set(first) == {VIEW, "text/html", "text/plain"}
    assert first[VIEW] == second[VIEW]


def test_in_colab_the_control_stands_alone(kernel, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    assert set(soft_dictionary()._repr_mimebundle_()) == {VIEW, "text/plain"}


def test_live_control_computes_what_the_page_cannot_reach():
    x, y, temperature, keys, values, image, words, caption = soft_dictionary(caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    x.value, y.value = 50.0, -3.0
    temperature.value = 2.5
    assert words.value == soft_dictionary(query=(50, -3), temperature=2.5).text()
    assert bytes(image.value) != before
    values.value = "[[1, 1], [-1, 1], [0, 4]]"
    assert words.value == "2 keys cannot have 3 values; each key needs one value"
    keys.value = "[[1, 0], [0, 1], [20, 20]]"
    assert "key 3 has score 940.00 and weight 1.0000" in words.value
    keys.value = "[[1, 0], [0"
    assert "it must be written like [[1, 0], [0, 1]]" in words.value
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"keys": [[1, 0, 3], [0, 1, 2]]}, r"keys\[0\]=\[1, 0, 3\]; it must be two numbers, x and y"),
        ({"keys": []}, r"keys=\[\]; it must be a non-empty list of points"),
        ({"values": [[1, 1]]}, "2 keys cannot have 1 values; each key needs one value"),
        ({"values": [[1, 1], ["a", 1]]}, r"values\[1\]='a'; it must be a finite number"),
        ({"query": 0.8}, "query=0.8; it must be two numbers, x and y"),
        ({"query": (0.8, float("inf"))}, "query=inf; it must be a finite number"),
        ({"temperature": -1}, "temperature=-1.0; it must be 0 for the hard lookup, or at least 0.001"),
    ],
)
def test_soft_dictionary_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        soft_dictionary(**changes)
