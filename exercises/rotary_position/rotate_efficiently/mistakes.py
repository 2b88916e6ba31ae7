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
    """Your last pair follows the slide (erratum E-01): its entries do not change places. Compare it with the first."""
    cos, sin = _tables(angles)
    shuffled = _shuffled(x)
    shuffled[..., -2], shuffled[..., -1] = -x[..., -2], x[..., -1]
    return x * cos + shuffled * sin


def clockwise(x, angles):
    """You turn the other way: the minus in your shuffled vector stands at the wrong entry of each pair."""
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
    """The signs alternate, but the entries of a pair have not changed places in your shuffled vector."""
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
    """Sine and cosine have changed places. Angles of zero should leave x as it is: try it."""
    cos, sin = _tables(angles)
    return x * sin + _shuffled(x) * cos


def first_entry_already_turned(x, angles):
    """Your second entries are made from the first ones after their turn. Both need x as it was before."""
    first, second = _pairs(x)
    cos, sin = angles[:, None].cos(), angles[:, None].sin()
    first = first * cos - second * sin
    return _woven(first, first * sin + second * cos)


def angles_given_to_the_heads(x, angles):
    """You hand the angles of a sequence to a head. Heads come before tokens in x: where is an axis missing?"""
    stretched = angles.repeat_interleave(2, -1)
    return x * stretched.cos() + _shuffled(x) * stretched.sin()


def angles_of_the_first_sequence(x, angles):
    """You turn all sequences by the angles of the first. Each may stand at positions of its own."""
    return _turned(x, angles[:1])


def first_head_only(x, angles):
    """You turn the first head and leave the others. All heads are turned, by the same angles."""
    return torch.cat((_turned(x[:, :1], angles), x[:, 1:]), 1)


def changes_its_argument(x, angles):
    """The result is right, but you write it into x, and the caller still needs x. Make a new tensor."""
    x.copy_(_turned(x, angles))
    return x
