import numpy as np
import torch

from llm_anatomy.shapes import Float, Int, Tensor


def choose_by_likelihood(
    choices: list[str],
    n_tokens: Int[Tensor, "n_choices"],
    log_probs: Float[Tensor, "n_choices"],
    alone: Float[Tensor, "n_choices"],
) -> dict[str, int]:
    """Return the index of the model's answer by each of four scores."""
    n_characters = torch.tensor([len(choice) for choice in choices])
    scores = {"raw": log_probs, "per_token": log_probs / n_tokens}
    scores |= {"per_character": log_probs / n_characters, "unconditional": log_probs - alone}
    return {name: int(score.argmax()) for name, score in scores.items()}


def accepted_loop(choices, n_tokens, log_probs, alone):
    """Compares the scores in plain Python."""
    sums, others, n = log_probs.tolist(), alone.tolist(), range(len(choices))
    return {
        "unconditional": max(n, key=lambda i: sums[i] - others[i]),
        "per_character": max(n, key=lambda i: sums[i] / len(choices[i])),
        "per_token": max(n, key=lambda i: sums[i] / int(n_tokens[i])),
        "raw": sums.index(max(sums)),
    }


def accepted_likelihoods(choices, n_tokens, log_probs, alone):
    """Takes likelihoods instead of their logarithms, with NumPy, and returns tensors."""
    p, q = (np.exp(x.numpy().astype(np.float64)) for x in (log_probs, alone))
    tokens, characters = n_tokens.numpy(), np.array([*map(len, choices)])
    found = [p, p ** (1 / tokens), p ** (1 / characters), p / q]
    names = ("raw", "per_token", "per_character", "unconditional")
    return {name: torch.tensor(np.argmax(each)) for name, each in zip(names, found, strict=True)}


def observe(returned, choices, n_tokens, log_probs, alone):
    """the four indices"""
    assert isinstance(returned, dict), "return a dictionary"
    found = {}
    for name in ("raw", "per_token", "per_character", "unconditional"):
        assert name in returned, f"the entry {name!r} is missing"
        index = float(returned[name])
        assert index.is_integer(), f"the entry {name!r} should be an index, a whole number"
        found[name] = int(index)
    return found


NAMES = ("choices", "n_tokens", "log_probs", "alone")


def _case(choices, n_tokens, log_probs, alone):
    rows = (choices, torch.tensor(n_tokens), torch.tensor(log_probs), torch.tensor(alone))
    return dict(zip(NAMES, rows, strict=True))


def cases(generator):
    return [
        _case(
            ["ice", "Ouagadougou", "a very cold lake", "snow"],
            [1, 5, 4, 2],
            [-3.0, -8.0, -9.5, -6.5],
            [-4, -9, -9, -12.0],
        ),
        _case(["no", "maybe"], [1, 2], [-2.0, -3.0], [-1.0, -2.5]),
        _case(["in the sea", "up", "at home"], [3, 1, 2], [-6.6, -2.5, -4.8], [-5.0, -2.0, -4.5]),
        _case(["seven", "nineteen", "two"], [1, 3, 1], [-5.0, -7.5, -4.0], [-6.5, -7.0, -4.5]),
        _case(["bee", "ant"], [1, 1], [-1.0, -8.0], [-0.5, -6.0]),
        _case(["oak", "elm"], [1, 1], [-9.0, -2.0], [-3.0, -4.0]),
        _case(["Rome", "Bern"], [1, 3], [-4.0, -7.0], [-6.0, -10.0]),
        _case(["b", "abcdefgh", "cd"], [1, 1, 2], [-1.0, -6.0, -3.0], [-1.5, -9.0, -2.0]),
        _case([" a", "bcd"], [1, 2], [-2.0, -4.5], [-1.0, -4.0]),
        _case(["été", "oak"], [2, 1], [-3.6, -3.0], [-3.0, -3.0]),
        _case(["fir", "fir", "yew"], [1, 1, 1], [-3.0, -3.5, -6.0], [-4.0, -1.0, -8.0]),
    ]


def property_constant(answer, generator):
    found = answer(["one", "three"], torch.tensor([1, 2]), torch.tensor([-4.0, -5.0]), torch.tensor([-3.0, -6.0]))
    shifted = answer(["one", "three"], torch.tensor([1, 2]), torch.tensor([-4.0, -5.0]), torch.tensor([-8.0, -11.0]))
    assert int(found["unconditional"]) == int(shifted["unconditional"]), (
        "If all unconditional sums are smaller by the same amount, the answer should stay. Yours changes."
    )


def hidden_cases(generator):
    def drawn(n):
        letters = torch.randint(2, 14, (n,), generator=generator).tolist()
        tokens = [1 + int(torch.randint(0, 1 + length // 2, (1,), generator=generator)) for length in letters]
        noise = torch.rand(2, n, generator=generator, dtype=torch.float64)
        log_probs = [-(0.8 + float(u)) * (t + c / 3) for u, t, c in zip(noise[0], tokens, letters, strict=True)]
        alone = [-(0.8 + float(u)) * (t + c / 3) for u, t, c in zip(noise[1], tokens, letters, strict=True)]
        return _case(["abcdefghijklmn"[:length] for length in letters], tokens, log_probs, alone)

    fixed = [
        _case(
            ["ab", "abcdefghij", "abcd", "abcde", "a"],
            [1, 6, 1, 2, 1],
            [-2.2, -6.4, -3.0, -2.6, -2.5],
            [-2, -6, -2, -3, -3.5],
        ),
        _case(["abc", "abcdefg", "abcde"], [2, 1, 3], [-3.0, -5.0, -3.3], [-3.5, -6.5, -3.1]),
        _case([" of", "abc", "a b c d"], [1, 2, 4], [-3.0, -3.9, -9.0], [-2.0, -3.0, -9.5]),
        _case(["a", "wxyz"], [1, 2], [-1.2, -4.4], [-1.0, -4.5]),
        _case(["ñandú", "egret"], [3, 2], [-5.5, -5.0], [-4.0, -5.0]),
    ]
    return [*fixed, *(drawn(n) for n in (5, 6, 7, 4, 8, 5))]
