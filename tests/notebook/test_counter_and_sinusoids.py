"""The counter and its sinusoids: digits of the lecture's table, and hands that agree with the package's schemes."""

import pytest
import torch

from llm_anatomy.data import table
from llm_anatomy.layers.positions.absolute import SingleSine, Sinusoidal
from llm_anatomy.notebook import CounterAndSinusoids


@pytest.mark.syllabus("IITD-07", "IITD-08")
def test_digits_are_the_lectures_and_hands_those_of_the_packages_schemes():
    widget = CounterAndSinusoids()
    for row in table("binary_counter"):
        widget.number, widget.paper = int(row["n"]), False
        position, shown = torch.tensor([widget.number]), widget.outputs()
        assert shown["written"][::-1] == [int(row[f"bit_{k}"]) for k in range(4)]
        sines = [SingleSine(1, 2.0 ** (k + 1)).encoding(position).item() for k in range(4)]
        assert shown["sine"] == pytest.approx(sines, abs=1e-5)
        widget.paper = True
        pairs = torch.tensor([widget.outputs()[name] for name in ("sine", "cosine")]).T.flatten()
        torch.testing.assert_close(pairs, Sinusoidal(8).encoding(position)[0], atol=1e-5, rtol=0)


def test_a_digit_is_1_in_the_second_half_of_its_turn():
    widget = CounterAndSinusoids(5)
    for widget.number in range(64):
        shown = widget.outputs()
        for digit, sine, cosine in zip(shown["written"][::-1], shown["sine"], shown["cosine"], strict=True):
            assert digit == (sine < -1e-4 or cosine < -0.9999)


def test_words_say_when_the_counter_starts_again():
    widget = CounterAndSinusoids()
    widget.number, widget.paper = 22, True
    assert repr(widget).startswith(
        "Number 22 is written 0110, as 6 is. Sine and cosine, by period: 6.28: −0.01 and −1.00;"
    )


@pytest.mark.parametrize("n_bits", [1, 7, 4.0, True])
def test_counter_refuses(n_bits):
    with pytest.raises(ValueError, match=f"n_bits={n_bits}; it must be a whole number from 2 to 6"):
        CounterAndSinusoids(n_bits)
