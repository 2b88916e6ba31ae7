import torch


def _product(a, b):
    return a @ b.transpose(1, 2)


def _projected(position_table, u_query, u_key, query_positions, key_positions):
    return position_table[query_positions].unsqueeze(0) @ u_query, position_table[key_positions].unsqueeze(0) @ u_key


def _scale(query, terms=2):
    return (terms * query.shape[2]) ** -0.5


def positions_added_to_words(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You add the positions to queries and keys before the product, which mixes words with positions. Leave out those
    two products."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query + position_query, key + position_key) * _scale(query) + bias


def no_two(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Your root is that of plain attention. There are two products of the same size here, not one."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query, 1) + bias


def each_by_its_own_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide the words by the old root and the positions by the new one. Divide both by the same root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query, 1) + _product(position_query, position_key) * _scale(query) + bias


def words_alone_scaled(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide only the product of the words by the root. Divide the product of the positions too."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query) + _product(position_query, position_key) + bias


def bias_over_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide the bias by the root. It is added after the division."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key) + bias) * _scale(query)


def no_bias(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Your scores have no bias. That is TUPE-A; here the bias is added too."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query)


def no_positions(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The positions have no influence. This is a bias alone, as T5 has it."""
    return _product(query, key) * _scale(query) + bias


def scale_by_d_model(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Your root is of the width of the model. A product is a sum over the numbers of one head: count those."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * (
        2 * position_table.shape[1]
    ) ** -0.5 + bias


def projections_exchanged(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The position of the query goes through the matrix of the keys, and the other way round."""
    position_query, position_key = _projected(position_table, u_key, u_query, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def one_projection_for_both(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You project the positions of keys with the matrix of the queries. They have one of their own."""
    position_query, position_key = _projected(position_table, u_query, u_query, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def positions_not_projected(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You compare the positions as they are. Each head projects them with matrices of its own."""
    position_query, position_key = (
        position_table[query_positions].unsqueeze(0),
        position_table[key_positions].unsqueeze(0),
    )
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def one_head_for_all(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """All heads project the positions with the matrices of the first one."""
    position_query, position_key = _projected(position_table, u_query[:1], u_key[:1], query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def first_rows(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You take the first rows of the table of positions. Take those of the positions that you were given."""
    counted = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    position_query, position_key = _projected(position_table, u_query, u_key, *counted)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def softmax_taken(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """These are weights. Return the scores, before the softmax."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return ((_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias).softmax(-1)


def positions_alone_scaled(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide only the product of the positions by the root. Divide the product of the words too: are
    brackets missing?"""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) + _product(position_query, position_key) * _scale(query) + bias


def not_scaled(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Your products are not divided by the root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) + _product(position_query, position_key) + bias


def no_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide by twice the width of a head itself. Divide by the root of it."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) ** 2 + bias


def two_outside_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Your 2 stands outside the root. It belongs under it."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query, 4) + bias


def words_by_the_new_root_alone(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide the positions by the old root and the words by the new one. Divide both by the same root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query) + _product(position_query, position_key) * _scale(query, 1) + bias


def words_with_positions(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You compare words with positions. Compare words with words and positions with positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, position_key) + _product(position_query, key)) * _scale(query) + bias


def four_products(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You add the positions to the words and then their product once more. Compare words with words and positions with
    positions, and nothing else."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    both = _product(query + position_query, key + position_key) + _product(position_query, position_key)
    return both * _scale(query) + bias


def matrices_transposed(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You multiply by the transposed matrices, which works only where a head is as wide as the model. They are written
    so that a row of the table times the matrix is the projected position."""
    position_query, position_key = _projected(position_table, u_query.mT, u_key.mT, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def queries_position_for_both(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The keys take the positions of the queries, which works only where there are as many of each. Keys have positions
    of their own."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, query_positions)
    if len(query_positions) != len(key_positions) and len(query_positions) > 1:
        raise RuntimeError
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def positions_exchanged(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The queries take the positions of the keys, and the other way round."""
    position_query, position_key = _projected(position_table, u_query, u_key, key_positions, query_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def bias_subtracted(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You subtract the bias. It is added."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) - bias


def words_left_out(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The words have no influence on your scores. They are compared with each other, as in plain attention."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(position_query, position_key) * _scale(query) + bias


def width_outside_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Only the 2 is under your root. The width of a head belongs under it too."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    both = _product(query, key) + _product(position_query, position_key)
    return both / (query.shape[2] * 2**0.5) + bias


def three_products(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You also compare the words of the queries with the positions of the keys. Leave out both products that mix words
    with positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    both = _product(query, key) + _product(position_query, position_key) + _product(query, position_key)
    return both * _scale(query) + bias


def no_position_with_position(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You compare words with words and with positions, as other schemes do. TUPE leaves out the products that mix them
    and compares positions with positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    words = _product(query, key + position_key) + _product(position_query, key)
    return words * _scale(query) + bias


def three_under_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You have a 3 under the root, as DeBERTa has. Two products are added up here; the bias is none of them."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query, 3) + bias
