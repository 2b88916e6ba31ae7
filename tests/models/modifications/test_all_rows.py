"""Each of the 52 rows: it is a model of probabilities, reads no later token and no padding, trains, and is a change.

Most rows are tested for the same in a file of their own; here, one row of each kind is, and all are in the slow round.
"""

import copy
from functools import cache

import pytest
import torch

from llm_anatomy.data import table
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import auxiliary_loss, baseline, target_log_probs

pytestmark = pytest.mark.syllabus("GT-19")

N_VOCAB, N_SOURCE, N_TOKENS = 40, 8, 5
CONFIG = baseline(n_vocab=N_VOCAB, d_model=24, n_layers=6, n_heads=6, d_ff=48)
PAPER = {row["row"]: row for row in table("narang2021")}
CHOSEN = ["baseline", "reglu", "rezero_rmsnorm", "depth_6", "encoder_sharing", "decoder_sharing", "adaptive_softmax"]
CHOSEN += ["mixture_of_softmaxes", "transparent_attention", "mixture_of_experts", "dynamic_convolution"]
EACH = [pytest.param(name, marks=[pytest.mark.slow] * (name not in CHOSEN)) for name in MODIFICATIONS]


def batch(rows=3):
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(N_VOCAB, (rows, n), generator=generator) for n in (N_SOURCE, N_TOKENS, N_TOKENS))


@cache
def model(name):
    """The model with other parameters, since those that begin as zeros would hide what is read."""
    built = MODIFICATIONS[name].build(CONFIG, seed=3).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return built


@cache
def log_probs(name):
    with torch.no_grad():
        return target_log_probs(model(name), *batch())


@cache
def untrained(name):
    with torch.no_grad():
        return target_log_probs(MODIFICATIONS[name].build(CONFIG, seed=3).eval(), *batch())


def test_the_rows_are_those_of_the_paper():
    assert [row.row for row in MODIFICATIONS.values()] == sorted(PAPER)
    assert [row.name for row in MODIFICATIONS.values()] == list(MODIFICATIONS)
    for row in MODIFICATIONS.values():
        assert row.title == PAPER[row.row]["variant"] and row.paper and row.card.endswith(".")
        assert not row.reading or row.reading.endswith(".")


@pytest.mark.parametrize("name", EACH)
def test_probabilities_sum_to_one(name):
    source, ids, _ = (x[:1].expand(N_VOCAB, -1) for x in batch())
    every_target = torch.arange(N_VOCAB)[:, None].expand(N_VOCAB, N_TOKENS)
    with torch.no_grad():
        total = target_log_probs(model(name), source, ids, every_target).exp().sum(0)
    torch.testing.assert_close(total, torch.ones(N_TOKENS), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", [each for each in EACH if each.values != ("baseline",)])
def test_the_modification_changes_the_model(name):
    assert (untrained("baseline") - untrained(name)).abs().amax() > 1e-4


@pytest.mark.parametrize("name", EACH)
def test_no_later_token_is_read(name):
    source, ids, targets = batch()
    changed = ids.clone()
    changed[:, 3:] = (ids[:, 3:] + 7) % N_VOCAB
    with torch.no_grad():
        found = target_log_probs(model(name), source, changed, targets)
    torch.testing.assert_close(found[:, :3], log_probs(name)[:, :3], atol=1e-5, rtol=1e-5)
    assert (found[:, 3:] - log_probs(name)[:, 3:]).abs().amax() > 1e-4


@pytest.mark.parametrize("name", EACH)
def test_padding_of_the_source_is_not_read(name):
    source, ids, _ = batch()
    mask = torch.arange(N_SOURCE) < N_SOURCE - 3
    other = torch.where(mask, source, (source + 11) % N_VOCAB)
    with torch.no_grad():
        first, second = (
            model(name).hidden_states(ids, source=model(name).encode(x, mask.expand_as(x)))[0] for x in (source, other)
        )
        whole = model(name).hidden_states(ids, source=model(name).encode(source))[0]
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)
    assert (whole - first).abs().amax() > 1e-5


@pytest.mark.parametrize("name", EACH)
def test_it_trains_and_can_be_copied(name):
    built = MODIFICATIONS[name].build(CONFIG, seed=3)
    optimizer = torch.optim.Adam(built.parameters(), lr=3e-3)
    losses = []
    for _ in range(5):
        loss = -target_log_probs(built, *batch()).mean() + auxiliary_loss(built)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.05
    again = copy.deepcopy(built).eval()
    built.eval()
    with torch.no_grad():
        assert torch.equal(target_log_probs(again, *batch()), target_log_probs(built, *batch()))


@pytest.mark.parametrize("name", EACH)
def test_a_seed_gives_the_same_model_whatever_was_drawn_before(name):
    first = MODIFICATIONS[name].build(CONFIG, seed=3).state_dict()
    torch.rand(3)
    again = MODIFICATIONS[name].build(CONFIG, seed=3).state_dict()
    assert all(torch.equal(weight, again[key]) for key, weight in first.items())
