"""Predictions: the reader commits to a guess, or skips, before the answer is shown.

Neither a notebook's source nor a page's shows the answer at a glance: ``answer`` and ``explanation`` may be given as
``"base64:"`` and their JSON in base64, as the book's notebooks have them, and so the page's script gets them.
"""

import base64
import html
import json

from llm_anatomy.notebook.widgets.base import PageWidget, finite, fixed


class _Question(PageWidget):
    def __init__(self, question: str, explanation: str):
        super().__init__()
        self.question = _text("question", question)
        self.explanation = _opened(explanation)

    def without_script(self) -> str:
        words = "".join(f"&#{ord(letter)};" for letter in f"{self._answer()} {self.explanation}")
        return f"<details><summary>Answer</summary>{words}</details>"

    def _answer(self) -> str:
        raise NotImplementedError

    def _live(self, control, chosen, guess):
        """Show question, control and buttons: one fixes the guess and shows the answer, the other shows it at once."""
        import ipywidgets as w

        commit = w.Button(description="Commit", disabled=not chosen(control), tooltip="shows the answer")
        skip = w.Button(description="Skip", tooltip="shows the answer without a guess")
        outcome = w.HTML()

        def reveal(button):
            guessed = f"Your guess: {guess(control)}. " if button is commit else ""
            control.disabled = commit.disabled = skip.disabled = True
            outcome.value = html.escape(f"{guessed}{self._answer()} {self.explanation}")

        control.observe(lambda _: setattr(commit, "disabled", not chosen(control)), "value")
        commit.on_click(reveal)
        skip.on_click(reveal)
        question = w.HTML(f"<b>{html.escape(self.question)}</b>")
        return w.VBox([question, control, w.HBox([commit, skip]), outcome])


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
        super().__init__(question, explanation)
        self.choices = [_text(f"choices[{i}]", choice) for i, choice in enumerate(choices)]
        if len(set(self.choices)) < max(2, len(self.choices)):
            raise ValueError(f"choices={self.choices}; there must be at least two, all different")
        answer = _opened(answer)
        if isinstance(answer, bool) or answer not in range(len(self.choices)):
            raise ValueError(f"{answer=}; it must be the index of the right choice, 0 to {len(self.choices) - 1}")
        self.answer = int(answer)

    def text(self) -> str:
        return "\n".join([self.question, *(f"{chr(97 + i)}) {choice}" for i, choice in enumerate(self.choices))])

    def data(self) -> dict:
        sealed = _sealed([self.answer, self.explanation])
        return {"question": self.question, "choices": self.choices, "sealed": sealed}

    def live(self):
        import ipywidgets as w

        control = w.RadioButtons(options=self.choices, value=None, layout=w.Layout(width="auto"))
        return self._live(control, lambda c: c.value is not None, lambda c: c.value.rstrip("."))

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
        super().__init__(question, explanation)
        answer = _opened(answer)
        self.low, self.high, self.answer = finite("low", low), finite("high", high), finite("answer", answer)
        if not self.low <= self.answer <= self.high or self.low == self.high:
            raise ValueError(f"answer={answer}; it must lie between low={low} and high={high}, which must differ")
        self.digits, self.unit = digits, unit

    def text(self) -> str:
        return f"{self.question} (from {self._written(self.low)} to {self._written(self.high)})"

    def data(self) -> dict:
        names = ("question", "low", "high", "digits", "unit")
        sealed = _sealed([round(self.answer, self.digits + 2), self.explanation])
        return {name: getattr(self, name) for name in names} | {"sealed": sealed}

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
