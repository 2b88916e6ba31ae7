import torch


def _product(a, b):
    return a @ b.transpose(1, 2)


def _projected(position_table, u_query, u_key, query_positions, key_positions):
    return position_table[query_positions].unsqueeze(0) @ u_query, position_table[key_positions].unsqueeze(0) @ u_key


def _scale(query, terms=2):
    return (terms * query.shape[2]) ** -0.5


def positions_added_to_words(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You add positions to queries and keys before the product, which mixes content with positions. The two mixed
    products should not be there."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query + position_query, key + position_key) * _scale(query) + bias


def no_two(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide by the root of plain attention. Here two products of the same size are added, so look at the factor
    under the root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query, 1) + bias


def each_by_its_own_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide the product of queries and keys by the root without the 2. Divide both products by the same root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query, 1) + _product(position_query, position_key) * _scale(query) + bias


def words_alone_scaled(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide only the product of queries and keys by the root. Divide the product of the positions too."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query) + _product(position_query, position_key) + bias


def bias_over_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide the bias by the root. It should be added after the division."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key) + bias) * _scale(query)


def no_bias(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You do not add the bias. That would be TUPE-A, but here the bias is part of the score."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query)


def no_positions(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The positions have no influence on your scores. Only a bias is left, as in T5."""
    return _product(query, key) * _scale(query) + bias


def scale_by_d_model(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide by the root of d_model. A product is a sum over the entries of one head, so use their number."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * (
        2 * position_table.shape[1]
    ) ** -0.5 + bias


def projections_exchanged(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You project the query's position with the keys' matrix and the key's position with the queries' matrix. Exchange
    them."""
    position_query, position_key = _projected(position_table, u_key, u_query, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def one_projection_for_both(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You project the positions of the keys with the queries' matrix. They have their own."""
    position_query, position_key = _projected(position_table, u_query, u_query, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def positions_not_projected(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You compare the positions without projecting them. Each head projects them with its own matrices."""
    position_query, position_key = (
        position_table[query_positions].unsqueeze(0),
        position_table[key_positions].unsqueeze(0),
    )
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def one_head_for_all(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """All heads project the positions with the matrices of the first head. Each head has its own."""
    position_query, position_key = _projected(position_table, u_query[:1], u_key[:1], query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def first_rows(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You take the first rows of the table of positions. Take the rows of the positions that are given."""
    counted = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    position_query, position_key = _projected(position_table, u_query, u_key, *counted)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def softmax_taken(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You return the weights. Return the scores, before the softmax."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return ((_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias).softmax(-1)


def positions_alone_scaled(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide only the product of the positions by the root. The root divides both products, so parentheses may be
    missing."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) + _product(position_query, position_key) * _scale(query) + bias


def not_scaled(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Your products are not divided by the root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) + _product(position_query, position_key) + bias


def no_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide by twice the width of a head itself. Divide by the square root of that."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) ** 2 + bias


def two_outside_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The 2 is outside your root. It belongs under the root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query, 4) + bias


def words_by_the_new_root_alone(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You divide the product of the positions by the root without the 2. Divide both products by the same root."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query) + _product(position_query, position_key) * _scale(query, 1) + bias


def words_with_positions(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You multiply content by positions. Multiply content by content and positions by positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, position_key) + _product(position_query, key)) * _scale(query) + bias


def four_products(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You add the positions to queries and keys, and then add their product once more. The score should contain only
    content with content and positions with positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    both = _product(query + position_query, key + position_key) + _product(position_query, position_key)
    return both * _scale(query) + bias


def matrices_transposed(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You multiply by the transposed matrices, which works only if a head is as wide as the model. A row of the table
    times the matrix, as it is given, is the projected position."""
    position_query, position_key = _projected(position_table, u_query.mT, u_key.mT, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def queries_position_for_both(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You use the query positions for the keys too, which works only if there are as many keys as queries. The keys
    have their own positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, query_positions)
    if len(query_positions) != len(key_positions) and len(query_positions) > 1:
        raise RuntimeError
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def positions_exchanged(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """The queries use the positions of the keys, and the keys use those of the queries. Exchange them."""
    position_query, position_key = _projected(position_table, u_query, u_key, key_positions, query_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def bias_subtracted(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You subtract the bias. Add it."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) - bias


def words_left_out(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Queries and keys have no influence on your scores. Their dot product is part of the score, as in plain
    attention."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return _product(position_query, position_key) * _scale(query) + bias


def width_outside_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Only the 2 is under your root. The width of a head belongs under it too."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    both = _product(query, key) + _product(position_query, position_key)
    return both / (query.shape[2] * 2**0.5) + bias


def three_products(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You also multiply the queries by the positions of the keys. Leave out both products that mix content with
    positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    both = _product(query, key) + _product(position_query, position_key) + _product(query, position_key)
    return both * _scale(query) + bias


def no_position_with_position(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You multiply content by content and content by positions, as other schemes do. TUPE leaves out the mixed products
    and multiplies positions by positions."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    words = _product(query, key + position_key) + _product(position_query, key)
    return words * _scale(query) + bias


def three_under_the_root(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """You have a 3 under the root, as DeBERTa has. Here only two products are added; the bias is not one of them."""
    position_query, position_key = _projected(position_table, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query, 3) + bias
