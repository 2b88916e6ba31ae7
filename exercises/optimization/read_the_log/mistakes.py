RIGHT = {"overflow": "B", "bad batch": "C", "lost moments": "A", "high rate": "D", "checkpoint": 250}


def _exchanged(first, second):
    return RIGHT | {first: RIGHT[second], second: RIGHT[first]}


def moments_and_batch_exchanged():
    """You have exchanged the lost moments and the bad batch. At which line does the update ratio change?"""
    return _exchanged("lost moments", "bad batch")


def moments_and_rate_exchanged():
    """You have exchanged the lost moments and the high rate. Which of the two heals by itself?"""
    return _exchanged("lost moments", "high rate")


def overflow_and_batch_exchanged():
    """You have exchanged the overflow and the bad batch. What happens to the loss scale when gradients overflow?"""
    return _exchanged("overflow", "bad batch")


def overflow_and_moments_exchanged():
    """You have exchanged the overflow and the lost moments. What is the update ratio of a step that is skipped?"""
    return _exchanged("overflow", "lost moments")


def overflow_and_rate_exchanged():
    """You have exchanged the overflow and the high rate. What happens to the loss scale when gradients overflow?"""
    return _exchanged("overflow", "high rate")


def batch_and_rate_exchanged():
    """You have exchanged the bad batch and the high rate. Which of the two is over after one step?"""
    return _exchanged("bad batch", "high rate")


def newest_before_the_alarm():
    """Your checkpoint is the newest one before the alarm, but the update ratio and the gradient norm had grown before
    it was saved."""
    return RIGHT | {"checkpoint": 300}


def after_the_alarm():
    """Your checkpoint was saved after the alarm, when the loss had already risen."""
    return RIGHT | {"checkpoint": 350}


def too_early():
    """There is a newer checkpoint than yours that was saved before the rate was too high. From which step on is the
    update ratio larger for good?"""
    return RIGHT | {"checkpoint": 200}


def much_too_early():
    """There is a newer checkpoint than yours that was saved before the rate was too high. When did the update ratio
    rise for good?"""
    return RIGHT | {"checkpoint": 150}


def order_of_the_table():
    """You give the letters in the order of the table. Look which line shows what."""
    return {"overflow": "A", "bad batch": "B", "lost moments": "C", "high rate": "D", "checkpoint": 250}
