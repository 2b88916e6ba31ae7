def four_bytes_short():
    """You are four bytes short for each parameter. Is the float32 copy there, and are both running means, each with
    four bytes?"""
    return 12, 84, 2, 14


def two_bytes_short():
    """You are two bytes short for each parameter. Are both the weights with which the model computes and the gradients
    there?"""
    return 14, 98, 2, 14


def one_moment():
    """You count one moment. Adam keeps two running means for each parameter."""
    return 12.0, 84.0, 2.0, 28.0


def everything_in_float32():
    """You count five numbers of four bytes each. The weights for computing and the gradients are in bfloat16, which
    takes two."""
    return 20, 140, 2, 14


def everything_in_bfloat16():
    """You count five numbers of two bytes each. The copy of the weights and the moments are in float32, which takes
    four."""
    return 10, 70, 1, 14


def bits_instead_of_bytes():
    """You count bits. A byte has eight of them."""
    return 128, 896, 12, 112


def one_gpu():
    """Your first two numbers are right, but the GPUs cannot hold them. Round up."""
    return 16, 112, 1, 14


def part_of_a_gpu():
    """Your third number is not whole. A part of a GPU is still a whole GPU."""
    return 16, 112, 1.4, 14


def generating_in_float32():
    """Your first three numbers are right, but the last is too large. In bfloat16, a weight takes two bytes."""
    return 16, 112, 2, 28


def generating_with_everything():
    """Your first three numbers are right, but the last is that of training. When a model generates, only the weights
    are needed."""
    return 16, 112, 2, 112


def gib_instead_of_gb():
    """You divide by powers of 1024. Here 1 GB is 10⁹ bytes, so that 7 billion parameters at a byte each take 7 GB."""
    return 16, 104.308, 2, 13.039


def weights_alone():
    """You count the weights alone for training. Their gradients, the copy and the moments need room as well."""
    return 2, 14, 1, 14


def bytes_instead_of_gb():
    """Your sizes are in bytes. Return them in GB."""
    return 16, 112_000_000_000, 2, 14_000_000_000


def gradients_in_float32():
    """You count two bytes too many for each parameter. The weights with which the model computes and their gradients
    are both in bfloat16."""
    return 18, 126, 2, 14


def gib_rounded():
    """Your sizes are too small, as if you divided by powers of 1024. Here 1 GB is 10⁹ bytes, so that 7 billion
    parameters at a byte each take 7 GB."""
    return 16, 104, 2, 13


def no_moments():
    """You count eight bytes for each parameter, which is half of what is needed. Adam's two running means alone take
    eight."""
    return 8, 56, 1, 14
