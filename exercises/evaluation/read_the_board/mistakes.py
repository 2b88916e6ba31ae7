RIGHT = {"rank of E": 4, "rank of D": 4, "fewest votes": "E", "sure pair": "CD", "B against D": 0.6}


def order_of_the_scores():
    """For the rank of E you count the models with a higher score. D's interval overlaps with that of E."""
    return RIGHT | {"rank of E": 5}


def first_rank_for_a_wide_interval():
    """Your rank of E is too small: how far to the right does its interval reach, and where do those of A, B and C
    begin?"""
    return RIGHT | {"rank of E": 1}


def ranks_from_zero():
    """Both ranks are too small by one: the number of better models is increased by one."""
    return RIGHT | {"rank of E": 3, "rank of D": 3}


def ranks_without_gaps():
    """Both ranks are wrong: each of A, B and C is better beyond doubt, whether they share a rank or not."""
    return RIGHT | {"rank of E": 2, "rank of D": 2}


def rank_of_d_too_large():
    """Your rank of D is too large: E reaches further to the right than D, but its lower end does not."""
    return RIGHT | {"rank of D": 5}


def shortest_interval():
    """The model that you name for the fewest votes has a short interval, which comes from many votes."""
    return RIGHT | {"fewest votes": "C"}


def lowest_score():
    """The model that you name for the fewest votes has the lowest score. A low score does not come from few votes."""
    return RIGHT | {"fewest votes": "F"}


def first_two():
    """Your pair is not sure: the intervals of A and B overlap."""
    return RIGHT | {"sure pair": "AB"}


def middle_two():
    """Your pair is not sure: the intervals of B and C overlap."""
    return RIGHT | {"sure pair": "BC"}


def pair_with_the_wide_interval():
    """Your pair is not sure: the long interval of E overlaps with that of its neighbours."""
    return RIGHT | {"sure pair": "DE"}


def last_two():
    """Your pair is not sure: the interval of F lies within that of E."""
    return RIGHT | {"sure pair": "EF"}


def certain_win():
    """The chance that B wins is too large: a lead of 70 points is small beside 400."""
    return RIGHT | {"B against D": 0.95}


def chance_of_the_weaker():
    """The chance that B wins is too small: B has the higher score, so it wins more than half of the battles."""
    return RIGHT | {"B against D": 0.4}


def small_powers():
    """The chance that B wins is too small: a lead of 400 points means odds of ten to one, and the odds for other leads
    are powers of 10, too, not of e."""
    return RIGHT | {"B against D": 0.54}


def odds():
    """The chance that B wins is above 1. If your number is in percent, or a number of wins for each loss, turn it into
    a chance."""
    return RIGHT | {"B against D": 1.5}


def no_neighbours():
    """The two models of your pair are not neighbours on the board."""
    return RIGHT | {"sure pair": "AC"}
