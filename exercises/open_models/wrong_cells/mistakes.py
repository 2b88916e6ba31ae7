RIGHT = {"GPT vocabulary": 40478, "GPT2 positions": "absolute", "BLOOM size": 176, "LLaMA size": 65.3}


def _without(name, **more):
    return {cell: value for cell, value in RIGHT.items() if cell != name} | more


def factor_of_64():
    """You change the MLP factor of T5. Divide its two widths before you do."""
    return RIGHT | {"T5 factor": 4}


def factor_of_64_for_another():
    """You change the MLP factor of T5, and leave one of the wrong numbers out. Divide T5's two widths."""
    return _without("LLaMA size") | {"T5 factor": 4}


def vocabulary_of_bloom():
    """You change a vocabulary that agrees with the tokenizer."""
    return RIGHT | {"BLOOM vocabulary": 250880}


def merges_alone():
    """GPT's vocabulary is too small now: its basic symbols are tokens, too."""
    return RIGHT | {"GPT vocabulary": 40000}


def bytes_for_symbols():
    """You give GPT the basic symbols of GPT-2. GPT has more of them."""
    return RIGHT | {"GPT vocabulary": 40257}


def positions_of_gpt():
    """You change the positions of the wrong model: a trained table is what the slide calls absolute."""
    return _without("GPT2 positions") | {"GPT positions": "sine"}


def relative_positions():
    """You have found the right cell among the positions. But how does the slide call a table that has one row for each
    position?"""
    return RIGHT | {"GPT2 positions": "relative"}


def positions_as_they_stand():
    """You name the right cell among the positions, but you return what stands there."""
    return RIGHT | {"GPT2 positions": "sine"}


def no_word():
    """You have found three numbers. One of the words is wrong as well."""
    return _without("GPT2 positions")


def sizes_as_they_stand():
    """You name the right cells among the sizes, but you return what stands there."""
    return RIGHT | {"BLOOM size": 175, "LLaMA size": 65.2}


def llama_not_rounded():
    """One size is missing: 65.286 does not round to what stands on the slide."""
    return _without("LLaMA size")


def bloom_overlooked():
    """One size is missing: compare it with the number of parameters, digit by digit."""
    return _without("BLOOM size")


def vocabulary_overlooked():
    """One number is missing, and it is not a size."""
    return _without("GPT vocabulary")


def whole_billions():
    """Return as many digits as the slide gives: LLaMA's size has one decimal."""
    return RIGHT | {"LLaMA size": 65}


def both_factors_of_llama():
    """You change an MLP factor that agrees with the widths."""
    return RIGHT | {"LLaMA factor": 4}
