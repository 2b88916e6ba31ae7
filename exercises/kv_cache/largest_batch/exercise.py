import math

import torch


def largest_batch(
    n_parameters: int, windows: list, n_kv_heads: int, d_head: int, n_tokens: int, n_bytes: int, memory: int
) -> tuple[int, int]:
    """Return the bytes of the cache of one conversation, and how many conversations fit."""
    kept = sum(n_tokens if window is None else min(window, n_tokens) for window in windows)
    cache = 2 * n_kv_heads * d_head * n_bytes * kept
    return cache, max(0, (memory - n_parameters * n_bytes) // cache)


def accepted_tried_out(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Adds one conversation after the other until the card is full, and returns a list."""
    cache = 0
    for window in windows:
        if window is None or window > n_tokens:
            window = n_tokens
        cache += window * n_kv_heads * (d_head + d_head) * n_bytes
    used, batch = n_parameters * n_bytes, 0
    while used + (batch + 1) * cache <= memory:
        batch += 1
    return [cache, batch]


def accepted_tensors(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """Counts with a tensor, and returns whole numbers as floats."""
    slots = torch.tensor([math.inf if window is None else window for window in windows], dtype=torch.float64)
    cache = slots.clamp(max=n_tokens).sum() * 2 * n_kv_heads * d_head * n_bytes
    return cache, torch.floor((memory - n_bytes * n_parameters) / cache).clamp(min=0)


NAMES = ("n_parameters", "windows", "n_kv_heads", "d_head", "n_tokens", "n_bytes", "memory")


def cases(generator):
    card = 80 * 10**9
    rows = [
        (6_738_415_616, [None] * 32, 32, 128, 4096, 2, card),  # Llama 2 7B
        (8_030_261_248, [None] * 32, 8, 128, 8192, 2, card),  # Llama 3 8B
        (7_241_732_096, [4096] * 32, 8, 128, 32_768, 2, card),  # Mistral 7B
        (9_241_705_984, [4096, None] * 21, 8, 256, 8192, 2, card),  # Gemma 2 9B
        (68_976_648_192, [None] * 80, 8, 128, 4096, 2, card),  # Llama 2 70B: the weights alone do not fit
        (10, [3, None], 1, 2, 5, 4, 420),
        (10, [9, 3, 4], 2, 3, 7, 4, 5000),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def observe(returned, n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    """the two numbers"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed"
    return tuple(int(number) if float(number).is_integer() else float(number) for number in numbers)


def property_twice_the_memory(answer, generator):
    one, two = (answer(0, [None] * 3, 2, 5, 7, 2, memory)[1] for memory in (10 * 840, 20 * 840))
    assert (float(one), float(two)) == (10, 20), (
        "Without weights, 8,400 bytes have room for exactly 10 caches of 840 bytes, and twice as many bytes for 20."
    )


def property_wide_windows(answer, generator):
    one, other = (float(answer(100, windows, 2, 4, 6, 2, 9000)[0]) for windows in ([None] * 3, [6, 8, 100]))
    assert one == other, "A window that is as long as the conversation, or longer, should make no difference."


def hidden_cases(generator):
    rows = [
        (13_015_864_320, [None] * 40, 40, 128, 2048, 2, 80 * 10**9),
        (27_227_128_320, [4096, None] * 23, 16, 128, 6000, 2, 80 * 10**9),
        (1000, [5, 20, None, 7], 3, 4, 11, 1, 6000),
        (500, [2, 2, None], 5, 2, 4, 8, 10_000),
        (900, [None, 4], 2, 2, 9, 4, 3599),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]
