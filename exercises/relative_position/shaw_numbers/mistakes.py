def _learned(n_layers=12, n_tables=2, n_rows=33, width=64, n_heads=1):
    return n_layers * n_tables * n_rows * width * n_heads


def vectors_for_each_head():
    """You count eight times too many. The heads of a layer share their vectors, and a vector is as wide as one
    head, not as the model."""
    return _learned(n_heads=8)


def one_table_a_layer():
    """Your number would be right if each layer had one table. Where do its vectors come in: at the keys only?"""
    return _learned(n_tables=1)


def one_table_a_layer_for_each_head():
    """You count one table, eight times as large as it is: its rows are as wide as one head, and all heads share them.
    The keys have a table and the values have another."""
    return _learned(n_tables=1, n_heads=8)


def one_layer_alone():
    """That is one layer. Each of the twelve has vectors of its own."""
    return _learned(n_layers=1)


def one_table_of_one_layer():
    """That is one table. A layer has more than one, and each of the twelve layers has its own."""
    return _learned(n_layers=1, n_tables=1)


def one_layer_with_vectors_for_each_head():
    """You count one layer, and eight times too much of it. A vector is as wide as one head, and heads share the vectors
    while layers do not."""
    return _learned(n_layers=1, n_heads=8)


def no_offset_of_zero():
    """Your tables have a row too few. Count the offsets from -2 to 2 on your fingers."""
    return _learned(n_rows=32)


def one_direction():
    """Your tables hold one direction. Past and future have rows of their own."""
    return _learned(n_rows=16)


def one_direction_and_zero():
    """Your tables hold one direction and offset 0. Past and future have rows of their own."""
    return _learned(n_rows=17)


def every_offset_of_the_text():
    """You count a row for each offset that a text of 500 tokens has. Far offsets share the outermost row."""
    return _learned(n_rows=999)


def every_position_of_the_text():
    """You count a row for each of the 500 tokens. The rows belong to offsets, and far offsets share the
    outermost one."""
    return _learned(n_rows=500)


def every_pair_of_tokens():
    """You count a vector for each pair of tokens. That is what a naive program copies; how many different vectors are
    there to copy from?"""
    return _learned(n_rows=500 * 500)


def numbers_in_place_of_vectors():
    """You count one number for each offset. That is a learned bias; Shaw has a vector for each."""
    return _learned(width=1)


def a_number_for_each_head():
    """You count one number for each offset and head, as a learned bias has. Shaw has vectors, which heads share."""
    return _learned(width=1, n_tables=1, n_heads=8)


def rows_alone():
    """That is the number of rows of one table. What is in a row, and how many tables are there?"""
    return _learned(n_layers=1, n_tables=1, width=1)
