"""Predict, then reveal."""

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
    assert bundle["text/html"].count("</script>") == 2
    assert "Since &lt;it&gt; shrinks." in bundle["text/html"]  # for a page without scripts


def test_live_choice_is_made_before_the_answer_shows():
    _, radio, button, outcome = prediction().live().children
    assert radio.value is None and button.disabled and not outcome.value
    radio.value = "More."
    assert not button.disabled and not outcome.value
    button.click()
    assert outcome.value == "Your guess: More. Answer: Less. Since &lt;it&gt; shrinks."
    assert radio.disabled and button.disabled


def test_live_estimate():
    _, slider, button, outcome = estimate().live().children
    slider.value = 1.5
    assert not outcome.value
    button.click()
    assert outcome.value == "Your guess: 1.50 s. Answer: 0.65 s. "


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"question": ""}, "question=''; it must be words"),
        ({"choices": ["More."]}, r"choices=\['More.'\]; there must be at least two, all different"),
        ({"choices": ["More.", "More."]}, "there must be at least two, all different"),
        ({"choices": ["More.", " "]}, r"choices\[1\]=' '; it must be words"),
        ({"answer": 2}, "answer=2; it must be the position of the right choice, 0 to 1"),
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
