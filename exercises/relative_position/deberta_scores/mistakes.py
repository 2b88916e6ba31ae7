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
    """Both of your terms read the same row, as on the slide and in the published models. In the paper's third term
    the key looks at the query."""
    distances = _distances(query_positions, key_positions)
    rows = _rows(distances, position_key)
    return _scaled(_terms(query, key, position_query, position_key, rows, rows), query)


def second_term_reversed(query, key, position_query, position_key, query_positions, key_positions):
    """Your third term is right, but the second reads the row that belongs to it. There the query looks at the key."""
    distances = _distances(query_positions, key_positions)
    rows = _rows(-distances, position_key)
    return _scaled(_terms(query, key, position_query, position_key, rows, rows), query)


def both_reversed(query, key, position_query, position_key, query_positions, key_positions):
    """Both of your terms read the other one's row. The paper counts from the one who looks: whose position is first?"""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_query, position_key, -distances), query)


def mirrored_row(query, key, position_query, position_key, query_positions, key_positions):
    """You get the second row from the first by counting backwards. The bounds are not symmetric: which row has
    distance 0?"""
    distances = _distances(query_positions, key_positions)
    rows = _rows(distances, position_key)
    mirrored = position_key.shape[1] - 1 - rows
    return _scaled(_terms(query, key, position_query, position_key, rows, mirrored), query)


def clipped_one_too_early(query, key, position_query, position_key, query_positions, key_positions):
    """Row 0 of your tables is never used. The bounds are not symmetric: look at the lower one."""
    distances = _distances(query_positions, key_positions)
    bound = position_key.shape[1] // 2 - 1
    return _scaled(_right(query, key, position_query, position_key, distances.clamp(-bound, bound)), query)


def row_from_zero(query, key, position_query, position_key, query_positions, key_positions):
    """You index the tables with the distance itself. A negative index counts from the end: which distance has row 0?"""
    distances = _distances(query_positions, key_positions)
    span = position_key.shape[1] // 2
    rows, reverse = distances.clamp(-span, span - 1), (-distances).clamp(-span, span - 1)
    return _scaled(_terms(query, key, position_query, position_key, rows, reverse), query)


def no_clip(query, key, position_query, position_key, query_positions, key_positions):
    """Keys further away than the tables reach are looked up outside them. They share the outermost row."""
    distances = _distances(query_positions, key_positions)
    span = position_key.shape[1] // 2
    return _scaled(_terms(query, key, position_query, position_key, distances + span, span - distances), query)


def tables_exchanged(query, key, position_query, position_key, query_positions, key_positions):
    """You multiply the query by the query's table and the key by the key's. A position stands in for the other side."""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_key, position_query, distances), query)


def one_table_for_both(query, key, position_query, position_key, query_positions, key_positions):
    """You use one table for both terms. Positions as keys and positions as queries have projections of their own."""
    distances = _distances(query_positions, key_positions)
    return _scaled(_right(query, key, position_key, position_key, distances), query)


def query_in_the_third_term(query, key, position_query, position_key, query_positions, key_positions):
    """Your third term multiplies the position by the query. There the word of the key is meant."""
    distances = _distances(query_positions, key_positions)
    rows, reverse = _rows(distances, position_key), _rows(-distances, position_key)
    words, asks, _ = _terms(query, key, position_query, position_key, rows, reverse)
    return _scaled((words, asks, _second(query, position_query[:, reverse])), query)


def position_with_position(query, key, position_query, position_key, query_positions, key_positions):
    """You have a fourth term, position with position. DeBERTa leaves it out."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    both = position_query[:, _rows(-distances, position_key)] * position_key[:, _rows(distances, position_key)]
    return _scaled((*terms, both.sum(-1)), query)


def no_third_term(query, key, position_query, position_key, query_positions, key_positions):
    """Your positions answer but do not ask: the term with the key's word is missing."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms[:2], query)


def no_second_term(query, key, position_query, position_key, query_positions, key_positions):
    """Your positions ask but do not answer: the term of the query's word with a position is missing."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms[::2], query)


def no_three(query, key, position_query, position_key, query_positions, key_positions):
    """Your root is that of plain attention. Three products are added up here."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms, query, 1)


def two_for_three(query, key, position_query, position_key, query_positions, key_positions):
    """Your root counts two products. Three are added up here."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms, query, 2)


def words_alone_scaled(query, key, position_query, position_key, query_positions, key_positions):
    """Only the product of the words is divided by the root. All three terms stand above it."""
    distances = _distances(query_positions, key_positions)
    terms = _right(query, key, position_query, position_key, distances)
    return _scaled(terms[:1], query) + terms[1] + terms[2]


def positions_not_positions(query, key, position_query, position_key, query_positions, key_positions):
    """You count queries and keys from 0. Take the positions that you were given."""
    distances = _distances(torch.arange(query.shape[1]), torch.arange(key.shape[1]))
    return _scaled(_right(query, key, position_query, position_key, distances), query)


def position_of_the_key(query, key, position_query, position_key, query_positions, key_positions):
    """You look up the key's own position, whoever asks. How far is it from the query?"""
    distances = _distances(0 * query_positions, key_positions)
    return _scaled(_right(query, key, position_query, position_key, distances), query)
