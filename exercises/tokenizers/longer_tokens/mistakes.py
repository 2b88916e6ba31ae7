import torch

RIGHT = torch.tensor([[2.42, 2.27], [3.72, 3.18]])
MORE = "flatters, more with more tokens"


def wrong_conclusion(seed):
    """Your four numbers are right, but your conclusion does not follow from them. Divide the two numbers of each row,
    and compare the two ratios."""
    return RIGHT, "fair"


def same_text_twice(seed):
    """Both columns show how well a tokenizer does on its own training text. Train on the first text only, and use the
    same
    tokenizer for a text that it has not seen."""
    return RIGHT[:, :1].repeat(1, 2), "fair"


def tokens_per_byte(seed):
    """You return tokens per byte. Divide the other way round."""
    return 1 / RIGHT, MORE


def rows_and_columns_exchanged(seed):
    """You exchanged rows and columns. The sizes of the vocabulary are the rows, the texts are the columns."""
    return RIGHT.T, MORE


def trained_on_the_new_text(seed):
    """Your columns are exchanged: your tokens are longer on the new text. Which of the two texts did you train on, and
    which one comes first?"""
    return RIGHT.flip(1), "fair"


def vocabularies_exchanged(seed):
    """Your rows are exchanged. The first row belongs to 512 tokens."""
    return RIGHT.flip(0), MORE


def numbers_of_tokens(seed):
    """You return how many tokens the texts have. Divide the bytes of a text by its tokens."""
    return 20000 / RIGHT, MORE


def mean_of_the_vocabulary(seed):
    """You average over the tokens of the vocabulary, where rare tokens count as much as frequent ones. Average over the
    tokens of the text."""
    return torch.tensor([[3.5, 3.5], [5.0, 5.0]]), "fair"
