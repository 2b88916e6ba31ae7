from llm_anatomy.shapes import Float, Tensor


def mean_without(scores: Float[Tensor, "n_models n_tasks"]) -> Float[Tensor, "n_models n_tasks"]:
    """The mean of each model over all tasks but one, for each task that is left out."""
    return (scores.sum(-1, keepdim=True) - scores) / (scores.shape[-1] - 1)
