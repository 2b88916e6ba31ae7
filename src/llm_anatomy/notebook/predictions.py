"""Predict, then reveal: the reader commits to a guess before the answer shows."""

import html

from llm_anatomy.notebook.widgets.base import PageWidget, finite, fixed


class _Question(PageWidget):
    def __init__(self, question: str, explanation: str):
        super().__init__()
        self.question = _words("question", question)
        self.explanation = explanation

    def without_script(self) -> str:
        return (
            f"<details><summary>Answer</summary>{html.escape(self._answer())} {html.escape(self.explanation)}</details>"
        )

    def _answer(self) -> str:
        raise NotImplementedError

    def _live(self, control, chosen, guess):
        """Question, control and button; pressing it fixes the guess and shows the answer."""
        import ipywidgets as w

        button = w.Button(description="Commit", disabled=not chosen(control), tooltip="then the answer shows")
        outcome = w.HTML()

        def commit(_):
            control.disabled = button.disabled = True
            outcome.value = html.escape(f"Your guess: {guess(control)}. {self._answer()} {self.explanation}")

        control.observe(lambda _: setattr(button, "disabled", not chosen(control)), "value")
        button.on_click(commit)
        return w.VBox([w.HTML(f"<b>{html.escape(self.question)}</b>"), control, button, outcome])


class Prediction(_Question):
    """A question with choices, one of which is right.

    Args:
        question: what is to be predicted.
        choices: at least two, all different.
        answer: position of the right choice, counted from 0; computed by the chapter where it can be.
        explanation: why, shown with the answer.

    Raises:
        ValueError: for fewer choices, two alike, an empty one, or an answer that is none of them.

    >>> print(Prediction("Which is larger?", ["2 to the 3", "3 to the 2"], answer=1))
    Which is larger?
    a) 2 to the 3
    b) 3 to the 2
    """

    def __init__(self, question: str, choices, answer, explanation: str = ""):
        super().__init__(question, explanation)
        self.choices = [_words(f"choices[{i}]", choice) for i, choice in enumerate(choices)]
        if len(set(self.choices)) < max(2, len(self.choices)):
            raise ValueError(f"choices={self.choices}; there must be at least two, all different")
        if isinstance(answer, bool) or answer not in range(len(self.choices)):
            raise ValueError(f"{answer=}; it must be the position of the right choice, 0 to {len(self.choices) - 1}")
        self.answer = int(answer)

    def text(self) -> str:
        return "\n".join([self.question, *(f"{chr(97 + i)}) {choice}" for i, choice in enumerate(self.choices))])

    def data(self) -> dict:
        names = ("question", "choices", "answer", "explanation")
        return {name: getattr(self, name) for name in names}

    def live(self):
        import ipywidgets as w

        control = w.RadioButtons(options=self.choices, value=None, layout=w.Layout(width="auto"))
        return self._live(control, lambda c: c.value is not None, lambda c: c.value.rstrip("."))

    def _answer(self) -> str:
        return f"Answer: {self.choices[self.answer].rstrip('.')}."


class Estimate(_Question):
    """A question whose answer is a number, guessed on a line from low to high.

    Args:
        question: what is to be estimated.
        answer: the number, computed by the chapter.
        low, high: ends of the line; the answer lies between them.
        digits: how many decimals are shown.
        unit: written after the numbers.
        explanation: why, shown with the answer.

    Raises:
        ValueError: for ends in the wrong order, or an answer beyond them.

    >>> print(Estimate("How large is the weight?", answer=0.6457, low=0, high=1))
    How large is the weight? (from 0.00 to 1.00)
    """

    def __init__(self, question: str, answer, low, high, *, digits: int = 2, unit: str = "", explanation: str = ""):
        super().__init__(question, explanation)
        self.low, self.high, self.answer = finite("low", low), finite("high", high), finite("answer", answer)
        if not self.low <= self.answer <= self.high or self.low == self.high:
            raise ValueError(f"answer={answer}; it must lie between low={low} and high={high}, which must differ")
        self.digits, self.unit = digits, unit

    def text(self) -> str:
        return f"{self.question} (from {self._written(self.low)} to {self._written(self.high)})"

    def data(self) -> dict:
        names = ("question", "low", "high", "digits", "unit", "explanation")
        return {name: getattr(self, name) for name in names} | {"answer": round(self.answer, self.digits + 2)}

    def live(self):
        import ipywidgets as w

        step = 10.0**-self.digits
        control = w.FloatSlider((self.low + self.high) / 2, min=self.low, max=self.high, step=step)
        control.readout_format = f".{self.digits}f"
        return self._live(control, lambda c: True, lambda c: self._written(c.value))

    def _answer(self) -> str:
        return f"Answer: {self._written(self.answer)}."

    def _written(self, number: float) -> str:
        return fixed(number, self.digits) + (f" {self.unit}" if self.unit else "")


def _words(name: str, text) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}={text!r}; it must be words")
    return text
