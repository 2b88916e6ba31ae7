"""Multiple choice by likelihood: four scores, whose choices may all differ."""

import math

import numpy as np
import pytest
import torch

from llm_anatomy.evaluation.multiple_choice import accuracies, choice_scores, choose, few_shot_prompt

pytestmark = pytest.mark.syllabus("GT-09", "GT-10")
LOG_PROBS = [[-4.0, -6.0, -9.0, -7.5], [-3.0, -2.0, -math.inf, -math.inf]]
N_TOKENS = [[1, 2, 4, 2], [2, 1, 0, 0]]
N_CHARACTERS = [[3, 5, 11, 12], [4, 6, 0, 0]]
ALONE = [[-4.5, -9.0, -9.5, -8.0], [-5.0, -2.0, 0.0, 0.0]]


def test_the_four_scores_are_computed_as_on_paper():
    scores = choice_scores(LOG_PROBS, N_TOKENS, N_CHARACTERS, ALONE)
    assert list(scores) == ["raw", "per_token", "per_character", "unconditional"]
    assert scores["raw"].tolist() == LOG_PROBS
    assert scores["per_token"].tolist() == [[-4, -3, -2.25, -3.75], [-1.5, -2, -math.inf, -math.inf]]
    assert scores["per_character"][0].tolist() == pytest.approx([-4 / 3, -6 / 5, -9 / 11, -7.5 / 12])
    assert scores["unconditional"].tolist() == [[0.5, 3, 0.5, 0.5], [2, 0, -math.inf, -math.inf]]


def test_each_score_may_choose_another_answer():
    scores = choice_scores(LOG_PROBS, N_TOKENS, N_CHARACTERS, ALONE)
    assert {name: choose(score).tolist() for name, score in scores.items()} == {
        "raw": [0, 1],
        "per_token": [2, 0],
        "per_character": [3, 1],
        "unconditional": [1, 0],
    }
    assert accuracies(scores, [3, 1]) == {"raw": 0.5, "per_token": 0, "per_character": 1, "unconditional": 0}


@pytest.mark.parametrize("kind", [np.array, torch.tensor, lambda rows: torch.tensor(rows, dtype=torch.float32)])
def test_arrays_of_any_kind_are_scored(kind):
    scores = choice_scores(kind(LOG_PROBS), kind(N_TOKENS), kind(N_CHARACTERS))
    assert list(scores) == ["raw", "per_token", "per_character"]
    assert accuracies(scores, kind([3, 1]))["per_character"] == 1


def test_the_first_of_equal_choices_is_taken():
    assert choose([[-1.0, -1.0], [-2.0, -1.0]]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([[-1.0, -2.0]], [[1]], [[1, 1]]), r"n_tokens has shape \(1, 1\) and log_probs \(1, 2\)"),
        (([[-1.0, -2.0]], [[1, 1]], [[1, 0]]), "n_characters must be positive"),
        (([-1.0, -2.0], [1, 1], [1, 1]), "log_probs has 1 dimensions; it must have 2"),
        (([[-1.0, -2.0]], [[1, 1]], [[1, 1]], [[1]]), "unconditional has shape"),
    ],
)
def test_shapes_that_do_not_agree_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        choice_scores(*arguments)


def test_scores_without_a_number_and_too_few_answers_are_refused():
    with pytest.raises(ValueError, match="scores has NaN"):
        choose([[math.nan, 1.0]])
    with pytest.raises(ValueError, match="raw has 2 questions"):
        accuracies({"raw": [[0.0, 1.0], [1.0, 0.0]]}, [1])


def test_a_prompt_of_examples_ends_where_the_answer_begins():
    examples = [("2 + 2 = ?", "4"), ("3 + 4 = ?", "7")]
    found = few_shot_prompt(examples, "5 + 1 = ?", instruction="Add.", before_question="Q: ", before_answer="\nA:")
    assert found == "Add.\n\nQ: 2 + 2 = ?\nA: 4\n\nQ: 3 + 4 = ?\nA: 7\n\nQ: 5 + 1 = ?\nA:"
    assert few_shot_prompt([], "5?") == "Question: 5?\nAnswer:"
