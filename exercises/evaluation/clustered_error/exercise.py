import math

import numpy as np
import torch

from llm_anatomy.shapes import Float, Int, Tensor


def clustered_error(scores: Float[Tensor, "n_questions"], texts: Int[Tensor, "n_questions"]) -> tuple[float, float]:
    """Return the standard error of the mean for independent questions, and that for independent texts."""
    n, deviations = len(scores), (scores - scores.mean()).double()
    _, index = texts.unique(return_inverse=True)
    n_texts = int(index.max()) + 1
    sums = torch.zeros(n_texts, dtype=torch.float64).index_add_(0, index, deviations)
    plain = (deviations.square().sum() / (n * (n - 1))).sqrt()
    return plain.item(), (n_texts / (n_texts - 1) * sums.square().sum()).sqrt().item() / n


def accepted_dictionary(scores, texts):
    """Adds up in a dictionary, and returns a list."""
    s, g = scores.tolist(), texts.tolist()
    n, mean = len(s), math.fsum(s) / len(s)
    sums = {}
    for score, text in zip(s, g, strict=True):
        sums[text] = sums.get(text, 0) + score - mean
    plain = math.sqrt(sum((x - mean) ** 2 for x in s) / (n - 1)) / math.sqrt(n)
    return [plain, math.sqrt(len(sums) / (len(sums) - 1) * sum(x * x for x in sums.values())) / n]


def accepted_pairs_of_questions(scores, texts):
    """Adds up the products of all pairs of questions on the same text, with NumPy."""
    s, g = scores.numpy().astype(float), texts.numpy()
    d, n, n_texts = s - s.mean(), len(s), len(set(g.tolist()))
    both = d @ (g[:, None] == g[None, :]) @ d
    return np.array([s.std(ddof=1) / n**0.5, np.sqrt(max(both, 0) * n_texts / (n_texts - 1)) / n])


def observe(returned, scores, texts):
    """the two standard errors"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return dict(zip(("independent questions", "independent texts"), map(float, numbers), strict=True))


def _case(scores, texts):
    return {"scores": torch.tensor(scores), "texts": torch.tensor(texts)}


def cases(generator):
    return [
        _case([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        _case([1.0, 0.0, 0.0], [4, 7, 4]),
        _case([1.0, 0.0, 1.0, 1.0, 0.0], [3, 1, 4, 0, 2]),
        _case([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0], [5, 5, 9, 9, -2, -2, -2]),
        _case([0.5, 0.25, 1.0, 0.0, 1.0, 0.75, 0.0, 0.5], [2, 8, 2, 5, 2, 8, 5, 9]),
    ]


def property_each_its_own(answer, generator):
    scores = torch.rand(7, generator=generator)
    one, other = map(float, answer(scores, torch.randperm(7, generator=generator)))
    assert abs(one - other) < 1e-4, (
        "If every text has one question, the two standard errors should be the same. Yours are not."
    )


def property_copies(answer, generator):
    scores = torch.rand(5, generator=generator)
    one = float(answer(scores, torch.arange(5))[1])
    three = float(answer(scores.repeat(3), torch.arange(5).repeat(3))[1])
    assert abs(one - three) < 1e-4, (
        "If every question is asked three times, with the same answer, the second standard error should stay. "
        "Yours changes."
    )


def hidden_cases(generator):
    def drawn(n_texts, n):
        texts = torch.cat([torch.arange(n_texts), torch.randint(n_texts, (n - n_texts,), generator=generator)])
        texts = texts[torch.randperm(n, generator=generator)]
        easy = torch.rand(n_texts, generator=generator)
        return {"scores": (torch.rand(n, generator=generator) < easy[texts]).float().index_fill(0, texts[:1] * 0, 0.5),
                "texts": 3 * texts - 4}  # fmt: skip

    return [drawn(4, 11), drawn(3, 8), drawn(6, 17), drawn(9, 23)]
