def reshaped_at_once(heads):
    """The shape is right, but your rows mix several tokens: a reshape keeps the numbers in their order. What must come
    before it?"""
    return heads.reshape(heads.shape[1], -1)


def heads_in_turn(heads):
    """You take one number of each head in turn. The numbers of a head stay side by side."""
    return heads.permute(1, 2, 0).flatten(1)


def heads_one_below_another(heads):
    """You stack the heads one below another. UCLouvain does, but there tokens are columns; here they are rows."""
    return heads.flatten(0, 1)


def heads_added(heads):
    """You add the heads up. They are laid end to end: each token gets a row as wide as all heads together."""
    return heads.sum(0)


def heads_averaged(heads):
    """You average the heads. They are laid end to end: each token gets a row as wide as all heads together."""
    return heads.mean(0)


def still_apart(heads):
    """Each token now has its heads together, but still one below another. You return three axes; there should be
    two."""
    return heads.transpose(0, 1)


def tokens_in_columns(heads):
    """Your tokens are columns. That is UCLouvain's way to write it; in this book they are rows."""
    return heads.transpose(0, 1).flatten(1).T


def last_head_first(heads):
    """Your heads are in the opposite order. Head 0 comes first."""
    return heads.flip(0).transpose(0, 1).flatten(1)


def first_head_only(heads):
    """You return the first head alone. All of them belong to the result."""
    return heads[0]


def view_after_a_transpose(heads):
    """With a single token all is well, and with several an error is raised. Does a view follow a transpose? A view
    cannot move numbers in memory, and here they have to move: which method can do it?"""
    return heads.transpose(0, 1).view(heads.shape[1], -1)


def transposed_inside(heads):
    """You exchange too much: d_head comes first and the tokens last. Only heads and tokens are exchanged; d_head stays
    the last axis."""
    return heads.permute(2, 0, 1).reshape(heads.shape[1], -1)


def other_axes_exchanged(heads):
    """You exchange tokens and d_head, and then reshape. Exchange the axes of heads and tokens instead."""
    return heads.transpose(1, 2).reshape(heads.shape[1], -1)


def a_row_for_each_head_of_each_token(heads):
    """Your result has a row for each head of each token. The heads of one token belong in one row: which two axes
    become one?"""
    return heads.transpose(0, 1).flatten(0, 1)


def all_in_one_row(heads):
    """You lay all numbers in one row. Only the heads of one token are laid end to end; each token has a row of its
    own."""
    return heads.transpose(0, 1).flatten()


def last_head_only(heads):
    """Your rows are as wide as one head, and only numbers of the last head are left. All heads belong to the result."""
    return heads[-1]


def a_row_for_each_head(heads):
    """Your result has a row for each head. It should have one for each token, with all heads in it."""
    return heads.flatten(1)


def heads_and_width_exchanged(heads):
    """You exchange heads and d_head, and then reshape. Exchange the axes of heads and tokens instead."""
    return heads.transpose(0, 2).reshape(heads.shape[1], -1)


def list_of_rows(heads):
    """You return the rows one by one. They are right; put them in one tensor."""
    return list(heads.transpose(0, 1).flatten(1))
