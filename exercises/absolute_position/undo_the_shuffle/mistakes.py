def shuffled_once_more(outputs, order):
    """You shuffle a second time instead of back. The two agree only where the order is its own inverse."""
    return outputs[order]


def left_as_it_is(outputs, order):
    """You return the rows as they came. They are right, but in the order of the shuffled text (erratum E-19)."""
    return outputs + 0


def averaged(outputs, order):
    """You give every token the mean of all rows. That is invariant indeed, but each token has a row of its own."""
    return outputs.mean(0).expand_as(outputs)


def pooled(outputs, order):
    """You return one row, the mean of all. Return a row for each token."""
    return outputs.mean(0)


def turned_round(outputs, order):
    """You reverse the text, whatever the order was. The order is given: use it."""
    return outputs.flip(0)


def last_token_first(outputs, order):
    """The tokens in your result run from the last to the first. Look at the direction in which you sort."""
    return outputs[order.argsort(descending=True)]


def numbers_sorted(outputs, order):
    """You sort the numbers in the outputs. The rows should stay whole; sort the order instead."""
    return outputs.sort(0).values


def columns_moved(outputs, order):
    """You move the columns as if they were tokens. The tokens are the rows."""
    return outputs[:, order.argsort()[: outputs.shape[1]] % outputs.shape[1]]


def changes_the_outputs(outputs, order):
    """The result is right, but the caller's tensor is changed in place. Make a new one."""
    outputs[order] = outputs.clone()
    return outputs
