import torch


def _woven(rows):
    """Along axis 1: halves to neighbours."""
    return torch.stack(rows.chunk(2, 1), 2).flatten(1, 2)


def _heads(weight, n_heads):
    return weight.reshape(n_heads, -1, weight.shape[-1])


def _joined(turned, heads, d_rotary):
    return torch.cat((turned, heads[:, d_rotary:]), 1).flatten(0, 1)


def interleaved_to_half_split(weight, n_heads, d_rotary):
    """You convert in the other direction, from interleaved to half-split, as the chapter does. For 4 rotated entries
    the two happen to be the same."""
    heads = _heads(weight, n_heads)
    turned = heads[:, :d_rotary]
    return _joined(torch.cat((turned[:, 0::2], turned[:, 1::2]), 1), heads, d_rotary)


def whole_head(weight, n_heads, d_rotary):
    """You reorder whole heads. Only the first d_rotary entries of a head are rotated, and the others stay where they
    are."""
    return _woven(_heads(weight, n_heads)).flatten(0, 1)


def last_entries(weight, n_heads, d_rotary):
    """You reorder the last entries of a head. The first d_rotary entries are the ones that are rotated."""
    heads = _heads(weight, n_heads)
    start = heads.shape[1] - d_rotary
    return torch.cat((heads[:, :start], _woven(heads[:, start:])), 1).flatten(0, 1)


def paired_across_the_whole_head(weight, n_heads, d_rotary):
    """You pair each entry with the one half a head away. The halves are those of the rotated part."""
    heads = _heads(weight, n_heads)
    d_head = heads.shape[1]
    order = [i + j * (d_head // 2) for i in range(d_rotary // 2) for j in (0, 1)]
    order += [i for i in range(d_head) if i not in order]
    return heads[:, order].flatten(0, 1)


def all_heads_as_one(weight, n_heads, d_rotary):
    """You reorder the first rows of the whole matrix. Each head has d_rotary rows that are rotated."""
    return torch.cat((_woven(weight[None, :d_rotary])[0], weight[d_rotary:]))


def through_all_heads(weight, n_heads, d_rotary):
    """You pair rows of the first heads with rows of the last heads. The halves are those within a head."""
    heads = _heads(weight, n_heads)
    turned = _woven(heads[:, :d_rotary].flatten(0, 1)[None])[0]
    return _joined(turned.unflatten(0, (n_heads, -1)), heads, d_rotary)


def second_half_first(weight, n_heads, d_rotary):
    """In each plane, your two rows are exchanged. The row of the first half comes first."""
    heads = _heads(weight, n_heads)
    return _joined(_woven(heads[:, :d_rotary].roll(d_rotary // 2, 1)), heads, d_rotary)


def halves_exchanged(weight, n_heads, d_rotary):
    """You exchange the two halves. The two rows of a plane should be neighbours, but in your answer they are as far
    apart as before."""
    heads = _heads(weight, n_heads)
    return _joined(heads[:, :d_rotary].roll(d_rotary // 2, 1), heads, d_rotary)


def reshaped_only(weight, n_heads, d_rotary):
    """You split the rows and merge them again in the same order. Exchange two axes in between."""
    return weight.clone()


def columns_reordered(weight, n_heads, d_rotary):
    """You reorder columns, which belong to the input. The entries of a query are the rows of this matrix."""
    return torch.stack(weight.chunk(2, 1), 2).flatten(1)


def others_first(weight, n_heads, d_rotary):
    """The order of the rotated rows is right, but you put the other rows before them. They belong after them."""
    heads = _heads(weight, n_heads)
    return torch.cat((heads[:, d_rotary:], _woven(heads[:, :d_rotary])), 1).flatten(0, 1)


def others_left_out(weight, n_heads, d_rotary):
    """You return only the rows that are rotated. The other rows are part of the head too."""
    return _woven(_heads(weight, n_heads)[:, :d_rotary]).flatten(0, 1)


def heads_on_an_axis(weight, n_heads, d_rotary):
    """The order is right, but the heads have their own axis. Return a matrix of the same shape as weight."""
    heads = _heads(weight, n_heads)
    return torch.cat((_woven(heads[:, :d_rotary]), heads[:, d_rotary:]), 1)


def others_after_all_heads(weight, n_heads, d_rotary):
    """You put the rotated rows of all heads first and the other rows of all heads at the end. The rows of each head
    should stay together."""
    heads = _heads(weight, n_heads)
    return torch.cat((_woven(heads[:, :d_rotary]).flatten(0, 1), heads[:, d_rotary:].flatten(0, 1)))


def heads_dealt_in_turn(weight, n_heads, d_rotary):
    """You treat successive rows as if they belonged to different heads. All rows of head 0 come first, then those of
    head 1."""
    heads = weight.reshape(-1, n_heads, weight.shape[-1]).transpose(0, 1)
    return torch.cat((_woven(heads[:, :d_rotary]), heads[:, d_rotary:]), 1).transpose(0, 1).flatten(0, 1)


def changes_its_argument(weight, n_heads, d_rotary):
    """The result is right, but you write it into weight, which the caller still needs. Make a new tensor."""
    heads = _heads(weight, n_heads)
    weight[:] = _joined(_woven(heads[:, :d_rotary]), heads, d_rotary)
    return weight


def overwritten_on_the_way(weight, n_heads, d_rotary):
    """You write rows into weight itself, so some rows are overwritten before you read them, and the caller's tensor
    changes. Collect the rows in a new tensor."""
    heads = weight.view(n_heads, -1, weight.shape[-1])
    for plane in range(d_rotary // 2):
        heads[:, 2 * plane], heads[:, 2 * plane + 1] = heads[:, plane], heads[:, plane + d_rotary // 2]
    return weight


def partner_half_a_head_away(weight, n_heads, d_rotary):
    """You pair each entry with the one half a head away, so some rows occur twice and others are lost. The halves are
    those of the rotated part."""
    heads = _heads(weight, n_heads)
    d_head = heads.shape[1]
    order = [i + j * (d_head // 2) for i in range(d_rotary // 2) for j in (0, 1)]
    return heads[:, order + list(range(d_rotary, d_head))].flatten(0, 1)


def planes_in_reverse(weight, n_heads, d_rotary):
    """The two rows of each plane are neighbours in your answer, but the planes are in reverse order."""
    heads = _heads(weight, n_heads)
    turned = _woven(heads[:, :d_rotary]).unflatten(1, (-1, 2)).flip(1).flatten(1, 2)
    return _joined(turned, heads, d_rotary)
