import torch


def _distances(query_positions, key_positions):
    return query_positions.unsqueeze(1) - key_positions.unsqueeze(0)


def _angles(distances, w_position, step=2):
    half = w_position.shape[2] // 2
    return distances.unsqueeze(-1) * 1e4 ** (-step * torch.arange(half, dtype=w_position.dtype) / (2 * half))


def _sinusoids(distances, w_position):
    angles = _angles(distances, w_position)
    return torch.cat([torch.sin(angles), torch.cos(angles)], -1)


def _terms(query, key, u, v, w_position, sinusoids):
    """Not divided by the root."""
    positions = sinusoids.unsqueeze(0) @ w_position.transpose(1, 2).unsqueeze(1)  # (heads, queries, keys, d_head)
    words = query @ key.transpose(1, 2)
    asked = (query.unsqueeze(2) * positions).sum(-1)
    weighed = (u.unsqueeze(1) * key).sum(-1).unsqueeze(1) + torch.zeros_like(words)
    return torch.stack([words, asked, weighed, (v[:, None, None] * positions).sum(-1)])


def _right(query, key, u, v, w_position, query_positions, key_positions):
    sinusoids = _sinusoids(_distances(query_positions, key_positions), w_position)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def key_minus_query(query, key, u, v, w_position, query_positions, key_positions):
    """You use key minus query, as elsewhere in this book. This paper uses query minus key, and with the other sign the
    sines are wrong."""
    return _right(query, key, u, v, w_position, -query_positions, -key_positions)


def distance_without_sign(query, key, u, v, w_position, query_positions, key_positions):
    """Your distances have no sign, so past and future look the same. Keep the sign, because the sines depend on it."""
    sinusoids = _sinusoids(_distances(query_positions, key_positions).abs(), w_position)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def in_pairs(query, key, u, v, w_position, query_positions, key_positions):
    """Your sines and cosines alternate. Here all sines come first, then all cosines."""
    angles = _angles(_distances(query_positions, key_positions), w_position)
    sinusoids = torch.stack([torch.sin(angles), torch.cos(angles)], -1).flatten(2)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def cosines_first(query, key, u, v, w_position, query_positions, key_positions):
    """Your cosines come before the sines. The first half of the vector holds the sines."""
    sinusoids = _sinusoids(_distances(query_positions, key_positions), w_position).roll(w_position.shape[2] // 2, -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def half_the_exponent(query, key, u, v, w_position, query_positions, key_positions):
    """Your frequencies fall too slowly. Compare your exponent with the formula, factor by factor."""
    angles = _angles(_distances(query_positions, key_positions), w_position, step=1)
    sinusoids = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def width_of_the_head_in_the_exponent(query, key, u, v, w_position, query_positions, key_positions):
    """You compute the frequencies from the width of a head. The vector of a distance has width d_model."""
    half = w_position.shape[2] // 2
    frequencies = 1e4 ** (-2 * torch.arange(half, dtype=query.dtype) / query.shape[2])
    angles = _distances(query_positions, key_positions).unsqueeze(-1) * frequencies
    sinusoids = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def u_and_v_exchanged(query, key, u, v, w_position, query_positions, key_positions):
    """You exchange u and v. The keys are multiplied by u, and the vectors of the distances by v."""
    return _right(query, key, v, u, w_position, query_positions, key_positions)


def u_for_both(query, key, u, v, w_position, query_positions, key_positions):
    """You use u for the distances too. They have their own vector, v."""
    return _right(query, key, u, u, w_position, query_positions, key_positions)


def query_in_the_last_two(query, key, u, v, w_position, query_positions, key_positions):
    """Your last two terms still contain the query, so it counts twice in the sum. They should contain only u and v."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    return torch.cat([terms[:2], terms[2:] + terms[:2]])


def u_meets_the_queries(query, key, u, v, w_position, query_positions, key_positions):
    """Your third term multiplies u by the query. It should multiply u by the key."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    asked = (u.unsqueeze(1) * query).sum(-1) * query.shape[2] ** -0.5
    return torch.stack([terms[0], terms[1], asked.unsqueeze(2).expand_as(terms[2]), terms[3]])


def position_of_the_key(query, key, u, v, w_position, query_positions, key_positions):
    """You use the key's own position. Use its distance from the query."""
    sinusoids = _sinusoids(key_positions.expand(len(query_positions), -1), w_position)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def positions_not_used(query, key, u, v, w_position, query_positions, key_positions):
    """You count queries and keys from 0. Use the positions that are given."""
    positions = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    return _right(query, key, u, v, w_position, *positions)


def no_scale(query, key, u, v, w_position, query_positions, key_positions):
    """Your terms are not divided by the root."""
    return _right(query, key, u, v, w_position, query_positions, key_positions) * query.shape[2] ** 0.5


def only_the_first_scaled(query, key, u, v, w_position, query_positions, key_positions):
    """You divide only the first term by the root. Divide all four."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    return torch.cat([terms[:1], terms[1:] * query.shape[2] ** 0.5])


def scale_by_d_model(query, key, u, v, w_position, query_positions, key_positions):
    """You divide by the root of d_model. A score is a sum over the entries of one head, so use their number."""
    return (
        _right(query, key, u, v, w_position, query_positions, key_positions)
        * (query.shape[2] / w_position.shape[2]) ** 0.5
    )


def terms_added_up(query, key, u, v, w_position, query_positions, key_positions):
    """You return the score, and it is right. Return its four terms, stacked on the first axis."""
    return _right(query, key, u, v, w_position, query_positions, key_positions).sum(0)


def another_order(query, key, u, v, w_position, query_positions, key_positions):
    """Your four terms are right, but not in the right order: the bias of the key comes before the bias of the
    distance."""
    return _right(query, key, u, v, w_position, query_positions, key_positions)[[0, 1, 3, 2]]


def biases_not_scaled(query, key, u, v, w_position, query_positions, key_positions):
    """You do not divide the last two terms by the root. Divide all four."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    return torch.cat([terms[:2], terms[2:] * query.shape[2] ** 0.5])


def positions_not_scaled(query, key, u, v, w_position, query_positions, key_positions):
    """You do not divide the second and the fourth term by the root. Divide all four."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    root = torch.tensor([1.0, query.shape[2] ** 0.5]).repeat(2)
    return terms * root[:, None, None, None]


def only_the_last_scaled(query, key, u, v, w_position, query_positions, key_positions):
    """You divide only the last term by the root. The root divides all four terms, so parentheses may be missing."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    return torch.cat([terms[:3] * query.shape[2] ** 0.5, terms[3:]])


def no_root(query, key, u, v, w_position, query_positions, key_positions):
    """You divide by the width of a head itself. Divide by its square root."""
    return _right(query, key, u, v, w_position, query_positions, key_positions) * query.shape[2] ** -0.5


def twice_the_exponent(query, key, u, v, w_position, query_positions, key_positions):
    """Your frequencies fall too fast, because your exponent is twice as large as it should be. Is the 2 there twice, or
    do you divide by half the width?"""
    angles = _angles(_distances(query_positions, key_positions), w_position, step=4)
    sinusoids = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def frequencies_rise(query, key, u, v, w_position, query_positions, key_positions):
    """Your frequencies increase from 1. They should decrease: look at the sign of the exponent."""
    angles = _angles(_distances(query_positions, key_positions), w_position, step=-2)
    sinusoids = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def projection_transposed(query, key, u, v, w_position, query_positions, key_positions):
    """You multiply by the transpose of w_position, which works only if a head is as wide as the model. The matrix maps
    d_model entries to d_head."""
    sinusoids = _sinusoids(_distances(query_positions, key_positions), w_position)
    positions = torch.einsum("qkd,hdm->hqkm", sinusoids, w_position)
    asked, distant = torch.einsum("hqd,hqkd->hqk", query, positions), torch.einsum("hd,hqkd->hqk", v, positions)
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    root = query.shape[2] ** -0.5
    return torch.stack([terms[0], asked * root, terms[2], distant * root])


def one_projection_for_all_heads(query, key, u, v, w_position, query_positions, key_positions):
    """All your heads use the projection of the first head for the distances. Each head has its own."""
    return _right(query, key, u, v, w_position[:1].expand_as(w_position), query_positions, key_positions)


def v_for_both(query, key, u, v, w_position, query_positions, key_positions):
    """You use v for the keys too. They have their own vector, u."""
    return _right(query, key, v, v, w_position, query_positions, key_positions)


def bias_of_the_key_second(query, key, u, v, w_position, query_positions, key_positions):
    """Your four terms are right, but not in the right order: the product of query and distance comes before the bias of
    the key."""
    return _right(query, key, u, v, w_position, query_positions, key_positions)[[0, 2, 1, 3]]


def terms_last(query, key, u, v, w_position, query_positions, key_positions):
    """You stack the terms on the last axis. They belong on the first."""
    return _right(query, key, u, v, w_position, query_positions, key_positions).movedim(0, -1)


def heads_before_terms(query, key, u, v, w_position, query_positions, key_positions):
    """You stack the terms on the axis after the heads. They belong on the first axis."""
    return _right(query, key, u, v, w_position, query_positions, key_positions).transpose(0, 1)


def four_tensors(query, key, u, v, w_position, query_positions, key_positions):
    """You return four separate tensors, and they are right. Stack them into one, with a first axis of size 4."""
    return tuple(_right(query, key, u, v, w_position, query_positions, key_positions))


def last_two_added(query, key, u, v, w_position, query_positions, key_positions):
    """You add terms that share a factor, so you return fewer than four. Keep all four apart."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    return torch.stack([terms[0] + terms[2], terms[1] + terms[3]])


def keys_in_rows(query, key, u, v, w_position, query_positions, key_positions):
    """Your distances have a row for each key, while the terms have a row for each query. Look at where you insert the
    new axis."""
    sinusoids = _sinusoids(_distances(query_positions, key_positions).T, w_position)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def frequencies_from_one(query, key, u, v, w_position, query_positions, key_positions):
    """Your highest frequency is missing. The index c begins at 0, where the frequency is 1."""
    half = w_position.shape[2] // 2
    frequencies = 1e4 ** (-torch.arange(1, half + 1, dtype=query.dtype) / half)
    angles = _distances(query_positions, key_positions).unsqueeze(-1) * frequencies
    sinusoids = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def sum_of_positions(query, key, u, v, w_position, query_positions, key_positions):
    """You add the two positions. A distance is their difference."""
    return _right(query, key, u, v, w_position, query_positions, -key_positions)


def past_only(query, key, u, v, w_position, query_positions, key_positions):
    """In your answer all keys in the future have distance 0. They have negative distances, and hiding them is the task
    of the mask."""
    sinusoids = _sinusoids(_distances(query_positions, key_positions).clamp(min=0), w_position)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def four_under_the_root(query, key, u, v, w_position, query_positions, key_positions):
    """Your terms are half as large as they should be. However many terms there are, divide only by the root of the
    width of a head."""
    return _right(query, key, u, v, w_position, query_positions, key_positions) / 2


def query_in_the_fourth_term(query, key, u, v, w_position, query_positions, key_positions):
    """Your fourth term is a copy of the second. It should contain v, not the query."""
    return _right(query, key, u, v, w_position, query_positions, key_positions)[[0, 1, 2, 1]]


def biases_without_positions(query, key, u, v, w_position, query_positions, key_positions):
    """Your last term multiplies v by the keys. It should multiply v by the vectors of the distances."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    of_keys = _right(query, key, v, u, w_position, query_positions, key_positions)[2]
    return torch.stack([terms[0], terms[1], terms[2], of_keys])
