import torch

from llm_anatomy.shapes import Float, Tensor


def mean_without(scores: Float[Tensor, "n_models n_tasks"]) -> Float[Tensor, "n_models n_tasks"]:
    """For each model and each task, the mean of the model's scores over all the other tasks."""
    return (scores.sum(-1, keepdim=True) - scores) / (scores.shape[-1] - 1)


def accepted_score_subtracted(scores):
    """Subtracts each score from the sum of its row."""
    return (scores.sum(1, keepdim=True) - scores) / (scores.shape[1] - 1)


def accepted_product(scores):
    """Multiplies by a matrix of equal weights with zeros on its diagonal."""
    n_tasks = scores.shape[1]
    others = 1 - torch.eye(n_tasks, dtype=scores.dtype)
    return scores @ (others / (n_tasks - 1))


def accepted_other_tasks_selected(scores):
    """For each task, lists the columns of all the others and takes the mean over them."""
    n_tasks = scores.shape[1]
    others = (torch.arange(n_tasks)[:, None] + torch.arange(1, n_tasks)) % n_tasks
    return scores[:, others].mean(-1)


def cases(generator):
    bert = [88.9, 93.5, 90.5, 85.8, 71.2, 84.6, 83.4]
    roformer = [89.5, 90.7, 88.0, 87.0, 86.4, 80.2, 79.8]

    tables = [bert, roformer], [[50.0, 62, 71, 94], [33, 81, 59, 40], [77, 20, 65, 88]], [[1.0, 3, 8], [0, 4, 2]]
    square = [[1.0, 3], [4, 8]]  # as many models as tasks, so that mixing them up gives numbers
    return [{"scores": torch.tensor(table)} for table in (*tables, square)]


def property_own_score_does_not_count(answer, generator):
    scores = torch.rand(3, 5, generator=generator)
    changed = scores.clone()
    changed[:, 2] += 10
    moved = (answer(changed) - answer(scores)).abs() > 1e-4
    assert moved.tolist() == [[True, True, False, True, True]] * 3, (
        "If you change the scores of one task, every column except its own should change."
    )


def property_equal_scores(answer, generator):
    assert torch.allclose(answer(torch.full((2, 4), 80.0)).float(), torch.full((2, 4), 80.0), atol=1e-3), (
        "A model with 80 in every task has a mean of 80, whichever task is left out. In your answer it has another "
        "mean."
    )


def property_models_alone(answer, generator):
    scores = torch.rand(3, 5, generator=generator)
    assert torch.allclose(answer(scores)[1:2], answer(scores[1:2]), atol=1e-5), (
        "In your answer the means of a model depend on the other models in the table. They should not."
    )


def hidden_cases(generator):
    def drawn(n_models, n_tasks):
        return {"scores": torch.randn(n_models, n_tasks, generator=generator) * 20}

    return [drawn(4, 3), drawn(2, 9), drawn(3, 2), drawn(6, 5)]
