import re


def digits_together(text):
    """You keep the digits of a number together. Each digit is a piece of its own."""
    return re.findall(r" +|[0-9]+|[^\W\d_]+|.", text, flags=re.DOTALL)


def spaces_lost(text):
    """You lose the spaces. They are pieces too: the pieces, joined, must be the text."""
    return re.findall(r"[0-9]|[^\W\d_]+|[^ ]", text, flags=re.DOTALL)


def white_space_lost(text):
    """You lose all white space. It belongs to the pieces: joined, they must be the text."""
    return re.findall(r"[0-9]|[^\W\d_]+|[^\s]", text, flags=re.DOTALL)


def newlines_lost(text):
    """You lose the newlines. In a regular expression a dot does not match a newline unless you ask for it."""
    return re.findall(r" +|[0-9]|[^\W\d_]+|.", text)


def single_spaces(text):
    """Each space is a piece of its own. A run of spaces is one piece."""
    return re.findall(r"[0-9]|[^\W\d_]+|.", text, flags=re.DOTALL)


def white_space_together(text):
    """You join spaces with newlines or tabs. Only spaces make a run; a newline is a piece of its own."""
    return re.findall(r"\s+|[0-9]|[^\W\d_]+|.", text, flags=re.DOTALL)


def signs_together(text):
    """You join signs that stand side by side. Each of them is a piece of its own."""
    return re.findall(r" +|[0-9]|[^\W\d_]+|[^\w\s]+|.", text, flags=re.DOTALL)


def single_letters(text):
    """Each letter is a piece of its own. A run of letters is one piece."""
    return re.findall(r" +|.", text, flags=re.DOTALL)


def digits_in_words(text):
    """You join letters and digits that stand side by side. Each digit is a piece of its own, also within a word."""
    return re.findall(r" +|[^\W_]+|.", text, flags=re.DOTALL)


def underscores_in_words(text):
    """You take the underscore for a letter. It is another character, and a piece of its own."""
    return re.findall(r" +|[0-9]|[^\W\d]+|.", text, flags=re.DOTALL)


def english_letters_only(text):
    """You take only the letters a to z for letters. Letters are what str.isalpha says, so é is one."""
    return re.findall(r" +|[0-9]|[A-Za-z]+|.", text, flags=re.DOTALL)


def space_before_words(text):
    """You join a space to the word after it, as GPT-2 does. Here a run of spaces is a piece of its own."""
    return re.findall(r" ?[^\W\d_]+|[0-9]| +|.", text, flags=re.DOTALL)


def split_at_spaces(text):
    """You only split at spaces, and lose them. Look at the four rules one by one."""
    return text.split()


def last_of_runs_apart(text):
    """You leave the last space of a run to the next piece, as GPT-2 does. Here the whole run is one piece."""
    return re.findall(r" +(?! )(?=\S)|[0-9]|[^\W\d_]+| +(?= )|.", text.replace("  ", " \0"), flags=re.DOTALL)
