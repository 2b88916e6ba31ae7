RIGHT = [7.8, 51, 82.8, 43, 35.0, 3.4]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def forward_pass_alone():
    """Your operations are those of the forward pass, 2 for each parameter. A token takes 6."""
    return _with(n1=2.6, n2=17, n3=27.6, n4=14)


def backward_pass_alone():
    """Your operations are those of the backward pass, 4 for each parameter. A token takes 6."""
    return _with(n1=5.2, n2=34, n3=55.2, n4=29)


def one_operation():
    """You count one operation for each parameter. A token takes 6."""
    return _with(n1=1.3, n2=9, n3=13.8, n4=7)


def operations_themselves():
    """Your numbers of operations are not divided by 10²² yet."""
    return _with(n1=7.8e22, n3=82.8e22)


def operations_a_power_of_ten_off():
    """Only your third number is wrong, by a power of ten. Count the zeros of billions and trillions again."""
    return _with(n3=8.3)


def same_number_of_tokens():
    """Your third and fourth numbers are those of 1.0 trillion tokens. Llama 2 saw more."""
    return _with(n3=41.4, n4=21)


def fractions():
    """Your second and fourth numbers are fractions. Multiply them by 100."""
    return _with(n2=0.514, n4=0.429)


def unused_speed():
    """Your second and fourth numbers say how much of the speed was not used."""
    return _with(n2=49, n4=57)


def minutes():
    """Your second and fourth numbers take an hour for 60 seconds. It has 3,600."""
    return _with(n2=3085, n4=2571)


def hours_of_the_other_model():
    """Only your fourth number is wrong: it divides by the GPU-hours of the other model."""
    return _with(n4=545)


def hours_for_days():
    """Only your fifth number is wrong: it is in hours."""
    return _with(n5=840)


def days_of_one_gpu():
    """Only your fifth number is wrong: it is that of a single GPU."""
    return _with(n5=71680)


def days_of_the_smaller_model():
    """Only your fifth number is wrong: it is that of LLaMA-13B."""
    return _with(n5=2.8)


def dollars():
    """Only your sixth number is wrong: it is not in millions yet."""
    return _with(n6=3_440_640)


def one_dollar():
    """Only your sixth number is wrong: it is the number of GPU-hours in millions. Each costs 2 dollars."""
    return _with(n6=1.7)


def price_of_both():
    """Only your sixth number is wrong: it is the price of both models together."""
    return _with(n6=3.7)


def price_of_the_smaller_model():
    """Only your sixth number is wrong: it is the price of LLaMA-13B."""
    return _with(n6=0.3)


def seventy_billion():
    """Only your third number is wrong: the table gives 69.0 billion parameters, and not 70."""
    return _with(n3=84.0)


def seventy_billion_throughout():
    """Your third and fourth numbers are those of 70 billion parameters. The table gives 69.0 billion."""
    return _with(n3=84.0, n4=44)


def rounded_down():
    """Only your fourth number is wrong: you have cut it off instead of rounding it."""
    return _with(n4=42)
