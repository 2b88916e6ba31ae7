"""The binary counter beside sinusoids: digits that flip, and hands that turn, at the same paces."""

import math

import numpy as np
import torch

from llm_anatomy.layers.positions.absolute import BinaryCounter, Sinusoidal
from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, fixed, whole

MOST_BITS = 6


class CounterAndSinusoids(PageWidget):
    r"""Count, and see each digit flip while a hand beside it turns at the same pace.

    Digit k of i, :math:`\lfloor i / 2^k \rfloor \bmod 2`, has period :math:`P_k = 2^{k+1}`. The pair
    :math:`(\sin, \cos)(2\pi i / P_k)` is a hand that turns once in that period: the digit is 1 during the second half
    of its turn. The counter starts anew after :math:`2^n` numbers. The paper's periods,
    :math:`2\pi \cdot 10000^{k/n}`, are no whole numbers, and the slowest is far longer.

    Args:
        n_bits: how many digits, 2 to 6; the numbers run from 0 through two rounds of the counter.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a number of digits that is no whole number from 2 to 6.

    Source: Vaswani et al. (2017), section 3.5; IITD-07, IITD-08, IITD-10.

    >>> widget = CounterAndSinusoids()
    >>> widget.digits(6), widget.written(6), [round(period, 1) for period in widget.periods(paper=True)]
    ([0, 1, 1, 0], '0110', [6.3, 62.8, 628.3, 6283.2])
    """

    tools = ("choice", "parts")

    def __init__(self, n_bits=4, *, caption: str = ""):
        super().__init__(caption)
        self.n_bits = whole("n_bits", n_bits, 2, MOST_BITS)

    @property
    def n_numbers(self) -> int:
        return 2 * 2**self.n_bits

    def digits(self, number: int) -> list[int]:
        """The fastest first."""
        return BinaryCounter(self.n_bits).encoding(torch.tensor([number]))[0].int().tolist()

    def written(self, number: int) -> str:
        """The fastest last."""
        return "".join(map(str, reversed(self.digits(number))))

    def periods(self, paper: bool) -> list[float | int]:
        return [2 * math.pi * 10000 ** (k / self.n_bits) if paper else 2 ** (k + 1) for k in range(self.n_bits)]

    def hands(self, number: int, paper: bool) -> list[list[float]]:
        """Sine and cosine of each pair, the fastest first."""
        if paper:
            positions = torch.tensor([number])
            return Sinusoidal(2 * self.n_bits).encoding(positions, torch.float64).view(-1, 2).tolist()
        angles = [2 * math.pi * number / period for period in self.periods(False)]
        return [[math.sin(angle), math.cos(angle)] for angle in angles]

    def data(self) -> dict:
        return {"bits": self.n_bits, "start": self._start}

    def text(self) -> str:
        return self._sentence(self._start, False)

    @property
    def _start(self) -> int:
        return min(6, self.n_numbers - 1)

    def live(self):
        import ipywidgets as w

        controls = {
            "number": w.IntSlider(self._start, min=0, max=self.n_numbers - 1, description="number"),
            "paper": w.Checkbox(False, description="the paper's periods"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, number, paper):
        numbers = torch.arange(self.n_numbers)
        digits = BinaryCounter(self.n_bits).encoding(numbers)
        with figure(
            f"Number {number}: how do its digits flip, and its sinusoids turn?",
            alt=self._sentence(number, paper),
            width=7.5,
            height=1 + 0.9 * self.n_bits,
            nrows=self.n_bits,
            ncols=2,
            sharex=True,
            show=show,
        ) as rows:
            fine = torch.arange(0, self.n_numbers - 1 + 1 / 16, 1 / 16).numpy()
            for k, ((counter, waves), period) in enumerate(zip(rows, self.periods(paper), strict=True)):
                counter.bar(numbers.numpy(), digits[:, k].numpy(), width=1, color=colours["position"])
                counter.set(ylabel=f"digit {k}", ylim=(0, 1), yticks=[0, 1])
                waves.plot(fine, np.sin(2 * math.pi * fine / period), color=colours["position"])
                waves.plot(fine, np.cos(2 * math.pi * fine / period), "--", color="#50555c", lw=1.3)
                waves.set(ylabel=f"P = {period:.4g}", ylim=(-1.15, 1.15), yticks=[-1, 1])
                for ax in (counter, waves):
                    ax.axvline(number, color="black", linewidth=1.2)
            rows[-1, 0].set_xlabel("number")
            rows[-1, 1].set_xlabel("position; sine solid, cosine dashed")

    def _sentence(self, number, paper) -> str:
        rest = number % (self.n_numbers // 2)
        again = "" if number == rest else f", as {rest} is"
        each = "; ".join(
            f"{fixed(period, 2) if paper else period}: {fixed(sine, 2)} and {fixed(cosine, 2)}"
            for period, (sine, cosine) in zip(self.periods(paper), self.hands(number, paper), strict=True)
        )
        return f"Number {number} is written {self.written(number)}{again}. Sine and cosine, by period: {each}."
