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
    """Your last pair follows the slide (erratum E-01): its entries are not exchanged. Compare it with the first."""
    cos, sin = _tables(angles)
    shuffled = _shuffled(x)
    shuffled[..., -2], shuffled[..., -1] = -x[..., -2], x[..., -1]
    return x * cos + shuffled * sin


def clockwise(x, angles):
    """You turn the other way: the minus in your shuffled vector is at the wrong entry of each pair."""
    return _turned(x, -angles)


def no_minus(x, angles):
    """No entry of your shuffled vector has a minus, so lengths change. One of each pair has it."""
    cos, sin = _tables(angles)
    return x * cos + _woven(*reversed(_pairs(x))) * sin


def both_minus(x, angles):
    """All entries of your shuffled vector have a minus, so lengths change. One of each pair has it."""
    cos, sin = _tables(angles)
    return x * cos - _woven(*reversed(_pairs(x))) * sin


def not_exchanged(x, angles):
    """The signs alternate, but the entries of a pair are not exchanged in your shuffled vector."""
    cos, sin = _tables(angles)
    first, second = _pairs(x)
    return x * cos + _woven(-first, second) * sin


def paired_across_halves(x, angles):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. It is a rotation too, but here neighbours form a plane."""
    first, second = x.chunk(2, -1)
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def halves_shuffled_neighbours_stretched(x, angles):
    """You stretch the angles for neighbours and shuffle across the halves. Two ways of pairing are mixed."""
    cos, sin = _tables(angles)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def neighbours_shuffled_halves_stretched(x, angles):
    """Your shuffle is right; the angles are stretched for halves. The two entries of a pair should share an angle."""
    stretched = angles[:, None].repeat(1, 1, 1, 2)
    return x * stretched.cos() + _shuffled(x) * stretched.sin()


def not_woven(x, angles):
    """The numbers are right, but you lay all first entries before all second ones. They should alternate again."""
    return torch.cat(_pairs(_turned(x, angles)), -1)


def sine_and_cosine_exchanged(x, angles):
    """Sine and cosine are exchanged. Angles of zero should leave x as it is: try it."""
    cos, sin = _tables(angles)
    return x * sin + _shuffled(x) * cos


def first_entry_already_turned(x, angles):
    """Your second entries are made from the first ones after their turn. Both need x as it was before."""
    first, second = _pairs(x)
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    first = first * cos - second * sin
    return _woven(first, first * sin + second * cos)


def angles_given_to_the_heads(x, angles):
    """You give the angles of a sequence to a head. Heads come before tokens in x: where is an axis missing?"""
    stretched = angles.repeat_interleave(2, -1)
    return x * stretched.cos() + _shuffled(x) * stretched.sin()


def angles_of_the_first_sequence(x, angles):
    """You turn all sequences by the angles of the first. Each has positions of its own."""
    return _turned(x, angles[:1])


def first_head_only(x, angles):
    """You turn the first head and leave the others. All heads are turned, by the same angles."""
    return torch.cat((_turned(x[:, :1], angles), x[:, 1:]), 1)


def changes_its_argument(x, angles):
    """The result is right, but you write it into x, and the caller still needs x. Make a new tensor."""
    x.copy_(_turned(x, angles))
    return x


def overwritten_on_the_way(x, angles):
    """You write into x, so the second entries are made from first ones that are turned already, and the caller's x is
    changed. Make a new tensor."""
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    first, second = _pairs(x)
    x[..., 0::2] = first * cos - second * sin
    x[..., 1::2] = first * sin + second * cos
    return x


def halves_woven(x, angles):
    """You pair entry i with entry i + d/2 and then let the results alternate. Neighbours form a plane, before and
    after the turn."""
    first, second = x.chunk(2, -1)
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    return _woven(first * cos - second * sin, second * cos + first * sin)


def first_angle_for_all_planes(x, angles):
    """You turn all planes by the angle of the first. Each plane has its own."""
    return _turned(x, angles[..., :1].expand_as(angles))


def first_token_for_all(x, angles):
    """You turn all tokens by the angles of the first. Each token has a position and angles of its own."""
    return _turned(x, angles[:, :1].expand_as(angles))


def angles_not_stretched(x, angles):
    """Your angles are half as wide as x: they have one number for each plane. It belongs to both entries of the
    plane."""
    angles = angles[:, None]
    return x * angles.cos() + _shuffled(x) * angles.sin()


def cosines_only(x, angles):
    """You multiply each entry by a cosine, and the sines are missing. A turn mixes the two entries of a plane."""
    return x * _tables(angles)[0]


def not_shuffled(x, angles):
    """You multiply x by the cosines and x again by the sines. In the second product the entries of a pair are
    exchanged, one with a minus."""
    cos, sin = _tables(angles)
    return x * cos + x * sin


def rolled(x, angles):
    """You shift the entries by one instead of exchanging the two of each pair, so one of them comes from another
    plane."""
    cos, sin = _tables(angles)
    signs = torch.tensor([-1.0, 1.0]).repeat(x.shape[-1] // 2)
    return x * cos + signs * x.roll(-1, -1) * sin


def rolled_to_the_end(x, angles):
    """You shift the entries by one instead of exchanging the two of each pair, so one of them comes from another
    plane."""
    cos, sin = _tables(angles)
    signs = torch.tensor([-1.0, 1.0]).repeat(x.shape[-1] // 2)
    return x * cos + signs * x.roll(1, -1) * sin


def axis_beside_the_tokens(x, angles):
    """Your code works for one sequence and one head alone. In x the heads come before the tokens: where do the angles
    need a new axis?"""
    angles = angles.repeat_interleave(2, -1)[:, :, None]
    return x * angles.cos() + _shuffled(x) * angles.sin()


def halves_and_clockwise(x, angles):
    """You pair entry i with entry i + d/2, and turn the other way. Here neighbours form a plane, and the first entry of
    the shuffled vector has the minus."""
    return paired_across_halves(x, -angles)


def shuffled_not_woven(x, angles):
    """In your shuffled vector all second entries come before all first ones. They should alternate."""
    cos, sin = _tables(angles)
    first, second = _pairs(x)
    return x * cos + torch.cat((-second, first), -1) * sin


def pairs_on_an_axis(x, angles):
    """The numbers are right, but each pair has an axis of its own. Return the shape of x."""
    return _turned(x, angles).unflatten(-1, (-1, 2))
