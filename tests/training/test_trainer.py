"""The loop against one written out with PyTorch's parts, and what it refuses."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.trainer import train

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))]


def small():
    torch.manual_seed(0)
    return Transformer(ModelConfig(d_model=12, n_layers=2, n_heads=3, d_ff=20, n_vocab=11, position="learned", n_ctx=7))


def batches(n):
    return [torch.randint(11, (3, 8), generator=torch.Generator().manual_seed(i)) for i in range(n)]


def decays(name):
    return "norm" not in name and not name.endswith("bias")


@pytest.mark.parametrize("device", DEVICES)
def test_the_loop_does_what_it_says(device):
    model = small().to(device)
    reference = copy.deepcopy(model)
    losses = train(model, batches(4), n_steps=4, max_lr=0.02, warmup_steps=2, weight_decay=0.3, max_grad_norm=0.4)
    named = list(reference.named_parameters())
    groups = [[p for n, p in named if decays(n)], [p for n, p in named if not decays(n)]]
    optimizers = [torch.optim.AdamW(g, weight_decay=w) for g, w in zip(groups, (0.3, 0.0), strict=True)]
    rates = [0.01, 0.02, 0.01, 0.0]  # half way up, the peak, half way down, the end
    for batch, rate, loss in zip(batches(4), rates, losses, strict=True):
        logits = reference(batch[:, :7].to(device))
        expected = -F.log_softmax(logits, -1).gather(-1, batch[:, 1:, None].to(device)).mean()
        assert loss == pytest.approx(expected.item(), abs=1e-5)
        reference.zero_grad()
        expected.backward()
        length = torch.stack([p.grad.square().sum() for p in reference.parameters()]).sum().sqrt()
        for p in reference.parameters():
            p.grad *= min(1.0, 0.4 / length.item())
        assert length > 0.4  # so that shortening matters
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=name, atol=2e-5, rtol=1e-4)


def test_the_same_seed_gives_the_same_model():
    models = [small(), small()]
    first, second = (train(model, batches(5), n_steps=5) for model in models)
    assert first == second
    assert all(torch.equal(a, b) for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True))


def test_it_tells_of_each_step_when_it_is_done():
    model, seen = small(), []
    before = model.embedding.weight.detach().clone()
    train(
        model, batches(3), n_steps=3, after_step=lambda s: seen.append((s, torch.equal(before, model.embedding.weight)))
    )
    assert seen == [(1, False), (2, False), (3, False)]


def test_frozen_parameters_stay():
    model = small()
    model.embedding.weight.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    train(model, batches(2), n_steps=2)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert "embedding.weight" not in changed and "unembedding.embedding.weight" in changed


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ValueError, match="n_steps=0 must be at least 1"):
        train(small(), batches(1), n_steps=0)
    with pytest.raises(ValueError, match="batches ended after 2; there must be at least n_steps=3"):
        train(small(), batches(2), n_steps=3)


def test_a_loss_that_is_not_finite_stops_the_run_before_the_step():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(11, 11)
            self.calls = 0

        def forward(self, ids):
            self.calls += 1
            return self.table(ids) * (float("nan") if self.calls == 2 else 1)

    model = Broken()
    with pytest.raises(FloatingPointError, match="the loss of step 2 is nan, not finite; max_lr=0.003 may be too high"):
        train(model, batches(3), n_steps=3)
    assert model.table.weight.isfinite().all()


@pytest.mark.parametrize("batch", ["a text", [1, 2], torch.arange(9), torch.rand(2, 9)])
def test_a_batch_that_holds_no_windows_is_one_sentence(batch):
    with pytest.raises(
        ValueError, match="batches yielded .*; a batch must be ids .batch, tokens . 1., such as those of"
    ):
        train(nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9)), [batch], n_steps=1)
