import torch


def _pairs(x):
    return x[..., 0::2], x[..., 1::2]


def _woven(first, second):
    return torch.stack((first, second), -1).flatten(-2)


def _tables(angles):
    stretched = angles[:, None].repeat_interleave(2, -1)
    return stretched.cos(), stretched.sin()


def _shuffled(x):
    first, second = _pairs(x)
    return _woven(-second, first)


def _turned(x, angles):
    cos, sin = _tables(angles)
    return x * cos + _shuffled(x) * sin


def last_pair_as_on_the_slide(x, angles):
    """In your last pair the entries are not exchanged, as on the slide (erratum E-01). Compare it with the first
    pair."""
    cos, sin = _tables(angles)
    shuffled = _shuffled(x)
    shuffled[..., -2], shuffled[..., -1] = -x[..., -2], x[..., -1]
    return x * cos + shuffled * sin


def clockwise(x, angles):
    """You rotate in the wrong direction: in each pair of your reordered vector, the minus is at the wrong entry."""
    return _turned(x, -angles)


def no_minus(x, angles):
    """No entry of your reordered vector has a minus, so lengths change. One entry of each pair should have it."""
    cos, sin = _tables(angles)
    return x * cos + _woven(*reversed(_pairs(x))) * sin


def both_minus(x, angles):
    """All entries of your reordered vector have a minus, so lengths change. Only one entry of each pair should have
    it."""
    cos, sin = _tables(angles)
    return x * cos - _woven(*reversed(_pairs(x))) * sin


def not_exchanged(x, angles):
    """In your reordered vector the signs alternate, but the two entries of each pair are not exchanged."""
    cos, sin = _tables(angles)
    first, second = _pairs(x)
    return x * cos + _woven(-first, second) * sin


def paired_across_halves(x, angles):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. That is a rotation too, but here neighbouring entries form
    a plane."""
    first, second = x.chunk(2, -1)
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def halves_shuffled_neighbours_stretched(x, angles):
    """You repeat the angles for neighbouring pairs, but reorder x for half-split pairs. Use neighbouring pairs for
    both."""
    cos, sin = _tables(angles)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def neighbours_shuffled_halves_stretched(x, angles):
    """You reorder x correctly, but repeat the angles for half-split pairs. The two entries of a pair should have the
    same angle."""
    stretched = angles[:, None].repeat(1, 1, 1, 2)
    return x * stretched.cos() + _shuffled(x) * stretched.sin()


def not_woven(x, angles):
    """The numbers are right, but all first entries come before all second entries. They should alternate again."""
    return torch.cat(_pairs(_turned(x, angles)), -1)


def sine_and_cosine_exchanged(x, angles):
    """You exchange sine and cosine. Test it: if all angles are zero, x should not change."""
    cos, sin = _tables(angles)
    return x * sin + _shuffled(x) * cos


def first_entry_already_turned(x, angles):
    """You compute the second entries from first entries that are already rotated. Both need x as it was before."""
    first, second = _pairs(x)
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    first = first * cos - second * sin
    return _woven(first, first * sin + second * cos)


def angles_given_to_the_heads(x, angles):
    """You use the angles of a sequence for a head. In x the heads come before the tokens, so where do the angles need
    another axis?"""
    stretched = angles.repeat_interleave(2, -1)
    return x * stretched.cos() + _shuffled(x) * stretched.sin()


def angles_of_the_first_sequence(x, angles):
    """You rotate all sequences by the angles of the first. Each sequence has its own positions."""
    return _turned(x, angles[:1])


def first_head_only(x, angles):
    """You rotate only the first head. All heads should be rotated, by the same angles."""
    return torch.cat((_turned(x[:, :1], angles), x[:, 1:]), 1)


def changes_its_argument(x, angles):
    """The result is right, but you write it into x, which the caller still needs. Make a new tensor."""
    x.copy_(_turned(x, angles))
    return x


def overwritten_on_the_way(x, angles):
    """You write into x, so the second entries are computed from first entries that are already rotated, and the
    caller's x changes. Make a new tensor."""
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    first, second = _pairs(x)
    x[..., 0::2] = first * cos - second * sin
    x[..., 1::2] = first * sin + second * cos
    return x


def halves_woven(x, angles):
    """You pair entry i with entry i + d/2 and then let the results alternate. Neighbouring entries form a plane, before
    and after the rotation."""
    first, second = x.chunk(2, -1)
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    return _woven(first * cos - second * sin, second * cos + first * sin)


def first_angle_for_all_planes(x, angles):
    """You rotate all planes by the angle of the first. Each plane has its own angle."""
    return _turned(x, angles[..., :1].expand_as(angles))


def first_token_for_all(x, angles):
    """You rotate all tokens by the angles of the first. Each token has its own position and its own angles."""
    return _turned(x, angles[:, :1].expand_as(angles))


def angles_not_stretched(x, angles):
    """Your angles have half the width of x, because there is one for each plane. Repeat each for both entries of its
    plane."""
    angles = angles[:, None]
    return x * angles.cos() + _shuffled(x) * angles.sin()


def cosines_only(x, angles):
    """You multiply each entry by a cosine, but the sines are missing. A rotation mixes the two entries of a plane."""
    return x * _tables(angles)[0]


def not_shuffled(x, angles):
    """You multiply x by the cosines and again x by the sines. In the second product the entries of each pair should be
    exchanged, one of them with a minus."""
    cos, sin = _tables(angles)
    return x * cos + x * sin


def rolled(x, angles):
    """You shift all entries by one, so one entry of each pair comes from another plane. Exchange the two entries of
    each pair instead."""
    cos, sin = _tables(angles)
    signs = torch.tensor([-1.0, 1.0]).repeat(x.shape[-1] // 2)
    return x * cos + signs * x.roll(-1, -1) * sin


def rolled_to_the_end(x, angles):
    """You shift all entries by one, so one entry of each pair comes from another plane. Exchange the two entries of
    each pair instead."""
    cos, sin = _tables(angles)
    signs = torch.tensor([-1.0, 1.0]).repeat(x.shape[-1] // 2)
    return x * cos + signs * x.roll(1, -1) * sin


def axis_beside_the_tokens(x, angles):
    """Your code works only for one sequence and one head. In x the heads come before the tokens, so where do the angles
    need another axis?"""
    angles = angles.repeat_interleave(2, -1)[:, :, None]
    return x * angles.cos() + _shuffled(x) * angles.sin()


def halves_and_clockwise(x, angles):
    """You pair entry i with entry i + d/2 and rotate in the wrong direction. Here neighbouring entries form a plane,
    and the first entry of each pair in the reordered vector has the minus."""
    return paired_across_halves(x, -angles)


def shuffled_not_woven(x, angles):
    """In your reordered vector all second entries come before all first entries. They should alternate."""
    cos, sin = _tables(angles)
    first, second = _pairs(x)
    return x * cos + torch.cat((-second, first), -1) * sin


def pairs_on_an_axis(x, angles):
    """The numbers are right, but the pairs have their own axis. Return a tensor with the shape of x."""
    return _turned(x, angles).unflatten(-1, (-1, 2))
