def width_of_the_smallest():
    """You use the width on the slide, 768, which belongs to the smallest GPT-2."""
    return 50257 * 768


def both_ends():
    """You count the table twice. It is tied: input and output share it."""
    return 2 * 50257 * 1600


def rounded_vocabulary():
    """You rounded the vocabulary to 50,000. It has exactly 50,257 tokens."""
    return 50000 * 1600


def rounded_vocabulary_and_old_width():
    """These are the two numbers of the slide. The vocabulary has exactly 50,257 tokens, and the model is 1600 wide."""
    return 50000 * 768


def positions_too():
    """You also count the table of 1024 positions. Count only the tokens."""
    return (50257 + 1024) * 1600


def sum_of_the_sizes():
    """You add the two sizes. A table has as many numbers as rows times columns."""
    return 50257 + 1600


def in_millions():
    """You return the number in millions. Return it in full."""
    return 80.4


def rounded_to_millions():
    """You rounded. Return the exact number."""
    return 80_000_001 // 1_000_000 * 1_000_000 + 400_000


def bytes_not_parameters():
    """You count bytes. Count the numbers in the table."""
    return 4 * 50257 * 1600
