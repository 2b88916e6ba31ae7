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
