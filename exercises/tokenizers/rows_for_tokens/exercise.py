def rows_for_tokens() -> int:
    """The number of parameters that LLaMA 7B would gain with a vocabulary of 250,000 tokens."""
    rows = 250_000 - 32_000
    return 2 * rows * 4096


def accepted_difference_of_totals():
    """Counts all four tables and subtracts."""
    return 250000 * 4096 + 250000 * 4096 - 32000 * 4096 - 32000 * 4096


def accepted_as_a_float():
    """Multiplies floats, as a calculator does."""
    return 2.18e5 * 4096.0 * 2


def cases(generator):
    return [{}]


def hidden_cases(generator):
    return [{}]
