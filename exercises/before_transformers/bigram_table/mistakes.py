import torch


def _counts(ids, n_vocab):
    return torch.bincount(ids[:-1] * n_vocab + ids[1:], minlength=n_vocab**2).view(n_vocab, n_vocab).float()


def _rows(table):
    return table / table.sum(1, keepdim=True)


def pairs_counted_once(ids, n_vocab, alpha):
    """You count each different pair once. An assignment with += to the same entry twice adds only once: count every
    occurrence."""
    return _rows((_counts(ids, n_vocab) > 0) + alpha)


def transposed(ids, n_vocab, alpha):
    """Your rows and columns are exchanged: the row is the token that comes first, the column the one that follows."""
    return _rows(_counts(ids, n_vocab) + alpha).T


def followers_in_rows(ids, n_vocab, alpha):
    """In your table the row is the token that follows. The row is the token that comes first; divide the rows."""
    return _rows(_counts(ids, n_vocab).T + alpha)


def columns_divided(ids, n_vocab, alpha):
    """Your columns sum to one. The rows should: a row holds the probabilities of all tokens that may follow."""
    table = _counts(ids, n_vocab) + alpha
    return table / table.sum(0, keepdim=True)


def not_divided(ids, n_vocab, alpha):
    """You return the counts with alpha added. Divide each row by its sum."""
    return _counts(ids, n_vocab) + alpha


def joint_probability(ids, n_vocab, alpha):
    """Your whole table sums to one, so it holds the probability of the pair. Divide each row by its own sum."""
    table = _counts(ids, n_vocab) + alpha
    return table / table.sum()


def alpha_once_in_the_sum(ids, n_vocab, alpha):
    """In the divisor you add alpha once. It is added to each entry of the row, so it counts once for each token of the
    vocabulary."""
    counts = _counts(ids, n_vocab)
    return (counts + alpha) / (counts.sum(1, keepdim=True) + alpha)


def not_smoothed(ids, n_vocab, alpha):
    """You leave out alpha. Without it a pair that never occurred is impossible, and a row without counts is 0/0."""
    return _rows(_counts(ids, n_vocab))


def alpha_is_one(ids, n_vocab, alpha):
    """You add 1 to each count. Add alpha."""
    return _rows(_counts(ids, n_vocab) + 1)


def alpha_not_in_the_sum(ids, n_vocab, alpha):
    """You add alpha to the counts but not in the divisor, so your rows do not sum to one."""
    counts = _counts(ids, n_vocab)
    return (counts + alpha) / counts.sum(1, keepdim=True).clamp(min=1)


def softmax_of_the_counts(ids, n_vocab, alpha):
    """You apply a softmax to the counts. They only have to be divided by their sum."""
    return (_counts(ids, n_vocab) + alpha).softmax(1)


def in_a_circle(ids, n_vocab, alpha):
    """You also count the last token together with the first. The text does not go round in a circle."""
    counts = _counts(ids, n_vocab)
    counts[ids[-1], ids[0]] += 1
    return _rows(counts + alpha)


def divided_by_occurrences(ids, n_vocab, alpha):
    """You divide by how often the token occurs in the text. At the end of the text it has no follower, so divide by the
    sum of the row."""
    counts = _counts(ids, n_vocab)
    return (counts + alpha) / (torch.bincount(ids, minlength=n_vocab)[:, None] + alpha * n_vocab)


def single_tokens(ids, n_vocab, alpha):
    """All your rows are equal: you count single tokens. Count pairs of neighbours."""
    return _rows(torch.bincount(ids, minlength=n_vocab).float().expand(n_vocab, n_vocab) + alpha)


def sums_along_the_wrong_axis(ids, n_vocab, alpha):
    """You divide each column by the sum of the row that has the same number. Keep the axis when you sum, with
    `keepdim=True`, so that each row is divided by its own sum."""
    table = _counts(ids, n_vocab) + alpha
    return table / table.sum(1)
