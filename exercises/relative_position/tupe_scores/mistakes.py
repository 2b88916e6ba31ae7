import torch


def _product(a, b):
    return a @ b.transpose(1, 2)


def _projected(positions, u_query, u_key, query_positions, key_positions):
    return positions[query_positions].unsqueeze(0) @ u_query, positions[key_positions].unsqueeze(0) @ u_key


def _scale(query, terms=2):
    return (terms * query.shape[2]) ** -0.5


def positions_added_to_words(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """You add the positions to queries and keys before the product, so that words meet positions. Those two products
    are left out here."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return _product(query + position_query, key + position_key) * _scale(query) + bias


def no_two(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """Your root is that of plain attention. There are two products of the same size here, not one."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query, 1) + bias


def each_by_its_own_root(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """The words are divided by the old root and the positions by the new one. Both stand above the same root."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query, 1) + _product(position_query, position_key) * _scale(query) + bias


def words_alone_scaled(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """Only the product of the words is divided by the root. That of the positions stands above it too."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return _product(query, key) * _scale(query) + _product(position_query, position_key) + bias


def bias_over_the_root(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """Your bias is divided by the root. It stands beside the fraction."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key) + bias) * _scale(query)


def no_bias(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """Your scores have no bias. This is TUPE-A; here the third part is asked too."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query)


def no_positions(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """The positions have no influence. This is a bias alone, as T5 has it."""
    return _product(query, key) * _scale(query) + bias


def scale_by_d_model(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """Your root is of the width of the model. A product is a sum over the numbers of one head: count those."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * (2 * positions.shape[1]) ** -0.5 + bias


def projections_exchanged(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """The position of the query goes through the matrix of the keys, and the other way round."""
    position_query, position_key = _projected(positions, u_key, u_query, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def one_projection_for_both(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """You project the positions of keys with the matrix of the queries. They have one of their own."""
    position_query, position_key = _projected(positions, u_query, u_query, query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def positions_not_projected(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """You compare the positions as they are. Each head looks at them through matrices of its own."""
    position_query, position_key = positions[query_positions].unsqueeze(0), positions[key_positions].unsqueeze(0)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def one_head_for_all(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """All heads look at the positions through the matrices of the first one."""
    position_query, position_key = _projected(positions, u_query[:1], u_key[:1], query_positions, key_positions)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def first_rows(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """You take the first rows of the table of positions. Take those of the positions that you were given."""
    counted = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    position_query, position_key = _projected(positions, u_query, u_key, *counted)
    return (_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias


def softmax_taken(query, key, positions, u_query, u_key, bias, query_positions, key_positions):
    """These are weights. Asked are the scores, before the softmax."""
    position_query, position_key = _projected(positions, u_query, u_key, query_positions, key_positions)
    return ((_product(query, key) + _product(position_query, position_key)) * _scale(query) + bias).softmax(-1)
