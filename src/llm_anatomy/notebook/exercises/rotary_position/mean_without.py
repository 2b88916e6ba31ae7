import torch


def cases(generator):
    bert = [88.9, 93.5, 90.5, 85.8, 71.2, 84.6, 83.4]
    roformer = [89.5, 90.7, 88.0, 87.0, 86.4, 80.2, 79.8]

    def drawn(n_models, n_tasks, dtype=torch.float32):
        return {"scores": (torch.rand(n_models, n_tasks, generator=generator) * 100).to(dtype)}

    return [{"scores": torch.tensor([bert, roformer])}, drawn(3, 4), drawn(5, 2, torch.float64), drawn(1, 6)]


def property_own_score_does_not_count(answer, generator):
    scores = torch.rand(3, 5, generator=generator)
    changed = scores.clone()
    changed[:, 2] += 10
    moved = (answer(changed) - answer(scores)).abs() > 1e-4
    assert moved.tolist() == [[True, True, False, True, True]] * 3, (
        "Changing the scores of one task should change every column but its own."
    )


def property_equal_scores(answer, generator):
    assert torch.allclose(answer(torch.full((2, 4), 80.0)), torch.full((2, 4), 80.0)), (
        "A model with 80 in every task has a mean of 80, whichever is left out. Yours is another."
    )


def property_models_alone(answer, generator):
    scores = torch.rand(3, 5, generator=generator)
    assert torch.allclose(answer(scores)[1:2], answer(scores[1:2]), atol=1e-5), (
        "Your means of a model depend on the other models in the table."
    )
