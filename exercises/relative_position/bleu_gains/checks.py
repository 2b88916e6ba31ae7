import torch


def cases(generator):
    base = [[26.5, 38.2], [26.8, 38.7]]  # absolute, relative
    big = [[27.9, 41.2], [29.2, 41.5]]
    lecture = {"bleu": torch.tensor([base, big])}
    others = [
        {"bleu": (20 + 20 * torch.rand(n_models, 2, n_pairs, generator=generator)).to(dtype)}
        for n_models, n_pairs, dtype in ((3, 4, torch.float32), (5, 3, torch.float64))
    ]
    return [lecture, *others]


def property_the_same_scores(answer, generator):
    one = 30 + torch.rand(3, 1, 4, generator=generator)
    gains, _ = answer(one.repeat(1, 2, 1))
    assert (gains == 0).all(), "Where both schemes have the same score your gain is not 0."


def property_schemes_exchanged(answer, generator):
    bleu = 30 + torch.rand(3, 2, 4, generator=generator)
    assert torch.allclose(answer(bleu)[0], -answer(bleu.flip(1))[0], atol=1e-4), (
        "With the two schemes exchanged, every gain should change its sign."
    )


def property_the_one_named_gains_most(answer, generator):
    gains, model = answer(30 + torch.rand(4, 2, 5, generator=generator))
    assert torch.equal(gains.gather(0, model[None])[0], gains.max(0).values), (
        "The model that you name for a pair does not have the largest of your gains there."
    )
