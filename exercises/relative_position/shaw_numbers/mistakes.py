def _learned(n_layers=12, n_tables=2, n_rows=33, width=64, n_heads=1):
    return n_layers * n_tables * n_rows * width * n_heads


def vectors_for_each_head():
    """Your number is eight times too large. The heads of a layer share their vectors, and a vector is as wide as one
    head, not as the model."""
    return _learned(n_heads=8)


def one_table_a_layer():
    """Your number would be right if each layer had one table. Are the vectors added to the keys only?"""
    return _learned(n_tables=1)


def one_table_a_layer_for_each_head():
    """You count one table per layer and make it eight times too large. Its rows are as wide as one head, all heads
    share them, and keys and values have separate tables."""
    return _learned(n_tables=1, n_heads=8)


def one_layer_alone():
    """You count one layer. Each of the twelve layers has its own vectors."""
    return _learned(n_layers=1)


def one_table_of_one_layer():
    """You count one table. A layer has more than one, and each of the twelve layers has its own."""
    return _learned(n_layers=1, n_tables=1)


def one_layer_with_vectors_for_each_head():
    """You count one layer and make it eight times too large. A vector is as wide as one head, and the heads of a layer
    share the vectors, but the twelve layers do not."""
    return _learned(n_layers=1, n_heads=8)


def no_offset_of_zero():
    """Your tables have one row too few. How many offsets are there from -2 to 2?"""
    return _learned(n_rows=32)


def one_direction():
    """Your tables cover only one direction. Past and future have different rows."""
    return _learned(n_rows=16)


def one_direction_and_zero():
    """Your tables cover only one direction and offset 0. Past and future have different rows."""
    return _learned(n_rows=17)


def every_offset_of_the_text():
    """You count a row for each offset that occurs in a text of 500 tokens. Offsets beyond r_max share the outermost
    rows."""
    return _learned(n_rows=999)


def every_position_of_the_text():
    """You count a row for each of the 500 tokens. The rows belong to offsets, and offsets beyond r_max share the
    outermost rows."""
    return _learned(n_rows=500)


def every_pair_of_tokens():
    """You count a vector for each pair of tokens. A naive program copies that many, but how many different vectors are
    there to copy?"""
    return _learned(n_rows=500 * 500)


def numbers_in_place_of_vectors():
    """You count one number for each offset. That would be a learned bias, but Shaw's scheme has a vector for each
    offset."""
    return _learned(width=1)


def a_number_for_each_head():
    """You count one number for each offset and head. That would be a learned bias, but Shaw's scheme has vectors, which
    all heads share."""
    return _learned(width=1, n_tables=1, n_heads=8)


def rows_alone():
    """You count the rows of one table. How many numbers are in a row, and how many tables are there?"""
    return _learned(n_layers=1, n_tables=1, width=1)
