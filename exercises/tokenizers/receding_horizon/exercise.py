import torch

from llm_anatomy.shapes import Float, Int, Tensor


def receding_horizon(
    tokens: Int[Tensor, "n_tokens"],
    first: Float[Tensor, "n_vocab"],
    second: Float[Tensor, "n_vocab n_vocab"],
    third: Float[Tensor, "n_vocab n_vocab n_vocab"],
) -> Float[Tensor, ""]:
    """Return the logarithm of the probability of a text under a model that sees two tokens back."""
    total = first[tokens[0]].log() + second[tokens[:-1], tokens[1:]][:1].log().sum()
    return total + third[tokens[:-2], tokens[1:-1], tokens[2:]].log().sum()


def accepted_loop(tokens, first, second, third):
    """Goes through the text token by token and adds Python numbers."""
    import math

    total = 0.0
    for t, token in enumerate(tokens.tolist()):
        if t == 0:
            p = first[token]
        elif t == 1:
            p = second[tokens[0], token]
        else:
            p = third[tokens[t - 2], tokens[t - 1], token]
        total += math.log(p.item())
    return total


def accepted_windows(tokens, first, second, third):
    """Cuts the text into windows of three, and adds up the logarithms of all factors in float64."""
    factors = [first[tokens[0]].reshape(1)]
    if len(tokens) > 1:
        factors.append(second[tokens[0], tokens[1]].reshape(1))
    if len(tokens) > 2:
        a, b, c = tokens.unfold(0, 3, 1).T
        factors.append(third[a, b, c])
    return torch.cat(factors).double().log().sum()


def accepted_shape_one(tokens, first, second, third):
    """Looks the tables up in a padded text with a token that stands for the beginning."""
    log_p = torch.zeros(())
    past = []
    for token in tokens:
        table = [first, second, third][min(len(past), 2)]
        log_p = log_p + torch.log(table[tuple(past[-2:])][token])
        past.append(token)
    return log_p


def tables(generator, n_vocab):
    return [
        torch.softmax(torch.randn(*[n_vocab] * axes, generator=generator), -1).round(decimals=3).clamp(min=0.001)
        for axes in (1, 2, 3)
    ]


def case(generator, n_vocab, tokens):
    first, second, third = tables(generator, n_vocab)
    return {"tokens": torch.tensor(tokens), "first": first, "second": second, "third": third}


def cases(generator):
    third = torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.1, 0.9], [0.8, 0.2]]])
    small = {
        "tokens": torch.tensor([0, 1, 1]),
        "first": torch.tensor([0.4, 0.6]),
        "second": torch.tensor([[0.3, 0.7], [0.9, 0.1]]),
        "third": third,
    }
    return [small, case(generator, 3, [2, 0, 1, 1, 2, 0]), case(generator, 4, [3]), case(generator, 4, [1, 3])]


def property_a_long_text(answer, generator):
    first, second, third = tables(generator, 3)
    tokens = torch.randint(3, (2000,), generator=generator)
    found = float(answer(tokens, first, second, third))
    assert -20000 < found < -500, (
        "For a text of 2000 tokens your logarithm is not a sensible number. Do you multiply the probabilities before "
        "you take the logarithm? Their product is too small for a floating-point number."
    )


def property_what_is_further_back_has_no_influence(answer, generator):
    first, second, third = tables(generator, 4)
    ends = [torch.tensor([a, 1, 2, 3]) for a in (0, 3)]
    gained = [float(answer(end, first, second, third)) - float(answer(end[:3], first, second, third)) for end in ends]
    assert abs(gained[0] - gained[1]) < 1e-4, (
        "What your answer adds for the last token depends on a token three positions back. The horizon is two tokens."
    )


def hidden_cases(generator):
    def drawn(n_vocab, n_tokens):
        return case(generator, n_vocab, torch.randint(n_vocab, (n_tokens,), generator=generator).tolist())

    return [drawn(5, 9), drawn(3, 2), drawn(4, 1), drawn(2, 60), drawn(6, 3)]
