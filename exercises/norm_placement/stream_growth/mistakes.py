RIGHT = [5, 24, 0.2, 1, 25]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def one_branch_in_each_block():
    """You count one branch in each block. There are two, one from attention and one from the feed-forward layer."""
    return _with(n1=3.61, n2=48, n3=0.277, n5=13)


def input_not_counted():
    """You leave the input out of the sum. It has an RMS of 1 as well."""
    return _with(n1=4.90, n2=24.5, n3=0.204, n5=24)


def input_not_counted_rounded_up():
    """You leave the input out of the sum. It has an RMS of 1 as well, and then no number of blocks needs rounding."""
    return _with(n1=4.90, n2=25, n3=0.204, n5=24)


def branches_for_blocks():
    """Only your second number is wrong: it counts branches. How many blocks are that?"""
    return _with(n2=48)


def input_counted_as_a_branch():
    """Only your second number is wrong. The mean square is 49 then, but the first 1 of it comes from the input."""
    return _with(n2=24.5)


def vectors_for_blocks():
    """Only your second number is wrong: it counts all vectors of the sum, the input included. How many blocks are
    that?"""
    return _with(n2=49)


def rounded_up():
    """Only your second number is wrong. The input and 24 blocks make 1 + 48 vectors: does it take one more?"""
    return _with(n2=25)


def sizes_added():
    """You add up the RMS of all vectors, or you leave out the root. The RMS add up only if all vectors point in the
    same direction, as in the fifth case. If they are uncorrelated, the mean squares add up."""
    return _with(n1=25, n2=3, n3=0.04)


def sizes_added_once():
    """Your first and third numbers add up the RMS of all vectors, as if they pointed in the same direction. Your second
    one does not."""
    return _with(n1=25, n3=0.04)


def mean_squares():
    """Your first number is the mean square, and your third one follows from it. The RMS is its root."""
    return _with(n1=25, n2=24, n3=0.04, n5=625)


def share_of_the_mean_square():
    """Only your third number is wrong: it is the share in the mean square. Divide the RMS of the branch by that of the
    stream."""
    return _with(n3=0.04)


def share_the_wrong_way_round():
    """Only your third number is wrong: it is the RMS of the stream divided by that of the branch."""
    return _with(n3=5)


def share_of_the_sum():
    """Only your third number is wrong. Divide by the stream to which the branch is added, not by the sum after it."""
    return _with(n3=0.196)


def share_as_percent():
    """Your third number is a percentage. Return the quotient itself."""
    return _with(n3=20)


def post_norm_grows():
    """Only your fourth number is wrong: it grows as in pre-norm. What does the norm of post-norm do to each sum?"""
    return _with(n4=5)


def post_norm_before_the_last_norm():
    """Only your fourth number is wrong: it is the RMS of a sum before its norm. In post-norm the norm comes last."""
    return _with(n4=1.41)


def post_norm_is_zero():
    """Only your fourth number is wrong. A norm brings the RMS to 1 and not to 0."""
    return _with(n4=0)


def equal_as_if_uncorrelated():
    """Only your fifth number is wrong: it is that of uncorrelated vectors. Equal vectors add up as numbers do."""
    return _with(n5=5)


def equal_without_the_input():
    """Only your fifth number is wrong: the input itself is part of the sum, too."""
    return _with(n5=24)


def equal_and_doubled():
    """Only your fifth number is wrong: you double the stream with each block or branch. Each branch is equal to the
    input of the stack, and not to the stream."""
    return _with(n5=4096)


def equal_and_doubled_by_branches():
    """Only your fifth number is wrong: you double the stream with each branch. Each branch is equal to the input of the
    stack, and not to the stream."""
    return _with(n5=2**24)


def equal_in_half_of_the_branches():
    """Only your fifth number is wrong: you count one branch in each block. There are two."""
    return _with(n5=13)


def one_branch_in_the_first_number():
    """Your first number counts one branch in each block, and there are two: one from attention and one from the
    feed-forward layer. Your third number follows from it."""
    return _with(n1=3.61, n3=0.277)


def first_number_too_large():
    """Only your first number is wrong: it is a mean square, or a sum of all RMS. The mean squares add up, and the RMS
    is the root of their sum."""
    return _with(n1=25)


def input_not_counted_in_the_first_number():
    """Only your first number is wrong: it leaves the input out of the sum, which has an RMS of 1 as well."""
    return _with(n1=4.90)
