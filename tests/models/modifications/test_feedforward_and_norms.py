import math

import pytest
import torch
from models.modifications.properties import CHECKS, SMALL, SOURCE, TARGET, check_parameters_at_t5_base, log_probs, small
from randomness import randn, randomize

from llm_anatomy.layers.normalization import LayerNorm, RMSNorm
from llm_anatomy.layers.residual import PreNorm, ReZero
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import baseline
from llm_anatomy.models.modifications.feedforward_and_norms import ROWS

NAMES = ["sigmoid", "geglu", "rmsnorm", "rezero", "rezero_layernorm", "fixup", "depth_18"]  # one of each kind


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_every_row(name, check):
    check(name)


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_parameters_are_those_of_the_table(name):
    check_parameters_at_t5_base(name, 223)  # but for 24 layers, where the table has 224


def by_hand(name, z):
    """One number in, one number out."""
    return {
        "gelu": z * (1 + math.erf(z / math.sqrt(2))) / 2,
        "swish": z / (1 + math.exp(-z)),
        "elu": z if z > 0 else math.exp(z) - 1,
        "selu": 1.0507009873554805 * (z if z > 0 else 1.6732632423543772 * (math.exp(z) - 1)),
        "sigmoid": 1 / (1 + math.exp(-z)),
        "softplus": math.log(1 + math.exp(z)),
        "relu": max(0.0, z),
        "identity": z,
    }[name]


GATES = {"glu": "sigmoid", "geglu": "gelu", "reglu": "relu", "swiglu": "swish", "liglu": "identity"}


@pytest.mark.parametrize("name", ["gelu", "swish", "elu", "selu", "sigmoid", "softplus"])
def test_activations(name):
    x = randn(24, dtype=torch.float64)
    for stack in (small(name).encoder, small(name).stack):
        layer = stack.blocks[-1].feedforward
        hidden = torch.tensor([by_hand(name, z) for z in (layer.w_up.weight @ x).tolist()], dtype=torch.float64)
        torch.testing.assert_close(layer(x), layer.w_down.weight @ hidden)


@pytest.mark.parametrize("name", GATES)
def test_gates(name):
    x = randn(24, dtype=torch.float64)
    layer = small(name).stack.blocks[-1].feedforward
    gate, up = layer.w_gate_up.weight.chunk(2)
    assert len(gate) == 24  # two thirds of 36
    hidden = torch.tensor([by_hand(GATES[name], z) for z in (gate @ x).tolist()], dtype=torch.float64) * (up @ x)
    torch.testing.assert_close(layer(x), layer.w_down.weight @ hidden)


@pytest.mark.parametrize(
    ("name", "n_layers", "n_heads", "d_ff"),
    [("depth_24", 12, 3, 18), ("depth_18", 9, 4, 24), ("depth_8", 4, 9, 54), ("depth_6", 3, 12, 72)],
)
def test_depth(name, n_layers, n_heads, d_ff):
    model = small(name)
    for stack in (model.encoder, model.stack):
        assert len(stack.blocks) == n_layers
        for block in stack.blocks:
            assert block.attention.n_heads == n_heads and block.attention.d_head == 4
            assert block.feedforward.w_up.weight.shape == (d_ff, 24)
    assert all(block.cross_attention.n_heads == n_heads for block in model.stack.blocks)


def residuals(model):
    return [
        module
        for stack in (model.encoder, model.stack)
        for block in stack.blocks
        for name, module in block.named_children()
        if name.endswith("_residual")
    ]


def test_rmsnorm():
    model = small("rmsnorm")
    norms = [residual.norm for residual in residuals(model)] + [model.encoder.norm, model.stack.norm]
    assert len(norms) == 6 * 2 + 6 * 3 + 2 and all(type(norm) is RMSNorm for norm in norms)


@pytest.mark.parametrize(
    ("name", "norm"), [("rezero", None), ("rezero_layernorm", LayerNorm), ("rezero_rmsnorm", RMSNorm)]
)
def test_rezero_begins_as_the_identity(name, norm):
    """Whatever the blocks hold, the first logits are those of the embeddings, behind the final norm if there is one."""
    model = randomize(MODIFICATIONS[name].build(baseline(**SMALL)))
    scaled = residuals(model)
    assert len(scaled) == 30 and all(type(residual) is ReZero for residual in scaled)
    with torch.no_grad():
        for residual in scaled:
            residual.alpha.zero_()
    expected = model.stack.norm(model.embedding(TARGET)) @ model.embedding.weight.T / 24**0.5
    torch.testing.assert_close(model(TARGET, source=SOURCE), expected)
    for module in (*(residual.norm for residual in scaled), model.encoder.norm, model.stack.norm):
        assert type(module) is (norm or torch.nn.Identity)


def test_fixup_by_hand():
    """One block of the decoder with random numbers everywhere."""
    model = small("fixup")
    block, x, source = (
        model.stack.blocks[1],
        randn(1, 4, 24, dtype=torch.float64),
        randn(1, 5, 24, seed=1, dtype=torch.float64),
    )
    inner, ff = block.feedforward.activation, block.feedforward
    residual = block.feedforward_residual
    hidden = ff.w_up.weight @ (x[0, 2] + residual.shift) + inner[0].shift
    expected = x[0, 2] + residual.scale * (ff.w_down.weight @ (hidden.clamp(min=0) + inner[2].shift))
    torch.testing.assert_close(residual(x, ff)[0, 2], expected)
    shift, w_output = block.cross_attention.w_output
    heads = torch.cat(
        [
            torch.softmax((x + block.cross_attention_residual.shift) @ q.T @ (source @ k.T).mT, -1) @ (source @ v.T)
            for q, k, v in zip(
                *(getattr(block.cross_attention, w).weight.split(4) for w in ("w_query", "w_key", "w_value")),
                strict=True,
            )
        ],
        -1,
    )
    expected = x + block.cross_attention_residual.scale * ((heads + shift.shift) @ w_output.weight.T)
    branch, _ = block.cross_attention_residual(x, lambda x: (block.cross_attention(x, source), None))
    torch.testing.assert_close(branch, expected)


def test_fixup_begins_with_small_matrices():
    """The factors for 30 branches, and no branch at first."""
    base, model = small("baseline", random=False), small("fixup", random=False)
    assert not any(isinstance(module, LayerNorm | PreNorm) for module in model.modules())
    for old, new in zip(
        [*base.encoder.blocks, *base.stack.blocks], [*model.encoder.blocks, *model.stack.blocks], strict=True
    ):
        torch.testing.assert_close(new.feedforward.w_up.weight, old.feedforward.w_up.weight * 30**-0.5)
        torch.testing.assert_close(new.attention.w_key.weight, old.attention.w_key.weight * 30 ** (-1 / 6))
        assert not new.feedforward.w_down.weight.any() and not new.attention.w_output[1].weight.any()
    assert not any(block.cross_attention.w_output[1].weight.any() for block in model.stack.blocks)
    expected = model.embedding(TARGET) @ model.embedding.weight.T / 24**0.5
    torch.testing.assert_close(model(TARGET, source=SOURCE), expected)


def test_same_seed_same_model():
    torch.testing.assert_close(log_probs(small("geglu", random=False)), log_probs(small("geglu", random=False)))
    assert not torch.allclose(log_probs(small("geglu", random=False)), log_probs(small("geglu", random=False, seed=1)))
