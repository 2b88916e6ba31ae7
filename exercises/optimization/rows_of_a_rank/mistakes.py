def _lists(numbers, n_sequences):
    return [n // n_sequences for n in numbers], [n % n_sequences for n in numbers]


def _block(first, batch_size, world_size):
    return range(first, first + batch_size // world_size)


def every_so_many(step, rank, batch_size, world_size, n_sequences):
    """You deal the sequences out one by one, in turn. Each process gets a consecutive block."""
    first = step * batch_size
    return _lists(range(first + rank, first + batch_size, world_size), n_sequences)


def whole_batch(step, rank, batch_size, world_size, n_sequences):
    """Each of your processes reads the whole batch. It should be dealt out."""
    return _lists(range(step * batch_size, (step + 1) * batch_size), n_sequences)


def batch_for_each_rank(step, rank, batch_size, world_size, n_sequences):
    """Each of your processes reads `batch_size` sequences of its own. `batch_size` is the number of all of them
    together."""
    first = (step * world_size + rank) * batch_size
    return _lists(range(first, first + batch_size), n_sequences)


def rank_ignored(step, rank, batch_size, world_size, n_sequences):
    """All of your processes read the block of rank 0."""
    return _lists(_block(step * batch_size, batch_size, world_size), n_sequences)


def share_for_each_rank(step, rank, batch_size, world_size, n_sequences):
    """Each of your processes goes through a part of the data of its own. In each step, all of them together read
    consecutive sequences."""
    own, n_rows = n_sequences // world_size, batch_size // world_size
    numbers = [rank * own + (step * n_rows + i) % own for i in range(n_rows)]
    return [(step * n_rows + i) // own for i in range(n_rows)], numbers


def step_counted_from_one(step, rank, batch_size, world_size, n_sequences):
    """Your steps are counted from 1: you return what is read in the step before."""
    return _lists(
        _block((step - 1) * batch_size + rank * batch_size // world_size, batch_size, world_size), n_sequences
    )


def one_step_ahead(step, rank, batch_size, world_size, n_sequences):
    """You are one step ahead. Step 0 begins with sequence 0."""
    return _lists(
        _block((step + 1) * batch_size + rank * batch_size // world_size, batch_size, world_size), n_sequences
    )


def step_of_blocks(step, rank, batch_size, world_size, n_sequences):
    """Your steps are too near to each other: each one begins only one block after the last, although all processes
    together read `batch_size` sequences."""
    return _lists(_block((step + rank) * (batch_size // world_size), batch_size, world_size), n_sequences)


def ranks_reversed(step, rank, batch_size, world_size, n_sequences):
    """Your blocks are in the reversed order: rank 0 reads the first one."""
    first = step * batch_size + (world_size - 1 - rank) * batch_size // world_size
    return _lists(_block(first, batch_size, world_size), n_sequences)


def epoch_of_the_first(step, rank, batch_size, world_size, n_sequences):
    """Your positions are right, but all your sequences have the epoch of the first one. A batch may reach into the next
    epoch."""
    epochs, positions = _lists(
        _block(step * batch_size + rank * batch_size // world_size, batch_size, world_size), n_sequences
    )
    return [epochs[0]] * len(epochs), positions


def positions_not_wrapped(step, rank, batch_size, world_size, n_sequences):
    """Your epochs are right, but your positions are numbers of the whole run. In each epoch, they begin with 0."""
    numbers = list(_block(step * batch_size + rank * batch_size // world_size, batch_size, world_size))
    return _lists(numbers, n_sequences)[0], numbers


def epoch_always_zero(step, rank, batch_size, world_size, n_sequences):
    """Your positions are right, but your epoch is always 0."""
    epochs, positions = _lists(
        _block(step * batch_size + rank * batch_size // world_size, batch_size, world_size), n_sequences
    )
    return [0 for _ in epochs], positions


def epochs_from_one(step, rank, batch_size, world_size, n_sequences):
    """Your positions are right, but your epochs are counted from 1. The first one is 0."""
    epochs, positions = _lists(
        _block(step * batch_size + rank * batch_size // world_size, batch_size, world_size), n_sequences
    )
    return [epoch + 1 for epoch in epochs], positions


def epochs_of_whole_batches(step, rank, batch_size, world_size, n_sequences):
    """You begin each epoch with a new batch, and leave out what does not fill one. A batch may reach from one epoch
    into the next."""
    per_epoch = max(1, n_sequences // batch_size)
    first = step % per_epoch * batch_size + rank * batch_size // world_size
    numbers = [n % n_sequences for n in _block(first, batch_size, world_size)]
    return [step // per_epoch] * len(numbers), numbers


def lists_exchanged(step, rank, batch_size, world_size, n_sequences):
    """You return the positions first. The epochs come first."""
    lists = _lists(_block(step * batch_size + rank * batch_size // world_size, batch_size, world_size), n_sequences)
    return lists[::-1]


def rank_counted_from_one(step, rank, batch_size, world_size, n_sequences):
    """Your ranks are counted from 1: you return what the process before this one reads."""
    first = step * batch_size + (rank - 1) * batch_size // world_size
    return _lists(_block(first, batch_size, world_size), n_sequences)


def blocks_too_far_apart(step, rank, batch_size, world_size, n_sequences):
    """Your blocks have the right size, but their beginnings are `batch_size` sequences apart. The block of one rank
    should begin where that of the last ends."""
    return _lists(_block((step + rank) * batch_size, batch_size, world_size), n_sequences)
