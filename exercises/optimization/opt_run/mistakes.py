RIGHT = [992, 2_031_616, 290.6, 26.9, 3e-5, 2]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def _from(gpus, tokens):
    return _with(n1=gpus, n2=tokens, n3=143_052 * tokens / 1e9, n4=13_250 * tokens / 1e9)


def ends_not_counted():
    """You count five nodes too few. The range 1-38 contains 38 nodes, although 38 − 1 is 37."""
    return _from(8 * 119, 119 * 8 * 2048)


def all_nodes():
    """You count 128 nodes. Which of the numbers from 1 to 128 are missing in the list?"""
    return _from(1024, 128 * 8 * 2048)


def nodes_for_gpus():
    """Only your first number is wrong: it is that of the nodes. Each has 8 GPUs."""
    return _with(n1=124)


def sequences_for_each_gpu():
    """Your number of tokens, and what follows from it, is 8 times too large. The 8 GPUs of a node share one copy of the
    model, and work on the same 8 sequences."""
    return _from(992, 992 * 8 * 2048)


def one_sequence_for_each_copy():
    """Your number of tokens, and what follows from it, is an eighth of what it should be. Each copy has 8 sequences."""
    return _from(992, 124 * 2048)


def one_copy():
    """Your number of tokens is that of a single copy of the model. There is one for each node."""
    return _from(992, 8 * 2048)


def two_thousand_tokens():
    """You take 2,000 tokens for a sequence. It has 2,048."""
    return _from(992, 992 * 2000)


def sequences_for_tokens():
    """Your second number is that of the sequences. Each has 2,048 tokens."""
    return _with(n2=992)


def million_tokens_rounded():
    """Your second number is rounded. Return the number itself."""
    return _with(n2=2_000_000)


def run_from_the_checkpoint():
    """Only your third number is wrong: it is what was left after the checkpoint. The question is about the whole
    run."""
    return _with(n3=263.7)


def left_after_the_checkpoint():
    """Only your fourth number is wrong: it is what was left after the checkpoint. The question is what it had seen."""
    return _with(n4=263.7)


def five_epochs():
    """Only your fourth number is wrong: it is five times too large. The 13,250 updates are all that were made."""
    return _with(n4=134.6)


def millions():
    """Your third and fourth numbers are in millions. Divide them by a thousand."""
    return _with(n3=290626.7, n4=26918.9)


def single_tokens():
    """Your third and fourth numbers are not in billions yet."""
    return _with(n3=143_052 * 2_031_616, n4=13_250 * 2_031_616)


def whole_billions():
    """Your third and fourth numbers are right as far as they go. Return them to one decimal."""
    return _with(n3=291, n4=27)


def largest_rate():
    """Only your fifth number is wrong: it is the largest rate, which is reached at the end of the warm-up."""
    return _with(n5=1.2e-4)


def rate_of_the_whole_run():
    """Only your fifth number is wrong: the rate rises to its largest value in 2,000 updates, and not in the whole
    run."""
    return _with(n5=1.2e-4 * 500 / 143_052)


def rate_left():
    """Only your fifth number is wrong: it is what is still missing from the largest rate in update 500."""
    return _with(n5=9e-5)


def rate_in_another_unit():
    """Only your fifth number is wrong, by a power of ten. Count the zeros of the largest rate."""
    return _with(n5=3e-4)


def half_the_frequency():
    """Only your sixth number is wrong. With half of the nodes, each update needs more batches, and not fewer."""
    return _with(n6=0.5)


def same_frequency():
    """Only your sixth number is wrong: with this one, an update has only half as many tokens."""
    return _with(n6=1)


def four_batches():
    """Only your sixth number is wrong: with this one, an update has twice as many tokens."""
    return _with(n6=4)


def from_two_million_tokens():
    """Your third and fourth numbers follow from 2 million tokens in an update. Go on with the number itself."""
    return _with(n3=286.1, n4=26.5)
