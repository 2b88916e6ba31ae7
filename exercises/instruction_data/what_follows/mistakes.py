SHOWN, NOT, OPEN = "shown", "contradicted", "open"
RIGHT = dict.fromkeys("AEH", SHOWN) | dict.fromkeys("CD", NOT) | dict.fromkeys("BFG", OPEN)


def not_perfect():
    """Only A is wrong: the model does not answer all of them, but far more than before."""
    return RIGHT | {"A": OPEN}


def means_compared():
    """Only B is wrong: you compare the means. Do the intervals overlap?"""
    return RIGHT | {"B": SHOWN}


def means_compared_twice():
    """B and F are wrong: you compare the means. Do the intervals overlap?"""
    return RIGHT | {"B": SHOWN, "F": SHOWN}


def means_compared_everywhere():
    """B, F and G are wrong: you compare the means. Do the intervals overlap?"""
    return RIGHT | {"B": SHOWN, "F": SHOWN, "G": NOT}


def overlap_for_equality():
    """B and F are wrong: overlapping intervals do not contradict a difference, they leave it open."""
    return RIGHT | {"B": NOT, "F": NOT}


def overlap_for_equality_everywhere():
    """B, F and G are wrong: overlapping intervals neither contradict a difference nor show that there is none."""
    return RIGHT | {"B": NOT, "F": NOT, "G": SHOWN}


def more_must_help():
    """Only B is wrong: the intervals overlap, which does not contradict the statement."""
    return RIGHT | {"B": NOT}


def phrasings_for_kinds():
    """Only C is wrong: compare the column of the unseen kinds with that of the new phrasings."""
    return RIGHT | {"C": SHOWN}


def unseen_kinds_open():
    """Only C is wrong: the intervals of unseen kinds and of new phrasings are far apart."""
    return RIGHT | {"C": OPEN}


def form_for_truth():
    """Only D is wrong: most answers to unseen kinds have the right form. How many of them are right?"""
    return RIGHT | {"D": SHOWN}


def form_open():
    """Only D is wrong: the two columns have the same answers. If most of those in the right form were right, how many
    would be right?"""
    return RIGHT | {"D": OPEN}


def larger_loss_is_better():
    """Only E is wrong: a larger loss is worse, and the intervals do not overlap."""
    return RIGHT | {"E": NOT}


def loss_open():
    """Only E is wrong: the intervals of the two losses do not overlap."""
    return RIGHT | {"E": OPEN}


def replay_costs():
    """Only F is wrong: you compare the means. Do the intervals overlap?"""
    return RIGHT | {"F": SHOWN}


def replay_costs_nothing():
    """Only F is wrong: overlapping intervals do not show that there is no difference."""
    return RIGHT | {"F": NOT}


def equality_shown():
    """Only G is wrong: overlapping intervals do not show that two numbers are equal."""
    return RIGHT | {"G": SHOWN}


def equality_contradicted():
    """Only G is wrong: the means differ, but their intervals overlap."""
    return RIGHT | {"G": NOT}


def avoided_open():
    """Only H is wrong: how much does the loss rise at least without plain stories, and at most with them?"""
    return RIGHT | {"H": OPEN}


def avoided_contradicted():
    """Only H is wrong: compare how much the loss rises with and without plain stories."""
    return RIGHT | {"H": NOT}
