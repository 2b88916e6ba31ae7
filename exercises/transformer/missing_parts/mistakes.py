RIGHT = {"A": "attention", "B": "causal mask", "C": "positions", "D": "residuals", "E": "norms", "F": "feed-forward"}


def _exchanged(first, second):
    return RIGHT | {first: RIGHT[second], second: RIGHT[first]}


def residuals_and_norms_exchanged():
    """Four are right, but D and E are exchanged. Which of the two parts lets a gradient pass a block unchanged, and
    which one resets the size of the hidden states?"""
    return _exchanged("D", "E")


def attention_and_feed_forward_exchanged():
    """Four are right, but A and F are exchanged. Which of the two parts moves information between tokens?"""
    return _exchanged("A", "F")


def attention_and_positions_exchanged():
    """Four are right, but A and C are exchanged. In C the other words still matter, and only their order does not."""
    return _exchanged("A", "C")


def mask_and_positions_exchanged():
    """Four are right, but B and C are exchanged. Which part hides the future, and which one tells the order?"""
    return _exchanged("B", "C")


def norms_and_feed_forward_exchanged():
    """Four are right, but E and F are exchanged. In F the norms were taken out on purpose. What else is not linear?"""
    return _exchanged("E", "F")


def attention_and_mask_exchanged():
    """Four are right, but A and B are exchanged. In A no token sees any other, and in B every token sees all others."""
    return _exchanged("A", "B")


def residuals_and_feed_forward_exchanged():
    """Four are right, but D and F are exchanged. Which part lets a gradient pass a block unchanged, and which one is
    not linear?"""
    return _exchanged("D", "F")


def parts_to_letters():
    """Your dictionary is the wrong way round: its keys should be the letters, and its values the parts."""
    return {part: letter for letter, part in RIGHT.items()}
