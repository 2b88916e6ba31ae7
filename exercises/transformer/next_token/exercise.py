import math

import torch

from llm_anatomy.shapes import Float, Tensor


def next_token_distribution(
    logits: Float[Tensor, "n_vocab"], temperature: float, k: int, p: float
) -> Float[Tensor, "n_vocab"]:
    """Return the probabilities of the next token after temperature, top-k and top-p."""
    z = logits / temperature
    z = z.masked_fill(z < z.topk(min(k, len(z)))[0][-1], -math.inf)
    ordered, order = z.softmax(0).sort(descending=True)
    dropped = (ordered.cumsum(0) - ordered >= p) & (p < 1)  # those before it suffice
    return z.masked_fill(torch.empty_like(dropped).scatter(0, order, dropped), -math.inf).softmax(0)


def accepted_probabilities(logits, temperature, k, p):
    """Works on probabilities, sets some of them to zero and divides by what is left."""
    probabilities = torch.softmax(logits / temperature, 0)
    smallest = probabilities.sort().values[-k] if k <= len(logits) else 0
    probabilities = probabilities * (probabilities >= smallest)
    probabilities = probabilities / probabilities.sum()
    if p < 1:
        order = probabilities.argsort(descending=True)
        n = int((probabilities[order].cumsum(0) < p).sum()) + 1
        kept = torch.zeros_like(probabilities)
        kept[order[:n]] = probabilities[order[:n]]
        probabilities = kept / kept.sum()
    return probabilities


def accepted_loop(logits, temperature, k, p):
    """Takes the tokens one by one from the most likely to the least, in plain Python."""
    ranked = sorted(range(len(logits)), key=lambda i: -logits[i])
    last = logits[ranked[min(k, len(ranked)) - 1]]
    ranked = [i for i in ranked if logits[i] >= last]
    top = float(logits.max())
    share = {i: math.exp((float(logits[i]) - top) / temperature) for i in ranked}
    kept, total = [], 0.0
    for i in ranked:
        if p < 1 and total >= p * sum(share.values()):
            break
        kept.append(i)
        total += share[i]
    result = torch.zeros(len(logits))
    for i in kept:
        result[i] = share[i] / total
    return result


def accepted_last_of_the_tied(logits, temperature, k, p):
    """Keeps other tokens among those that tie: it sorts upwards, as Hugging Face's library does."""
    z = logits / temperature
    z = torch.where(z < z.topk(min(k, z.numel())).values.min(), -torch.inf, z)
    upwards, order = z.sort(stable=True)
    dropped = upwards.softmax(-1).cumsum(-1) <= 1 - p
    dropped[-1] = False
    z[order[dropped]] = -torch.inf
    return z.softmax(-1)


def cases(generator):
    def of(probabilities, temperature, k, p):
        return {"logits": torch.tensor(probabilities).log(), "temperature": temperature, "k": k, "p": p}

    drawn = {"logits": (10 * torch.randn(9, generator=generator)).round() / 5, "temperature": 1.4, "k": 6, "p": 0.8}
    return [
        {"logits": torch.tensor([2.0, 0.0, 1.0]), "temperature": 2.0, "k": 3, "p": 1.0},
        {"logits": torch.tensor([1.0, 2.0, 0.0]), "temperature": 1.0, "k": 2, "p": 1.0},
        of([0.5, 0.2, 0.3], 1.0, 3, 0.6),
        of([0.1, 0.4, 0.2, 0.3], 1.0, 9, 0.35),
        of([0.2, 0.2, 0.4, 0.2], 1.0, 2, 1.0),  # all that tie with the second stay
        of([0.25, 0.25, 0.25, 0.25], 0.7, 1, 0.6),  # all tie, and three of them are needed
        of([0.3, 0.06, 0.14, 0.5], 0.5, 4, 0.9),  # the temperature counts in the sum
        of([0.4, 0.35, 0.15, 0.1], 1.0, 2, 0.5),  # the sum counts only what top-k has left
        drawn,
    ]


def observe(returned, logits, temperature, k, p):
    """the probabilities, from the largest logit to the smallest; among equal logits, the larger probability first"""
    assert isinstance(returned, torch.Tensor), "the result should be a tensor of probabilities"
    assert returned.shape == logits.shape, (
        f"the result has the shape {tuple(returned.shape)} instead of {tuple(logits.shape)}: one probability for each "
        "token is needed, and no token is drawn here"
    )
    found = returned.detach().float()
    order = sorted(range(len(logits)), key=lambda i: (-float(logits[i]), -float(found[i])))
    return found[torch.tensor(order)]


def property_probabilities_add_up(answer, generator):
    total = float(answer(torch.randn(12, generator=generator), 0.8, 7, 0.7).sum())
    assert abs(total - 1) < 1e-4, f"Your probabilities add up to {total:.3g} instead of one."


def property_order_of_the_vocabulary(answer, generator):
    logits, order = torch.randn(8, generator=generator), torch.randperm(8, generator=generator)
    assert torch.allclose(answer(logits, 1.2, 6, 0.8)[order], answer(logits[order], 1.2, 6, 0.8), atol=1e-5), (
        "If we put the tokens of the vocabulary into another order, the probabilities should follow them. Yours do "
        "not: do you return them in sorted order?"
    )


def property_top_k_alone(answer, generator):
    n = int((answer(torch.tensor([0.1, 0.4, 0.2, 0.3]).log(), 1.0, 2, 1.0) > 0).sum())
    assert n == 2, f"With k = 2, p = 1 and no ties, two tokens should keep a probability. In yours {n} do."


def property_top_p_alone(answer, generator):
    n = int((answer(torch.tensor([0.2, 0.5, 0.3]).log(), 1.0, 3, 0.6) > 0).sum())
    assert n == 2, f"With probabilities 0.5, 0.3 and 0.2 and p = 0.6, two tokens should stay. In yours {n} do."


def property_ties(answer, generator):
    n = int((answer(torch.tensor([0.2, 0.2, 0.4, 0.2]).log(), 1.0, 2, 1.0) > 0).sum())
    assert n == 4, (
        f"With k = 2, p = 1 and three tokens that tie for the second largest, all should stay. In yours {n} do."
    )


def property_more_than_the_vocabulary(answer, generator):
    n = int((answer(torch.zeros(3), 1.0, 9, 1.0) > 0).sum())
    assert n == 3, f"If k is larger than the vocabulary and p = 1, all tokens should stay. In yours {n} of 3 do."


def property_everything_kept(answer, generator):
    logits = torch.randn(50, generator=generator) * 5
    assert torch.allclose(answer(logits, 1.0, 50, 1.0), logits.softmax(0), atol=1e-5), (
        "With temperature 1, k as large as the vocabulary and p = 1, the result should be the softmax of the logits. "
        "Yours is not; is an unlikely token dropped because of rounding?"
    )


def property_a_low_temperature(answer, generator):
    found = answer(torch.tensor([3.0, 1.0, 2.0]), 0.01, 3, 1.0)
    assert found.isfinite().all() and abs(float(found[0]) - 1) < 1e-4, (
        "At a very low temperature, the most likely token should get all the probability. Yours does not."
    )


def hidden_cases(generator):
    def drawn(n_vocab, temperature, k, p):
        logits = 2 * torch.randn(n_vocab, generator=generator)
        return {"logits": logits, "temperature": temperature, "k": k, "p": p}

    tied = {"logits": torch.tensor([1.0, 3.0, 1.0, 1.0, 0.0]), "temperature": 1.5, "k": 2, "p": 1.0}
    equal = {"logits": torch.zeros(5), "temperature": 3.0, "k": 2, "p": 0.5}
    drawn_ones = [drawn(12, 1.3, 5, 0.77), drawn(30, 0.6, 40, 0.9), drawn(7, 2.5, 7, 0.31), drawn(20, 1.0, 4, 1.0)]
    return [*drawn_ones, drawn(25, 1.8, 10, 0.6), drawn(9, 0.5, 9, 1.0), tied, equal]
