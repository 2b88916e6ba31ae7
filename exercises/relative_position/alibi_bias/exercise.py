import torch

from llm_anatomy.layers.positions.relative import alibi_slopes
from llm_anatomy.shapes import Float, Int, Tensor


def alibi_bias(
    n_heads: int, query_positions: Int[Tensor, "n_queries"], key_positions: Int[Tensor, "n_keys"]
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """The bias that ALiBi adds to the scores: for each head, minus its slope times the distance."""
    power = 2 ** (n_heads - 1).bit_length()
    slopes = torch.exp2(-8 / power * torch.arange(1, power + 1))
    if power != n_heads:
        slopes = torch.cat((slopes[1::2], slopes[::2]))[:n_heads]
    distance = (key_positions - query_positions[:, None]).abs()
    return -slopes[:, None, None] * distance


def accepted_slopes_of_the_higher_power(n_heads, query_positions, key_positions):
    """Takes every second slope of the higher power, which are those of the lower power, and then the others."""
    n = 2 << (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes = torch.tensor((slopes[1::2] + slopes[0::2])[:n_heads])
    distances = (key_positions[None, :] - query_positions[:, None]).abs()
    return -slopes[:, None, None] * distances


def _slopes(n_heads):
    lower = 2 ** (n_heads.bit_length() - 1)
    if lower == n_heads:
        return [2 ** (-8 * h / n_heads) for h in range(1, n_heads + 1)]
    return _slopes(lower) + _slopes(2 * lower)[0::2][: n_heads - lower]


def accepted_recursion(n_heads, query_positions, key_positions):
    """Calls itself for the slopes of the two powers of two, as the paper's code does."""
    distances = torch.cdist(query_positions[:, None].float(), key_positions[:, None].float(), p=1)
    return torch.stack([-slope * distances for slope in _slopes(n_heads)])


def accepted_slopes_of_the_package(n_heads, query_positions, key_positions):
    """Takes the slopes from the package and multiplies them by the distances with einsum."""
    distances = torch.abs(torch.sub(query_positions[:, None], key_positions)).float()
    return torch.einsum("h, qk -> hqk", -alibi_slopes(n_heads), distances)


def cases(generator):
    def positions(n_heads, queries, keys):
        return {"n_heads": n_heads, "query_positions": torch.tensor(queries), "key_positions": torch.tensor(keys)}

    five = [0, 1, 2, 3, 4]  # Georgia Tech's matrix of offsets, and the paper's eight heads
    return [
        positions(2, [3], [1, 3, 4]),
        positions(3, [4], [6]),
        positions(8, five, five),
        positions(6, [11, 12], [6, 8, 12]),
        positions(1, [9, 3, 5], [2, 8, 4, 1]),
        positions(12, [40, 7], [3, 77, 41]),
    ]


def slopes(answer, n_heads):
    return -answer(n_heads, torch.tensor([0]), torch.tensor([1]))[:, 0, 0]


def property_nothing_for_itself(answer, generator):
    positions = torch.randint(0, 50, (6,), generator=generator)
    assert answer(5, positions, positions).diagonal(dim1=1, dim2=2).abs().max() < 1e-4, (
        "A token gets a penalty for its own position. There the distance is 0, so the bias should be 0."
    )


def property_never_a_reward(answer, generator):
    queries, keys = torch.randint(0, 50, (2, 6), generator=generator)
    assert answer(5, queries, keys).max() < 1e-4, (
        "Some of your biases are positive. Distance is a penalty, so no bias should be above 0."
    )


def property_moving_all(answer, generator):
    queries, keys = torch.randint(0, 50, (2, 6), generator=generator)
    assert torch.allclose(answer(3, queries, keys), answer(3, queries + 100, keys + 100)), (
        "When all tokens move by 100 positions, your bias changes. It should depend only on the distances."
    )


def property_a_line(answer, generator):
    query, keys = torch.tensor([20]), torch.tensor([21, 22, 24, 28])
    penalties = answer(4, query, keys).float()
    assert torch.allclose(penalties, penalties[:, :, :1] * torch.tensor([1.0, 2.0, 4.0, 8.0])), (
        "In every head, twice the distance should give twice the penalty."
    )


def property_all_slopes_differ(answer, generator):
    for n_heads in (7, 8, 12, 20):
        assert len(slopes(answer, n_heads).unique()) == n_heads, f"Two of {n_heads} heads have the same slope."


def property_lower_power_first(answer, generator):
    assert torch.allclose(slopes(answer, 6)[:4], slopes(answer, 4)), (
        "The first four of six heads should have the slopes of four heads."
    )


def hidden_cases(generator):
    def drawn(n_heads, n_queries, n_keys):
        positions = torch.randint(0, 400, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return {"n_heads": n_heads} | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(2, 3, 5), drawn(3, 6, 4), drawn(16, 1, 9), drawn(25, 5, 2), drawn(7, 4, 6), drawn(1, 2, 3)]
