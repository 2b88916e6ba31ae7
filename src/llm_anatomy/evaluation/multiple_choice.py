"""Multiple choice by likelihood: which choice a language model finds most likely, in four scores that differ."""

from collections.abc import Mapping, Sequence

import torch

from llm_anatomy.evaluation._arrays import Array, as_doubles
from llm_anatomy.shapes import Float, Int, Tensor


def choice_scores(
    log_probs: Array, n_tokens: Array, n_characters: Array, unconditional: Array | None = None
) -> dict[str, Float[Tensor, "questions choices"]]:
    r"""Score the choices of multiple-choice questions by their likelihood, in up to four ways.

    .. math:: \log p(c \mid q), \quad \frac{\log p(c \mid q)}{n_\text{tokens}(c)}, \quad
        \frac{\log p(c \mid q)}{n_\text{characters}(c)}, \quad \log p(c \mid q) - \log p(c \mid \text{"Answer:"})

    The first favours short choices, since each token costs. Division by the number of tokens or of characters takes
    that away, and depends on the tokenizer or not. The last asks how much more likely the question makes a choice.

    Args:
        log_probs: sum of the log-probabilities of a choice's tokens after its question, (questions, choices). A
            question with fewer choices than others has -inf in the remaining columns.
        n_tokens: number of tokens of each choice.
        n_characters: number of characters of each choice.
        unconditional: sum of the log-probabilities of a choice's tokens after a prompt that says nothing, such as
            ``"Answer:"``; without it, the fourth score is left out.

    Returns:
        The scores by name: ``raw``, ``per_token``, ``per_character`` and ``unconditional``.

    Raises:
        ValueError: if the shapes differ, or a choice has no tokens or characters.

    Source: Brown et al. (2020), "Language models are few-shot learners", section 2.4; Gao et al., "A framework for
    few-shot language model evaluation", version 0.4, ``acc``, ``acc_norm`` and ``acc_mutual_info``; GT-09.

    >>> scores = choice_scores([[-6.0, -8.0]], [[2, 4]], [[6, 16]], [[-7.0, -8.5]])
    >>> {name: choose(score).tolist() for name, score in scores.items()}
    {'raw': [0], 'per_token': [1], 'per_character': [1], 'unconditional': [0]}
    """
    sums = as_doubles(log_probs, "log_probs", 2)
    lengths = {
        name: as_doubles(values, name, 2) for name, values in (("n_tokens", n_tokens), ("n_characters", n_characters))
    }
    is_choice = sums > -torch.inf
    for name, length in lengths.items():
        if length.shape != sums.shape:
            raise ValueError(
                f"{name} has shape {tuple(length.shape)} and log_probs {tuple(sums.shape)}; they must agree"
            )
        if (length[is_choice] <= 0).any():
            raise ValueError(f"{name} must be positive for each choice")
    scores = {"raw": sums}
    for name, length in (("per_token", lengths["n_tokens"]), ("per_character", lengths["n_characters"])):
        scores[name] = torch.where(is_choice, sums / length.clamp(min=1), sums)
    if unconditional is not None:
        alone = as_doubles(unconditional, "unconditional", 2)
        if alone.shape != sums.shape:
            raise ValueError(f"unconditional has shape {tuple(alone.shape)} and log_probs {tuple(sums.shape)}")
        scores["unconditional"] = torch.where(is_choice, sums - alone, sums)
    return scores


def choose(scores: Array) -> Int[Tensor, "questions"]:
    """Choose for each question the choice with the highest score, the first of several that tie.

    Args:
        scores: (questions, choices).

    Raises:
        ValueError: if a score is NaN.

    Source: Brown et al. (2020), section 2.4; GT-09.

    >>> choose([[0.1, 0.3], [0.5, 0.2]]).tolist()
    [1, 0]
    """
    table = as_doubles(scores, "scores", 2)
    if table.isnan().any():
        raise ValueError("scores has NaN; each choice needs a number, or -inf if it is missing")
    best = table == table.amax(1, keepdim=True)
    return best.int().argmax(1)


def accuracies(scores: Mapping[str, Array], answers: Array) -> dict[str, float]:
    """Compute the share of right choices for each kind of score.

    Args:
        scores: what :func:`choice_scores` returns.
        answers: index of the right choice of each question.

    Raises:
        ValueError: if there is not one answer for each question.

    Source: Gao et al., "A framework for few-shot language model evaluation"; GT-09.

    >>> accuracies({"raw": [[-1.0, -2.0], [-3.0, -1.0]]}, [0, 0])
    {'raw': 0.5}
    """
    right = torch.as_tensor(answers)
    chosen = {name: choose(score) for name, score in scores.items()}
    for name, choices in chosen.items():
        if choices.shape != right.shape:
            raise ValueError(f"{name} has {len(choices)} questions and answers {tuple(right.shape)}; they must agree")
    return {name: (choices == right).double().mean().item() for name, choices in chosen.items()}


def few_shot_prompt(
    examples: Sequence[tuple[str, str]],
    question: str,
    *,
    instruction: str = "",
    before_question: str = "Question: ",
    before_answer: str = "\nAnswer:",
    separator: str = "\n\n",
) -> str:
    r"""Build a prompt of solved examples and one question, up to where the answer begins.

    The answer follows after one space, which belongs to the answer: most tokenizers join a space to the word after it.

    Args:
        examples: questions with their answers, in the order of the prompt; none for zero-shot.
        question: the question to be answered.
        instruction: text before the examples.
        before_question, before_answer: what introduces a question and an answer.
        separator: what stands between two examples.

    Source: Brown et al. (2020), section 2.1 and appendix G; GT-10.

    >>> print(few_shot_prompt([("Is snow cold?", "yes")], "Is fire cold?"))
    Question: Is snow cold?
    Answer: yes
    <BLANKLINE>
    Question: Is fire cold?
    Answer:
    """
    solved = [f"{before_question}{asked}{before_answer} {answer}" for asked, answer in examples]
    return separator.join([*filter(None, [instruction]), *solved, f"{before_question}{question}{before_answer}"])
