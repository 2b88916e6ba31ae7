import math


def equal_parameters(d_model: int, d_ff: int, multiple_of: int) -> tuple[int, int]:
    """Return the width of a gated layer, rounded up, and how many more parameters it has than the plain layer."""
    width = math.ceil(2 * d_ff / (3 * multiple_of)) * multiple_of
    return width, 3 * d_model * width - 2 * d_model * d_ff


def accepted_whole_numbers(d_model, d_ff, multiple_of):
    """Divides whole numbers, and returns a list."""
    blocks = -(-2 * d_ff // (3 * multiple_of))
    width = blocks * multiple_of
    return [width, (3 * width - 2 * d_ff) * d_model]


def accepted_search(d_model, d_ff, multiple_of):
    """Tries one multiple after the other until there are enough parameters."""
    plain, width = 2 * d_model * d_ff, multiple_of
    while 3 * d_model * width < plain:
        width += multiple_of
    return width, 3 * d_model * width - plain


def accepted_two_steps(d_model, d_ff, multiple_of):
    """Rounds up to a whole number first and then to a multiple, as LLaMA's code does the second."""
    width = math.ceil(2 * d_ff / 3)
    width = multiple_of * ((width + multiple_of - 1) // multiple_of)
    return float(width), 3.0 * d_model * width - 2.0 * d_model * d_ff


def cases(generator):
    sizes = [(768, 3072, 1), (4096, 16384, 256), (5, 12, 3), (2, 20, 8), (5120, 20480, 256), (512, 2048, 64)]
    sizes += [(6, 14, 3), (3, 10, 2)]  # 9⅓ and 6⅔, which are multiples without their decimals
    return [dict(zip(("d_model", "d_ff", "multiple_of"), size, strict=True)) for size in sizes]


def property_never_fewer(answer, generator):
    for d_ff, multiple_of in ((96, 1), (100, 8), (1000, 64)):
        width, extra = answer(16, d_ff, multiple_of)
        assert width % multiple_of == 0, f"{width:g} is not a multiple of {multiple_of}, which is what we asked for."
        assert extra >= 0, (
            "The width is rounded up, so the gated layer should never have fewer parameters than the plain one. Your "
            "second number says otherwise."
        )
        assert extra < 3 * 16 * multiple_of, (
            "The width is the smallest multiple that is enough, so with one multiple less, the gated layer should have "
            "fewer parameters than the plain one. By your second number, it would not."
        )


def hidden_cases(generator):
    sizes = [(1024, 4096, 128), (640, 2560, 32), (7, 24, 1), (3, 40, 16), (8192, 32768, 512), (4, 11, 7), (9, 16, 5)]
    return [dict(zip(("d_model", "d_ff", "multiple_of"), size, strict=True)) for size in sizes]
