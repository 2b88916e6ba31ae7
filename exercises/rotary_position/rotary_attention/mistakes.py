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
    """Your output does not depend on the positions. Do you use the rotated queries and keys?"""
    return _attend(queries, keys, values, mask)


def values_turned_too(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate the values as well. Rotate only queries and keys."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, _turn(values, key_positions, base), mask)


def output_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate the output. Positions should enter only through the scores, before the softmax."""
    return _turn(_attend(queries, keys, values, mask), query_positions, base)


def keys_and_values_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate keys and values. Rotate queries and keys instead."""
    return _attend(queries, _turn(keys, key_positions, base), _turn(values, key_positions, base), mask)


def queries_only(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate only the queries, so their absolute positions matter. Rotate each key by its position too."""
    return _attend(_turn(queries, query_positions, base), keys, values, mask)


def keys_only(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate only the keys, so their absolute positions matter. Rotate each query by its position too."""
    return _attend(queries, _turn(keys, key_positions, base), values, mask)


def counted_from_zero(queries, keys, values, query_positions, key_positions, mask, base):
    """You count queries and keys from 0. Use the positions that are given: with a cache, the first query is not at
    0."""
    queries, keys = _turn(queries, _counted(query_positions), base), _turn(keys, _counted(key_positions), base)
    return _attend(queries, keys, values, mask)


def positions_of_the_first_sequence(queries, keys, values, query_positions, key_positions, mask, base):
    """You use the positions of the first sequence for all sequences. Each sequence has its own: one may be padded, or
    further on in its text."""
    queries, keys = _turn(queries, query_positions[:1], base), _turn(keys, key_positions[:1], base)
    return _attend(queries, keys, values, mask)


def keys_one_position_on(queries, keys, values, query_positions, key_positions, mask, base):
    """Your keys are one position too far ahead, or your queries one position too far back. Use the positions as they
    are given."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions + 1, base)
    return _attend(queries, keys, values, mask)


def both_clockwise(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate queries and keys in the wrong direction. The scores still depend only on the offset, but with its sign
    changed."""
    return _attend(_turn(queries, -query_positions, base), _turn(keys, -key_positions, base), values, mask)


def keys_turned_back(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate queries and keys in opposite directions, so their positions are added. Apply the same rotation to
    both."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, -key_positions, base), values, mask)


def paired_across_halves(queries, keys, values, query_positions, key_positions, mask, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbouring entries form a plane."""
    halves = [torch.stack(x.chunk(2, -1), -1).flatten(-2) for x in (queries, keys)]
    return _attend(_turn(halves[0], query_positions, base), _turn(halves[1], key_positions, base), values, mask)


def two_forgotten(queries, keys, values, query_positions, key_positions, mask, base):
    """Your slower planes rotate too fast: the factor 2 is missing in the exponent, or you divide by the wrong width."""
    width = queries.shape[-1]
    exponents = torch.arange(width // 2) / width
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def frequencies_over_all_heads(queries, keys, values, query_positions, key_positions, mask, base):
    """You number the planes across all heads, so later heads rotate more slowly. Each head begins again with a
    frequency of 1."""
    exponents = (torch.arange(0, queries[0, :, 0].numel(), 2) / queries[0, :, 0].numel()).view(queries.shape[1], 1, -1)
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def base_fixed(queries, keys, values, query_positions, key_positions, mask, base):
    """You always use base 10000. The base is an argument, and newer models use larger ones."""
    return _attend(_turn(queries, query_positions, 10000), _turn(keys, key_positions, 10000), values, mask)


def waves_added(queries, keys, values, query_positions, key_positions, mask, base):
    """You add sines and cosines to queries and keys. RoPE adds nothing: it rotates."""
    width = queries.shape[-1]
    waves = (_angles(positions, width, base) for positions in (query_positions, key_positions))
    waves = [torch.stack((w.cos(), w.sin()), -1).flatten(-2).to(queries.dtype) for w in waves]
    return _attend(queries + waves[0], keys + waves[1], values, mask)


def angles_as_bias(queries, keys, values, query_positions, key_positions, mask, base):
    """You add the offset to the scores as a bias. In RoPE, positions change queries and keys themselves."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    scores = scores + (key_positions[:, None, None, :] - query_positions[:, None, :, None])
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def no_scale(queries, keys, values, query_positions, key_positions, mask, base):
    """You do not scale the scores. A rotation preserves lengths, so they need the same scale as without it."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, key_positions, base), values, mask, scale=1.0)


def no_mask(queries, keys, values, query_positions, key_positions, mask, base):
    """You do not apply the mask, so tokens attend to padding and to later tokens. RoPE does not hide any keys."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, torch.ones_like(mask))


def key_positions_for_both(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate the queries by the positions of the keys. The queries have their own positions, and there may be fewer
    of them."""
    return _attend(_turn(queries, key_positions, base), _turn(keys, key_positions, base), values, mask)


def query_positions_for_both(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate the keys by the positions of the queries. The keys have their own positions, and there may be more of
    them."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, query_positions, base), values, mask)


def positions_exchanged(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate queries by the positions of the keys, and keys by those of the queries. Exchange them."""
    return _attend(_turn(queries, key_positions, base), _turn(keys, query_positions, base), values, mask)


def queries_taken_for_the_last_keys(queries, keys, values, query_positions, key_positions, mask, base):
    """You give the queries the positions of the last keys. Use the positions that are given for the queries."""
    last = key_positions[:, -queries.shape[2] :]
    return _attend(_turn(queries, last, base), _turn(keys, key_positions, base), values, mask)


def axis_for_the_heads_missing(queries, keys, values, query_positions, key_positions, mask, base):
    """You use the angles of a sequence for a head. In queries and keys, the heads come before the tokens, so where do
    the angles need another axis?"""
    angles = (_angles(p, queries.shape[-1], base)[:, 0] for p in (query_positions, key_positions))
    return _attend(*map(_by_angles, (queries, keys), angles), values, mask)


def _weights(queries, keys, query_positions, key_positions, base, change, axis=-1):
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return torch.softmax(change(queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])), axis)


def masked_scores_zero(queries, keys, values, query_positions, key_positions, mask, base):
    """You set the scores of masked keys to 0. The exponential of 0 is 1, so these keys still get weight."""

    def change(scores):
        return scores.masked_fill(~mask[:, None], 0)

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def mask_added(queries, keys, values, query_positions, key_positions, mask, base):
    """You add the mask to the scores as zeros and ones. A visible key gains 1, but masked keys still get weight."""

    def change(scores):
        return scores + mask[:, None]

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def masked_after_the_softmax(queries, keys, values, query_positions, key_positions, mask, base):
    """You mask after the softmax, so the remaining weights do not sum to one. Mask the scores before the softmax."""
    return _weights(queries, keys, query_positions, key_positions, base, lambda scores: scores) * mask[:, None] @ values


def mask_inverted(queries, keys, values, query_positions, key_positions, mask, base):
    """You mask the keys that should be visible, and show the others. The mask is True where a query may attend."""

    def change(scores):
        return scores.masked_fill(mask[:, None], -math.inf)

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def softmax_over_the_queries(queries, keys, values, query_positions, key_positions, mask, base):
    """Your softmax runs over the queries. The weights of one query should sum to one over all keys."""

    def change(scores):
        return scores.masked_fill(~mask[:, None], -math.inf)

    return _weights(queries, keys, query_positions, key_positions, base, change, -2) @ values


def divided_by_the_width(queries, keys, values, query_positions, key_positions, mask, base):
    """You divide the scores by the width of a head. Divide by its square root."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, mask, scale=keys.shape[-1])


def distance_without_sign(queries, keys, values, query_positions, key_positions, mask, base):
    """You rotate by the distance between query and key, whichever comes first. An offset has a sign."""
    distances = (key_positions[:, None, :] - query_positions[:, :, None]).abs()
    turns = torch.exp(1j * distances[..., None] * base ** -(torch.arange(0, keys.shape[-1], 2) / keys.shape[-1]))
    queries, keys = (torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) for x in (queries, keys))
    scores = torch.einsum("bhqp,bhkp,bqkp->bhqk", queries.conj(), keys, turns).real / (2 * keys.shape[-1]) ** 0.5
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def queries_counted_from_zero(queries, keys, values, query_positions, key_positions, mask, base):
    """You count the queries from 0, while you use the given positions for the keys. The positions of the queries are
    given too."""
    queries, keys = _turn(queries, _counted(query_positions), base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, mask)


def axis_of_the_mask_missing(queries, keys, values, query_positions, key_positions, mask, base):
    """You use the mask of a sequence for a head. The scores have an axis for the heads, and the mask needs one too."""

    def change(scores):
        return scores.masked_fill(~mask, -math.inf)

    return _weights(queries, keys, query_positions, key_positions, base, change) @ values


def exponent_positive(queries, keys, values, query_positions, key_positions, mask, base):
    """Your frequencies increase from plane to plane. Look at the sign of the exponent."""
    exponents = -torch.arange(0, queries.shape[-1], 2) / queries.shape[-1]
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def no_minus(queries, keys, values, query_positions, key_positions, mask, base):
    """In your rotation all sines have a positive sign, so lengths change. One of the two in each plane should be
    negative."""

    def turn(x, positions):
        angles = _angles(positions, x.shape[-1], base).repeat_interleave(2, -1)
        return x * angles.cos() + x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * angles.sin()

    return _attend(turn(queries, query_positions), turn(keys, key_positions), values, mask)


def overwritten_on_the_way(queries, keys, values, query_positions, key_positions, mask, base):
    """You write into queries and keys, so the second entries are computed from first entries that are already rotated,
    and the caller's tensors change. Make new tensors."""
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
    """You use the scores as weights, with 0 for masked keys. The softmax is missing."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return scores * mask[:, None] @ values


def inverted_for_the_fused_function(queries, keys, values, query_positions, key_positions, mask, base):
    """You mask the keys that should be visible, and show the others. The mask is True where a query may attend."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, ~mask).nan_to_num(0.0)  # what it returns where no key is left


def causal_instead_of_the_mask(queries, keys, values, query_positions, key_positions, mask, base):
    """You mask keys by their index. Use the mask that is given: a query that follows a cache sees all keys in it, and
    padding is masked."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, torch.ones_like(mask).tril())


def root_of_the_number_of_keys(queries, keys, values, query_positions, key_positions, mask, base):
    """You divide the scores by the root of the number of keys. Divide by the root of the width of a head."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, mask, scale=math.sqrt(keys.shape[-2]))
