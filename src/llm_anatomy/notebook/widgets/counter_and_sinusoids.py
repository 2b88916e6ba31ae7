"""The binary counter beside sinusoids: digits that flip and hands that turn with the same periods."""

import math

import torch

from llm_anatomy.layers.positions.absolute import BinaryCounter
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider, Tick


class CounterAndSinusoids(Widget):
    r"""Show the digits of a binary counter beside hands that turn with the same periods.

    Digit k of i, :math:`\lfloor i / 2^k \rfloor \bmod 2`, has period :math:`P_k = 2^{k+1}`. The pair
    :math:`(\sin, \cos)(2\pi i / P_k)` is a hand that turns once in that period: the digit is 1 during the second half
    of its turn. The counter starts again after :math:`2^n` numbers. The paper's periods,
    :math:`2\pi \cdot 10000^{k/n}`, are not whole numbers, and the slowest is far longer.

    Args:
        n_bits: number of digits, 2 to 6; the numbers run from 0 through two cycles of the counter.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a number of digits that is not an integer from 2 to 6.

    Source: Vaswani et al. (2017), section 3.5; IITD-07, IITD-08, IITD-10.

    >>> CounterAndSinusoids(2)
    Number 6 is written 10, as 2 is. Sine and cosine, by period: 2: 0.00 and 1.00; 4: 0.00 and −1.00.
    """

    sentence = (
        "Number {number} is written [[{written}||]]{again||, as {rest} is}. "
        "Sine and cosine, by period: [[{periods}: {sine:.2f} and {cosine:.2f}||; ]]."
    )

    def __init__(self, n_bits=4, *, caption: str = ""):
        bits = torch.arange(whole("n_bits", n_bits, 2, 6))
        self.cycle, self.periods = 2**n_bits, torch.stack((2.0 ** (bits + 1), 2 * math.pi * 10000 ** (bits / n_bits)))
        self.table = BinaryCounter(n_bits).encoding(torch.arange(2 * self.cycle)).T.contiguous()  # (digits, numbers)
        data = {"digits": [f"digit {k}" for k in range(n_bits)], "half": self.cycle}
        data["hands"] = [f"{name}, period {{periods}}" for name in data["digits"]]
        number = Slider(6, 0, 2 * self.cycle - 1, hue="position")
        paper = Tick(label=f"the paper's periods, 6.28 to {self.periods[1, -1]:,.0f}")
        super().__init__(caption=caption, data=data, number=number, paper=paper)

    def compute(self, number, paper):
        periods = torch.where(paper, self.periods[1], self.periods[0])
        fine = torch.arange(0, 2 * self.cycle - 0.875, 0.125)
        now, waves = 2 * math.pi * number / periods, 2 * math.pi * fine / periods[:, None]
        rows = torch.arange(len(periods))[:, None]  # a wave for each, drawn around its row
        ring = torch.linspace(0, 2 * math.pi, 49).expand(len(periods), -1)
        half = torch.where(paper, torch.nan, ring[:, 24:])  # where the digit is 1
        return {
            "table": self.table, "written": self.table[:, number].flip(0), "periods": (100 * periods).round() / 100,
            "again": number >= self.cycle, "rest": number % self.cycle, "sine": now.sin(), "cosine": now.cos(),
            "fine": fine, "sines": rows - 0.4 * waves.sin(), "cosines": rows - 0.4 * waves.cos(),
            "ring_x": ring.cos(), "ring_y": ring.sin(), "half_x": half.cos(), "half_y": half.sin(),
        }  # fmt: skip

    def marks(self):
        numbers, mark = {"y": m.axis(labels="digits"), "pick": {"x": "number"}}, m.rule(x="number", dashed=False)
        dial = {"x": m.axis(-1.4, 1.4, ticks=[]), "y": m.axis(-1.6, 1.2, ticks=[]), "aspect": 1, "widest": 130}
        last, bits = 2 * self.cycle - 0.5, len(self.table)
        digits = m.plot(
            m.cells("table", hue="position"), mark, x=m.axis(-0.5, last), height=60 + 26 * bits,
            title="{number} = [[{written}||]]", hint="shaded where the digit is 1", **numbers,
        )  # fmt: skip
        waves = m.plot(
            m.line("sines", "fine", hue="position"), m.line("cosines", "fine", dashed=True, width=1.5), mark,
            x=m.axis(-0.5, last, "number"), height=60 + 40 * bits,
            title="A wave for each digit", hint="sine solid, cosine dashed", **numbers,
        )  # fmt: skip
        hands = m.plot(
            m.line("ring_y", "ring_x", width=1, faint=True), m.arrows("cosine", "sine", hue="position"),
            m.line("half_y", "half_x", hue="position", width=5, faint=True),
            m.words(0, -1.45, "sin {sine:.2f}, cos {cosine:.2f}"), repeat="hands",
            title="The same waves as hands of a clock", **dial,
        )  # fmt: skip
        again = "At {half}, counter and hands start again."
        never = "The counter starts again at {half}. The paper's hands never all return to where they began."
        words = f"{{paper|A digit is 1 while its hand points to the thick half of the circle. {again}|{never}}}"
        return [digits, waves, hands, m.note(words)]
