import torch


def _weigh(digits, weights):
    return (digits * weights).sum(-1)


def fastest_digit_first(digits):
    """You read the digits from left to right as bit 0, 1, 2, … Here, as in written numbers, bit 0 comes last."""
    return _weigh(digits, 2 ** torch.arange(digits.shape[-1]))


def digits_added(digits):
    """You add up the digits, so 1, 2 and 4 look alike. The value of a digit depends on which bit it is."""
    return digits.sum(-1)


def powers_of_ten(digits):
    """You read the digits as a decimal number. These digits are binary."""
    return _weigh(digits, 10 ** torch.arange(digits.shape[-1]).flip(0))


def period_not_worth(digits):
    """You multiply each digit by its period. By how much does the position grow when a digit changes from 0 to 1? Try
    position 1."""
    return _weigh(digits, 2 ** (torch.arange(digits.shape[-1]).flip(0) + 1))


def squares_not_powers(digits):
    """You square the number of the bit. In the formula, which of the two numbers is the base and which is the
    exponent?"""
    return _weigh(digits, torch.arange(digits.shape[-1]).flip(0) ** 2)


def two_to_the_digit(digits):
    """You raise two to the power of the digits themselves. The exponent is the number of the bit."""
    return (2**digits).sum(-1)


def worth_in_steps_of_one(digits):
    """Your digits are worth 1, 2, 3, … from the right. Each digit should be worth twice as much as the digit to its
    right."""
    return _weigh(digits, torch.arange(digits.shape[-1]).flip(0) + 1)


def counted_from_one(digits):
    """All your positions are one too high. A row of zeros is position 0."""
    return _weigh(digits, 2 ** torch.arange(digits.shape[-1]).flip(0)) + 1


def four_digits_only(digits):
    """Your powers fit the slide's four digits and no other number of digits. Compute them from the shape."""
    return _weigh(digits, torch.tensor([8, 4, 2, 1]))


def one_digit_short(digits):
    """You leave out the first digit, which is the slowest. How many powers does a row of digits need?"""
    return _weigh(digits[:, 1:], 2 ** torch.arange(digits.shape[-1] - 1).flip(0))


def half_as_large(digits):
    """You leave out the last digit. It is bit 0 and is worth 1."""
    return _weigh(digits[:, :-1], 2 ** torch.arange(digits.shape[-1] - 1).flip(0))


def not_added_up(digits):
    """You return what each digit is worth. Add these numbers up, so that each row gives one position."""
    return digits * 2 ** torch.arange(digits.shape[-1]).flip(0)


def columns_added(digits):
    """You add up the columns. Each row is a position: look at the axis of your sum."""
    return (digits * 2 ** torch.arange(digits.shape[-1]).flip(0)).sum(0)


def all_rows_added(digits):
    """You add up all rows. Each row is a position of its own: look at the axis of your sum."""
    return (digits * 2 ** torch.arange(digits.shape[-1]).flip(0)).sum()


def one_column_kept(digits):
    """You return a column of shape (n_positions, 1). Return one number for each row, with shape (n_positions,)."""
    return _weigh(digits, 2 ** torch.arange(digits.shape[-1]).flip(0))[:, None]


def changes_the_digits(digits):
    """The result is right, but you change the caller's digits in place. Write the products into a new tensor."""
    digits *= 2 ** torch.arange(digits.shape[-1]).flip(0)
    return digits.sum(-1)
