import math

import torch


def _head(n_tokens, offset):
    wanted = torch.eye(n_tokens).roll(offset, 0)
    wanted[:offset] = 0.0  # the first tokens have none so far back
    return math.sqrt(n_tokens) * 20 * wanted, torch.eye(n_tokens)


def nothing_preferred(n_tokens):
    """Each token divides its weight evenly among all tokens that it sees. Are all their scores equal, for instance
    because your queries match the next token, which is hidden?"""
    return torch.diag(torch.full((n_tokens - 1,), 1e3), 1), torch.eye(n_tokens)


def next_token_in_a_circle(n_tokens):
    """Your queries match the next token, which is hidden, and the last query matches the first token. In which
    direction do you shift, and which of the two matrices comes first?"""
    return 1e3 * torch.eye(n_tokens).roll(-1, 0), torch.eye(n_tokens)


def itself(n_tokens):
    """Each token attends to itself. Of all the keys it sees, its query should fit that of the previous token best. If
    you shift both matrices, the shifts may cancel."""
    return _head(n_tokens, 0)


def first_token(n_tokens):
    """Every token attends to the first token. The query of a token has to depend on its position."""
    first = torch.zeros(n_tokens, n_tokens)
    first[0] = 1.0
    return torch.full((n_tokens, n_tokens), 1e3), first


def two_back(n_tokens):
    """Your tokens attend two positions back. If you shift both queries and keys, the two shifts add up."""
    return _head(n_tokens, 2)


def previous_and_itself(n_tokens):
    """Each token divides its weight between itself and the token before it. Its query should fit only one of the two
    keys."""
    back, key = _head(n_tokens, 1)
    return back + _head(n_tokens, 0)[0], key


def all_before(n_tokens):
    """Each token divides its weight among all tokens before it. Its query should fit only the nearest of them."""
    return 1e3 * torch.ones(n_tokens, n_tokens).tril(-1), torch.eye(n_tokens)


def too_soft(n_tokens):
    """Each token prefers the right one, but gives it less than 0.99 of its weight. What makes a softmax sharper?"""
    return torch.eye(n_tokens).roll(1, 0), torch.eye(n_tokens)


def size_does_not_grow(n_tokens):
    """Your head is sharp enough for a few tokens and too soft for many. What in the formula grows with the number of
    tokens?"""
    return 50 * torch.eye(n_tokens).roll(1, 0), torch.eye(n_tokens)


def infinite(n_tokens):
    """Your matrices hold numbers that are not finite. In the product, infinity meets zero, which gives NaN; a large
    finite number is sharp enough. Do you take the logarithm of 0?"""
    return torch.eye(n_tokens).roll(1, 0) * math.inf, torch.eye(n_tokens)


def one_matrix_only(n_tokens):
    """You return one tensor. Two matrices are needed, w_query and w_key."""
    return 100 * torch.eye(n_tokens).roll(1, 0)


def others_not_counted(n_tokens):
    """Each token prefers the right one, but gives it less than 0.99 of its weight when it sees several others. Each of
    them takes some weight: how must the score grow with their number?"""
    return 5 * math.sqrt(n_tokens) * torch.eye(n_tokens).roll(1, 0), torch.eye(n_tokens)


def two_back_in_a_circle(n_tokens):
    """Your tokens attend two positions back. If you shift both queries and keys, the two shifts can add up."""
    return 20 * math.sqrt(n_tokens) * torch.eye(n_tokens).roll(2, 0), torch.eye(n_tokens)
