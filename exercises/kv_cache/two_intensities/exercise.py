import torch

from llm_anatomy.shapes import Float, Tensor


def two_intensities(
    batch: int,
    n_new: int,
    n_tokens: int,
    n_parameters: int,
    n_layers: int,
    n_heads: int,
    n_kv_heads: int,
    d_head: int,
    n_bytes: int,
    peak: float,
    bandwidth: float,
) -> tuple[Float[Tensor, "2"], list[str], float]:
    """Return the intensities of weights and attention, what each waits for, and the new tokens in a second."""
    flops = [2 * n_parameters * batch * n_new, 4 * batch * n_new * n_layers * n_heads * n_tokens * d_head]
    moved = [n_bytes * n_parameters, n_bytes * 2 * batch * n_layers * n_kv_heads * n_tokens * d_head]
    times = [(f / peak, m / bandwidth) for f, m in zip(flops, moved, strict=True)]
    intensities = torch.tensor([f / m for f, m in zip(flops, moved, strict=True)])
    words = ["compute" if computing > moving else "memory" for computing, moving in times]
    return intensities, words, batch * n_new / sum(map(max, times))


def accepted_formulas(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Cancels what stands on both sides, and compares with the intensity of the processor."""
    weights, attention = 2 * batch * n_new / n_bytes, 2 * n_new * n_heads / n_kv_heads / n_bytes
    ridge = peak / bandwidth
    cache = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * n_bytes
    seconds = n_parameters * n_bytes * max(1, weights / ridge) + cache * max(1, attention / ridge)
    words = tuple("memory" if each < ridge else "compute" for each in (weights, attention))
    return torch.tensor([weights, attention]), words, batch * n_new * bandwidth / seconds


def accepted_text_by_text(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Adds up texts and layers in float64, and returns tensors."""
    f, m = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    m[0] = n_parameters * n_bytes
    for _ in range(batch):
        f[0] += 2.0 * n_new * n_parameters
        for _ in range(n_layers):
            f[1] += 4.0 * n_new * n_heads * d_head * n_tokens
            m[1] += 2.0 * n_kv_heads * d_head * n_tokens * n_bytes
    words = [("memory", "compute")[int(each)] for each in f * bandwidth > m * peak]
    return f / m, words, batch * n_new / torch.maximum(f / peak, m / bandwidth).sum()


NAMES = ("batch", "n_new", "n_tokens", "n_parameters", "n_layers", "n_heads", "n_kv_heads", "d_head", "n_bytes")
NAMES += ("peak", "bandwidth")


def cases(generator):
    card = 312e12, 2039e9  # an A100
    rows = [
        (1, 1, 4096, 6_738_415_616, 32, 32, 32, 128, 2, *card),  # Llama 2 7B decodes one text,
        (64, 1, 4096, 6_738_415_616, 32, 32, 32, 128, 2, *card),  # and 64,
        (1, 4096, 4096, 6_738_415_616, 32, 32, 32, 128, 2, *card),  # and reads a prompt
        (64, 1, 4096, 8_030_261_248, 32, 32, 8, 128, 2, *card),  # Llama 3 8B
        (3, 2, 5, 100, 2, 6, 2, 4, 4, 4.0, 3.0),
        (5, 4, 7, 30, 3, 4, 1, 2, 1, 10.0, 2.0),
        (5, 1, 7, 30, 3, 6, 2, 2, 4, 4.0, 2.0),  # intensities that are not whole
        (2, 7, 9, 50, 2, 3, 3, 5, 2, 9.5, 1.0),
        (8, 1, 6, 70, 5, 8, 2, 3, 2, 6.0, 1.0),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def observe(
    returned,
    batch,
    n_new,
    n_tokens,
    n_parameters,
    n_layers,
    n_heads,
    n_kv_heads,
    d_head,
    n_bytes,
    peak,
    bandwidth,
):
    """the two intensities, the two words and the number of tokens"""
    assert isinstance(returned, tuple | list) and len(returned) == 3, (
        "return three things: the intensities, the words and the tokens in a second"
    )
    intensities, words, speed = (each.tolist() if hasattr(each, "tolist") else each for each in returned)
    assert isinstance(intensities, tuple | list) and len(intensities) == 2, "two intensities come first"
    assert not any(isinstance(each, str) for each in intensities), "the intensities come first, and then the words"
    assert isinstance(words, tuple | list) and len(words) == 2, "two words come second"
    for word in words:
        assert word in ("memory", "compute"), f"{word!r} is neither 'memory' nor 'compute'"
    assert not isinstance(speed, str | tuple | list), "the tokens in a second are one number, which comes last"
    return torch.tensor([float(each) for each in intensities]), list(words), float(speed)


def property_batch(answer, generator):
    few, many = (list(map(float, answer(batch, 1, 100, 5000, 3, 8, 2, 4, 2, 1e6, 1e4)[0])) for batch in (2, 20))
    assert abs(many[0] / few[0] - 10) < 1e-3, (
        "With a batch that is 10 times as large, the intensity of the weights should be 10 times as high: each weight "
        "that is read serves 10 times as many tokens."
    )
    assert abs(many[1] / few[1] - 1) < 1e-3, (
        "The intensity of attention should be the same for any batch, since each text has a cache of its own."
    )


def property_shared_heads(answer, generator):
    many, few = (list(map(float, answer(4, 1, 100, 5000, 3, 8, n, 4, 2, 1e6, 1e4)[0])) for n in (8, 1))
    assert abs(few[1] / many[1] - 8) < 1e-3, (
        "With one key-value head instead of 8, the intensity of attention should be 8 times as high: each key that is "
        "read serves 8 query heads."
    )


def hidden_cases(generator):
    rows = [
        (16, 1, 2048, 68_976_648_192, 80, 64, 8, 128, 1, 989.4e12, 3350e9),
        (2, 512, 3000, 7_241_732_096, 32, 32, 8, 128, 2, 65e12, 320e9),
        (6, 3, 11, 90, 4, 10, 5, 2, 4, 7.0, 3.0),
        (4, 9, 12, 60, 2, 6, 1, 3, 2, 40.0, 1.0),
        (30, 1, 13, 80, 2, 6, 2, 3, 2, 9.0, 1.0),
        (9, 1, 8, 70, 3, 10, 2, 3, 4, 3.0, 1.0),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]
