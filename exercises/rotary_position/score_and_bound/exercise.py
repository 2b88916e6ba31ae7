import cmath

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def score_and_bound(
    query: Float[Tensor, "d_head"], key: Float[Tensor, "d_head"], offsets: Int[Tensor, "n_offsets"], base: int
) -> tuple[Float[Tensor, "n_offsets"], Float[Tensor, "n_offsets"]]:
    """The unscaled score of query and key under RoPE at each offset, and the paper's bound on it."""
    query, key = (torch.view_as_complex(x.reshape(-1, 2)) for x in (query, key))
    products = query.conj() * key  # (n_pairs,)
    angles = offsets[:, None] * base ** (-torch.arange(len(query)) / len(query))
    turns = torch.polar(torch.ones_like(angles), angles)  # (n_offsets, n_pairs)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).diff().abs()
    return (turns * products).sum(-1).real, steps.max() * turns.cumsum(-1).abs().sum(-1)


def accepted_table_of_complex_numbers(query, key, offsets, base):
    """A table of complex numbers with a row for each offset, with sums and cumulative sums along its rows."""
    queries, keys = (torch.view_as_complex(x.double().view(-1, 2)) for x in (query, key))
    h = queries.conj() * keys
    exponents = torch.arange(0, len(query), 2, dtype=torch.float64) / len(query)
    rotors = torch.exp(1j * offsets[:, None] / base**exponents)
    largest_step = torch.cat((h, h.new_zeros(1))).diff().abs().max()
    return (rotors @ h).real.to(query.dtype), (largest_step * rotors.cumsum(1).abs().sum(1)).to(query.dtype)


def accepted_real_numbers(query, key, offsets, base):
    """Rotates the key by each offset for the score, and keeps real and imaginary parts separate for the bound."""
    frequencies = base ** -(torch.arange(0, len(query), 2) / len(query))
    angles = offsets[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    (q_real, q_imaginary), (k_real, k_imaginary) = query.unflatten(0, (-1, 2)).T, key.unflatten(0, (-1, 2)).T
    turned_real = k_real * cos - k_imaginary * sin
    turned_imaginary = k_real * sin + k_imaginary * cos
    scores = turned_real @ q_real + turned_imaginary @ q_imaginary

    h = torch.stack((q_real * k_real + q_imaginary * k_imaginary, q_real * k_imaginary - q_imaginary * k_real))
    steps = h - torch.nn.functional.pad(h[:, 1:], (0, 1))
    partial_sums = torch.hypot(cos.cumsum(1), sin.cumsum(1))
    return scores, steps.norm(dim=0).max() * partial_sums.sum(1)


def accepted_complex_numbers_of_python(query, key, offsets, base):
    """Loops over offsets and planes with Python's own complex numbers, and returns a list."""
    d_head = len(query)
    entries = zip(*(x[start::2].tolist() for x in (query, key) for start in (0, 1)), strict=True)
    h = [complex(q_1, -q_2) * complex(k_1, k_2) for q_1, q_2, k_1, k_2 in entries]
    largest_step = max(abs(later - earlier) for earlier, later in zip(h, [*h[1:], 0], strict=True))
    scores, bounds = [], []
    for offset in offsets.tolist():
        score, partial_sum, total = 0, 0, 0
        for j, factor in enumerate(h):
            rotor = cmath.exp(1j * offset * base ** (-2 * j / d_head))
            score += (factor * rotor).real
            partial_sum += rotor
            total += abs(partial_sum)
        scores.append(score)
        bounds.append(largest_step * total)
    return [torch.tensor(scores), torch.tensor(bounds)]


def cases(generator):
    ones = torch.ones(128)
    lecture = {"query": ones, "key": ones, "offsets": torch.tensor([0, 200, 250]), "base": 10000}

    def drawn(d_head, offsets, base):
        query, key = (torch.randn(d_head, generator=generator) for _ in range(2))
        return {"query": query, "key": key, "offsets": torch.tensor(offsets), "base": base}

    by_hand = {"query": [1.0, 2.0, 3.0, 4.0], "key": [2.0, 0.0, 1.0, 1.0], "offsets": [0, 3], "base": 100}
    by_hand |= {name: torch.tensor(by_hand[name]) for name in ("query", "key", "offsets")}
    return [lecture, drawn(6, [0, 1, -1, 7], 100), drawn(10, [-40, 8, 90], 10000), by_hand]


def drawn(generator):
    query, key = torch.randn(2, 8, generator=generator)
    return query, key, torch.tensor([4, -9, 30])


def property_offset_zero(answer, generator):
    query, key, offsets = drawn(generator)
    scores, _ = answer(query, key, 0 * offsets, 10000)
    assert torch.allclose(scores.float(), (query @ key).expand(3), atol=1e-4), (
        "At offset 0, your score should be the plain dot product of query and key."
    )


def property_roles_exchanged(answer, generator):
    query, key, offsets = drawn(generator)
    for here, there in zip(answer(query, key, offsets, 100), answer(key, query, -offsets, 100), strict=True):
        assert torch.allclose(here, there, atol=1e-4), (
            "If you exchange query and key and change the sign of the offset, score and bound should stay the same."
        )


def property_one_plane_ahead(answer, generator):
    scores, _ = answer(torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8]), torch.tensor([1, -1]), 10000)
    assert scores[1] > 0.6 > scores[0], (
        "This key is ahead of its query by 0.93 radians. One position after the query, it should be rotated further "
        "away from it. One position before the query, it should come closer."
    )


def property_the_bound_holds(answer, generator):
    for _ in range(20):
        scores, bounds = answer(*torch.randn(2, 16, generator=generator), torch.arange(-200, 200), 1000)
        assert (scores.abs() <= bounds * 1.001 + 0.001).all(), "One of your scores exceeds its bound."


def property_each_offset_alone(answer, generator):
    query, key, offsets = drawn(generator)
    for together, alone in zip(answer(query, key, offsets, 100), answer(query, key, offsets[1:2], 100), strict=True):
        assert torch.allclose(together[1:2], alone, atol=1e-4), (
            "Your values for an offset depend on which other offsets are in the list. They should not."
        )


def hidden_cases(generator):
    def drawn(d_head, n_offsets, base):
        query, key = (torch.randn(d_head, generator=generator) for _ in range(2))
        return {
            "query": query,
            "key": key,
            "offsets": torch.randint(-400, 400, (n_offsets,), generator=generator),
            "base": base,
        }

    # nearly all products alike, so that the last step, down to 0, is the largest
    level = drawn(12, 4, 1000)
    level |= {"query": 1.5 + level["query"] / 50, "key": 1 + level["key"] / 50}
    return [level, drawn(4, 3, 10000), drawn(16, 1, 500), drawn(64, 9, 500000), drawn(6, 5, 30)]
