import math


def _static(n_new, n_slots):
    return sum(max(n_new[i : i + n_slots]) for i in range(0, len(n_new), n_slots))


def _continuous(n_new, n_slots, delay=0):
    free = [-delay] * n_slots
    for n in n_new:
        free[free.index(min(free))] += n + delay
    return max(free)


def _answer(n_new, n_slots, static=None, continuous=None, share=None):
    steps = (
        _static(n_new, n_slots) if static is None else static,
        _continuous(n_new, n_slots) if continuous is None else continuous,
    )
    share = share or (lambda steps: 1 - sum(n_new) / (n_slots * steps))
    return *steps, *map(share, steps)


def sorted_requests(n_new, n_slots):
    """You sort the requests. They take the slots in the order of the list."""
    return _answer(sorted(n_new), n_slots)


def longest_first(n_new, n_slots):
    """You let the longest requests go first. They take the slots in the order of the list."""
    return _answer(sorted(n_new, reverse=True), n_slots)


def sorted_when_continuous(n_new, n_slots):
    """Your static batches are right, but your continuous batching takes the longest of the waiting requests first. They
    take the slots in the order of the list."""
    return _answer(n_new, n_slots, continuous=_continuous(sorted(n_new, reverse=True), n_slots))


def no_slot_ever_idle(n_new, n_slots):
    """Your static batches are right, but your continuous batching divides all tokens evenly among the slots. One
    request cannot use two slots."""
    return _answer(n_new, n_slots, continuous=math.ceil(sum(n_new) / n_slots))


def even_or_longest(n_new, n_slots):
    """Your static batches are right, but your continuous batching is a lower bound: the larger one of the longest
    request and an even share of all tokens. Follow the slots."""
    return _answer(n_new, n_slots, continuous=max(math.ceil(sum(n_new) / n_slots), *n_new, 0))


def fixed_turns(n_new, n_slots):
    """Your static batches are right, but with continuous batching, your requests are dealt out to the slots in turn.
    Each takes the slot that becomes free first."""
    return _answer(n_new, n_slots, continuous=max(sum(n_new[i::n_slots]) for i in range(n_slots)))


def one_step_lost(n_new, n_slots):
    """Your static batches are right, but with continuous batching, a slot stays empty for a step before the next
    request takes it. It takes part in the very next step."""
    return _answer(n_new, n_slots, continuous=_continuous(n_new, n_slots, delay=1))


def one_after_the_other(n_new, n_slots):
    """Your static batches run their requests one after the other. All requests of a batch get a token in each step."""
    return _answer(n_new, n_slots, static=sum(n_new))


def shortest_of_the_batch(n_new, n_slots):
    """Your static batches end with their shortest request. They end with the longest one."""
    return _answer(n_new, n_slots, static=sum(min(n_new[i : i + n_slots]) for i in range(0, len(n_new), n_slots)))


def longest_of_all(n_new, n_slots):
    """All of your static batches take as many steps as the longest request of the list. Each batch has its own
    longest."""
    return _answer(n_new, n_slots, static=math.ceil(len(n_new) / n_slots) * max(n_new))


def last_batch_left_out(n_new, n_slots):
    """Your static batches leave out the last requests, which do not fill a batch. They form a smaller one."""
    n = len(n_new) // n_slots * n_slots
    static = _static(n_new[:n], n_slots)
    return _answer(
        n_new, n_slots, static=static, share=lambda steps: 1 - sum(n_new) / (n_slots * steps) if steps else 0
    )


def exchanged(n_new, n_slots):
    """You have exchanged the two policies: static batches come first."""
    static, continuous, idle_static, idle_continuous = _answer(n_new, n_slots)
    return continuous, static, idle_continuous, idle_static


def taking_turns(n_new, n_slots):
    """Your numbers are right, but their order is not: the two numbers of steps come first, and then the two shares."""
    static, continuous, idle_static, idle_continuous = _answer(n_new, n_slots)
    return static, idle_static, continuous, idle_continuous


def busy_for_idle(n_new, n_slots):
    """Your steps are right, but your shares are those of the busy slots."""
    return _answer(n_new, n_slots, share=lambda steps: sum(n_new) / (n_slots * steps))


def idle_slots_counted(n_new, n_slots):
    """Your steps are right, but you count the idle slots. Divide by the number of all of them, `n_slots` in each
    step."""
    return _answer(n_new, n_slots, share=lambda steps: n_slots * steps - sum(n_new))


def in_percent(n_new, n_slots):
    """Your steps are right, but your shares are in percent. A share is a number from 0 to 1."""
    return _answer(n_new, n_slots, share=lambda steps: 100 - 100 * sum(n_new) / (n_slots * steps))


def idle_for_each_busy(n_new, n_slots):
    """Your steps are right, but you divide the idle slots by the busy ones. Divide by all."""
    return _answer(n_new, n_slots, share=lambda steps: n_slots * steps / sum(n_new) - 1)
