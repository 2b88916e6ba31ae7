import numpy as np


def config_for_budget(n_parameters: int, n_vocab: int, n_ctx: int, cache_bytes: int) -> dict[str, int]:
    """Return the sizes of a decoder that keeps to the budget."""

    def sizes(d_model):
        return d_model // 128, -(-8 * d_model // 768) * 256

    def count(d_model):
        n_layers, d_ff = sizes(d_model)
        return n_layers * (4 * d_model**2 + 3 * d_model * d_ff) + 2 * n_vocab * d_model

    d_model = 128
    while count(d_model + 128) <= n_parameters:
        d_model += 128
    n_layers, d_ff = sizes(d_model)
    of_a_head = 2 * n_layers * 128 * n_ctx * 2
    fitting = [n for n in range(1, n_layers + 1) if n_layers % n == 0 and n * of_a_head <= cache_bytes]
    return {"d_model": d_model, "n_layers": n_layers, "n_heads": n_layers, "n_kv_heads": max(fitting), "d_ff": d_ff}


def accepted_tried_from_above(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Counts heads instead of widths, goes down from many, and returns floats of NumPy."""
    for heads in range(300, 0, -1):
        d_model = 128 * heads
        d_ff = 256 * np.ceil(8 * heads / 6)
        block = d_model * (4 * d_model + 3 * d_ff)
        if heads * block + n_vocab * d_model * 2 <= n_parameters:
            break
    n_kv_heads = heads
    while heads % n_kv_heads or n_kv_heads * heads * 512 * n_ctx > cache_bytes:
        n_kv_heads -= 1
    sizes = {"d_ff": d_ff, "n_kv_heads": n_kv_heads, "n_heads": heads, "n_layers": heads, "d_model": d_model}
    return {name: np.float64(size) for name, size in sizes.items()}


def accepted_bisection(n_parameters, n_vocab, n_ctx, cache_bytes):
    """Bisects the number of heads, and rounds up with a remainder."""

    def d_ff(heads):
        exact = heads * 128 * 8
        return (exact + (-exact) % (3 * 256)) // 3

    low, high = 1, 1000
    while high - low > 1:
        middle = (low + high) // 2
        n = middle * (4 * (128 * middle) ** 2 + 3 * 128 * middle * d_ff(middle)) + 256 * n_vocab * middle
        low, high = (middle, high) if n <= n_parameters else (low, middle)
    most = cache_bytes // (4 * 128 * low * n_ctx)
    kv = next(n for n in range(min(low, most), 0, -1) if low % n == 0)
    return dict(d_model=128 * low, n_layers=low, n_heads=low, n_kv_heads=kv, d_ff=d_ff(low))


NAMES = ("n_parameters", "n_vocab", "n_ctx", "cache_bytes")


def cases(generator):
    budgets = [
        (6_740_000_000, 32_000, 2048, 1_100_000_000),
        (6_740_000_000, 32_000, 8192, 1_100_000_000),
        (1_000_000, 1000, 100, 60_000),
        (110_000_000, 30_000, 1000, 7_000_000),
        (100_000_000, 1000, 512, 13_000_000),
        (1_300_000_000, 50_000, 4096, 250_000_000),
        (500_000_000, 32_000, 1024, 13_000_000),
        (44_003_328, 1000, 640, 5_898_240),
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in budgets]


def observe(returned, n_parameters, n_vocab, n_ctx, cache_bytes):
    """the five sizes"""
    assert isinstance(returned, dict), "return a dictionary"
    found = []
    for name in ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff"):
        assert name in returned, f"the entry {name!r} is missing"
        number = float(returned[name])
        found.append(f"{name} = {int(number) if number.is_integer() else number}")
    return tuple(found)


def property_within_the_budget(answer, generator):
    sizes = answer(300_000_000, 20_000, 1024, 100_000_000)
    d_model, d_ff, n_layers = (float(sizes[name]) for name in ("d_model", "d_ff", "n_layers"))
    n = n_layers * d_model * (4 * d_model + 3 * d_ff) + 40_000 * d_model
    assert n <= 300_000_000, "A model has more parameters than its budget allows."
    cache = 4 * n_layers * float(sizes["n_kv_heads"]) * 128 * 1024
    assert cache <= 100_000_000, "A cache takes more bytes than it may."


def hidden_cases(generator):
    budgets = [
        (300_000_000, 20_000, 1024, 100_000_000),
        (70_000_000_000, 32_000, 4096, 3_000_000_000),
        (2_000_000_000, 100_000, 3000, 200_000_000),
        (900_000_000, 256_000, 2000, 30_000_000),
        (208_281_600, 2000, 300, 7_680_000),
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in budgets]
