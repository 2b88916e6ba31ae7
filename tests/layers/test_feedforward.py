"""Activations and feed-forward layers against PyTorch, Hugging Face, and formulas written in Python floats."""

import math

import pytest
import torch
import torch.nn.functional as F
from randomness import randn, randomize
from torch import nn
from transformers import LlamaConfig, T5Config
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.t5.modeling_t5 import T5DenseActDense, T5DenseGatedActDense

from llm_anatomy.layers import feedforward
from llm_anatomy.layers.feedforward import (
    ACTIVATIONS,
    GATES,
    FeedForward,
    GatedFeedForward,
    SquaredReLU,
    Swish,
    gated_width,
    swish_derivative,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
TOLERANCE = {torch.float32: dict(rtol=1e-4, atol=1e-4), torch.float64: dict(rtol=1e-9, atol=1e-9)}
BATCH, TOKENS, D_MODEL, D_FF = 3, 5, 8, 14

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
FORMULAS = {  # one number at a time, from the papers
    "identity": lambda z: z,
    "relu": lambda z: z if z > 0 else 0.0,
    "squared_relu": lambda z: z * z if z > 0 else 0.0,
    "gelu": lambda z: z * 0.5 * (1 + math.erf(z / math.sqrt(2))),
    "gelu_tanh": lambda z: 0.5 * z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "swish": lambda z: z / (1 + math.exp(-z)),
    "trainable_swish": lambda z: z / (1 + math.exp(-z)),
    "elu": lambda z: z if z > 0 else math.exp(z) - 1,
    "selu": lambda z: SELU_SCALE * (z if z > 0 else SELU_ALPHA * (math.exp(z) - 1)),
    "sigmoid": lambda z: 1 / (1 + math.exp(-z)),
    "softplus": lambda z: math.log(1 + math.exp(z)),
    "tanh": lambda z: (math.exp(z) - math.exp(-z)) / (math.exp(z) + math.exp(-z)),
}


def by_formula(name, z):
    return torch.tensor([FORMULAS[name](entry) for entry in z.flatten().tolist()], dtype=z.dtype).view(z.shape)


# --- Activations ---


@pytest.mark.syllabus("CMU-03", "GT-22", "GT-23", "GT-27")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_activation_equals_its_formula(name, dtype, device):
    z = torch.cat([randn(40, dtype=torch.float64) * 2, torch.tensor([0.0, -1e-3, 1e-3])])
    expected = torch.tensor([FORMULAS[name](entry) for entry in z.tolist()], dtype=torch.float64)
    result = ACTIVATIONS[name]().to(device, dtype)(z.to(device, dtype))
    assert result.dtype == dtype and result.device.type == device
    torch.testing.assert_close(result.cpu(), expected.to(dtype), **TOLERANCE[dtype])


def test_formulas_and_table_name_the_same_activations_and_no_two_are_alike():
    assert FORMULAS.keys() == ACTIVATIONS.keys()
    z = randn(50)
    values = {name: ACTIVATIONS[name]()(z) for name in ACTIVATIONS if name != "trainable_swish"}
    for a in values:
        for b in values:
            assert a == b or not torch.allclose(values[a], values[b], rtol=1e-5, atol=1e-5), (a, b)


@pytest.mark.syllabus("CMU-03")
def test_numbers_of_the_lecture():
    zero, one = torch.tensor(0.0), torch.tensor(1.0)
    assert ACTIVATIONS["gelu"]()(zero) == 0
    assert round(ACTIVATIONS["gelu"]()(one).item(), 4) == 0.8413  # z times the share of a normal variable below z
    assert round(ACTIVATIONS["swish"]()(one).item(), 4) == round(Swish()(one).item(), 4) == 0.7311


@pytest.mark.syllabus("GT-23")
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_swish_lies_between_half_a_line_and_relu(dtype):
    z = randn(50, dtype=dtype) * 3
    torch.testing.assert_close(Swish(0.0)(z), z / 2, **TOLERANCE[dtype])
    torch.testing.assert_close(Swish(1.0)(z), F.silu(z), **TOLERANCE[dtype])
    torch.testing.assert_close(Swish(1e6)(z), F.relu(z), **TOLERANCE[dtype])
    torch.testing.assert_close(Swish(1.702)(z), z / (1 + (-1.702 * z).exp()), **TOLERANCE[dtype])


@pytest.mark.syllabus("CMU-04")
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.5])
def test_the_derivative_of_swish_is_that_of_autograd(beta):
    z = (randn(60, dtype=torch.float64) * 3).requires_grad_()
    Swish(beta)(z).sum().backward()
    torch.testing.assert_close(swish_derivative(z.detach(), beta), z.grad, **TOLERANCE[torch.float64])
    assert swish_derivative(torch.tensor(0.0), beta).item() == 0.5


@pytest.mark.syllabus("CMU-04")
def test_swish_falls_to_its_minimum_before_it_rises():
    z = torch.linspace(-3, 0, 300_001, dtype=torch.float64)
    lowest = Swish()(z).argmin()
    assert round(z[lowest].item(), 3) == -1.278 and round(Swish()(z[lowest]).item(), 4) == -0.2785
    assert swish_derivative(z[lowest]).abs() < 1e-5
    assert (swish_derivative(z[: lowest - 5]) < 0).all() and (swish_derivative(z[lowest + 5 :]) > 0).all()


def test_only_the_trained_swish_has_a_parameter_and_each_layer_its_own():
    first, second = ACTIVATIONS["trainable_swish"](), ACTIVATIONS["trainable_swish"]()
    assert first.beta is not second.beta and first.beta.item() == 1.0 and "beta" in first.state_dict()
    assert not list(Swish(2.0).parameters()) and not Swish(2.0).state_dict()
    z = randn(20, dtype=torch.float64)
    first.double()(z).sum().backward()
    gate = torch.sigmoid(z)
    torch.testing.assert_close(first.beta.grad, (z * z * gate * (1 - gate)).sum(), **TOLERANCE[torch.float64])


@pytest.mark.syllabus("GT-22")
def test_relu_units_die_and_gelu_units_do_not():
    """A unit is dead where no token gives it a gradient."""
    dead = {}
    for name in ("relu", "gelu"):
        layer = randomize(FeedForward(D_MODEL, 400, ACTIVATIONS[name](), bias=True))
        with torch.no_grad():
            layer.w_up.bias -= 2.0
        layer(randn(50, D_MODEL)).square().sum().backward()
        dead[name] = layer.w_up.weight.grad.abs().sum(1).eq(0).float().mean().item()
    assert dead["relu"] > 0.05 and dead["gelu"] == 0


# --- Layers ---


@pytest.mark.syllabus("CMU-03", "GT-20", "UCL-26", "IITD-42")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_plain_layer_equals_the_formula(name, bias, dtype, device):
    layer = randomize(FeedForward(D_MODEL, D_FF, ACTIVATIONS[name](), bias=bias)).to(device, dtype)
    if name == "trainable_swish":
        nn.init.ones_(layer.activation.beta)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    exact = {key: value.cpu().double() for key, value in layer.state_dict().items()}
    hidden = x.double() @ exact["w_up.weight"].T + exact.get("w_up.bias", 0)
    expected = by_formula(name, hidden) @ exact["w_down.weight"].T + exact.get("w_down.bias", 0)
    torch.testing.assert_close(layer(x.to(device)).cpu(), expected.to(dtype), **TOLERANCE[dtype])


@pytest.mark.syllabus("CMU-03", "GT-20")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "theirs"), [("relu", "relu"), ("gelu", "gelu"), ("gelu_tanh", "gelu_new")])
def test_plain_and_gated_layers_equal_those_of_t5(name, theirs, dtype):
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    config = T5Config(d_model=D_MODEL, d_ff=D_FF, dense_act_fn=theirs, dropout_rate=0.0)
    peer = randomize(T5DenseActDense(config)).to(dtype)
    ours = FeedForward(D_MODEL, D_FF, ACTIVATIONS[name]()).to(dtype)
    ours.load_state_dict({"w_up.weight": peer.wi.weight, "w_down.weight": peer.wo.weight})
    torch.testing.assert_close(ours(x), peer(x), **TOLERANCE[dtype])

    peer = randomize(T5DenseGatedActDense(config), seed=1).to(dtype)
    ours = GatedFeedForward(D_MODEL, D_FF, ACTIVATIONS[name]()).to(dtype)
    fused = torch.cat([peer.wi_0.weight, peer.wi_1.weight])
    ours.load_state_dict({"w_gate_up.weight": fused, "w_down.weight": peer.wo.weight})
    torch.testing.assert_close(ours(x), peer(x), **TOLERANCE[dtype])


def llama_pair(gate, bias, dtype, device="cpu"):
    """Hugging Face's layer with random weights, and ours with the same."""
    hidden_act = {
        "glu": "sigmoid",
        "bilinear": "linear",
        "reglu": "relu",
        "geglu": "gelu",
        "geglu_tanh": "gelu_pytorch_tanh",
        "swiglu": "silu",
    }[gate]
    config = LlamaConfig(
        hidden_size=D_MODEL, intermediate_size=D_FF, hidden_act=hidden_act, mlp_bias=bias, num_attention_heads=2
    )
    peer = randomize(LlamaMLP(config)).to(device, dtype)
    ours = GatedFeedForward(D_MODEL, D_FF, ACTIVATIONS[GATES[gate]](), bias=bias).to(device, dtype)
    theirs = peer.state_dict()
    state = {}
    for kind in ["weight"] + ["bias"] * bias:
        state[f"w_gate_up.{kind}"] = torch.cat([theirs[f"gate_proj.{kind}"], theirs[f"up_proj.{kind}"]])
        state[f"w_down.{kind}"] = theirs[f"down_proj.{kind}"]
    ours.load_state_dict(state)
    return ours, peer


@pytest.mark.syllabus("CMU-05", "CMU-07", "GT-24", "GT-25", "GT-27")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gate", GATES)
def test_one_gated_layer_equals_llamas_with_every_gate(gate, bias, dtype, device):
    ours, peer = llama_pair(gate, bias, dtype, device)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype).to(device).requires_grad_()
    torch.testing.assert_close(ours(x), peer(x), **TOLERANCE[dtype])
    (ours_grad,) = torch.autograd.grad(ours(x).square().sum(), x)
    (peer_grad,) = torch.autograd.grad(peer(x).square().sum(), x)
    torch.testing.assert_close(ours_grad, peer_grad, **TOLERANCE[dtype])


@pytest.mark.syllabus("CMU-05", "GT-24", "GT-25")
@pytest.mark.parametrize("gate", GATES)
def test_gated_layer_equals_a_loop_over_units(gate):
    layer = randomize(GatedFeedForward(D_MODEL, D_FF, ACTIVATIONS[GATES[gate]](), bias=True))
    x = randn(D_MODEL)
    weight, bias = layer.w_gate_up.weight.tolist(), layer.w_gate_up.bias.tolist()

    def unit(i):
        return sum(w * entry for w, entry in zip(weight[i], x.tolist(), strict=True)) + bias[i]

    hidden = [FORMULAS[GATES[gate]](unit(i)) * unit(D_FF + i) for i in range(D_FF)]
    expected = layer.w_down.weight @ torch.tensor(hidden) + layer.w_down.bias
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)


def test_the_comparison_sees_gate_and_up_swapped_and_a_wrong_activation():
    ours, peer = llama_pair("swiglu", True, torch.float32)
    x = randn(BATCH, TOKENS, D_MODEL)
    assert (ours(x) - peer(x)).abs().max() < 1e-5
    for fault in ("swapped", "activation"):
        ours, peer = llama_pair("swiglu", True, torch.float32)
        if fault == "swapped":
            ours.w_gate_up.weight.data = ours.w_gate_up.weight.data.roll(D_FF, 0)
        else:
            ours.activation = nn.GELU()
        assert (ours(x) - peer(x)).abs().max() > 0.01, fault


@pytest.mark.syllabus("GT-24")
def test_a_gate_with_no_weights_is_half_open():
    layer = randomize(GatedFeedForward(D_MODEL, D_FF, ACTIVATIONS[GATES["glu"]]()))
    with torch.no_grad():
        layer.w_gate_up.weight[:D_FF] = 0
    x = randn(BATCH, TOKENS, D_MODEL)
    up = x @ layer.w_gate_up.weight[D_FF:].T
    torch.testing.assert_close(layer(x), layer.w_down(0.5 * up))


@pytest.mark.syllabus("UCL-27")
@pytest.mark.parametrize("cls", [FeedForward, GatedFeedForward])
def test_each_token_is_worked_on_alone(cls):
    layer = randomize(cls(D_MODEL, D_FF, nn.GELU(), bias=True))
    x = randn(BATCH, TOKENS, D_MODEL)
    alone = torch.stack([torch.stack([layer(token) for token in sequence]) for sequence in x])
    torch.testing.assert_close(layer(x), alone, rtol=1e-5, atol=1e-5)


@pytest.mark.syllabus("GT-20")
@pytest.mark.parametrize(("cls", "ups"), [(FeedForward, 1), (GatedFeedForward, 2)])
def test_biases_cost_their_widths(cls, ups):
    count = {b: sum(p.numel() for p in cls(D_MODEL, D_FF, nn.ReLU(), bias=b).parameters()) for b in (False, True)}
    assert count[True] - count[False] == ups * D_FF + D_MODEL


# --- Width ---


@pytest.mark.syllabus("CMU-06", "CMU-34", "GT-25")
@pytest.mark.parametrize(
    ("d_ff", "given", "width"),
    [
        (3072, {}, 2048),  # T5-base
        (4 * 4096, dict(multiple_of=256), 11008),  # LLaMA 7B
        (4 * 5120, dict(multiple_of=256), 13824),  # LLaMA 13B
        (4 * 8192, dict(multiple_of=256), 22016),  # LLaMA 65B
        (4 * 8192, dict(multiplier=1.3, multiple_of=4096), 28672),  # Llama 2 70B
        (4 * 4096, dict(multiplier=1.3, multiple_of=1024), 14336),  # Llama 3 8B
        (20, {}, 13),
        (1, dict(multiple_of=8), 8),
        (1, {}, 1),
    ],
)
def test_widths_of_known_models(d_ff, given, width):
    assert gated_width(d_ff, **given) == width


@pytest.mark.syllabus("CMU-06")
@pytest.mark.parametrize(("d_model", "d_ff"), [(768, 3072), (10, 21)])
def test_two_thirds_keep_the_parameters(d_model, d_ff):
    def parameters(layer):
        return sum(p.numel() for p in layer.parameters())

    with torch.device("meta"):
        plain = FeedForward(d_model, d_ff, nn.ReLU())
        gated = GatedFeedForward(d_model, gated_width(d_ff), nn.ReLU())
    assert parameters(plain) == parameters(gated) == 2 * d_model * d_ff


# --- Numbers, gradients, copies ---


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("cls", [FeedForward, GatedFeedForward])
def test_gradients_are_those_of_finite_differences(cls, name):
    layer = randomize(cls(3, 4, ACTIVATIONS[name](), bias=True)).double()
    x = randn(2, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("cls", [FeedForward, GatedFeedForward])
def test_bfloat16_stays_close(cls, name):
    layer, x = randomize(cls(D_MODEL, D_FF, ACTIVATIONS[name](), bias=True)), randn(BATCH, TOKENS, D_MODEL)
    expected = layer(x)
    result = layer.bfloat16()(x.bfloat16())
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("cls", [FeedForward, GatedFeedForward])
def test_weights_go_through_a_file_and_the_meta_device(cls):
    first = randomize(cls(D_MODEL, D_FF, ACTIVATIONS["trainable_swish"](), bias=True))
    with torch.device("meta"):
        second = cls(D_MODEL, D_FF, ACTIVATIONS["trainable_swish"](), bias=True)
    assert second(torch.empty(2, D_MODEL, device="meta")).shape == (2, D_MODEL)
    second.load_state_dict(first.state_dict(), assign=True)
    x = randn(BATCH, TOKENS, D_MODEL)
    torch.testing.assert_close(second(x), first(x), rtol=0, atol=0)


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.feedforward import *\n"
        "x = torch.randn(3, 5, 8)\n"
        "for cls in (FeedForward, GatedFeedForward):\n"
        "    for name in ('squared_relu', 'gelu_tanh', 'trainable_swish'):\n"
        "        torch._dynamo.reset(); m = cls(8, 14, ACTIVATIONS[name](), bias=True)\n"
        "        f = torch.compile(m, fullgraph=True, backend='eager')\n"
        "        torch.testing.assert_close(f(x), m(x))"
    )
    run_without_shape_checks(code)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: FeedForward(0, 4, nn.ReLU()), ValueError, "d_model=0 must be at least 1"),
        (lambda: GatedFeedForward(4, 0, nn.ReLU()), ValueError, "d_ff=0 must be at least 1"),
        (lambda: getattr(gated_width, "__wrapped__", gated_width)(0), ValueError, "d_ff=0 must be at least 1"),
        (lambda: gated_width(8, multiplier=float("nan")), ValueError, "multiplier=nan must be above 0"),
        (lambda: gated_width(8, multiple_of=0), ValueError, "multiple_of=0 must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


@pytest.mark.parametrize("activation", ["relu", nn.ReLU, None])
def test_an_activation_that_cannot_be_called_with_a_tensor_is_refused(activation):
    refuse = getattr(feedforward._check_shapes, "__wrapped__", feedforward._check_shapes)
    with pytest.raises(TypeError, match=r"must be a function of a tensor, such as ACTIVATIONS\['relu'\]\(\)"):
        refuse(4, 8, activation)


def test_squared_relu_has_no_kink_at_zero():
    z = torch.tensor([-1e-4, 0.0, 1e-4], dtype=torch.float64, requires_grad=True)
    SquaredReLU()(z).sum().backward()
    torch.testing.assert_close(z.grad, torch.tensor([0.0, 0.0, 2e-4], dtype=torch.float64))
