import torch


def _blocks(angles):
    """(n_pairs, 2, 2)"""
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((cos, -sin, sin, cos), -1).unflatten(-1, (2, 2))


def _one(angles):
    return torch.block_diag(*_blocks(angles))


def _each(angles, make=_one):
    return torch.stack([make(row) for row in angles])


def clockwise(angles):
    """Your matrices rotate clockwise: they are the transposes of the right ones. At which corner of a block is the
    minus?"""
    return _each(angles).transpose(-2, -1)


def no_minus(angles):
    """All your sines are positive, so lengths change. One of the two sines in each block is negative."""
    signs = torch.tensor([[1, -1], [1, 1]], dtype=angles.dtype)
    return _each(angles, lambda row: torch.block_diag(*(_blocks(row) * signs)))


def mirrored(angles):
    """Your blocks are reflections, because the minus is at a cosine. Test it: if all angles are zero, the matrix should
    be the identity."""
    mirror = torch.tensor([[1, 0], [0, -1]], dtype=angles.dtype)
    return _each(angles, lambda row: torch.block_diag(*(_blocks(row) @ mirror)))


def sine_and_cosine_exchanged(angles):
    """You exchange sine and cosine. Test it: if all angles are zero, the matrix should be the identity."""
    return _each(torch.pi / 2 - angles)


def paired_across_halves(angles):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbouring entries form a plane."""
    cos, sin = angles.cos().diag_embed(), angles.sin().diag_embed()
    return torch.cat((torch.cat((cos, -sin), -1), torch.cat((sin, cos), -1)), -2)


def one_angle_for_all(angles):
    """You rotate all planes by the first angle of the row. Each plane has its own angle."""
    return _each(angles[:, :1].expand_as(angles))


def one_position_for_all(angles):
    """All your matrices are those of the first position. Each row of angles belongs to its own position."""
    return _each(angles[:1].expand_as(angles))


def angles_dealt_in_turn(angles):
    """The two rows of your blocks have different angles, because you step through the angles once per entry. Take one
    angle for each pair of entries."""
    dealt = angles.repeat(1, 2)
    matrices = dealt.cos().diag_embed()
    first = torch.arange(0, dealt.shape[-1], 2)
    matrices[:, first, first + 1] = -dealt[:, first].sin()
    matrices[:, first + 1, first] = dealt[:, first + 1].sin()
    return matrices


def sines_between_the_blocks(angles):
    """You fill the whole diagonals next to the main one with sines, so there are sines between the blocks. Different
    planes never mix."""
    each = angles.repeat_interleave(2, -1)
    beside = each[:, :-1].sin()
    return each.cos().diag_embed() + beside.diag_embed(-1) - beside.diag_embed(1)


def sines_of_the_next_plane(angles):
    """You fill the whole diagonals next to the main one with sines, so there are sines between the blocks. Different
    planes never mix, and both sines of a block belong to its own angle."""
    each = angles.repeat_interleave(2, -1)
    beside = each[:, 1:].sin()
    return each.cos().diag_embed() + beside.diag_embed(-1) - beside.diag_embed(1)


def blocks_overlap(angles):
    """Your blocks overlap, because each begins one row after the one before. A block has two rows, so where does the
    next one begin?"""
    n_tokens, n_pairs = angles.shape
    matrices = angles.new_zeros(n_tokens, 2 * n_pairs, 2 * n_pairs)
    first = torch.arange(n_pairs)
    matrices[:, first, first] = matrices[:, first + 1, first + 1] = angles.cos()
    matrices[:, first, first + 1], matrices[:, first + 1, first] = -angles.sin(), angles.sin()
    return matrices


def both_minus(angles):
    """All your sines have a minus, so lengths change. One of the two sines in each block is positive."""
    signs = torch.tensor([[1, 1], [-1, 1]], dtype=angles.dtype)
    return _each(angles, lambda row: torch.block_diag(*(_blocks(row) * signs)))


def in_degrees(angles):
    """You treat the angles as degrees. They are in radians, as PyTorch's sine and cosine expect."""
    return _each(torch.deg2rad(angles))


def float32_only(angles):
    """Your code works only for float32 angles. Which tensor do you create yourself, and what is its dtype?"""
    if angles.dtype != torch.float32:
        raise RuntimeError
    return _each(angles)


def cosines_only(angles):
    """You have only the cosines on the diagonal. A rotation mixes the two entries of a plane, so it needs the sines
    too."""
    return angles.repeat_interleave(2, -1).cos().diag_embed()


def blocks_not_joined(angles):
    """You return the blocks separately, and they are right. Put the blocks of each position along the diagonal of one
    matrix."""
    return torch.stack([_blocks(row) for row in angles])


def all_positions_in_one(angles):
    """You put the blocks of all positions along one diagonal. Each position has its own matrix."""
    return torch.block_diag(*_each(angles))


def positions_multiplied(angles):
    """You return a single matrix, the product of the rotations of all positions. Each position has its own matrix."""
    return _one(angles.sum(0))


def ones_elsewhere(angles):
    """Your matrices contain ones outside the blocks, so different planes mix. There should be zeros."""
    n_pairs = angles.shape[1]
    inside = torch.block_diag(*torch.ones(n_pairs, 2, 2, dtype=angles.dtype))
    return _each(angles) + 1 - inside


def without_planes_across(angles):
    """Your matrices have one row for each plane. A plane has two entries, so it needs two rows and two columns."""
    return angles.cos().diag_embed()


def halves_and_clockwise(angles):
    """You pair entry i with entry i + d/2 and rotate clockwise. Here neighbouring entries form a plane, and the minus
    is in the upper right corner of a block."""
    return paired_across_halves(angles).transpose(-2, -1)


def sine_below_only(angles):
    """In each of your blocks one of the two sines is missing."""
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack((cos, 0 * sin, sin, cos), -1).unflatten(-1, (2, 2))
    return torch.stack([torch.block_diag(*each) for each in blocks])
