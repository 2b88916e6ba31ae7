"""Predictions: the reader commits to a guess, or skips, before the answer is shown.

Neither a notebook's source nor a page's shows the answer at a glance: ``answer`` and ``explanation`` may be given as
``"base64:"`` and their JSON in base64, as the book's notebooks have them, and so the page's script gets them.
"""

import base64
import json

from llm_anatomy.notebook.widgets.arguments import finite
from llm_anatomy.notebook.widgets.base import Widget, fixed


class _Question(Widget):
    kind = "prediction"

    def __init__(self, question: str, explanation: str):
        self.question, self.explanation = _text("question", question), _opened(explanation)
        super().__init__()

    def spec(self) -> dict:
        return {"kind": self.kind, "question": self.question} | self.asked()

    def asked(self) -> dict:
        """Return what the page asks, with the answer sealed."""
        raise NotImplementedError

    def without_script(self) -> str:
        words = "".join(f"&#{ord(letter)};" for letter in f"{self._answer()} {self.explanation}")
        return f"<details><summary>Answer</summary>{words}</details>"

    def _answer(self) -> str:
        raise NotImplementedError


class Prediction(_Question):
    """A question with choices, one of which is right.

    Args:
        question: the question.
        choices: at least two, all different.
        answer: index of the right choice, counted from 0; computed by the chapter where possible.
        explanation: the reason, shown with the answer.

    Raises:
        ValueError: for fewer than two choices, equal or empty ones, or an answer that is not the index of a choice.

    >>> print(Prediction("Which is larger?", ["2 to the 3", "3 to the 2"], answer=1))
    Which is larger?
    a) 2 to the 3
    b) 3 to the 2
    """

    def __init__(self, question: str, choices, answer, explanation: str = ""):
        self.choices = [_text(f"choices[{i}]", choice) for i, choice in enumerate(choices)]
        if len(set(self.choices)) < max(2, len(self.choices)):
            raise ValueError(f"choices={self.choices}; there must be at least two, all different")
        answer = _opened(answer)
        if isinstance(answer, bool) or answer not in range(len(self.choices)):
            raise ValueError(f"{answer=}; it must be the index of the right choice, 0 to {len(self.choices) - 1}")
        self.answer = int(answer)
        super().__init__(question, explanation)

    def __repr__(self) -> str:
        return "\n".join([self.question, *(f"{chr(97 + i)}) {choice}" for i, choice in enumerate(self.choices))])

    def asked(self) -> dict:
        return {"choices": self.choices, "sealed": _sealed([self.answer, self.explanation])}

    def _answer(self) -> str:
        return f"Answer: {self.choices[self.answer].rstrip('.')}."


class Estimate(_Question):
    """A question whose answer is a number, guessed with a slider from ``low`` to ``high``.

    Args:
        question: the question.
        answer: the number, computed by the chapter.
        low, high: ends of the slider; the answer lies between them.
        digits: number of decimals shown.
        unit: written after the numbers.
        explanation: the reason, shown with the answer.

    Raises:
        ValueError: for ends in the wrong order, or an answer beyond them.

    >>> print(Estimate("How large is the weight?", answer=0.6457, low=0, high=1))
    How large is the weight? (from 0.00 to 1.00)
    """

    def __init__(self, question: str, answer, low, high, *, digits: int = 2, unit: str = "", explanation: str = ""):
        answer = _opened(answer)
        self.low, self.high, self.answer = finite("low", low), finite("high", high), finite("answer", answer)
        if not self.low <= self.answer <= self.high or self.low == self.high:
            raise ValueError(f"answer={answer}; it must lie between low={low} and high={high}, which must differ")
        self.digits, self.unit = digits, unit
        super().__init__(question, explanation)

    def __repr__(self) -> str:
        return f"{self.question} (from {self._written(self.low)} to {self._written(self.high)})"

    def asked(self) -> dict:
        names = ("low", "high", "digits", "unit")
        sealed = _sealed([round(self.answer, self.digits + 2), self.explanation])
        return {name: getattr(self, name) for name in names} | {"sealed": sealed}

    def _answer(self) -> str:
        return f"Answer: {self._written(self.answer)}."

    def _written(self, number: float) -> str:
        return fixed(number, self.digits) + (f" {self.unit}" if self.unit else "")


def _sealed(value) -> str:
    return f"base64:{base64.b64encode(json.dumps(value).encode()).decode()}"


def _opened(value):
    """What is sealed in a text that begins with "base64:"; anything else as it is."""
    if isinstance(value, str) and value.startswith("base64:"):
        return json.loads(base64.b64decode(value.removeprefix("base64:")))
    return value


def _text(name: str, text) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}={text!r}; it must be a non-empty string")
    return text
