def rows_of_gpt2() -> int:
    """The number of parameters in the table of token embeddings of GPT-2 with 1.5 billion parameters."""
    n_vocab, d_model = 50257, 1600
    return n_vocab * d_model  # tied, so it counts once


def accepted_in_parts():
    """Multiplies in parts, as on paper."""
    return 50000 * 1600 + 257 * 1600


def accepted_as_a_float():
    """Multiplies floats."""
    return 5.0257e4 * 1.6e3


def cases(generator):
    return [{}]


def hidden_cases(generator):
    return [{}]
