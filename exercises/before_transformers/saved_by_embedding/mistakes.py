def inner_matrices_forgotten():
    """You count only the tables of embeddings in the second network. Between them it still has two matrices."""
    return 2 * 50257 * 1024 - 2 * 50257 * 256


def one_inner_matrix():
    """You count one matrix between the embeddings. There are two: one into the hidden layer, and one out of it."""
    return 2 * 50257 * 1024 - 2 * 50257 * 256 - 256 * 1024


def square_inner_matrix():
    """Between the embeddings you count one square matrix of 1024. The two matrices have one side of 256 each."""
    return 2 * 50257 * 1024 - 2 * 50257 * 256 - 1024 * 1024


def one_side_only():
    """You count one end of the networks. The embedding saves parameters at the input and at the output."""
    return 50257 * 1024 - 50257 * 256 - 256 * 1024


def tied():
    """You count the table of embeddings once. Here D is not tied to C, so both count."""
    return 2 * 50257 * 1024 - 50257 * 256 - 2 * 256 * 1024


def parameters_of_the_second():
    """You return the parameters of the second network. By how many has it fewer than the first?"""
    return 2 * 50257 * 256 + 2 * 256 * 1024


def parameters_of_the_first():
    """You return the parameters of the first network. How many does the second have fewer?"""
    return 2 * 50257 * 1024


def tables_alone():
    """You return the parameters of the two tables of embeddings. By how many parameters do the networks differ?"""
    return 2 * 50257 * 256


def old_matrices_kept():
    """Your number is negative: you keep the large matrices and add the embeddings. The matrices become smaller, since
    one side is 256 now."""
    return -2 * 50257 * 256


def ratio():
    """You return how many times as large the first network is. Return the difference."""
    return (2 * 50257 * 1024) / (2 * 50257 * 256 + 2 * 256 * 1024)


def wrong_sign():
    """Your number has the wrong sign. Return how many parameters fewer the second network has."""
    return 2 * 50257 * 256 + 2 * 256 * 1024 - 2 * 50257 * 1024


def rounded_vocabulary():
    """You rounded the vocabulary to 50,000. It has 50,257 tokens."""
    return 2 * 50000 * 1024 - 2 * 50000 * 256 - 2 * 256 * 1024
