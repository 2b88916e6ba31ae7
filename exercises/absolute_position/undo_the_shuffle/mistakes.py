import torch


def shuffled_once_more(outputs, order):
    """You shuffle a second time instead of undoing the shuffle. The two agree only if the order is its own inverse."""
    return outputs[order]


def left_as_it_is(outputs, order):
    """You return the rows as they came. The rows are right, but they are still in the order of the shuffled text
    (erratum E-19)."""
    return outputs + 0


def averaged(outputs, order):
    """You give every token the mean of all rows. The mean is indeed invariant, but each token has its own row."""
    return outputs.mean(0).expand_as(outputs)


def pooled(outputs, order):
    """You return one row, the mean of all rows. Return a row for each token."""
    return outputs.mean(0)


def turned_round(outputs, order):
    """You reverse the text, whatever the order was. Use the order that you are given."""
    return outputs.flip(0)


def moved_by_one(outputs, order):
    """You move all rows down by one and the last row to the top, whatever the order was. That undoes 1, 2, 0, but you
    should use the order that you are given."""
    return outputs.roll(1, 0)


def last_token_first(outputs, order):
    """The tokens in your result run from the last to the first. Look at the direction in which you sort."""
    return outputs[order.argsort(descending=True)]


def order_turned_round(outputs, order):
    """You read the order from its end. Reversing a list does not invert it: in which row is token 0?"""
    return outputs[order.flip(0)]


def numbers_sorted(outputs, order):
    """You sort the numbers in each column. The rows should stay whole; sort the order instead."""
    return outputs.sort(0).values


def numbers_sorted_in_rows(outputs, order):
    """You sort the numbers within each row. The rows should stay whole; sort the order instead."""
    return outputs.sort(-1).values


def inverse_returned(outputs, order):
    """You return the right row numbers. The last step is missing: take these rows of the outputs."""
    return order.argsort()


def columns_moved(outputs, order):
    """You move the columns as if they were tokens. The tokens are the rows."""
    return outputs[:, order.argsort()]


def columns_shuffled(outputs, order):
    """You shuffle the columns. The tokens are the rows, and you should undo their shuffle."""
    return outputs[:, order]


def rows_and_columns(outputs, order):
    """Your rows are in the right order, but you have moved the columns as well. Leave the columns as they are."""
    inverse = order.argsort()
    return outputs[inverse][:, inverse]


def changes_the_outputs(outputs, order):
    """The result is right, but you change the caller's tensor in place. Make a new tensor."""
    outputs[order] = outputs.clone()
    return outputs


def sorts_the_order_in_place(outputs, order):
    """The result is right, but you change the caller's order in place. Work on a copy of it."""
    inverse = order.argsort()
    order.copy_(torch.arange(len(order)))
    return outputs[inverse]


def permutation_on_the_right(outputs, order):
    """You multiply by the permutation matrix from the right, which moves columns. The tokens are the rows."""
    return outputs @ torch.eye(len(order))[order]


def its_transpose_on_the_right(outputs, order):
    """You multiply by a permutation matrix from the right, which moves columns. The tokens are the rows."""
    return outputs @ torch.eye(len(order))[order].T


def rows_written_over(outputs, order):
    """You write rows into the caller's tensor before you have read all rows from it, so some are lost. Write into a new
    tensor."""
    for row, token in enumerate(order.tolist()):
        outputs[token] = outputs[row]
    return outputs
