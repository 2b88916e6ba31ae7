RIGHT = {"post without warm-up": "C", "post with warm-up": "A", "pre without warm-up": "B"}
RIGHT |= {"level": 3.08, "smallest gradient": "C"}


def _exchanged(first, second):
    return RIGHT | {first: RIGHT[second], second: RIGHT[first]}


def pre_and_warm_up_exchanged():
    """You have exchanged the run with warm-up and the pre-norm run. Which of the two can hardly change in the first
    steps, because its learning rate is still small?"""
    return _exchanged("post with warm-up", "pre without warm-up")


def warm_up_exchanged():
    """You have exchanged the two post-norm runs. Is it the warm-up that lets a post-norm model train here, or that
    keeps it from training?"""
    return _exchanged("post with warm-up", "post without warm-up")


def placements_exchanged():
    """You have exchanged the two runs without warm-up. Which placement needs the warm-up?"""
    return _exchanged("pre without warm-up", "post without warm-up")


def turned_round():
    """None of your three curves is right. Begin with the run that is stuck: which placement needs a warm-up, and did
    that run have one?"""
    return RIGHT | {"post without warm-up": "A", "post with warm-up": "B", "pre without warm-up": "C"}


def turned_the_other_way_round():
    """None of your three curves is right. Begin with the run that is stuck: which placement needs a warm-up, and did
    that run have one?"""
    return RIGHT | {"post without warm-up": "B", "post with warm-up": "C", "pre without warm-up": "A"}


def best_run_has_the_smallest_gradient():
    """The run that you name for the smallest gradient is the one that trains best. Look at the second panel: does a
    small gradient mean that a model trains well?"""
    return RIGHT | {"smallest gradient": "B"}


def largest_gradient():
    """The run that you name for the smallest gradient has the largest one in the second half."""
    return RIGHT | {"smallest gradient": "A"}


def level_too_low():
    """Your level is too low. At which loss does the curve stay that does not come down any further?"""
    return RIGHT | {"level": 2.4}


def level_too_high():
    """Your level is too high. At which loss does the curve stay that does not come down any further?"""
    return RIGHT | {"level": 3.6}
