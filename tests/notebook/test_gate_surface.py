"""The gate surface: outputs and derivatives against PyTorch and the package's layer, cuts, words, and refusals."""

import math

import pytest
import torch
import torch.nn.functional as F
import traitlets

from llm_anatomy.layers.feedforward import ACTIVATIONS, GATES, GatedFeedForward
from llm_anatomy.notebook import GateSurface
from llm_anatomy.notebook.widgets.gate_surface import LAYERS

PYTORCH = {"bilinear": lambda a: a, "GLU": torch.sigmoid, "ReGLU": F.relu, "GEGLU": F.gelu, "SwiGLU": F.silu}
UNITS = [(-2.7, 1.3), (-0.4, -2.1), (0.0, 1.0), (0.9, 0.0), (2.2, -1.7)]


def output(layer, gated, a, b):
    return PYTORCH[layer](a) * (b if gated else torch.ones_like(b))


@pytest.mark.syllabus("CMU-05", "GT-24", "GT-25")
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("gated", [True, False])
def test_output_and_derivatives_are_pytorchs(layer, gated):
    widget = GateSurface(layer, gated=gated)
    for unit in UNITS:
        widget.a, widget.b = unit
        found = widget.outputs()
        a, b = (torch.tensor(number, requires_grad=True) for number in unit)
        h = output(layer, gated, a, b)
        slopes = torch.autograd.grad(h, (a, b), allow_unused=True, materialize_grads=True)
        expected = [h.item(), *(slope.item() for slope in slopes)]
        assert [found[name] for name in ("output", "slope_a", "slope_b")] == pytest.approx(expected, abs=1e-6)


@pytest.mark.syllabus("CMU-05")
@pytest.mark.parametrize("layer", LAYERS)
def test_a_unit_is_one_of_the_packages_layer(layer):
    network = GatedFeedForward(2, 1, ACTIVATIONS[GATES[layer.lower()]]())
    with torch.no_grad():
        network.w_gate_up.weight.copy_(torch.eye(2))
        network.w_down.weight.fill_(1.0)
    for a, b in UNITS:
        expected = network(torch.tensor([a, b]))[0].item()
        assert GateSurface(layer, a, b).outputs()["output"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("gated", [True, False])
def test_surface_and_cuts_are_those_of_the_unit(layer, gated):
    found = {name: torch.tensor(v) for name, v in GateSurface(layer, 1.1, -0.7, gated=gated).outputs().items()}
    centres = torch.linspace(-2.9, 2.9, 30)
    up, across = torch.meshgrid(centres.flip(0), centres, indexing="ij")  # the first row is at the top
    torch.testing.assert_close(found["surface"].expand(30, -1), output(layer, gated, across, up))
    across = found["across"]
    torch.testing.assert_close(found["along_a"], output(layer, gated, across, torch.full_like(across, -0.7)))
    torch.testing.assert_close(found["along_b"].expand(61), output(layer, gated, torch.full_like(across, 1.1), across))
    for way, middle in (("a", 1.1), ("b", -0.7)):
        line = found["output"] + found[f"slope_{way}"] * (found[f"near_{way}"] - middle)
        torch.testing.assert_close(found[f"tangent_{way}"], line)


@pytest.mark.parametrize("layer, gated, span", [("bilinear", True, 9), ("SwiGLU", True, 9), ("GLU", True, 3)])
def test_everything_lies_in_the_frame(layer, gated, span):
    widget = GateSurface(layer, 3.0, 3.0, gated=gated)
    found = widget.outputs()
    drawn = torch.tensor([*found["along_a"], *found["along_b"], *found["tangent_a"], *found["tangent_b"]])
    assert found["span"] == -found["minus_span"] == span and not drawn.abs().gt(span + 1e-4).any()
    assert found["reach"] == min(span, 4) and drawn.isnan().any()  # a tangent leaves the frame
    widget.gated = False
    assert widget.outputs()["span"] == (1 if layer == "GLU" else 3)


@pytest.mark.syllabus("CMU-05")
def test_what_is_said_of_each_layer_is_true():
    a, b = torch.linspace(-3, 0, 50)[:-1], torch.tensor(2.0)
    assert output("bilinear", True, a, -b).gt(0).all() and output("bilinear", True, a, b).lt(0).all()
    gate = PYTORCH["GLU"](torch.linspace(-30, 30, 50, dtype=torch.float64))
    assert gate.gt(0).all() and gate.lt(1).all()
    for unit in ((-0.3, 1.0), (-3.0, -2.0)):
        found = GateSurface("ReGLU", *unit).outputs()
        assert found["output"] == found["slope_a"] == found["slope_b"] == 0
    for layer in ("GEGLU", "SwiGLU"):
        assert output(layer, True, a, b).lt(0).all() and output(layer, True, a, -b).gt(0).all()
        assert abs(PYTORCH[layer](torch.tensor(-3.0))) < 0.15


def test_words_are_complete():
    assert repr(GateSurface("GEGLU", a=-0.5, b=3.0)) == (
        "GEGLU at a = −0.50 and b = 3.00: the output GELU(a) · b is −0.46. Its derivative with respect to a is 0.40, "
        "and with respect to b −0.15."
    )
    assert repr(GateSurface("GLU", a=0.0, b=1.0, gated=False)) == (
        "GLU without its gate at a = 0.00 and b = 1.00: the output σ(a) is 0.50. Its derivative with respect to a is "
        "0.25, and with respect to b 0.00."
    )


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"layer": "Swish"}, "layer='Swish'; it must be one of bilinear, GLU, ReGLU, GEGLU, SwiGLU"),
        ({"a": 3.5}, "a=3.5; it must be a number from -3 to 3"),
        ({"b": math.inf}, "b=inf; it must be a number from -3 to 3"),
    ],
)
def test_gate_surface_refuses(given, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        GateSurface(**given)
