"""Hidden cases that tell right answers from wrong ones: what is wrong with a draw of them, and when to draw again."""

import hashlib
from collections.abc import Callable

from llm_grader.marking import Agreement, agreements, informative_cases
from llm_grader.records import PreparedQuestion

MAX_DRAWS = 8


def draw(question_id: str, seed: str, prepare: Callable[[int], PreparedQuestion]) -> PreparedQuestion:
    """Draw hidden cases, and again while a draw has a :func:`fault`.

    The seed alone decides which draw is used, so that a run that is continued and all shares of a class use the same.

    Args:
        question_id: id of the question.
        seed: seed of all questions. The second draw has the seed ``seed/2``, and so on.
        prepare: prepares the question with a number as its seed.

    Returns:
        The first draw without a fault, or the first one if there is none among :data:`MAX_DRAWS`.
    """
    draws = []
    for n in range(1, MAX_DRAWS + 1):
        digest = hashlib.sha256(f"{seed}{f'/{n}' * (n > 1)} {question_id}".encode()).digest()
        draws.append(prepare(int.from_bytes(digest[:7])))
        if not fault(draws[-1]):
            return draws[-1]
    return draws[0]


def fault(prepared: PreparedQuestion) -> str:
    """Return why hidden cases cannot be used, in a sentence, or an empty string. This runs no code of the course."""
    name = prepared.question.id
    if not any(informative_cases(prepared)):
        values = [each["returned"] for each in prepared.reference if each["pass"] == "values"]
        if all(value["type"] == "bool" for value in values):
            return (
                f"{name}: the answer is yes or no, so every hidden case can be guessed; let it return more than that."
            )
        known = [
            answer
            for answer, found in prepared.trivial.items()
            if any(agree.values for agree in agreements(found, prepared))
        ]
        return f"{name}: answers that know nothing ({', '.join(known)}) get every hidden case right; add other cases."
    for mistake, found in prepared.mistakes.items():
        is_right = set(agreements(found, prepared)) == {Agreement(True)}
        if is_right and not any(message["changed"] for message in found):
            return f"{name}: the known mistake {mistake} would earn full marks; add other cases."
    return ""
