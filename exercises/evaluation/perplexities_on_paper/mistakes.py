import math

RIGHT = {"A": 1.0, "B": 200 / 240, "C": 1.0, "best": "B", "needed": 2 ** (10 / 3)}
BITS = {"A": 4, "B": 5, "C": 2}


def bits_per_token():
    """Your first three entries are the bits of a token. Multiply by the number of tokens, and divide by that of
    bytes."""
    return RIGHT | BITS


def bits_per_token_with_the_smallest():
    """Your first three entries are the bits of a token, and the model with the smallest of them need not be the best:
    the models do not have equally many tokens."""
    return BITS | {"best": "C", "needed": 4}


def nats_per_byte():
    """Your first three entries are nats per byte. A bit is ln 2 nats."""
    return RIGHT | {letter: RIGHT[letter] * math.log(2) for letter in "ABC"}


def perplexity_per_byte():
    """Your first three entries are perplexities per byte. Their logarithms to base 2 are what is asked."""
    return RIGHT | {letter: 2 ** RIGHT[letter] for letter in "ABC"}


def whole_text():
    """Your first three entries are the bits of the whole text. Divide them by its number of bytes."""
    return RIGHT | {letter: 240 * RIGHT[letter] for letter in "ABC"}


def bytes_per_bit():
    """Your first three entries are turned upside down: bits are divided by bytes."""
    return RIGHT | {letter: 1 / RIGHT[letter] for letter in "ABC"}


def perplexities_divided():
    """You have multiplied the perplexities by the numbers of tokens. Take their logarithms to base 2 first."""
    return RIGHT | {"A": 60 * 16 / 240, "B": 40 * 32 / 240, "C": 120 * 4 / 240}


def smallest_perplexity():
    """Only the best model is wrong: its perplexity per token does not decide, since the tokenizers differ."""
    return RIGHT | {"best": "C"}


def smallest_perplexity_and_what_it_asks():
    """The best model is wrong, and with it the last entry: the perplexity per token does not decide, since the
    tokenizers differ."""
    return RIGHT | {"best": "C", "needed": 4.0}


def smallest_perplexity_and_its_bits():
    """The best model is wrong: your numbers of bits per byte are right, and the model with the fewest is another
    one."""
    return RIGHT | {"best": "C", "needed": 16.0}


def a_is_best():
    """Only the best model is wrong: fewer bits per byte are better."""
    return RIGHT | {"best": "A"}


def needed_perplexity_of_the_best():
    """Only the last entry is wrong: that is the perplexity of the best model, whose tokens are longer than those of
    A."""
    return RIGHT | {"needed": 32.0}


def needed_in_bits():
    """Only the last entry is wrong: you give the bits that a token of A may cost. The perplexity is 2 to this power."""
    return RIGHT | {"needed": 10 / 3}


def needed_in_proportion():
    """Only the last entry is wrong: a perplexity does not shrink in proportion to the bits. Its logarithm does."""
    return RIGHT | {"needed": 16 * 200 / 240}


def needed_with_the_natural_base():
    """Only the last entry is wrong: the cost is in bits, so the base is 2."""
    return RIGHT | {"needed": math.exp(10 / 3)}


def most_bits_and_what_it_asks():
    """The best model is wrong, and with it the last entry: fewer bits per byte are better."""
    return RIGHT | {"best": "A", "needed": 16.0}


def digits_per_byte():
    """Your first three entries come from logarithms to base 10. A bit belongs to the base 2."""
    return RIGHT | {letter: RIGHT[letter] * math.log10(2) for letter in "ABC"}


def two_decimals():
    """Only B is wrong, and only by rounding: three decimals are asked."""
    return RIGHT | {"B": 0.83}


def needed_without_a_decimal():
    """Only the last entry is wrong, by less than 0.1: give it to one decimal."""
    return RIGHT | {"needed": 10.0}


def needed_in_proportion_to_the_tokens():
    """Only the last entry is wrong: a perplexity does not shrink in proportion to the number of tokens. Its logarithm
    does."""
    return RIGHT | {"needed": 32 * 40 / 60}
