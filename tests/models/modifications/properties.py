"""What must hold for every row of Narang et al.'s table."""

import copy

import torch
from randomness import randomize

from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import T5_BASE, auxiliary_loss, baseline, target_log_probs

SMALL = dict(n_vocab=31, d_model=24, n_layers=6, n_heads=6, d_ff=36)
SOURCE = torch.tensor([[3, 9, 14, 27, 5, 8, 30], [11, 2, 6, 19, 4, 10, 7]])
TARGET = torch.tensor([[1, 13, 22, 8, 17], [1, 25, 3, 12, 20]])


def small(name, *, random=True, seed=0):
    """A small model; random parameters, since an untrained ReZero model is the identity, whatever its blocks do."""
    model = MODIFICATIONS[name].build(baseline(**SMALL), seed)
    return (randomize(model).double() if random else model).eval()


def log_probs(model, source=SOURCE, target=TARGET):
    return target_log_probs(model, source, target[:, :-1], target[:, 1:])


def check_parameters_at_t5_base(name, millions):
    with torch.device("meta"):
        model = MODIFICATIONS[name].build(baseline(**T5_BASE))
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    assert round(n_parameters / 1e6) == millions


def check_changes_output(name):
    """The untrained models of one seed differ, though what they share starts from the same numbers where it can."""
    base, model = small("baseline", random=False), small(name, random=False)
    assert (log_probs(model) - log_probs(base)).abs().max() > 1e-3


def check_later_tokens_are_hidden(name):
    model, changed = small(name), TARGET.clone()
    changed[:, 3] = torch.tensor([9, 30])
    before, after = (model.hidden_states(ids, source=SOURCE)[0] for ids in (TARGET, changed))
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def check_padding_of_source_is_hidden(name):
    model, mask = small(name), torch.tensor([[1] * 7, [1] * 5 + [0] * 2], dtype=torch.bool)
    changed = SOURCE.clone()
    changed[1, 5:] = torch.tensor([21, 23])
    before, after, cut = (
        model.hidden_states(ids, source=model.encode(source, source_mask))[0]
        for ids, source, source_mask in (
            (TARGET, SOURCE, mask),
            (TARGET, changed, mask),
            (TARGET[1:], SOURCE[1:, :5], None),
        )
    )
    torch.testing.assert_close(before, after)
    torch.testing.assert_close(before[1:], cut)
    unmasked = model.hidden_states(TARGET, source=model.encode(changed))[0]
    assert not torch.allclose(before[1:], unmasked[1:])


def check_trains(name, n_steps=10):
    model = small(name, random=False).train()
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-2), []
    for _ in range(n_steps):
        loss = -log_probs(model).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        (loss + auxiliary_loss(model)).backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    copied = copy.deepcopy(model)  # after a backward pass, with what the parts keep of it
    copied.eval(), model.eval()
    torch.testing.assert_close(log_probs(copied), log_probs(model))


@torch.no_grad()
def check_cache(name):
    """Token by token with a cache as all at once."""
    model = small(name)
    source, cache = model.encode(SOURCE), model.new_cache(2, TARGET.shape[1], n_source=SOURCE.shape[1])
    first = model.hidden_states(TARGET[:, :2], source=source, cache=cache)[0]
    others = [model.hidden_states(TARGET[:, n, None], source=source, cache=cache)[0] for n in range(2, TARGET.shape[1])]
    torch.testing.assert_close(torch.cat([first, *others], 1), model.hidden_states(TARGET, source=SOURCE)[0])


CHECKS = [
    check_changes_output,
    check_later_tokens_are_hidden,
    check_padding_of_source_is_hidden,
    check_trains,
    check_cache,
]
