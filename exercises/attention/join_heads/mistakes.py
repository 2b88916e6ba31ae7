def reshaped_at_once(heads):
    """The shape is right, but your rows mix several tokens, because a reshape keeps the numbers in their order. What
    must come before it?"""
    return heads.reshape(heads.shape[1], -1)


def heads_in_turn(heads):
    """You take one number from each head in turn. The numbers of one head should stay side by side."""
    return heads.permute(1, 2, 0).flatten(1)


def heads_one_below_another(heads):
    """You stack the heads one below another. UCLouvain does this too, but there tokens are columns; here they are
    rows."""
    return heads.flatten(0, 1)


def heads_added(heads):
    """You add the heads up. Put them side by side instead: each token gets a row as wide as all heads together."""
    return heads.sum(0)


def heads_averaged(heads):
    """You average the heads. Put them side by side instead: each token gets a row as wide as all heads together."""
    return heads.mean(0)


def still_apart(heads):
    """Each token now has its heads together, but they are still one below another. Your result has three axes; it
    should have two."""
    return heads.transpose(0, 1)


def tokens_in_columns(heads):
    """Your tokens are columns, as in UCLouvain's notation. In this book they are rows."""
    return heads.transpose(0, 1).flatten(1).T


def last_head_first(heads):
    """Your heads are in the opposite order. Head 0 comes first."""
    return heads.flip(0).transpose(0, 1).flatten(1)


def first_head_only(heads):
    """You return only the first head. The result should contain all of them."""
    return heads[0]


def view_after_a_transpose(heads):
    """Your code works with a single token and raises an error with several. Do you call view after a transpose? A view
    cannot move numbers in memory, and here they have to move. Which method can move them?"""
    return heads.transpose(0, 1).view(heads.shape[1], -1)


def transposed_inside(heads):
    """You exchange too much: d_head comes first and the tokens come last. Exchange only heads and tokens; d_head stays
    the last axis."""
    return heads.permute(2, 0, 1).reshape(heads.shape[1], -1)


def other_axes_exchanged(heads):
    """You exchange tokens and d_head before you reshape. Exchange the axes of heads and tokens instead."""
    return heads.transpose(1, 2).reshape(heads.shape[1], -1)


def a_row_for_each_head_of_each_token(heads):
    """Your result has a row for each head of each token. All heads of one token belong in one row: which two axes
    should become one?"""
    return heads.transpose(0, 1).flatten(0, 1)


def all_in_one_row(heads):
    """You put all numbers in one row. Only the heads of one token belong in the same row; each token has its own
    row."""
    return heads.transpose(0, 1).flatten()


def last_head_only(heads):
    """Your rows are as wide as one head and hold only the numbers of the last head. The result should contain all
    heads."""
    return heads[-1]


def a_row_for_each_head(heads):
    """Your result has a row for each head. It should have a row for each token, with all heads in it."""
    return heads.flatten(1)


def heads_and_width_exchanged(heads):
    """You exchange heads and d_head before you reshape. Exchange the axes of heads and tokens instead."""
    return heads.transpose(0, 2).reshape(heads.shape[1], -1)


def list_of_rows(heads):
    """You return the rows one by one. They are right; combine them into one tensor."""
    return list(heads.transpose(0, 1).flatten(1))
