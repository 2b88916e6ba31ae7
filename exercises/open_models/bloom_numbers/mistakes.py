RIGHT = [7.8, 59.02, 172.8, 324, 3.60, 176]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def difference_of_the_rows():
    """Only your first number is wrong: it is a difference. How many times more means a ratio."""
    return _with(n1=218_880)


def rows_turned_round():
    """Only your first number is wrong: it is LLaMA's number of rows, divided by BLOOM's."""
    return _with(n1=0.1)


def what_can_be_read():
    """Only your second number is wrong: it is the share of the labels that can be read."""
    return _with(n2=40.98)


def fraction_for_a_percentage():
    """Only your second number is wrong: it is a fraction. Multiply it by 100."""
    return _with(n2=0.59)


def one_decimal():
    """Your second number is right as far as it goes. Return it to two decimals."""
    return _with(n2=59.0)


def small_labels_left_out():
    """Only your second number is wrong: the two smallest labels can be read, too."""
    return _with(n2=59.1)


def terabytes():
    """Only your third number is wrong: it is in terabytes."""
    return _with(n3=0.1728)


def binary_terabytes():
    """Only your third number is wrong: here, 1 TB is 1,000 GB."""
    return _with(n3=176.9)


def chinese_for_code():
    """Only your third number is wrong: it is that of Simplified Chinese."""
    return _with(n3=259.2)


def difference_of_the_shares():
    """Only your fourth number is wrong: it is a difference. How many times more means a ratio."""
    return _with(n4=16)


def ratio_in_percent():
    """Only your fourth number is wrong, by a factor of 100. Both shares are in percent already."""
    return _with(n4=32400)


def ratio_a_power_of_ten_off():
    """Only your fourth number is wrong, by a power of ten. The smaller share is 0.05 %."""
    return _with(n4=32)


def parameters_not_in_billions():
    """Your last two numbers are not in billions yet."""
    return _with(n5=3596615680, n6=176234168320)


def millions():
    """Your last two numbers are in millions. Divide them by a thousand."""
    return _with(n5=3596.62, n6=176234)


def table_counted_twice():
    """Only your last number is wrong: you count the table twice. The same one serves input and output."""
    return _with(n6=180)


def two_tables():
    """You count the table twice. The same one serves input and output."""
    return _with(n5=7.19, n6=180)


def layers_alone():
    """Only your last number is wrong: it does not contain the table."""
    return _with(n6=173)


def one_layer():
    """Only your last number is wrong: you count a single layer. There are 70."""
    return _with(n6=6)


def number_of_the_other_slide():
    """Only your last number is wrong: it is what one of the two slides says. Work it out from the sizes."""
    return _with(n6=175)


def eight_squares():
    """Only your last number is wrong: a layer has 12 times the square of the width, in attention and feed-forward
    layer together."""
    return _with(n6=119)


def rounded_down():
    """Only your fifth number is wrong: you have cut it off instead of rounding it."""
    return _with(n5=3.59)


def table_twice_by_itself():
    """Only your fifth number is wrong: you count the table twice. The same one serves input and output."""
    return _with(n5=7.19)
