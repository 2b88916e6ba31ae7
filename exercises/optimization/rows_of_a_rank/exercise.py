import torch


def rows_of_a_rank(
    step: int, rank: int, batch_size: int, world_size: int, n_sequences: int
) -> tuple[list[int], list[int]]:
    """Return the epochs and the positions of the sequences that this process reads in this step."""
    n_rows = batch_size // world_size
    first = step * batch_size + rank * n_rows
    numbers = range(first, first + n_rows)
    return [n // n_sequences for n in numbers], [n % n_sequences for n in numbers]


def accepted_tensors(step, rank, batch_size, world_size, n_sequences):
    """Cuts the whole batch with PyTorch."""
    numbers = torch.arange(step * batch_size, (step + 1) * batch_size).view(world_size, -1)[rank]
    return numbers.div(n_sequences, rounding_mode="floor"), numbers.remainder(n_sequences)


def accepted_counting(step, rank, batch_size, world_size, n_sequences):
    """Counts through the run up to the step, sequence by sequence."""
    epoch = position = 0
    pairs = []
    for number in range((step + 1) * batch_size):
        inside = number - step * batch_size
        if inside >= 0 and inside * world_size // batch_size == rank:
            pairs.append((epoch, position))
        position += 1
        if position == n_sequences:
            epoch, position = epoch + 1, 0
    return [list(each) for each in zip(*pairs, strict=True)]


NAMES = ("step", "rank", "batch_size", "world_size", "n_sequences")


def cases(generator):
    rows = [(0, 2, 12, 4, 100), (1, 1, 4, 2, 5), (3, 0, 6, 3, 7), (2, 2, 6, 3, 8), (5, 1, 8, 2, 11), (4, 0, 3, 1, 6)]
    rows += [(1, 1, 10, 2, 3), (6, 3, 8, 4, 24)]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def observe(returned, step, rank, batch_size, world_size, n_sequences):
    """the two lists"""
    assert isinstance(returned, tuple | list) or hasattr(returned, "tolist"), "two lists are needed"
    parts = list(returned)
    assert len(parts) == 2, f"two lists are needed, and you return {len(parts)} values"
    lists = [each.tolist() if hasattr(each, "tolist") else each for each in parts]
    assert all(isinstance(each, tuple | list) for each in lists), (
        "two lists are needed, one of epochs, one of positions"
    )
    for n in (float(n) for each in lists for n in each):
        assert n.is_integer(), f"epochs and positions are whole numbers, and {n:g} is not"
    return tuple(torch.tensor([int(n) for n in each], dtype=torch.int64) for each in lists)


def property_nothing_lost(answer, generator):
    for world_size in (1, 2, 3, 6):
        seen = []
        for step in range(4):
            for rank in range(world_size):
                returned = answer(step, rank, 12, world_size, 16)
                epochs, positions = (each.tolist() if hasattr(each, "tolist") else list(each) for each in returned)
                seen += [(int(e), int(p)) for e, p in zip(epochs, positions, strict=True)]
        assert sorted(seen) == [(e, p) for e in range(3) for p in range(16)], (
            "Four steps with 12 sequences each should read each of the 16 sequences once in each of three epochs, "
            f"whatever the number of processes is. With {world_size} of them, yours do not."
        )


def hidden_cases(generator):
    rows = [(7, 1, 12, 3, 25), (2, 3, 16, 4, 9), (0, 0, 8, 2, 5), (9, 1, 6, 2, 100), (3, 4, 15, 5, 23)]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]
