import torch
from einops import rearrange, repeat

from llm_anatomy.shapes import Float, Tensor


def rotate_efficiently(
    x: Float[Tensor, "batch n_heads n_tokens d_head"], angles: Float[Tensor, "batch n_tokens n_pairs"]
) -> Float[Tensor, "batch n_heads n_tokens d_head"]:
    """Each pair of neighbouring entries of x, rotated by its angle."""
    angles = angles[:, None].repeat_interleave(2, -1)  # (batch, 1, n_tokens, d_head)
    shuffled = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    return x * angles.cos() + shuffled * angles.sin()


def accepted_complex_numbers(x, angles):
    """Reads neighbours as complex numbers, which are multiplied by complex numbers of length one."""
    rotors = torch.polar(torch.ones_like(angles), angles)[:, None]
    pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotors).flatten(-2)


def accepted_stretched_and_shuffled(x, angles):
    """The two products of the formula: repeats the angles and reorders x, both with einops."""
    stretched = repeat(angles, "batch tokens pairs -> batch 1 tokens (pairs two)", two=2)
    first, second = rearrange(x, "... (pairs two) -> two ... pairs", two=2)
    shuffled = rearrange([-second, first], "two ... pairs -> ... (pairs two)")
    return x * stretched.cos() + shuffled * stretched.sin()


def accepted_every_second_entry(x, angles):
    """Writes the first and the second entries of all planes into an empty result."""
    cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = torch.empty_like(x)
    turned[..., 0::2] = cos * first - sin * second
    turned[..., 1::2] = sin * first + cos * second
    return turned


def cases(generator):
    position_three = torch.tensor([[[3.0, 0.3, 0.03, 0.003]]])
    lecture = {"x": torch.arange(1.0, 9.0).reshape(1, 1, 1, 8), "angles": position_three}

    def drawn(batch, n_heads, n_tokens, n_pairs):
        return {
            "x": torch.randn(batch, n_heads, n_tokens, 2 * n_pairs, generator=generator),
            "angles": torch.randn(batch, n_tokens, n_pairs, generator=generator) * 3,
        }

    square = drawn(2, 2, 3, 2)  # as many heads as sequences, so that mixing them up gives numbers
    two_planes = {"x": torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]]), "angles": torch.tensor([[[0.5, 2.0]]])}
    return [lecture, square, drawn(3, 2, 4, 1), two_planes]


def drawn(generator):
    """Two sequences of four tokens, three heads of width 6, and the frequencies of its planes."""
    x = torch.randn(2, 3, 4, 6, generator=generator)
    return x, torch.tensor([1.0, 0.3, 0.09])


def property_angle_zero(answer, generator):
    x, theta = drawn(generator)
    assert torch.allclose(answer(x, torch.zeros(2, 4, 3)).float(), x, atol=1e-5), (
        "If all angles are zero, x should not change."
    )


def property_quarter_turn(answer, generator):
    x, quarter = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]]), torch.full((1, 1, 2), torch.pi / 2)
    assert torch.allclose(answer(x, quarter).float(), torch.tensor([[[[-2.0, 1.0, -4.0, 3.0]]]]), atol=1e-5), (
        "A quarter turn of all planes should take (1, 2, 3, 4) to (-2, 1, -4, 3)."
    )


def property_length_is_kept(answer, generator):
    x, theta = drawn(generator)
    angles = torch.randn(2, 4, 3, generator=generator)
    lengths = [x.unflatten(-1, (3, 2)).norm(dim=-1) for x in (x, answer(x, angles).float())]
    assert torch.allclose(*lengths, atol=1e-4), (
        "Neighbouring entries form a plane, and a rotation preserves the length of each such pair. Yours changes it."
    )


def property_two_turns_add_up(answer, generator):
    x, theta = drawn(generator)
    once, again = (torch.randn(2, 4, 3, generator=generator) for _ in range(2))
    assert torch.allclose(answer(answer(x, once), again), answer(x, once + again), atol=1e-4), (
        "Rotating twice should be the same as rotating once by the sum of the angles."
    )


def property_only_the_difference_matters(answer, generator):
    x, theta = drawn(generator)
    x = x[:1, :1, :2]  # a query and a key
    scores = [answer(x, torch.tensor([m, m + 5])[None, :, None] * theta)[0, 0].prod(0).sum() for m in (0, 4, 90)]
    assert torch.allclose(torch.stack(scores), scores[0], atol=1e-4), (
        "When query and key move by the same number of positions, their dot product changes. It should depend only on "
        "the offset."
    )


def property_sequences_and_heads_apart(answer, generator):
    x, theta = drawn(generator)
    angles = torch.randn(2, 4, 3, generator=generator)
    assert torch.allclose(answer(x, angles)[1:, 2:], answer(x[1:, 2:], angles[1:]), atol=1e-5), (
        "The last head of the second sequence gives a different result alone than together with the others. Each head "
        "should be rotated by the angles of its own sequence."
    )


def hidden_cases(generator):
    def drawn(batch, n_heads, n_tokens, n_pairs):
        return {
            "x": torch.randn(batch, n_heads, n_tokens, 2 * n_pairs, generator=generator),
            "angles": torch.randn(batch, n_tokens, n_pairs, generator=generator) * 5,
        }

    return [
        drawn(2, 3, 5, 4),
        drawn(4, 1, 3, 8),
        drawn(3, 3, 1, 2),
        drawn(1, 4, 6, 3),
        drawn(5, 2, 2, 1),
    ]


def probe_in_two_steps(answer, x, angles):
    """Rotating twice by half of each angle is the same as rotating once by the whole angle."""
    return answer(answer(x, angles / 2), angles / 2)
