import torch


def _forward(x, w_1, w_2):
    return torch.tanh(x @ w_1.T) @ w_2.T


def oldest_first(contexts, table, w_1, w_2):
    """You put the oldest token first. In the formula the most recent token, the last of a row, comes first."""
    return _forward(table[contexts].flatten(1), w_1, w_2)


def interleaved(contexts, table, w_1, w_2):
    """You interleave the vectors: the first number of each, then the second of each. Lay the vectors end to end."""
    return _forward(table[contexts].flip(1).transpose(1, 2).flatten(1), w_1, w_2)


def all_numbers_reversed(contexts, table, w_1, w_2):
    """You reverse the numbers within each vector as well. Only the order of the tokens is reversed."""
    return _forward(table[contexts].flatten(1).flip(1), w_1, w_2)


def no_tanh(contexts, table, w_1, w_2):
    """Your hidden layer has no tanh."""
    return table[contexts].flip(1).flatten(1) @ w_1.T @ w_2.T


def tanh_on_the_output(contexts, table, w_1, w_2):
    """You apply tanh to the scores as well. It belongs only to the hidden layer."""
    return _forward(table[contexts].flip(1).flatten(1), w_1, w_2).tanh()


def tanh_at_the_end(contexts, table, w_1, w_2):
    """You apply tanh to the scores. It belongs between the two matrices."""
    return (table[contexts].flip(1).flatten(1) @ w_1.T @ w_2.T).tanh()


def probabilities(contexts, table, w_1, w_2):
    """You return probabilities. Return the scores before the softmax."""
    return _forward(table[contexts].flip(1).flatten(1), w_1, w_2).softmax(-1)


def sigmoid_for_tanh(contexts, table, w_1, w_2):
    """Your hidden layer has a sigmoid. It should have a tanh."""
    return (table[contexts].flip(1).flatten(1) @ w_1.T).sigmoid() @ w_2.T


def relu_for_tanh(contexts, table, w_1, w_2):
    """Your hidden layer has a ReLU. It should have a tanh."""
    return (table[contexts].flip(1).flatten(1) @ w_1.T).relu() @ w_2.T


def tanh_of_the_embeddings(contexts, table, w_1, w_2):
    """You apply tanh to the embeddings. It belongs after the first matrix."""
    return table[contexts].flip(1).flatten(1).tanh() @ w_1.T @ w_2.T


def most_recent_token_only(contexts, table, w_1, w_2):
    """You use only the most recent token. Each token of the context has its own columns of the first matrix."""
    d_embed = table.shape[1]
    return _forward(table[contexts[:, -1]], w_1[:, :d_embed], w_2)


def averaged_embeddings(contexts, table, w_1, w_2):
    """You average the embeddings of the context, so the order is lost. Lay the vectors end to end."""
    n_ctx = contexts.shape[1]
    return _forward(table[contexts].mean(1).repeat(1, n_ctx), w_1, w_2)


def batch_last(contexts, table, w_1, w_2):
    """Your result is transposed. It should have a row for each context."""
    return _forward(table[contexts].flip(1).flatten(1), w_1, w_2).T


def reversed_twice(contexts, table, w_1, w_2):
    """You reverse the contexts of the batch, not the tokens of each context. Look at the axis."""
    return _forward(table[contexts].flip(0).flip(1).flatten(1), w_1, w_2)


def batch_reversed(contexts, table, w_1, w_2):
    """You reverse the order of the contexts in the batch. Reverse the tokens of each context: look at the axis."""
    return _forward(table[contexts].flip(0).flatten(1), w_1, w_2)


def log_probabilities(contexts, table, w_1, w_2):
    """You return logarithms of probabilities. Return the scores before the softmax."""
    return _forward(table[contexts].flip(1).flatten(1), w_1, w_2).log_softmax(-1)


def last_token_moved_to_the_front(contexts, table, w_1, w_2):
    """You move the last token to the front and leave the others in their order. All tokens are reversed."""
    return _forward(table[contexts].roll(1, 1).flatten(1), w_1, w_2)
