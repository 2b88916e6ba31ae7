"""The counter and its sinusoids as an object: numbers, words, and the form with a kernel."""

import gzip
import math

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.data import table
from llm_anatomy.layers.positions.absolute import BinaryCounter, SingleSine, Sinusoidal
from llm_anatomy.notebook import CounterAndSinusoids


@pytest.mark.syllabus("IITD-07")
def test_digits_are_the_lectures():
    widget = CounterAndSinusoids()
    for row in table("binary_counter"):
        assert widget.digits(int(row["n"])) == [int(row[f"bit_{k}"]) for k in range(4)]


@pytest.mark.syllabus("IITD-07", "IITD-08")
@pytest.mark.parametrize("n_bits", [2, 4, 6])
def test_numbers_are_those_of_the_packages_schemes(n_bits):
    widget = CounterAndSinusoids(n_bits)
    for number in range(widget.n_numbers):
        position = torch.tensor([number])
        digits, hands = widget.digits(number), widget.hands(number, False)
        assert digits == BinaryCounter(n_bits).encoding(position)[0].tolist()
        assert widget.written(number) == f"{number % 2**n_bits:0{n_bits}b}"
        for k, (sine, cosine) in enumerate(hands):
            assert sine == pytest.approx(
                SingleSine(1, 2.0 ** (k + 1)).encoding(position, torch.float64).item(), abs=1e-9
            )
            turned = math.atan2(sine, cosine) / (2 * math.pi) % 1
            assert digits[k] == (0.5 - 1e-9 < turned < 1 - 1e-9)  # the second half of the turn
        pairs = [x for hand in widget.hands(number, True) for x in hand]
        assert pairs == Sinusoidal(2 * n_bits).encoding(position, torch.float64)[0].tolist()


def test_words_are_rounded_and_complete():
    widget = CounterAndSinusoids()
    assert repr(widget) == (
        "Number 6 is written 0110. Sine and cosine, by period: 2: 0.00 and 1.00; 4: 0.00 and −1.00; "
        "8: −1.00 and 0.00; 16: 0.71 and −0.71."
    )
    assert widget._sentence(22, True).startswith(
        "Number 22 is written 0110, as 6 is. Sine and cosine, by period: 6.28: "
    )


def test_markup_is_light():
    assert len(gzip.compress(CounterAndSinusoids(caption="Look.").html().encode())) < 6_000


def test_live_control_counts():
    number, paper, image, words, caption = CounterAndSinusoids(3, caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    assert number.max == 15
    number.value, paper.value = 13, True
    assert words.value == CounterAndSinusoids(3)._sentence(13, True)
    assert bytes(image.value) != before
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize("n_bits", [1, 7, 4.0, True])
def test_counter_refuses(n_bits):
    with pytest.raises(ValueError, match=f"n_bits={n_bits}; it must be a whole number from 2 to 6"):
        CounterAndSinusoids(n_bits)
