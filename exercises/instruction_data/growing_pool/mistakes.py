def _grown(similarity, n_seeds, threshold, pool, below=lambda row, t: all(each < t for each in row)):
    rows, added = similarity.tolist(), []
    for i in range(n_seeds, len(rows)):
        if below([rows[i][j] for j in pool(i, n_seeds, added)], threshold):
            added.append(i)
    return added


def _right(i, n_seeds, added):
    return [*range(n_seeds), *added]


def all_before(similarity, n_seeds, threshold):
    """You compare with all instructions that were written before, also with refused ones, which are not in the pool."""
    return _grown(similarity, n_seeds, threshold, lambda i, n, added: range(i))


def added_alone(similarity, n_seeds, threshold):
    """You compare with the added instructions, but no longer with the seed tasks."""
    return _grown(similarity, n_seeds, threshold, lambda i, n, added: added)


def last_added(similarity, n_seeds, threshold):
    """You compare with the seed tasks and with the instruction added last. The others are in the pool, too."""
    return _grown(similarity, n_seeds, threshold, lambda i, n, added: [*range(n), *added[-1:]])


def one_before(similarity, n_seeds, threshold):
    """You compare with the seed tasks and with the instruction just before. All that were added are in the pool."""
    return _grown(similarity, n_seeds, threshold, lambda i, n, added: [*range(n), *([i - 1] if i > n else [])])


def later_ones(similarity, n_seeds, threshold):
    """You compare an instruction with later ones, too. They are not in the pool when it comes."""
    return _grown(similarity, n_seeds, threshold, lambda i, n, added: [j for j in range(len(similarity)) if j != i])


def average(similarity, n_seeds, threshold):
    """You compare the average similarity with the threshold. A single text that is too similar is enough."""
    return _grown(similarity, n_seeds, threshold, _right, lambda row, t: sum(row) < t * len(row))


def any_of_them(similarity, n_seeds, threshold):
    """You add an instruction if one text of the pool is different enough. All of them have to be."""
    return _grown(similarity, n_seeds, threshold, _right, lambda row, t: any(each < t for each in row))


def refused_ones(similarity, n_seeds, threshold):
    """You return the instructions that are refused."""
    added = _grown(similarity, n_seeds, threshold, _right)
    return [i for i in range(n_seeds, len(similarity)) if i not in added]


def seeds_returned(similarity, n_seeds, threshold):
    """You return the rows of the seed tasks as well."""
    return [*range(n_seeds), *_grown(similarity, n_seeds, threshold, _right)]


def counted_from_the_seeds(similarity, n_seeds, threshold):
    """Your numbers count from the first instruction. Return rows of the table, in which the seed tasks come first."""
    return [i - n_seeds for i in _grown(similarity, n_seeds, threshold, _right)]


def number_of_them(similarity, n_seeds, threshold):
    """You return how many instructions are added. Return their rows."""
    return [len(_grown(similarity, n_seeds, threshold, _right))]


def first_seed_alone(similarity, n_seeds, threshold):
    """You compare with one seed task only, and with what was added."""
    return _grown(similarity, n_seeds, threshold, lambda i, n, added: [0, *added])


def at_the_threshold(similarity, n_seeds, threshold):
    """You also add an instruction whose similarity equals the threshold. It has to be below."""
    return _grown(similarity, n_seeds, threshold, _right, lambda row, t: all(each <= t for each in row))


def as_many_columns(similarity, n_seeds, threshold):
    """You compare with as many of the first texts as the pool has. These are not the texts of the pool once an
    instruction has been refused."""
    return _grown(similarity, n_seeds, threshold, lambda i, n, added: range(n + len(added)))


def in_two_passes(similarity, n_seeds, threshold):
    """You first drop what is similar to a seed task, and then compare with all that is left, also with instructions
    that are refused because of others and are not in the pool."""
    far = [i for i in range(n_seeds, len(similarity)) if all(similarity[i, j] < threshold for j in range(n_seeds))]
    return [i for i in far if all(similarity[i, j] < threshold for j in far if j < i)]
