"""Predict, then reveal."""

import html
import json

import pytest

from llm_anatomy.notebook import Estimate, Prediction


def prediction(**changes):
    said = {
        "question": "More or less?",
        "choices": ["More.", "Less."],
        "answer": 1,
        "explanation": "Since <it> shrinks.",
    }
    return Prediction(**said | changes)


def estimate(**changes):
    return Estimate(**{"question": "How much?", "answer": 0.6457, "low": 0, "high": 2, "unit": "s"} | changes)


def test_words_do_not_give_the_answer_away():
    assert repr(prediction()) == "More or less?\na) More.\nb) Less."
    assert repr(prediction()) == repr(prediction(answer=0, explanation="Otherwise."))
    assert repr(estimate()) == "How much? (from 0.00 s to 2.00 s)"


def test_static_form_escapes_and_needs_no_kernel():
    bundle = prediction(choices=["</script>", "b"])._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/html"].count("</script>") == 1


@pytest.mark.parametrize("asked", [prediction, lambda: estimate(explanation="Since <it> shrinks.")])
def test_static_form_does_not_show_the_answer_at_a_glance(asked):
    source = asked().html(alone=False)
    assert "shrinks" not in source and "0.65" not in source and '"answer":' not in source
    words = source.split("<summary>Answer</summary>")[1].split("</details>")[0]  # for a page without scripts
    assert html.unescape(words) == f"{asked()._answer()} Since <it> shrinks." and "&#60;" in words


def test_answer_and_explanation_may_be_encoded():
    made = prediction(answer="base64:MQ==", explanation="base64:IlNpbmNlIFx1MjIxMi4i")
    assert (made.answer, made.explanation) == (1, "Since \N{MINUS SIGN}.")
    assert estimate(answer="base64:MC41").answer == 0.5


def test_with_a_kernel_the_front_end_asks_too(monkeypatch):
    monkeypatch.delenv("LLM_ANATOMY_STATIC")
    asked = estimate()
    assert "application/vnd.jupyter.widget-view+json" in asked._repr_mimebundle_()
    assert json.loads(asked._spec) == asked.spec() and asked.spec()["kind"] == "prediction"


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"question": ""}, "question=''; it must be a non-empty string"),
        ({"choices": ["More."]}, r"choices=\['More.'\]; there must be at least two, all different"),
        ({"choices": ["More.", "More."]}, "there must be at least two, all different"),
        ({"choices": ["More.", " "]}, r"choices\[1\]=' '; it must be a non-empty string"),
        ({"answer": 2}, "answer=2; it must be the index of the right choice, 0 to 1"),
        ({"answer": -1}, "answer=-1; it must be"),
        ({"answer": "Less."}, "answer='Less.'; it must be"),
        ({"answer": True}, "answer=True; it must be"),
    ],
)
def test_prediction_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prediction(**changes)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"answer": 3}, "answer=3; it must lie between low=0 and high=2, which must differ"),
        ({"low": 2}, "it must lie between low=2 and high=2"),
        ({"high": "much"}, "high='much'; it must be a finite number"),
    ],
)
def test_estimate_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        estimate(**changes)
