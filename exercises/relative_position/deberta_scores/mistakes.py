import torch


def _distances(query_positions, key_positions):
    return query_positions.unsqueeze(1) - key_positions.unsqueeze(0)


def _rows(distances, table):
    """The row of each distance, as the paper has it."""
    span = table.shape[1] // 2
    return torch.clamp(distances, min=-span, max=span - 1) + span


def _second(query, vectors):
    return (query.unsqueeze(2) * vectors).sum(-1)


def _third(key, vectors):
    return (key.unsqueeze(1) * vectors).sum(-1)


def _terms(query, key, position_query, position_key, rows_from_query, rows_from_key):
    words = query @ key.transpose(1, 2)
    return words, _second(query, position_key[:, rows_from_query]), _third(key, position_query[:, rows_from_key])


def _right(query, key, position_query, position_key, distances):
    return _terms(
        query, key, position_query, position_key, _rows(distances, position_key), _rows(-distances, position_query)
    )


def _scaled(terms, query, count=3):
    return sum(terms) * (count * query.shape[2]) ** -0.5


def the_slides_row(query, key, position_query, position_key, query_positions, key_positions):
    """Your second and third term use the same row, as on the slide and in the published models. In the paper's third
    term, the query is seen from the key."""
    distances = _distances(query_positions, key_positions)
    rows = _rows(distances, position_key)
    return _scaled(_terms(query, key, position_query, position_key, rows, rows), query)


def second_term_reversed(query, key, position_query, position_key, query_positions, key_positions):
    """Your third term is right, but your second term uses the same row. In the second term, the key is seen from the
    query."""
    distances = _distances(query_positions, key_positions)
    rows = _rows(-distances, position_key)
    return _scaled(_terms(query, key, position_query, position_key, rows, rows), query)


def both_reversed(query, key, position_query, position_key, query_positions, key_positions):
    """Each of your two terms uses the row of the other. In δ(a, b), whose position comes first in the subtraction?"""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_query, position_key, -distances), query)


def mirrored_row(query, key, position_query, position_key, query_positions, key_positions):
    """You get the rows of the third term by counting those of the second backwards. The bounds are not symmetric, so
    which row belongs to distance 0?"""
    distances = _distances(query_positions, key_positions)
    rows = _rows(distances, position_key)
    mirrored = position_key.shape[1] - 1 - rows
    return _scaled(_terms(query, key, position_query, position_key, rows, mirrored), query)


def clipped_one_too_early(query, key, position_query, position_key, query_positions, key_positions):
    """You never use row 0 of the tables. The bounds are not symmetric: look at the lower one."""
    distances = _distances(query_positions, key_positions)
    bound = position_key.shape[1] // 2 - 1
    return _scaled(_right(query, key, position_query, position_key, distances.clamp(-bound, bound)), query)


def row_from_zero(query, key, position_query, position_key, query_positions, key_positions):
    """You index the tables with the distance itself, and a negative index counts from the end. Which distance does row
    0 belong to?"""
    distances = _distances(query_positions, key_positions)
    span = position_key.shape[1] // 2
    rows, reverse = distances.clamp(-span, span - 1), (-distances).clamp(-span, span - 1)
    return _scaled(_terms(query, key, position_query, position_key, rows, reverse), query)


def row_outside_the_tables(query, key, position_query, position_key, query_positions, key_positions):
    """For keys far away, you use a row outside the tables. A table has 2k rows, counted from 0, so check the two bounds
    of your clipping."""
    distances = _distances(query_positions, key_positions)
    span = position_key.shape[1] // 2
    return _scaled(_terms(query, key, position_query, position_key, distances + span, span - distances), query)


def tables_exchanged(query, key, position_query, position_key, query_positions, key_positions):
    """You multiply the query by position_query and the key by position_key. The query meets positions as keys, and the
    key meets positions as queries."""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_key, position_query, distances), query)


def one_table_for_both(query, key, position_query, position_key, query_positions, key_positions):
    """You use one table for both terms. Positions as keys and positions as queries have their own projections."""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_key, position_key, distances), query)


def query_in_the_third_term(query, key, position_query, position_key, query_positions, key_positions):
    """Your third term multiplies the position by the query. It should multiply it by the key."""
    distances = _distances(query_positions, key_positions)
    rows, reverse = _rows(distances, position_key), _rows(-distances, position_key)
    words, asks, _ = _terms(query, key, position_query, position_key, rows, reverse)
    return _scaled((words, asks, _second(query, position_query[:, reverse])), query)


def position_with_position(query, key, position_query, position_key, query_positions, key_positions):
    """You add a fourth term, position with position. DeBERTa leaves it out."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    both = position_query[:, _rows(-distances, position_key)] * position_key[:, _rows(distances, position_key)]
    return _scaled((*terms, both.sum(-1)), query)


def no_third_term(query, key, position_query, position_key, query_positions, key_positions):
    """The third term is missing, the product of the key with a position."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms[:2], query)


def no_second_term(query, key, position_query, position_key, query_positions, key_positions):
    """The second term is missing, the product of the query with a position."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms[::2], query)


def no_three(query, key, position_query, position_key, query_positions, key_positions):
    """You divide by the root of plain attention. Here three products are added, so look at the factor under the
    root."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms, query, 1)


def two_for_three(query, key, position_query, position_key, query_positions, key_positions):
    """You have a 2 under the root, as for two products. Here three products are added."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms, query, 2)


def words_alone_scaled(query, key, position_query, position_key, query_positions, key_positions):
    """You divide only the product of queries and keys by the root. Divide all three terms."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms[:1], query) + terms[1] + terms[2]


def positions_not_used(query, key, position_query, position_key, query_positions, key_positions):
    """You count queries and keys from 0. Use the positions that are given."""
    distances = _distances(torch.arange(query.shape[1]), torch.arange(key.shape[1]))
    return _scaled(_right(query, key, position_query, position_key, distances), query)


def position_of_the_key(query, key, position_query, position_key, query_positions, key_positions):
    """You look up the row by the key's own position, whatever the query is. Use its distance from the query."""
    distances = _distances(0 * query_positions, key_positions)
    return _scaled(_right(query, key, position_query, position_key, distances), query)


def no_such_row(query, key, position_query, position_key, query_positions, key_positions):
    """For keys far away, you use a row that does not exist in the tables. A table has 2k rows, counted from 0, so check
    the two bounds of your clipping."""
    span = position_key.shape[1] // 2
    rows = (_distances(query_positions, key_positions) + span).expand(len(query), -1, -1)
    second = (query @ position_key.mT).gather(2, rows)
    reverse = (span - _distances(query_positions, key_positions)).T.expand(len(query), -1, -1)
    third = (key @ position_query.mT).gather(2, reverse).mT
    return _scaled((query @ key.mT, second, third), query)


def reverse_of_what_was_clipped(query, key, position_query, position_key, query_positions, key_positions):
    """For keys far in the past, your third term reads the row next to the right one. You change the sign of a distance
    that is already clipped, and the bounds are not symmetric: change the sign first, then clip."""
    rows = _rows(_distances(query_positions, key_positions), position_key)
    reverse = (position_key.shape[1] - rows).clamp(max=position_key.shape[1] - 1)
    return _scaled(_terms(query, key, position_query, position_key, rows, reverse), query)


def reverse_outside_the_table(query, key, position_query, position_key, query_positions, key_positions):
    """You compute the third term's row from the second's, which is already clipped. Near a bound the result is off by
    one or outside the table: change the sign of the distance first, then clip."""
    rows = _rows(_distances(query_positions, key_positions), position_key)
    return _scaled(_terms(query, key, position_query, position_key, rows, position_key.shape[1] - rows), query)


def key_numbered_like_the_query(query, key, position_query, position_key, query_positions, key_positions):
    """In your third term, query i uses key number i in place of key j. The term has a row for each key first: gather
    for each key, then transpose."""
    distances = _distances(query_positions, key_positions)
    rows = _rows(distances, position_key)
    words, asks, _ = _terms(query, key, position_query, position_key, rows, rows)
    reverse = _rows(-distances, position_query).expand(len(query), -1, -1)
    return _scaled((words, asks, (key @ position_query.mT).gather(2, reverse)), query)


def key_numbered_like_the_query_in_the_slides_row(
    query, key, position_query, position_key, query_positions, key_positions
):
    """In your third term, query i uses key number i in place of key j, and the row is that of the second term. Gather
    for each key, with the row of the query as seen from this key, and then transpose."""
    rows = _rows(_distances(query_positions, key_positions), position_key)
    words, asks, _ = _terms(query, key, position_query, position_key, rows, rows)
    third = (key @ position_query.mT).gather(2, rows.expand(len(query), -1, -1))
    return _scaled((words, asks, third), query)


def third_term_transposed(query, key, position_query, position_key, query_positions, key_positions):
    """Your third term has a row for each key, but the scores have a row for each query. A transpose is missing."""
    distances = _distances(query_positions, key_positions)
    words, asks, asked = _right(query, key, position_query, position_key, distances)
    return _scaled((words, asks, asked.mT), query)


def three_outside_the_root(query, key, position_query, position_key, query_positions, key_positions):
    """The 3 is outside your root. It belongs under the root."""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_query, position_key, distances), query, 9)


def not_scaled(query, key, position_query, position_key, query_positions, key_positions):
    """Your scores are not divided by the root."""
    distances = _distances(query_positions, key_positions)
    return sum(_right(query, key, position_query, position_key, distances))


def no_root(query, key, position_query, position_key, query_positions, key_positions):
    """You divide by three times the width of a head itself. Divide by the square root of that."""
    distances = _distances(query_positions, key_positions)
    return sum(_right(query, key, position_query, position_key, distances)) / (3 * query.shape[2])


def last_alone_scaled(query, key, position_query, position_key, query_positions, key_positions):
    """You divide only the third term by the root. The root divides all three terms, so parentheses may be missing."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return terms[0] + terms[1] + _scaled(terms[2:], query)


def distance_without_sign(query, key, position_query, position_key, query_positions, key_positions):
    """Your distances have no sign, so past and future look the same. In these tables they have different rows."""
    distances = _distances(query_positions, key_positions).abs()
    return _scaled(_right(query, key, position_query, position_key, distances), query)


def span_not_added(query, key, position_query, position_key, query_positions, key_positions):
    """In the third term you index the table with the distance itself, and a negative index counts from the end. Which
    distance does row 0 belong to?"""
    distances = _distances(query_positions, key_positions)
    span = position_key.shape[1] // 2
    reverse = (-distances).clamp(-span, span - 1)
    return _scaled(_terms(query, key, position_query, position_key, _rows(distances, position_key), reverse), query)


def weights_returned(query, key, position_query, position_key, query_positions, key_positions):
    """You return the weights. Return the scores, before the softmax."""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_query, position_key, distances), query).softmax(-1)


def one_head_for_all(query, key, position_query, position_key, query_positions, key_positions):
    """All your heads use the tables of the first head. Each head has its own."""
    distances = _distances(query_positions, key_positions)
    first = position_query[:1].expand_as(position_query), position_key[:1].expand_as(position_key)
    return _scaled(_right(query, key, *first, distances), query)


def key_in_place_of_the_query(query, key, position_query, position_key, query_positions, key_positions):
    """Your third term is written as if the key were a query: for query i it takes key number i. Check which axis of the
    keys is matched with which axis of the vectors."""
    distances = _distances(query_positions, key_positions)
    rows, reverse = _rows(distances, position_key), _rows(-distances, position_key)
    words, asks, _ = _terms(query, key, position_query, position_key, rows, reverse)
    return _scaled((words, asks, torch.einsum("hqd,hqkd->hqk", key, position_query[:, reverse])), query)


def distance_without_sign_in_both(query, key, position_query, position_key, query_positions, key_positions):
    """Your distances have no sign, so both terms read only the second half of their tables. Past and future have
    different rows."""
    distances = _distances(query_positions, key_positions).abs()
    rows = _rows(distances, position_key)
    return _scaled(_terms(query, key, position_query, position_key, rows, rows), query)


def bounds_exchanged(query, key, position_query, position_key, query_positions, key_positions):
    """Your bounds are one too high: row 0 belongs to distance -k, not to -k + 1, and the last row belongs to k - 1."""
    distances = _distances(query_positions, key_positions)
    span = position_key.shape[1] // 2
    rows, reverse = (d.clamp(1 - span, span) + span - 1 for d in (distances, -distances))
    return _scaled(_terms(query, key, position_query, position_key, rows, reverse), query)


def positions_alone_scaled(query, key, position_query, position_key, query_positions, key_positions):
    """You do not divide the product of queries and keys by the root. The root divides all three terms."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return terms[0] + _scaled(terms[1:], query)
