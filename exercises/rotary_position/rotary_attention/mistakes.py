import math

import torch


def _angles(positions, d_head, base, exponents=None):
    exponents = torch.arange(0, d_head, 2) / d_head if exponents is None else exponents
    return positions[:, None, :, None] * base**-exponents


def _by_angles(x, angles):
    angles = angles.double()
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


def _turn(x, positions, base, exponents=None):
    return _by_angles(x, _angles(positions, x.shape[-1], base, exponents))


def _attend(queries, keys, values, mask, scale=None):
    scores = queries @ keys.transpose(-2, -1) / (scale or math.sqrt(keys.shape[-1]))
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def _counted(positions):
    return torch.arange(positions.shape[1]).expand_as(positions)


def not_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """Your output does not depend on the positions. Do you use the turned queries and keys?"""
    return _attend(queries, keys, values, mask)


def values_turned_too(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the values as well. Only queries and keys are turned."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, _turn(values, key_positions, base), mask)


def output_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the output. Positions belong in the scores, before the softmax, and nowhere else."""
    return _turn(_attend(queries, keys, values, mask), query_positions, base)


def keys_and_values_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn keys and values. Turn queries and keys instead."""
    return _attend(queries, _turn(keys, key_positions, base), _turn(values, key_positions, base), mask)


def queries_only(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the queries only, so their absolute positions matter. Turn the keys too, each by its own position."""
    return _attend(_turn(queries, query_positions, base), keys, values, mask)


def keys_only(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the keys only, so their absolute positions matter. Turn the queries too, each by its own position."""
    return _attend(queries, _turn(keys, key_positions, base), values, mask)


def counted_from_zero(queries, keys, values, query_positions, key_positions, mask, base):
    """You count queries and keys from 0 instead of taking their positions. With a cache the first query is not at 0."""
    queries, keys = _turn(queries, _counted(query_positions), base), _turn(keys, _counted(key_positions), base)
    return _attend(queries, keys, values, mask)


def positions_of_the_first_sequence(queries, keys, values, query_positions, key_positions, mask, base):
    """You use the positions of the first sequence for all. Each has its own, and one may be padded or further on."""
    queries, keys = _turn(queries, query_positions[:1], base), _turn(keys, key_positions[:1], base)
    return _attend(queries, keys, values, mask)


def keys_one_position_on(queries, keys, values, query_positions, key_positions, mask, base):
    """Your keys are one position too far ahead, or your queries one too far back. Use the positions as they are
    given."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions + 1, base)
    return _attend(queries, keys, values, mask)


def both_clockwise(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn queries and keys the other way. The offset is still all that counts, but with its sign changed."""
    return _attend(_turn(queries, -query_positions, base), _turn(keys, -key_positions, base), values, mask)


def keys_turned_back(queries, keys, values, query_positions, key_positions, mask, base):
    """Queries and keys turn in opposite directions, so their positions add up. The same turn is applied to both."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, -key_positions, base), values, mask)


def paired_across_halves(queries, keys, values, query_positions, key_positions, mask, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbours form a plane."""
    halves = [torch.stack(x.chunk(2, -1), -1).flatten(-2) for x in (queries, keys)]
    return _attend(_turn(halves[0], query_positions, base), _turn(halves[1], key_positions, base), values, mask)


def two_forgotten(queries, keys, values, query_positions, key_positions, mask, base):
    """Your slower planes turn too fast: the exponent lacks its factor of 2, or divides by a wrong width."""
    width = queries.shape[-1]
    exponents = torch.arange(width // 2) / width
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def frequencies_over_all_heads(queries, keys, values, query_positions, key_positions, mask, base):
    """You number the planes across all heads, so later heads turn slower. Each head begins at frequency 1 again."""
    exponents = (torch.arange(0, queries[0, :, 0].numel(), 2) / queries[0, :, 0].numel()).view(queries.shape[1], 1, -1)
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def base_fixed(queries, keys, values, query_positions, key_positions, mask, base):
    """You take 10000 whatever the base. It is given, and newer models set it higher."""
    return _attend(_turn(queries, query_positions, 10000), _turn(keys, key_positions, 10000), values, mask)


def waves_added(queries, keys, values, query_positions, key_positions, mask, base):
    """You add sines and cosines to queries and keys. RoPE adds nothing: it multiplies."""
    width = queries.shape[-1]
    waves = (_angles(positions, width, base) for positions in (query_positions, key_positions))
    waves = [torch.stack((w.cos(), w.sin()), -1).flatten(-2).to(queries.dtype) for w in waves]
    return _attend(queries + waves[0], keys + waves[1], values, mask)


def angles_as_bias(queries, keys, values, query_positions, key_positions, mask, base):
    """You add the offset to the scores. That is a bias; here the position changes queries and keys themselves."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    scores = scores + (key_positions[:, None, None, :] - query_positions[:, None, :, None])
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def no_scale(queries, keys, values, query_positions, key_positions, mask, base):
    """The scores go into the softmax as they are. A rotation preserves lengths, so they need the same scale as without
    it."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, key_positions, base), values, mask, scale=1.0)


def no_mask(queries, keys, values, query_positions, key_positions, mask, base):
    """Your mask hides nothing: tokens attend to padding and to later tokens. A position does not hide a key."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, torch.ones_like(mask))


def key_positions_for_both(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the queries by the positions of the keys. They have positions of their own, and there may be fewer of
    them."""
    return _attend(_turn(queries, key_positions, base), _turn(keys, key_positions, base), values, mask)


def query_positions_for_both(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the keys by the positions of the queries. They have positions of their own, and there may be more of
    them."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, query_positions, base), values, mask)


def positions_exchanged(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn queries by the positions of keys, and keys by those of queries. The two are exchanged."""
    return _attend(_turn(queries, key_positions, base), _turn(keys, query_positions, base), values, mask)


def queries_taken_for_the_last_keys(queries, keys, values, query_positions, key_positions, mask, base):
    """You give the queries the positions of the last keys. Take those that are given for the queries."""
    last = key_positions[:, -queries.shape[2] :]
    return _attend(_turn(queries, last, base), _turn(keys, key_positions, base), values, mask)


def axis_for_the_heads_missing(queries, keys, values, query_positions, key_positions, mask, base):
    """You give the angles of a sequence to a head: in the turn, heads come before tokens. Where is an axis missing?"""
    angles = (_angles(p, queries.shape[-1], base)[:, 0] for p in (query_positions, key_positions))
    return _attend(*map(_by_angles, (queries, keys), angles), values, mask)


def _weights(queries, keys, query_positions, key_positions, base, change, axis=-1):
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return torch.softmax(change(queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])), axis)


def masked_scores_zero(queries, keys, values, query_positions, key_positions, mask, base):
    """You set the scores of hidden keys to 0. The exponential of 0 is 1, so they still receive weight."""

    def change(scores):
        return scores.masked_fill(~mask[:, None], 0)

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def mask_added(queries, keys, values, query_positions, key_positions, mask, base):
    """You add the mask to the scores as numbers. A visible key gains 1, but hidden keys still receive weight."""

    def change(scores):
        return scores + mask[:, None]

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def masked_after_the_softmax(queries, keys, values, query_positions, key_positions, mask, base):
    """You hide keys after the softmax, so the weights that are left add up to less than one. Hide the scores before
    it."""
    return _weights(queries, keys, query_positions, key_positions, base, lambda scores: scores) * mask[:, None] @ values


def mask_inverted(queries, keys, values, query_positions, key_positions, mask, base):
    """You hide the keys that should be visible, and show the others. The mask is True where a query may attend."""

    def change(scores):
        return scores.masked_fill(mask[:, None], -math.inf)

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def softmax_over_the_queries(queries, keys, values, query_positions, key_positions, mask, base):
    """Your softmax runs over the queries. The weights of one query over all keys should add up to one."""

    def change(scores):
        return scores.masked_fill(~mask[:, None], -math.inf)

    return _weights(queries, keys, query_positions, key_positions, base, change, -2) @ values


def divided_by_the_width(queries, keys, values, query_positions, key_positions, mask, base):
    """You divide the scores by the width of a head. Divide by its root."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, mask, scale=keys.shape[-1])


def distance_without_sign(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn by how far apart query and key are and not by which comes first. Before and after are different
    offsets."""
    distances = (key_positions[:, None, :] - query_positions[:, :, None]).abs()
    turns = torch.exp(1j * distances[..., None] * base ** -(torch.arange(0, keys.shape[-1], 2) / keys.shape[-1]))
    queries, keys = (torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) for x in (queries, keys))
    scores = torch.einsum("bhqp,bhkp,bqkp->bhqk", queries.conj(), keys, turns).real / (2 * keys.shape[-1]) ** 0.5
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def queries_counted_from_zero(queries, keys, values, query_positions, key_positions, mask, base):
    """You count the queries from 0, though the keys have the positions that are given. Queries have theirs as well."""
    queries, keys = _turn(queries, _counted(query_positions), base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, mask)


def axis_of_the_mask_missing(queries, keys, values, query_positions, key_positions, mask, base):
    """You give the mask of a sequence to a head. Scores have an axis for the heads, and the mask has none yet."""

    def change(scores):
        return scores.masked_fill(~mask, -math.inf)

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def exponent_positive(queries, keys, values, query_positions, key_positions, mask, base):
    """Your planes become faster from one to the next. Look at the sign of the exponent."""
    exponents = -torch.arange(0, queries.shape[-1], 2) / queries.shape[-1]
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def no_minus(queries, keys, values, query_positions, key_positions, mask, base):
    """In your turn all sines have a plus, so lengths change. One of the two in each plane has a minus."""

    def turn(x, positions):
        angles = _angles(positions, x.shape[-1], base).repeat_interleave(2, -1)
        return x * angles.cos() + x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * angles.sin()

    return _attend(turn(queries, query_positions), turn(keys, key_positions), values, mask)


def overwritten_on_the_way(queries, keys, values, query_positions, key_positions, mask, base):
    """You write into queries and keys, so second entries are made from first ones that are turned already, and the
    caller's tensors change. Make new ones."""
    for x, positions in ((queries, query_positions), (keys, key_positions)):
        cos, sin = (f(_angles(positions, x.shape[-1], base)) for f in (torch.cos, torch.sin))
        x[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        x[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return _attend(queries, keys, values, mask)


def weights_only(queries, keys, values, query_positions, key_positions, mask, base):
    """You return the weights. The output is their product with the values."""

    def change(scores):
        return scores.masked_fill(~mask[:, None], -math.inf)

    return _weights(queries, keys, query_positions, key_positions, base, change)


def no_softmax(queries, keys, values, query_positions, key_positions, mask, base):
    """You take the scores as weights, and hidden ones are 0. The softmax is missing."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return scores * mask[:, None] @ values


def inverted_for_the_fused_function(queries, keys, values, query_positions, key_positions, mask, base):
    """You hide the keys that should be visible, and show the others. The mask is True where a query may attend."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, ~mask).nan_to_num(0.0)  # what it returns where no key is left


def causal_instead_of_the_mask(queries, keys, values, query_positions, key_positions, mask, base):
    """You hide keys by their index in the list. Take the mask that is given: a query that follows a cache sees all keys
    in it, and padding is hidden."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, torch.ones_like(mask).tril())


def root_of_the_number_of_keys(queries, keys, values, query_positions, key_positions, mask, base):
    """You divide the scores by the root of the number of keys. Divide by the root of the width of a head."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, mask, scale=math.sqrt(keys.shape[-2]))
