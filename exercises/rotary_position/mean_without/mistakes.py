def nothing_left_out(scores):
    """Each of your means is over all tasks. Leave out one task, a different one in each column."""
    return scores.mean(-1, keepdim=True).expand_as(scores)


def divided_by_all(scores):
    """You leave a task out of the sum but still count it in the divisor. So it is treated as a score of zero."""
    return (scores.sum(-1, keepdim=True) - scores) / scores.shape[-1]


def not_divided(scores):
    """You return sums. Divide each by the number of its scores."""
    return scores.sum(-1, keepdim=True) - scores


def models_left_out(scores):
    """You leave out a model and average over the other models. Leave out a task and average over the other tasks; each
    model has its own means."""
    return (scores.sum(0) - scores) / (len(scores) - 1)


def models_together(scores):
    """You average over all models together. Each model has its own means."""
    return ((scores.sum() - scores.sum(0)) / (scores.numel() - len(scores))).expand_as(scores)


def best_left_out(scores):
    """You leave out each model's best task in every column. In each column, leave out the task of that column."""
    rest = scores.sum(-1, keepdim=True) - scores.amax(-1, keepdim=True)
    return (rest / (scores.shape[-1] - 1)).expand_as(scores)


def mean_minus_score(scores):
    """You subtract the score from the mean of all tasks. Subtract it from the sum, before you divide."""
    return scores.mean(-1, keepdim=True) - scores


def one_mean_for_each_model(scores):
    """You return one number for each model, its mean over all tasks. Return one number for each task that is left
    out."""
    return scores.mean(-1)


def tasks_in_the_rows(scores):
    """Your rows are tasks. Return a row for each model, as in the input."""
    return ((scores.sum(-1, keepdim=True) - scores) / (scores.shape[-1] - 1)).T


def brackets_missing(scores):
    """You divide by the number of tasks and subtract 1 afterwards. What do you want to divide by?"""
    return (scores.sum(-1, keepdim=True) - scores) / scores.shape[-1] - 1


def axis_not_kept(scores):
    """You subtract each model's scores from a row that holds the sums of all models, which works only if there are as
    many models as tasks. The sum of a model belongs to its own row."""
    return (scores.sum(-1) - scores) / (scores.shape[-1] - 1)


def only_the_score_divided(scores):
    """You take the mean over all tasks and subtract a fraction of the score. First subtract the score from the sum,
    then divide."""
    return scores.mean(-1, keepdim=True) - scores / (scores.shape[-1] - 1)


def mean_over_models(scores):
    """You average over the models and get one number for each task. Each model has its own means, over its other
    tasks."""
    return scores.mean(0)


def difference_to_the_mean(scores):
    """You return the amount by which the mean changes when a task is left out. Return the mean itself."""
    return (scores.sum(-1, keepdim=True) - scores) / (scores.shape[-1] - 1) - scores.mean(-1, keepdim=True)


def divided_by_the_models(scores):
    """You divide by the number of models minus one. Divide by the number of the other tasks."""
    return (scores.sum(-1, keepdim=True) - scores) / (len(scores) - 1)


def worst_left_out(scores):
    """You leave out each model's worst task in every column. In each column, leave out the task of that column."""
    rest = scores.sum(-1, keepdim=True) - scores.amin(-1, keepdim=True)
    return (rest / (scores.shape[-1] - 1)).expand_as(scores)
