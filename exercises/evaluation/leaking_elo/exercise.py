import numpy as np
import torch

from llm_anatomy.shapes import Float, Int, Tensor


def broken(
    n_models: int, pairs: Int[Tensor, "n_battles 2"], scores: Float[Tensor, "n_battles"], k: float, start: float
) -> Float[Tensor, "n_models"]:
    """Return the ratings of all models after the last battle."""
    ratings = torch.full((n_models,), start, dtype=torch.float64)
    for (a, b), score in zip(pairs.tolist(), scores.tolist(), strict=True):
        expected_a = 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 400))
        ratings[a] += k * (score - expected_a)
        expected_b = 1 / (1 + 10 ** ((ratings[a] - ratings[b]) / 400))
        ratings[b] += k * ((1 - score) - expected_b)
    return ratings


def leaking_elo(
    n_models: int, pairs: Int[Tensor, "n_battles 2"], scores: Float[Tensor, "n_battles"], k: float, start: float
) -> Float[Tensor, "n_models"]:
    """Return the ratings of all models after the last battle."""
    ratings = torch.full((n_models,), start, dtype=torch.float64)
    for (a, b), score in zip(pairs.tolist(), scores.tolist(), strict=True):
        expected_a = 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 400))
        ratings[a] += k * (score - expected_a)
        ratings[b] -= k * (score - expected_a)
    return ratings


def accepted_both_expectations(n_models, pairs, scores, k, start):
    """Works out both expectations before either rating moves, and returns a list of floats."""
    ratings = [start] * n_models
    for i in range(len(pairs)):
        a, b, score = int(pairs[i, 0]), int(pairs[i, 1]), float(scores[i])
        strength_a, strength_b = 10 ** (ratings[a] / 400), 10 ** (ratings[b] / 400)
        expected_a, expected_b = strength_a / (strength_a + strength_b), strength_b / (strength_a + strength_b)
        ratings[a], ratings[b] = ratings[a] + k * (score - expected_a), ratings[b] + k * (1 - score - expected_b)
    return ratings


def accepted_copy(n_models, pairs, scores, k, start):
    """Keeps the ratings before each battle, with NumPy and a sigmoid."""
    ratings = np.full(n_models, float(start))
    for (a, b), score in zip(pairs.numpy(), scores.numpy(), strict=True):
        before = ratings.copy()
        change = k * (score - 1 / (1 + np.exp((before[b] - before[a]) * np.log(10) / 400)))
        ratings[[a, b]] = before[a] + change, before[b] - change
    return ratings


def observe(returned, n_models, pairs, scores, k, start):
    """the ratings"""
    ratings = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(ratings, list | tuple) and len(ratings) == n_models, "return a rating for each model"
    return [float(rating) - start for rating in ratings]


NAMES = ("n_models", "pairs", "scores", "k", "start")


def _case(n_models, battles, k, start):
    pairs, scores = torch.tensor([b[:2] for b in battles]), torch.tensor([float(b[2]) for b in battles])
    return dict(zip(NAMES, (n_models, pairs, scores, k, start), strict=True))


def cases(generator):
    return [
        _case(3, [(0, 1, 1), (1, 2, 1), (0, 2, 0), (2, 1, 0.5), (0, 1, 1)], 32.0, 1000.0),
        _case(2, [(0, 1, 1)], 32.0, 0.0),
        _case(2, [(1, 0, 0.5), (1, 0, 1), (1, 0, 0.5)], 100.0, 0.0),
        _case(4, [(3, 1, 1), (0, 3, 0), (3, 2, 1), (1, 2, 0), (2, 0, 0.5), (3, 0, 0)], 64.0, 1500.0),
    ]


def property_mean(answer, generator):
    pairs = torch.stack([torch.randperm(5, generator=generator)[:2] for _ in range(40)])
    scores = torch.randint(3, (40,), generator=generator) / 2
    ratings = torch.as_tensor([float(rating) for rating in answer(5, pairs, scores, 40.0, 1000.0)])
    assert abs(float(ratings.mean()) - 1000) < 0.01, "The mean of all ratings should stay at `start`. Yours drifts."


def hidden_cases(generator):
    def drawn(n_models, n_battles, k, start):
        pairs = [torch.randperm(n_models, generator=generator)[:2].tolist() for _ in range(n_battles)]
        scores = (torch.randint(3, (n_battles,), generator=generator) / 2).tolist()
        return _case(n_models, [(*pair, score) for pair, score in zip(pairs, scores, strict=True)], k, start)

    return [drawn(5, 30, 48.0, 0.0), drawn(3, 12, 80.0, 1000.0), drawn(6, 50, 24.0, 1200.0), drawn(2, 9, 120.0, 0.0)]
