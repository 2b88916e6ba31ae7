import pytest
import torch
from models.modifications.properties import CHECKS, SOURCE, check_parameters_at_t5_base, log_probs, small
from randomness import randn, randomize
from torch import nn

from llm_anatomy.models.block import Block
from llm_anatomy.models.modifications.stacks import ROWS, GatedResidual, StepBlock, WeightedBranches


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_every_row(name, check):
    check(name)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("transparent_attention", 223),
        ("universal_transformer", 84),
        ("weighted_transformer", 280),
    ],
)
def test_parameters_are_those_of_the_table(name, millions):
    check_parameters_at_t5_base(name, millions)


# --- Transparent attention ---


def test_states_of_the_encoder():
    """The embeddings, the states between the blocks, and the final states behind the norm."""
    model, base = small("transparent_attention"), small("baseline")
    states = model.encode(SOURCE).hidden_states
    assert states.shape == (2, 7, 7, 24)
    base.load_state_dict(
        {name: value for name, value in model.state_dict().items() if "cross" not in name}, strict=False
    )
    x = base.embedding(SOURCE)
    torch.testing.assert_close(states[:, :, 0], x)
    for n, block in enumerate(base.encoder.blocks[:-1], start=1):
        x, _ = block(x, mask=base.encoder.masks[n])
        torch.testing.assert_close(states[:, :, n], x)
    torch.testing.assert_close(states[:, :, -1], base.encode(SOURCE).hidden_states)


def test_each_decoder_block_averages_the_states_with_its_own_weights():
    attention = small("transparent_attention").stack.blocks[2].cross_attention
    states = randn(2, 5, 7, 24, dtype=torch.float64)
    weights = [w.exp() / attention.state_logits.exp().sum() for w in attention.state_logits]
    expected = sum(w * states[:, :, n] for n, w in enumerate(weights))
    torch.testing.assert_close(attention.mean(states), expected)
    model = small("transparent_attention", random=False)
    assert len({block.cross_attention.state_logits[0].item() for block in model.stack.blocks}) == 6


def test_with_all_weight_on_the_last_states_nothing_changes():
    model = small("transparent_attention", random=False)
    for block in model.stack.blocks:
        block.cross_attention.state_logits.data = torch.tensor([0.0] * 6 + [1e4])
    base = small("baseline", random=False)
    torch.testing.assert_close(log_probs(model), log_probs(base))


# --- The Universal Transformer ---


def test_gates_by_hand():
    """The gates of a GRU, with the candidate and the sum of the authors' code, written out."""
    gated = randomize(GatedResidual(nn.LayerNorm(4), d_model=4)).double()
    x, y = randn(3, 5, 4, dtype=torch.float64), randn(3, 5, 4, dtype=torch.float64)

    def normed(v, norm):
        centred = v - v.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias

    def gate(layer, rows, state):
        w, b = layer.weight[rows], layer.bias[rows]
        return 1 / (1 + torch.exp(-(state @ w[:, :4].T + normed(y, gated.branch_norm) @ w[:, 4:].T + b)))

    z, r = (gate(gated.gates, rows, normed(x, gated.state_norm)) for rows in (slice(0, 4), slice(4, 8)))
    c = gate(gated.candidate, slice(0, 4), normed(r * x, gated.reset_norm))
    seen = []
    result = gated(x, lambda state: (seen.append(state), y)[1])
    torch.testing.assert_close(result, x + (1 - z) * y + z * c)
    torch.testing.assert_close(seen[0], normed(x, gated.norm))


def test_one_block_runs_in_every_step():
    model = small("universal_transformer")
    for stack in (model.encoder, model.stack):
        assert len(stack.blocks) == 2 + 2 * 6 + 2
        assert len({id(block.attention) for block in stack.blocks}) == 1
        assert len({id(block.feedforward_residual) for block in stack.blocks}) == 1
        assert [isinstance(block, StepBlock) for block in stack.blocks] == [False] * 2 + [True] * 12 + [False] * 2
        assert len({id(block.step_embedding) for block in stack.blocks[2:-2]}) == 12


def test_a_step_adds_its_embedding():
    step = small("universal_transformer").encoder.blocks[3]
    x = randn(2, 5, 24, dtype=torch.float64)
    plain, _ = Block.forward(step, x + step.step_embedding, mask=None)
    torch.testing.assert_close(step(x, mask=None)[0], plain)
    assert not torch.allclose(Block.forward(step, x, mask=None)[0], plain)


# --- The Weighted Transformer ---


def test_branches_by_hand():
    w_output = nn.Linear(12, 8, bias=False)
    branches = randomize(
        WeightedBranches(w_output, nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 8)), 3)
    ).double()
    heads = randn(2, 4, 12, dtype=torch.float64)
    kappa, alpha = (logits.exp() / logits.exp().sum() for logits in (branches.kappa_logits, branches.alpha_logits))
    expected = sum(
        alpha[i]
        * branches.feedforward(kappa[i] * (heads[..., 4 * i : 4 * i + 4] @ w_output.weight[:, 4 * i : 4 * i + 4].T))
        for i in range(3)
    )
    torch.testing.assert_close(branches(heads), expected)


def test_with_a_linear_branch_only_the_weights_remain():
    """With equal weights and no feed-forward layer, the branches add up to the usual output over the heads squared."""
    w_output, heads = nn.Linear(12, 8, bias=False), randn(2, 4, 12)
    branches = WeightedBranches(w_output, nn.Identity(), 3)
    torch.testing.assert_close(branches(heads), w_output(heads) / 9)


def test_which_layers_of_the_weighted_transformer_have_a_feedforward_layer():
    model = small("weighted_transformer")
    for block in (*model.encoder.blocks, *model.stack.blocks):
        assert type(block.feedforward_residual).__name__ == "NoSublayer"
    layers = [block.attention.w_output.feedforward for block in (*model.encoder.blocks, *model.stack.blocks)]
    layers += [block.cross_attention.w_output.feedforward for block in model.stack.blocks]
    assert len({id(layer) for layer in layers}) == 18
    drawn = small("weighted_transformer", random=False).stack.blocks[0].cross_attention.w_output.feedforward.w_up.weight
    assert 0.9 < drawn.std() * 24**0.5 < 1.1


def test_weights_of_branches_are_those_of_the_heads_they_belong_to():
    """A branch without weight does not matter."""
    model = small("weighted_transformer")
    attention, x = model.encoder.blocks[0].attention, randn(1, 5, 24, dtype=torch.float64)
    attention.w_output.alpha_logits.data[2] = -1e4
    before = attention(x)
    attention.w_value.weight.data[8:12] += 1.0  # head 2 of width 4
    torch.testing.assert_close(attention(x), before)
    attention.w_value.weight.data[12:16] += 1.0
    assert not torch.allclose(attention(x), before)
