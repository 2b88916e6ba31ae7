"""The optimizers against those of PyTorch, and the paper's convention of decay against its formula."""

import pytest
import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.experts import GatedExperts
from llm_anatomy.layers.normalization import LayerNormPerHead
from llm_anatomy.layers.state_space import MambaBlock
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.optimizers import SGD, Adam, AdamW, parameter_groups

SHAPES = [(3, 5), (7,), ()]
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 0.05}


def parameters(dtype):
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]


def trained(make, dtype, n_steps=50, schedule=None):
    """What 50 steps make of three parameters, one of which sometimes has no gradient."""
    found = parameters(dtype)
    groups = [{"params": found[:1]}, {"params": found[1:], "lr": 0.02}]
    optimizer = make(groups)
    scheduler = schedule and torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    generator = torch.Generator().manual_seed(1)
    for step in range(n_steps):
        for i, p in enumerate(found):
            gradient = 10 ** (i - 1) * (p.detach().float() + torch.randn(p.shape, generator=generator))
            p.grad = None if i == 1 and step % 3 == 0 else gradient.to(dtype)
        optimizer.step()
        if scheduler:
            scheduler.step()
    return found


def assert_equal(ours, theirs, dtype):
    before = parameters(dtype)
    for a, b, start in zip(trained(ours, dtype), trained(theirs, dtype), before, strict=True):
        assert a.dtype == dtype and not torch.equal(a, start)
        torch.testing.assert_close(a, b, atol=TOLERANCES[dtype], rtol=TOLERANCES[dtype])


@pytest.mark.syllabus("GT-39")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("decay", [0.0, 0.1, 3.0])
def test_adamw_is_that_of_pytorch_over_50_steps(dtype, decay):
    settings = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": decay}
    assert_equal(lambda p: AdamW(p, **settings), lambda p: torch.optim.AdamW(p, **settings), dtype)


@pytest.mark.syllabus("GT-38")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("l2", [0.0, 0.1, 3.0])
def test_adam_is_that_of_pytorch_over_50_steps(dtype, l2):
    settings = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6}
    assert_equal(
        lambda p: Adam(p, **settings, l2=l2), lambda p: torch.optim.Adam(p, **settings, weight_decay=l2), dtype
    )


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_that_of_pytorch_over_50_steps(dtype, momentum):
    settings = {"lr": 0.05, "momentum": momentum}
    assert_equal(lambda p: SGD(p, **settings), lambda p: torch.optim.SGD(p, **settings), dtype)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(SGD, torch.optim.SGD), (Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW)]
)
def test_the_defaults_are_those_of_pytorch(ours, theirs):
    assert_equal(ours, theirs, torch.float32)


@pytest.mark.syllabus("GT-39")
def test_the_decay_of_the_paper_follows_the_schedule_and_not_the_learning_rate():
    def schedule(step):
        return 1 / (1 + step)

    def decay_alone(convention, lr):
        x = nn.Parameter(torch.tensor([2.0, -3.0], dtype=torch.float64))
        optimizer = AdamW([x], lr=lr, weight_decay=0.1, convention=convention)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
        x.grad = torch.zeros_like(x)
        for _ in range(4):
            optimizer.step()
            scheduler.step()
        return (x.detach() / torch.tensor([2.0, -3.0], dtype=torch.float64)).tolist()

    remains = (1 - 0.1) * (1 - 0.1 / 2) * (1 - 0.1 / 3) * (1 - 0.1 / 4)
    for lr in (0.001, 0.5):
        assert decay_alone("paper", lr) == pytest.approx([remains] * 2)
    remains = (1 - 0.05) * (1 - 0.05 / 2) * (1 - 0.05 / 3) * (1 - 0.05 / 4)
    assert decay_alone("library", 0.5) == pytest.approx([remains] * 2)


def test_the_conventions_agree_if_the_decays_differ_by_the_learning_rate():
    def schedule(step):
        return min(1.0, (step + 1) / 10)

    made = [
        trained(
            lambda groups, c=convention, w=weight_decay: AdamW(
                [{"params": group["params"]} for group in groups], lr=0.01, weight_decay=w, convention=c
            ),
            torch.float64,
            schedule=schedule,
        )
        for convention, weight_decay in (("paper", 0.3 * 0.01), ("library", 0.3))
    ]
    for a, b in zip(*made, strict=True):
        torch.testing.assert_close(a, b)


def test_a_stored_state_continues():
    def run(n_steps, state=None):
        (x,) = ps = [nn.Parameter(torch.linspace(-1, 1, 5))]
        optimizer = AdamW(ps, lr=0.01)
        if state:
            x.data, stored = state[0].clone(), state[1]
            optimizer.load_state_dict(stored)
        for _ in range(n_steps):
            x.grad = x.detach() ** 3 + 1
            optimizer.step()
        return x.detach(), optimizer.state_dict()

    assert torch.equal(run(7)[0], run(4, run(3))[0])


def test_a_closure_computes_the_gradients():
    x = nn.Parameter(torch.tensor([3.0]))
    optimizer = SGD([x], lr=0.5)

    def closure():
        loss = x.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9.0 and x.item() == 0.0


def test_vectors_do_not_decay_and_frozen_parameters_are_left_out():
    config = ModelConfig(
        d_model=12, n_layers=1, n_heads=3, d_ff=20, n_vocab=11, position="learned", n_ctx=7, ff_bias=True
    )
    model = Transformer(config)
    model.embedding.weight.requires_grad_(False)
    decaying, others = parameter_groups(model, 0.3)
    names = {id(p): name for name, p in model.named_parameters()}
    assert decaying["weight_decay"] == 0.3 and others["weight_decay"] == 0.0
    assert all("norm" in names[id(p)] or names[id(p)].endswith("bias") for p in others["params"])
    found = [names[id(p)] for group in (decaying, others) for p in group["params"]]
    assert sorted([*found, "embedding.weight"]) == sorted(names.values())
    assert len(others["params"]) >= 4


@pytest.mark.parametrize(
    ("module", "vectors"),
    [
        (LayerNormPerHead(3, 4), {"weight"}),
        (GatedExperts(3, 4, 5, torch.sin, bias=True), {"b_up", "b_down"}),
        (MambaBlock(6), {"A_log", "D"}),
    ],
)
def test_stacked_vectors_do_not_decay(module, vectors):
    decaying, others = parameter_groups(nn.ModuleList([module, nn.Linear(2, 3)]), 0.3)
    names = {id(p): name for name, p in module.named_parameters()}
    of_others = {names[id(p)] for p in others["params"] if id(p) in names}
    assert vectors <= of_others and not any("bias" in names.get(id(p), "") for p in decaying["params"])
    assert {names[id(p)] for p in decaying["params"] if id(p) in names} == {*names.values()} - of_others
    assert all(p.ndim > 1 for p in decaying["params"])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: SGD(p, lr=-1.0), "lr=-1.0 must be at least 0"),
        (lambda p: SGD(p, momentum=1.0), "momentum=1.0 must be from 0 to below 1"),
        (lambda p: Adam(p, betas=(0.9, 1.0)), "beta2=1.0 must be from 0 to below 1"),
        (lambda p: Adam(p, l2=-0.1), "l2=-0.1 must be at least 0"),
        (lambda p: AdamW(p, eps=float("nan")), "eps=nan must be at least 0"),
        (lambda p: AdamW(p, convention="torch"), "convention='torch' must be one of library, paper"),
        (lambda p: AdamW(p, lr=0.0, convention="paper"), "lr is 0; the paper's convention needs a learning rate"),
    ],
)
def test_what_is_out_of_range_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make([nn.Parameter(torch.zeros(2))])
