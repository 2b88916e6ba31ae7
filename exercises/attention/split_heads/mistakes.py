import torch


def reshaped_at_once(x, n_heads):
    """The shape is right, but the tokens are mixed, because a reshape keeps the numbers in their order. You need two
    steps."""
    return x.reshape(n_heads, len(x), -1)


def columns_dealt_in_turn(x, n_heads):
    """You deal the columns to the heads in turn, like cards. In x, the columns of one head are side by side."""
    return x.reshape(len(x), -1, n_heads).permute(2, 0, 1)


def tokens_first(x, n_heads):
    """You split each row correctly, but the tokens still come before the heads. Return one matrix per head."""
    return x.reshape(len(x), n_heads, -1)


def turned_round_within_heads(x, n_heads):
    """Within each of your heads, the tokens are columns. Each head should have a row for each token."""
    return x.reshape(len(x), n_heads, -1).permute(1, 2, 0)


def columns_then_reshaped(x, n_heads):
    """You transpose the matrix and reshape it at once, so columns end up where tokens should be. Do it in two steps."""
    return x.T.reshape(n_heads, len(x), -1)


def width_of_n_heads(x, n_heads):
    """Your heads are n_heads wide. But n_heads is the number of heads; their width follows from it and from the number
    of columns of x."""
    return x.reshape(len(x), -1, n_heads).transpose(0, 1)


def tokens_dealt_out(x, n_heads):
    """You divide the tokens among the heads. Every head attends to all tokens, but it has its own columns."""
    return torch.stack(x.chunk(n_heads))


def list_of_heads(x, n_heads):
    """You return the heads one by one. They are right; combine them into one tensor, with an axis for the heads."""
    return x.chunk(n_heads, -1)


def every_column_to_every_head(x, n_heads):
    """You give all columns to every head. Each head should get only its own columns."""
    return x.expand(n_heads, *x.shape)


def heads_last(x, n_heads):
    """You split each row correctly, but the heads come last. Which axis has to come first?"""
    return x.reshape(len(x), n_heads, -1).transpose(1, 2)


def heads_one_below_another(x, n_heads):
    """You stack the heads one below another in a single matrix. They are right, but each should have its own matrix, on
    an axis in front."""
    return torch.cat(x.chunk(n_heads, -1))


def dealt_and_turned_round(x, n_heads):
    """Two things go wrong: you deal the columns to the heads in turn, like cards, and within each head the tokens are
    columns. A head is a block of adjacent columns, with a row for each token."""
    return x.reshape(len(x), -1, n_heads).permute(2, 1, 0)


def last_head_first(x, n_heads):
    """Your heads are in the opposite order. Head 0 has the first columns."""
    return x.reshape(len(x), n_heads, -1).transpose(0, 1).flip(0)


def tokens_first_and_dealt(x, n_heads):
    """Two things go wrong: you deal the columns to the heads in turn, like cards, and the tokens come before the heads.
    A head is a block of adjacent columns, and the heads come first."""
    return x.reshape(len(x), -1, n_heads).transpose(1, 2)


def d_head_first(x, n_heads):
    """You split each row correctly, but then you bring the wrong axis to the front. The heads should come first, and
    d_head should stay last."""
    return x.reshape(len(x), n_heads, -1).permute(2, 0, 1)


def blocks_that_overlap(x, n_heads):
    """Your blocks overlap: each begins one column after the previous one. At which column does head 1 begin?"""
    d_head = x.shape[1] // n_heads
    return torch.stack([x[:, i : i + d_head] for i in range(n_heads)])


def blocks_as_wide_as_n_heads(x, n_heads):
    """You cut blocks of n_heads columns. But n_heads is the number of blocks; their width follows from it and from the
    number of columns of x."""
    return torch.stack([x[:, i * n_heads : (i + 1) * n_heads] for i in range(n_heads)])
