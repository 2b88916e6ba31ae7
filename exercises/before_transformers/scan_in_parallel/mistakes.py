import torch


def _scan(a, b, h=0.0):
    states = []
    for a_t, b_t in zip(a, b, strict=True):
        h = a_t * h + b_t
        states.append(h + torch.zeros_like(b_t))
    return torch.stack(states)


def sums_only(a, b):
    """You add up the inputs and leave out a. The state shrinks or grows by a at each step."""
    return b.cumsum(0)


def inputs_scaled(a, b):
    """You multiply each input by its own a and add up. It is the state that is multiplied by a, at every later step."""
    return (a * b).cumsum(0)


def one_step_back_only(a, b):
    """Your states reach back one step only. One round is not enough: go on with twice the distance."""
    return b + a * torch.cat([torch.zeros_like(b[:1]), b[:-1]])


def two_rounds_only(a, b):
    """Your states reach back a few steps only. Go on until the distance is at least the number of steps."""
    for distance in (1, 2):
        if distance < len(a):
            b = torch.cat([b[:distance], a[distance:] * b[:-distance] + b[distance:]])
            a = torch.cat([a[:distance], a[distance:] * a[:-distance]])
    return b


def distance_not_doubled(a, b):
    """Your rounds do not fit together: the distance should double in each round, because each stretch is then twice as
    long."""
    for distance in range(1, len(a)):
        b = torch.cat([b[:distance], a[distance:] * b[:-distance] + b[distance:]])
        a = torch.cat([a[:distance], a[distance:] * a[:-distance]])
    return b


def products_not_updated(a, b):
    """You join the B of the stretches but keep the old A. A longer stretch multiplies the state by a product of several
    a."""
    distance = 1
    while distance < len(a):
        b = torch.cat([b[:distance], a[distance:] * b[:-distance] + b[distance:]])
        distance *= 2
    return b


def a_updated_first(a, b):
    """You update A before B, so B is multiplied by a product that already reaches too far. Use the old A for B."""
    distance = 1
    while distance < len(a):
        a = torch.cat([a[:distance], a[distance:] * a[:-distance]])
        b = torch.cat([b[:distance], a[distance:] * b[:-distance] + b[distance:]])
        distance *= 2
    return b


def divided_by_products(a, b):
    """You divide by a product that can be 0, or too small for a floating-point number, and your states are not finite
    then. Join stretches instead."""
    products = a.cumprod(0)
    return products * (b / products).cumsum(0)


def a_of_the_step_before(a, b):
    """You multiply the state by the a of the step before. In h_t the state before is multiplied by a_t."""
    return _scan(torch.cat([torch.ones_like(a[:1]), a[:-1]]), b)


def begins_with_one(a, b):
    """Your recurrence begins with a state of 1. It begins with 0."""
    return _scan(a, b, 1.0)


def first_input_left_out(a, b):
    """Your first state is 0. It is b_0: the recurrence begins before the first step."""
    return torch.cat([torch.zeros_like(b[:1]), _scan(a, b)[:-1]])


def last_state_only(a, b):
    """You return only the last state. Return all of them."""
    return _scan(a, b)[-1]


def input_multiplied_too(a, b):
    """You multiply the input by a as well: a (h + b). Only the state before is multiplied."""
    states, h = [], torch.zeros_like(b[0])
    for a_t, b_t in zip(a, b, strict=True):
        h = a_t * (h + b_t)
        states.append(h)
    return torch.stack(states)


def earlier_a(a, b):
    """When you join two stretches, you multiply the B of the earlier one by its own A. It is multiplied by the A of the
    later one, which comes after it."""
    distance = 1
    while distance < len(a):
        b = torch.cat([b[:distance], a[:-distance] * b[:-distance] + b[distance:]])
        a = torch.cat([a[:distance], a[distance:] * a[:-distance]])
        distance *= 2
    return b


def backwards(a, b):
    """You scan from the end to the beginning. The state at a step depends on the steps before it."""
    return _scan(a.flip(0), b.flip(0)).flip(0)


def exponential_average(a, b):
    """You multiply the input by 1 − a, as in a moving average. Here it is added as it is."""
    return _scan(a, (1 - a) * b)


def joined_in_the_wrong_order(a, b):
    """You join two stretches in the wrong order: the later one comes last, so its A multiplies the B of the earlier
    one, and its own B is added."""
    distance = 1
    while distance < len(a):
        b = torch.cat([b[:distance], a[:-distance] * b[distance:] + b[:-distance]])
        a = torch.cat([a[:distance], a[distance:] * a[:-distance]])
        distance *= 2
    return b


def along_the_channels(a, b):
    """You go along the channels. Rows are time steps: go from row to row."""
    return _scan(a.T, b.T).T


def one_round_too_few(a, b):
    """Your last steps do not reach back to the beginning: there is a round too few unless the number of steps is a
    power of two. Go on while the distance is below the number of steps."""
    distance = 1
    while 2 * distance <= len(a):
        b = torch.cat([b[:distance], a[distance:] * b[:-distance] + b[distance:]])
        a = torch.cat([a[:distance], a[distance:] * a[:-distance]])
        distance *= 2
    return b


def round_the_circle(a, b):
    """You use `roll`, which lets the last steps flow into the first. Before the first step there is nothing."""
    distance = 1
    while distance < len(a):
        b = a * b.roll(distance, 0) + b
        a = a * a.roll(distance, 0)
        distance *= 2
    return b
