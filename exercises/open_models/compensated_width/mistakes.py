def _both(d, h, kv, d_ff, new, saved=None, unit=None):
    saved = 2 * d * (d - kv * d // h) if saved is None else saved
    unit = unit or 3 * d
    return 1 + saved / (unit * d_ff), unit * (new - d_ff) - saved


def keys_alone(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your saving is half of what it should be: keys and values are shared."""
    saved = d_model * (d_model - n_kv_heads * d_model // n_heads)
    return _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff, saved)


def all_four_matrices(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your saving is twice what it should be. The matrices of queries and output stay as they are."""
    saved = 4 * d_model * (d_model - n_kv_heads * d_model // n_heads)
    return _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff, saved)


def queries_too(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your saving is that of three matrices. That of the queries stays as it is."""
    saved = 3 * d_model * (d_model - n_kv_heads * d_model // n_heads)
    return _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff, saved)


def what_is_left(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """You take what is left of the keys and values for what is saved."""
    saved = 2 * d_model * (n_kv_heads * d_model // n_heads)
    return _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff, saved)


def everything_saved(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """You count keys and values as saved altogether. There are `n_kv_heads` heads of them."""
    return _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff, 2 * d_model * d_model)


def two_matrices(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your feed-forward layer has two matrices. A gated one has three."""
    return _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff, unit=2 * d_model)


def factor_without_the_old_width(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your first number says by how much of itself the width may grow. The factor is larger by one."""
    factor, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return factor - 1, more


def factor_of_the_new_width(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your first number is the factor by which the width has grown. By how much may it grow?"""
    return new_d_ff / d_ff, _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)[1]


def width_for_the_factor(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your first number is a width. Divide it by the old one."""
    factor, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return factor * d_ff, more


def feed_forward_alone(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your second number leaves out attention."""
    factor, _ = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return factor, 3 * d_model * (new_d_ff - d_ff)


def old_minus_new(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your second number has the wrong sign: it is how many more the old block has."""
    factor, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return factor, -more


def never_fewer(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your second number is never negative. It should be, where the new block has fewer parameters."""
    factor, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return factor, abs(more)


def parameters_first(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """The factor comes first, then the number of parameters."""
    return _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)[::-1]


def ratio_of_the_blocks(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your first number compares whole blocks. Only the feed-forward layer grows."""
    _, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    attention = 2 * d_model * (d_model + n_kv_heads * d_model // n_heads)
    return (4 * d_model + 3 * d_ff) * d_model / (attention + 3 * d_model * d_ff), more


def rounded_factor(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your factor is rounded. Return it as it is."""
    factor, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return round(factor, 2), more


def factor_of_a_whole_width(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your factor is that of a whole width. It need not lead to a whole number."""
    factor, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return int(factor * d_ff) / d_ff, more


def old_width_kept(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your second number is that of a block whose feed-forward layer is as wide as before. The new one is `new_d_ff`
    wide."""
    return _both(d_model, n_heads, n_kv_heads, d_ff, d_ff)


def share_of_the_old_block(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Your second number is divided by the parameters of the old block. Return the number itself."""
    factor, more = _both(d_model, n_heads, n_kv_heads, d_ff, new_d_ff)
    return factor, more / (4 * d_model**2 + 3 * d_model * d_ff)
