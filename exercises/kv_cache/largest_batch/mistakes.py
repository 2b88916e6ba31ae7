import math


def _fit(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory, cache=None, weights=None, batch=None):
    if cache is None:
        cache = _cache(windows, n_kv_heads, d_head, n_tokens, n_bytes)
    weights = n_parameters * n_bytes if weights is None else weights
    return cache, max(0, (memory - weights) // cache) if batch is None else batch


def _cache(windows, n_kv_heads, d_head, n_tokens, n_bytes, kept=None):
    kept = kept or (lambda window: n_tokens if window is None else min(window, n_tokens))
    return 2 * n_kv_heads * d_head * n_bytes * sum(map(kept, windows))


def keys_alone(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is half as large as it should be. It keeps keys and values, and each number takes `n_bytes` bytes."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, cache=_cache(*a[1:6]) // 2)


def one_number_one_byte(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your first number counts the numbers in the cache. Each of them takes `n_bytes` bytes."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, cache=_cache(windows, n_kv_heads, d_head, n_tokens, 1))


def windows_ignored(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your layers with a window keep all tokens. Their cache keeps at most as many as the window is long."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, cache=_cache(*a[1:6], kept=lambda window: n_tokens))


def whole_window(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your layers with a window that is longer than the conversation keep as many tokens as the window has room for.
    There are fewer."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, cache=_cache(*a[1:6], kept=lambda window: n_tokens if window is None else window))


def full_layers_ignored(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache leaves out the layers without a window. They keep all tokens."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    cache = _cache(*a[1:6], kept=lambda window: 0 if window is None else min(window, n_tokens))
    return _fit(*a, cache=cache, batch=None if cache else 0)


def first_layer_for_all(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """You treat all layers like the first. Each layer has its own entry in `windows`."""
    a = n_parameters, [windows[0]] * len(windows), n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a)


def one_layer(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is that of the first layer alone. Every layer keeps keys and values."""
    return _fit(n_parameters, windows[:1], n_kv_heads, d_head, n_tokens, n_bytes, memory)


def one_full_layer(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is that of one layer, and this layer keeps all tokens. Every layer keeps keys and values, and each has
    its own entry in `windows`."""
    return _fit(n_parameters, [None], n_kv_heads, d_head, n_tokens, n_bytes, memory)


def smallest_window_for_all(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """You use the smallest window for all layers. Each layer has its own entry in `windows`."""
    kept = min([n_tokens, *(w for w in windows if w is not None)])
    return _fit(n_parameters, [kept] * len(windows), n_kv_heads, d_head, n_tokens, n_bytes, memory)


def one_head(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache counts one head in each layer. All `n_kv_heads` heads keep keys and values."""
    return _fit(n_parameters, windows, 1, d_head, n_tokens, n_bytes, memory)


def weights_forgotten(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is right, but your second number takes the whole card for caches. The weights are there, too."""
    return _fit(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory, weights=0)


def weights_of_one_byte(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is right, but your second number takes one byte for each parameter. They take `n_bytes` bytes."""
    return _fit(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory, weights=n_parameters)


def weights_for_each(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is right, but your second number stores the weights again for each conversation. One copy serves all
    of them."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    cache = _cache(*a[1:6])
    return _fit(*a, batch=memory // (n_parameters * n_bytes + cache))


def rounded_up(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is right, but you round the number of conversations up. The last one does not fit."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    cache = _cache(*a[1:6])
    return _fit(*a, batch=max(0, math.ceil((memory - n_parameters * n_bytes) / cache)))


def rounded(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is right, but you round the number of conversations to the nearest whole number. Round it down."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, batch=max(0, round((memory - n_parameters * n_bytes) / _cache(*a[1:6]))))


def negative(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Where the weights alone do not fit, your second number is negative. It should be 0 there."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, batch=(memory - n_parameters * n_bytes) // _cache(*a[1:6]))


def at_least_one(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your second number is never below 1. It should be 0 if not even one conversation fits."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, batch=max(1, _fit(*a)[1]))


def not_rounded(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your cache is right, but your second number is not rounded down to a whole number."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    return _fit(*a, batch=max(0, (memory - n_parameters * n_bytes) / _cache(*a[1:6])))


def cache_of_all(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Your second number is right, but your first is the cache of all conversations. Return that of one."""
    a = n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory
    cache, batch = _fit(*a)
    return cache * batch, batch
