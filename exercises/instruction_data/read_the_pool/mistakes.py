RIGHT = {"refused": 220, "stricter": 260, "half": 0.5, "new": 90}


def accepted_ones():
    """`"refused"` is how many are accepted. An instruction is refused if its ROUGE-L is at or above the threshold."""
    return RIGHT | {"refused": 780}


def one_bar_too_many():
    """`"refused"` includes the bar that ends at 0.7."""
    return RIGHT | {"refused": 330}


def one_bar_too_few():
    """`"refused"` lacks the bar that begins at 0.7."""
    return RIGHT | {"refused": 140}


def bar_at_the_threshold():
    """`"refused"` is the height of the bar at 0.7. All bars at and above the threshold count."""
    return RIGHT | {"refused": 80}


def all_that_are_refused():
    """`"stricter"` is about as many as are refused at 0.5 in all. Count the bars between 0.5 and 0.7."""
    return RIGHT | {"stricter": 480}


def one_bar_of_two():
    """`"stricter"` is the height of one bar. Between 0.5 and 0.7, there are two."""
    return RIGHT | {"stricter": 150}


def other_bar_of_two():
    """`"stricter"` is the height of the bar that ends at 0.7. There is another one between 0.5 and 0.7."""
    return RIGHT | {"stricter": 110}


def three_bars():
    """`"stricter"` includes the bar that begins at 0.7. It is refused at both thresholds."""
    return RIGHT | {"stricter": 480 - 140}


def fewer_than_half():
    """At the threshold in `"half"`, only 300 are accepted."""
    return RIGHT | {"half": 0.4}


def more_than_half():
    """At the threshold in `"half"`, 670 are accepted."""
    return RIGHT | {"half": 0.6}


def highest_bar():
    """`"half"` should be a border of two bars. The middle of the highest bar is not what is asked for."""
    return RIGHT | {"half": 0.45}


def number_of_bars():
    """`"half"` is a number of bars. Give the threshold, which lies between 0 and 1."""
    return RIGHT | {"half": 5}


def up_to_three_tenths():
    """`"new"` includes the bar from 0.2 to 0.3."""
    return RIGHT | {"new": 160}


def first_bar_alone():
    """`"new"` is the height of the first bar. There is another one below 0.2."""
    return RIGHT | {"new": 40}


def the_rest():
    """`"new"` is how many have more than 0.2."""
    return RIGHT | {"new": 910}


def second_bar_alone():
    """`"new"` is the height of the second bar. The first one is below 0.2, too."""
    return RIGHT | {"new": 50}


def shares():
    """Your numbers of instructions are shares of all of them. Count the instructions."""
    return RIGHT | {"refused": 0.22, "stricter": 0.26, "new": 0.09}
