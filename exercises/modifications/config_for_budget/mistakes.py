import math


def _config(
    n_parameters,
    n_vocab,
    n_ctx,
    cache_bytes,
    *,
    round_up=math.ceil,
    n_matrices=3,
    of_attention=4,
    n_tables=2,
    n_bytes=2,
    both=2,
    over=0,
    divides=lambda n, kv: n % kv == 0,
    power=False,
    times=1,
):
    def d_ff(h):
        return int(256 * round_up(8 * h / 6))

    def count(h):
        return times * h * 128 * h * (of_attention * 128 * h + n_matrices * d_ff(h)) + n_tables * n_vocab * 128 * h

    h = 1
    while count(h + 1) <= n_parameters:
        h += 1
    h += over
    kv = h
    while kv > 1 and (not divides(h, kv) or kv * both * n_bytes * h * 128 * n_ctx > cache_bytes):
        kv -= 1
    return {"d_model": 128 * h, "n_layers": h, "n_heads": h, "n_kv_heads": kv, "d_ff": d_ff(h)}


def rounded_down(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You round `d_ff` down. It is rounded up to a multiple of 256."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, round_up=math.floor)


def rounded_to_the_nearest(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You round `d_ff` to the nearest multiple of 256. It is rounded up."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, round_up=round)


def one_width_too_many(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your width is too large by 128: it is the first one that does not fit."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, over=1)


def one_width_too_few(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your width is too small by 128, except for the smallest: the next one fits as well."""
    small = _config(n_parameters, n_vocab, n_ctx, cache_bytes)["d_model"] == 128
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, over=0 if small else -1)


def two_matrices(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You count two matrices of the feed-forward layer. A gated one has three."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, n_matrices=2)


def three_matrices_of_attention(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You count three matrices of attention. That of the output is the fourth."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, of_attention=3)


def one_table(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You count one table. There are two, for the input and the output."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, n_tables=1)


def no_tables(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You leave out the two tables of the vocabulary."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, n_tables=0)


def keys_alone(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your caches take twice as much as they may. They hold keys and values, with 2 bytes for each number."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, both=1)


def a_byte_for_a_number(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your caches take four times as much as they may. They hold keys and values, with 2 bytes for each number."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, both=1, n_bytes=1)


def four_bytes(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your caches could be twice as large: a number takes 2 bytes."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, n_bytes=4)


def any_number_of_heads(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your number of key-value heads fits, but does not always divide the number of heads."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, divides=lambda n, kv: True)


def powers_of_two(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your numbers of key-value heads are powers of two. Any divisor of the number of heads is allowed."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes, divides=lambda n, kv: n % kv == 0 and kv & (kv - 1) == 0)


def all_heads_have_their_own(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Each query head has its own key-value head, and the cache does not fit. It has keys and values of all layers."""
    found = _config(n_parameters, n_vocab, n_ctx, cache_bytes)
    return found | {"n_kv_heads": found["n_heads"]}


def a_single_key_value_head(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You always choose one key-value head. Choose the largest divisor with which the cache fits."""
    return _config(n_parameters, n_vocab, n_ctx, cache_bytes) | {"n_kv_heads": 1}


def one_layer_counted(n_parameters, n_vocab, n_ctx, cache_bytes):
    """You count the parameters of a single layer."""
    h = 1

    def count(h):
        return 128 * h * (4 * 128 * h + 768 * math.ceil(8 * h / 6)) + 2 * n_vocab * 128 * h

    while count(h + 1) <= n_parameters:
        h += 1
    kv = max([n for n in range(1, h + 1) if h % n == 0 and n * 512 * h * n_ctx <= cache_bytes], default=1)
    return {"d_model": 128 * h, "n_layers": h, "n_heads": h, "n_kv_heads": kv, "d_ff": 256 * math.ceil(8 * h / 6)}


def not_rounded(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Your `d_ff` is not a multiple of 256."""
    found = _config(n_parameters, n_vocab, n_ctx, cache_bytes)
    return found | {"d_ff": int(8 * found["d_model"] / 3)}


def less_than_the_budget(n_parameters, n_vocab, n_ctx, cache_bytes):
    """A model may have as many parameters as its budget, and a cache as many bytes. You ask for fewer."""
    return _config(n_parameters - 1, n_vocab, n_ctx, cache_bytes - 1)
