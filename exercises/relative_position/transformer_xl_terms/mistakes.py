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
    """Your distances are key minus query, the book's offsets. This paper counts the other way, and the sines notice."""
    return _right(query, key, u, v, w_position, -query_positions, -key_positions)


def distance_without_sign(query, key, u, v, w_position, query_positions, key_positions):
    """Your distances have no sign, so that past and future look alike. Leave it, the sines can tell them apart."""
    sinusoids = _sinusoids(_distances(query_positions, key_positions).abs(), w_position)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def in_pairs(query, key, u, v, w_position, query_positions, key_positions):
    """Your sines and cosines take turns. Here all sines come first, then all cosines."""
    angles = _angles(_distances(query_positions, key_positions), w_position)
    sinusoids = torch.stack([torch.sin(angles), torch.cos(angles)], -1).flatten(2)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def cosines_first(query, key, u, v, w_position, query_positions, key_positions):
    """Your cosines stand before the sines. The first half of the vector holds sines."""
    sinusoids = _sinusoids(_distances(query_positions, key_positions), w_position).roll(w_position.shape[2] // 2, -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def half_the_exponent(query, key, u, v, w_position, query_positions, key_positions):
    """Your frequencies fall too slowly. Compare the exponent, factor by factor."""
    angles = _angles(_distances(query_positions, key_positions), w_position, step=1)
    sinusoids = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def width_of_the_head_in_the_exponent(query, key, u, v, w_position, query_positions, key_positions):
    """Your frequencies come from the width of a head. The vector of a distance is as wide as the model."""
    half = w_position.shape[2] // 2
    frequencies = 1e4 ** (-2 * torch.arange(half, dtype=query.dtype) / query.shape[2])
    angles = _distances(query_positions, key_positions).unsqueeze(-1) * frequencies
    sinusoids = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def u_and_v_exchanged(query, key, u, v, w_position, query_positions, key_positions):
    """u and v have changed places: one weighs the words of the keys, the other the distances."""
    return _right(query, key, v, u, w_position, query_positions, key_positions)


def u_for_both(query, key, u, v, w_position, query_positions, key_positions):
    """You use u for the distances too. They have a vector of their own."""
    return _right(query, key, u, u, w_position, query_positions, key_positions)


def query_in_the_last_two(query, key, u, v, w_position, query_positions, key_positions):
    """The query is still part of your last two terms, so it counts twice in the sum. No query stands in them."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    return torch.cat([terms[:2], terms[2:] + terms[:2]])


def u_meets_the_queries(query, key, u, v, w_position, query_positions, key_positions):
    """Your third term multiplies u by the query. It should say what a key weighs, whoever asks."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    asked = (u.unsqueeze(1) * query).sum(-1) * query.shape[2] ** -0.5
    return torch.stack([terms[0], terms[1], asked.unsqueeze(2).expand_as(terms[2]), terms[3]])


def position_of_the_key(query, key, u, v, w_position, query_positions, key_positions):
    """You use the key's own position where its distance to the query is asked."""
    sinusoids = _sinusoids(key_positions.expand(len(query_positions), -1), w_position)
    return _terms(query, key, u, v, w_position, sinusoids) * query.shape[2] ** -0.5


def positions_not_positions(query, key, u, v, w_position, query_positions, key_positions):
    """You count queries and keys from 0. Take the positions that you were given."""
    positions = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    return _right(query, key, u, v, w_position, *positions)


def no_scale(query, key, u, v, w_position, query_positions, key_positions):
    """Your terms are not divided by the root."""
    return _right(query, key, u, v, w_position, query_positions, key_positions) * query.shape[2] ** 0.5


def only_the_first_scaled(query, key, u, v, w_position, query_positions, key_positions):
    """Only the first of your terms is divided by the root. All four stand above it."""
    terms = _right(query, key, u, v, w_position, query_positions, key_positions)
    return torch.cat([terms[:1], terms[1:] * query.shape[2] ** 0.5])


def scale_by_d_model(query, key, u, v, w_position, query_positions, key_positions):
    """Your root is of the width of the model. A score is a sum over the numbers of one head: count those."""
    return (
        _right(query, key, u, v, w_position, query_positions, key_positions)
        * (query.shape[2] / w_position.shape[2]) ** 0.5
    )


def terms_added_up(query, key, u, v, w_position, query_positions, key_positions):
    """You return the score, and it is right. Asked are its four terms, one behind another on the first axis."""
    return _right(query, key, u, v, w_position, query_positions, key_positions).sum(0)


def another_order(query, key, u, v, w_position, query_positions, key_positions):
    """Your four terms are right, but not in order: key for everyone comes before distance for everyone."""
    return _right(query, key, u, v, w_position, query_positions, key_positions)[[0, 1, 3, 2]]
