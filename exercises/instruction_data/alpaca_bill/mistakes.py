RIGHT = {"cents": 0.96, "tokens": 481, "single": 1747, "batch": 166.4, "filtered": 208}


def dollars_for_cents():
    """`"cents"` is in dollars. A dollar has 100 cents."""
    return RIGHT | {"cents": 0.01}


def examples_for_a_cent():
    """`"cents"` is how many examples a cent buys. Divide the money by the examples."""
    return RIGHT | {"cents": 1.04}


def price_of_a_thousand():
    """`"tokens"` is wrong: the price is for a million tokens."""
    return RIGHT | {"tokens": 0.48}


def tokens_in_all():
    """`"tokens"` is the number for all examples together. Divide it by the number of examples."""
    return RIGHT | {"tokens": 25_000_000}


def prompt_forgotten():
    """`"single"` is what the model writes. It also reads a prompt for each request."""
    return RIGHT | {"single": 83}


def answer_forgotten():
    """`"single"` is what the model reads. It also writes an example for each request."""
    return RIGHT | {"single": 1664}


def prompt_each_time():
    """`"batch"` has a prompt for each example. Twenty of them share one."""
    return RIGHT | {"batch": 1747.2}


def all_divided_by_twenty():
    """`"batch"` is a twentieth of `"single"`. The prompts are fewer, but just as many examples are written."""
    return RIGHT | {"batch": 87.4, "filtered": 109}


def one_example_in_a_request():
    """`"batch"` is a twentieth of `"single"`. The prompts are fewer, but just as many examples are written."""
    return RIGHT | {"batch": 87.4}


def prompts_alone():
    """`"batch"` is what the model reads. It writes twenty examples for each request."""
    return RIGHT | {"batch": 83.2}


def prompts_alone_twice():
    """`"batch"` and `"filtered"` are what the model reads. It writes twenty examples for each request."""
    return RIGHT | {"batch": 83.2, "filtered": 104}


def refused_ones_free():
    """`"filtered"` is as much as `"batch"`. Refused examples are paid for, too."""
    return RIGHT | {"filtered": 166}


def fifth_added():
    """`"filtered"` is a fifth more than `"batch"`. But of a fifth more examples, a fifth is refused again, and too few
    are left."""
    return RIGHT | {"filtered": 200}


def fifth_taken_away():
    """`"filtered"` is less than `"batch"`. To get as many examples, more have to be written."""
    return RIGHT | {"filtered": 133}


def single_filtered():
    """`"filtered"` has one example in each request. There are twenty."""
    return RIGHT | {"filtered": 2184}


def rounded_down():
    """`"tokens"` is rounded down. The nearest whole number is asked for."""
    return RIGHT | {"tokens": 480}


def answers_forgotten():
    """`"single"`, `"batch"` and `"filtered"` are what the model reads. What it writes is paid for, too."""
    return RIGHT | {"single": 1664, "batch": 83.2, "filtered": 104}


def prompt_each_time_twice():
    """`"batch"` and `"filtered"` have a prompt for each example. Twenty of them share one."""
    return RIGHT | {"batch": 1747.2, "filtered": 2184}


def cents_throughout():
    """`"single"`, `"batch"` and `"filtered"` are in cents. Dollars are asked for."""
    return RIGHT | {"single": 174_720, "batch": 16_640, "filtered": 20_800}
