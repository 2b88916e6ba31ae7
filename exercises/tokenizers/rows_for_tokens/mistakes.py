def one_table_only():
    """Your number would be right for one table. The output has a table too, and it is not shared."""
    return 218_000 * 4096


def all_rows_of_one_table():
    """You count all rows of the larger table. How many of them are new? And there are two tables."""
    return 250_000 * 4096


def all_rows_of_both_tables():
    """You count all rows of the larger tables. How many of them are new?"""
    return 2 * 250_000 * 4096


def rows_alone():
    """You count the new rows of one table. Each row has as many numbers as the model is wide, and there are two
    tables."""
    return 218_000


def rows_of_both_tables():
    """You count the new rows of both tables. Each row has as many numbers as the model is wide."""
    return 2 * 218_000


def tables_as_they_are():
    """You count the tables that the model has now. How many rows would be added?"""
    return 2 * 32_000 * 4096


def one_table_as_it_is():
    """You count one of the tables that the model has now. How many rows would be added, and to how many tables?"""
    return 32_000 * 4096


def fewer():
    """Your number is negative: you subtract the larger vocabulary from the smaller one."""
    return -2 * 218_000 * 4096


def of_another_width():
    """Your rows are 5120 wide, which is the width of LLaMA 13B. LLaMA 7B is 4096 wide."""
    return 2 * 218_000 * 5120


def rounded_to_millions():
    """You rounded to millions. Return the exact number."""
    return 1_786_000_000


def bytes_not_parameters():
    """You count bytes, two for each number. Count the numbers."""
    return 4 * 218_000 * 4096


def bytes_in_single_precision():
    """You count bytes, four for each number. Count the numbers."""
    return 8 * 218_000 * 4096


def sum_of_the_vocabularies():
    """You add the two vocabularies. How many rows does the larger one have more than the smaller one?"""
    return 2 * 282_000 * 4096


def how_many_times_as_large():
    """You return how many times as large the tables become. Return how many parameters are added."""
    return 250_000 / 32_000


def old_table_subtracted_once():
    """You subtract the old table only once. There are two of them, at the input and at the output."""
    return 2 * 250_000 * 4096 - 32_000 * 4096


def in_billions():
    """You return the number in billions. Return it in full."""
    return 1.785856


def in_millions():
    """You return the number in millions. Return it in full."""
    return 1785.856
