def nothing_left_out(scores):
    """Each of your means takes all tasks. One is to be left out, another in each column."""
    return scores.mean(-1, keepdim=True).expand_as(scores)


def divided_by_all(scores):
    """You leave a task out of the sum, but divide as if it were there. It counts as a score of zero then."""
    return (scores.sum(-1, keepdim=True) - scores) / scores.shape[-1]


def not_divided(scores):
    """You return sums. How many scores are in each?"""
    return scores.sum(-1, keepdim=True) - scores


def models_left_out(scores):
    """You average over the other models. It is a task that is left out, and each model has a mean of its own."""
    return (scores.sum(0) - scores) / max(len(scores) - 1, 1)


def models_together(scores):
    """You average over all models together. Each has a mean of its own."""
    return ((scores.sum() - scores.sum(0)) / (scores.numel() - len(scores))).expand_as(scores)


def best_left_out(scores):
    """You leave out each model's best task in every column. Column by column, the task of that column is left out."""
    rest = scores.sum(-1, keepdim=True) - scores.amax(-1, keepdim=True)
    return (rest / (scores.shape[-1] - 1)).expand_as(scores)


def mean_minus_score(scores):
    """You subtract the score from the mean of all. Leave it out before you divide."""
    return scores.mean(-1, keepdim=True) - scores


def one_mean_for_each_model(scores):
    """You return one number for each model, its mean over everything. One for each task left out is asked."""
    return scores.mean(-1)


def tasks_in_the_rows(scores):
    """Your rows are tasks. Models have the rows, as they came."""
    return ((scores.sum(-1, keepdim=True) - scores) / (scores.shape[-1] - 1)).T
