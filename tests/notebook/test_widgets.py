"""Widgets as objects: their words, their markup, their traits, and the soft dictionary's numbers."""

import gzip
import json
import re
import subprocess
import sys
import types

import pytest
import torch
import traitlets

from llm_anatomy.notebook import SoftDictionary, front_end
from llm_anatomy.notebook.widgets import Choice, Point, Slider, Tick, Widget, base
from llm_anatomy.notebook.widgets.base import fill, fixed

KEYS, VALUES = [[1, 0], [0, 1]], [[1, 1], [-1, 1]]
VIEW = "application/vnd.jupyter.widget-view+json"


def soft_dictionary(query=(0.8, 0.2), temperature=1.0, **changes):
    return SoftDictionary(**{"keys": KEYS, "values": VALUES, "query": query, "temperature": temperature} | changes)


@pytest.fixture
def kernel(monkeypatch):
    """As in a notebook that a reader runs."""
    monkeypatch.delenv("LLM_ANATOMY_STATIC")


@pytest.mark.syllabus("UCL-17")
@pytest.mark.parametrize("query", [(1, 0), (0.8, 0.2)])
def test_hard_lookup_gives_the_lectures_value(query):
    found = soft_dictionary(query, 0).outputs()
    assert (found["weights"], found["output"]) == ([1, 0], [1, 1])


@pytest.mark.syllabus("UCL-18")
def test_soft_lookup_gives_the_lectures_numbers():
    found = soft_dictionary().outputs()
    assert found["scores"] == pytest.approx([0.8, 0.2])
    assert found["weights"] == pytest.approx([0.6456563, 0.3543437], abs=1e-6)
    assert found["output"] == pytest.approx([0.2913126, 1], abs=1e-6)


@pytest.mark.syllabus("UCL-18")
def test_a_longer_query_and_a_lower_temperature_approach_the_hard_lookup():
    longer, colder = soft_dictionary((8, 2)).outputs(), soft_dictionary(temperature=0.1).outputs()
    assert longer["weights"] == pytest.approx(colder["weights"], rel=1e-5)
    assert longer["output"] == pytest.approx([1, 1], abs=0.01)


def test_words_are_rounded_and_complete():
    assert repr(soft_dictionary(torch.tensor([0.8, -0.2]))) == (
        "Query (0.80, −0.20) at temperature 1: key 1 has score 0.80 and weight 0.7311; "
        "key 2 has score −0.20 and weight 0.2689; the output is (0.4621, 1.0000)."
    )


@pytest.mark.parametrize(
    "number, written",
    [(-0.00001, "0.0000"), (-0.5, "−0.5000"), (0.64566, "0.6457"), (2, "2.0000"), (0.03125, "0.0313")],
)
def test_numbers_are_written_as_on_the_page(number, written):
    assert fixed(number, 4) == written


TEMPLATES = {
    "[[{w:.2f} on {t}]]": "0.13 on a, −∞ on b",
    "[[{#} {t}|| and ]]": "1 a and 2 b",
    "{t[1]} of {n}, {t[n]}": "b of 1, b",
    "{n|no|one|many} {far|no|one|many}": "one many",
    "{n|never|first at {far:.1f}}.": "first at 7.5.",
    "{pad} [[{pad:.0f}]]": "",
}


def test_templates_are_filled():
    known = {"w": [0.125, -torch.inf], "t": ["a", "b"], "n": 1, "far": 7.5, "pad": [1.0, torch.nan]}
    for template, expected in TEMPLATES.items():
        if expected:
            assert fill(template, known) == expected
    assert fill("[[{pad:.0f}]]", known) == "1"


def test_static_form_is_markup_and_words_and_always_the_same():
    first, second = soft_dictionary()._repr_mimebundle_(), soft_dictionary()._repr_mimebundle_()
    assert first == second and set(first) == {"text/html", "text/plain"}
    assert front_end.script() not in first["text/html"]  # the page has it, once
    assert len({re.search('data-la="(.*?)"', w.html())[1] for w in (soft_dictionary(), soft_dictionary((0, 1)))}) == 2


def test_the_front_end_asks_nobody_and_is_light():
    module = front_end.module()
    assert re.findall(r"https?://[\w./]+", module) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert not re.search(r"\bsrc=|\bhref=|url\(|@import|fetch\(|import\(|^import ", module, re.MULTILINE)
    assert len(gzip.compress(module.encode())) < 24_000
    lighter = front_end.module(encodes=False)
    assert len(gzip.compress(lighter.encode())) < 20_500 and "ENCODERS = {" in module and "ENCODERS = {" not in lighter
    assert front_end.script("a page") == f'\n<script type="module">\n{lighter}</script>' != front_end.script()
    assert "torch" not in subprocess.run(
        [sys.executable, "-X", "importtime", front_end.__file__], capture_output=True, text=True, check=True
    ).stderr.replace("llm_anatomy", "")  # pages are bound without it


def test_markup_holds_what_the_caption_says_and_nothing_of_it():
    markup = soft_dictionary(caption="</script><b>x").html(alone=False)
    assert "&lt;/script&gt;&lt;b&gt;x" in markup
    assert markup.count("</script>") == 1


def test_with_a_kernel_traits_are_synced(kernel):
    widget = soft_dictionary()
    assert set(widget._repr_mimebundle_()) == {VIEW, "text/html", "text/plain"}
    assert {"query", "temperature", "_spec", "_esm"} <= set(widget.keys)
    assert json.loads(widget._spec)["sentence"] == widget.sentence and "export default" in widget._esm
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), "query")
    widget.query = [0.3, 0.9]
    assert seen == [[0.3, 0.9]] and repr(widget).startswith("Query (0.30, 0.90)")


def test_a_widget_is_traced_once_however_often_it_is_shown(kernel, monkeypatch):
    traced = []
    monkeypatch.setattr(base, "export", lambda *given, export=base.export: traced.append(1) or export(*given))
    widget = Settings()
    widget._repr_mimebundle_()
    widget.token = 2
    assert '"start": 2' in widget.html() and len(traced) == 2  # one for each fixed option


def test_in_colab_the_form_of_the_page_is_shown_until_synced_traits_are_wanted(kernel, monkeypatch):
    asked = []
    output = types.ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: asked.append(True)
    output._widgets = types.SimpleNamespace(_installed_url="")
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    widget = soft_dictionary()
    assert set(widget._repr_mimebundle_()) == {"text/html", "text/plain"} and not asked
    assert front_end.script() in widget.html()
    assert VIEW in widget.sync()._repr_mimebundle_() and asked


class Settings(Widget):
    most = Slider(4, 1, 9)
    at = Slider(2, 1, "most")
    width = Slider(16, values=[4, 16, 64])
    heat = Slider(0.5, 0.0, 1.0, step=0.1)
    token = Choice(["a", "dog", "a"], 1, by_index=True)
    base = Choice([100, 10000], fixed=True)
    masked = Tick(True)
    query = Point([0.5, 0], 1.5)
    sentence = "{token} {token#} {base} {masked|out|in}"

    def compute(self, base, **given):
        return {"total": sum(number.sum().float() for number in given.values()) * base}


def test_controls_are_traits_in_their_order():
    widget = Settings()
    assert list(widget.controls) == ["most", "at", "width", "heat", "token", "base", "masked", "query"]
    assert repr(widget) == "dog 2 100 in"
    assert widget.outputs() == {"total": pytest.approx(100 * (4 + 2 + 16 + 0.5 + 1 + 1 + 0.5))}
    assert len(widget.spec()["graphs"]) == 2


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("most", 2.5, "most=2.5; it must be a whole number from 1 to 9"),
        ("most", True, "most=True; it must be a whole number from 1 to 9"),
        ("at", 5, "at=5; it must be a whole number from 1 to 4"),
        ("width", 8, "width=8; it must be one of 4, 16, 64"),
        ("heat", float("nan"), "heat=nan; it must be a number from 0 to 1"),
        ("token", 3, "token=3; it must be an index from 0 to 2"),
        ("base", 7, "base=7; it must be one of 100, 10000"),
        ("masked", 1, "masked=1; it must be True or False"),
        ("query", [1.6, 0], r"query=\[1.6, 0\]; it must be two numbers from -1.5 to 1.5"),
        ("query", "ab", "query='ab'; it must be two numbers from -1.5 to 1.5"),
    ],
)
def test_a_control_refuses(name, value, allowed):
    widget = Settings()
    before = widget.values()
    with pytest.raises(traitlets.TraitError, match=allowed):
        setattr(widget, name, value)
    assert widget.values() == before


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
