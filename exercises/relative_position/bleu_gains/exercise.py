import torch

from llm_anatomy.shapes import Float, Int, Tensor


def bleu_gains(
    bleu: Float[Tensor, "n_models 2 n_pairs"],
) -> tuple[Float[Tensor, "n_models n_pairs"], Int[Tensor, "n_pairs"]]:
    """The gain of relative over absolute positions, and for each language pair which model has the largest gain."""
    absolute, relative = bleu.unbind(1)  # each (n_models, n_pairs)
    gains = relative - absolute
    return gains, gains.argmax(dim=0)


def accepted_difference_along_the_axis(bleu):
    """Subtracts with diff along the axis of the schemes, which then has length one."""
    gains = bleu.diff(dim=1).squeeze(1)
    return gains, gains.argmax(0)


def accepted_contrast(bleu):
    """Contracts the axis of the schemes with the weights −1 and 1; a stable sort finds the best model."""
    contrast = torch.tensor([-1.0, 1.0])
    gains = torch.einsum("msp, s -> mp", bleu, contrast)
    return gains, gains.sort(dim=0, descending=True, stable=True).indices[0]


def accepted_comparison_in_python(bleu):
    """Compares the gains of each language pair as Python numbers and returns a list."""
    absolute, relative = bleu.unbind(1)
    gains = relative - absolute
    best = [max(range(len(column)), key=column.__getitem__) for column in gains.T.tolist()]
    return [gains, torch.tensor(best)]


def cases(generator):
    base = [[26.5, 38.2], [26.8, 38.7]]  # absolute, relative
    big = [[27.9, 41.2], [29.2, 41.5]]
    losing = [[[30, 22], [29, 21.5]], [[27, 25], [28.5, 23]]]  # where only one score rises
    drawn = (20 + 20 * torch.rand(4, 2, 3, generator=generator)).round(decimals=1)
    return [{"bleu": torch.tensor([base, big])}, {"bleu": torch.tensor(losing)}, {"bleu": drawn}]


def property_the_same_scores(answer, generator):
    one = 30 + torch.rand(3, 1, 4, generator=generator)
    gains, _ = answer(one.repeat(1, 2, 1))
    assert gains.abs().max() < 1e-4, "If both schemes have the same score, your gain is not 0."


def property_schemes_exchanged(answer, generator):
    bleu = 30 + torch.rand(3, 2, 4, generator=generator)
    assert torch.allclose(answer(bleu)[0], -answer(bleu.flip(1))[0], atol=1e-4), (
        "If you exchange the two schemes, every gain should change its sign."
    )


def property_the_one_named_gains_most(answer, generator):
    gains, model = answer(30 + torch.rand(4, 2, 5, generator=generator))
    assert torch.equal(gains.gather(0, model[None].long())[0], gains.max(0).values), (
        "For some language pair, the model that you return does not have the largest of your gains."
    )


def hidden_cases(generator):
    def drawn(n_models, n_pairs):
        return {"bleu": 10 + 30 * torch.rand(n_models, 2, n_pairs, generator=generator)}

    return [drawn(1, 5), drawn(6, 4), drawn(2, 7), drawn(4, 3)]
