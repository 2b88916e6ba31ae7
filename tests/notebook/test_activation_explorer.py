"""The activation explorer: its curves and slopes against PyTorch, shares of inputs, words, and what it refuses."""

import math

import pytest
import torch
import torch.nn.functional as F
import traitlets

from llm_anatomy.notebook import ActivationExplorer
from llm_anatomy.notebook.widgets.activation_explorer import NAMES

PYTORCH = {
    "ReLU": F.relu,
    "GELU": F.gelu,
    "GELU (tanh)": lambda z: F.gelu(z, approximate="tanh"),
    "Swish": F.silu,
    "ELU": F.elu,
    "SELU": F.selu,
    "squared ReLU": lambda z: F.relu(z) ** 2,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": F.softplus,
}
INPUTS = [-4.0, -2.5, -1.3, -1.25, -0.75, -0.05, 0.0, 0.05, 0.6, 1.0, 2.15, 4.0]


def slopes(function, z):
    return torch.autograd.functional.jacobian(lambda z: function(z).sum(), z)


def test_all_activations_are_compared():
    assert PYTORCH.keys() == NAMES.keys()


@pytest.mark.syllabus("CMU-03", "GT-22")
@pytest.mark.parametrize("name", NAMES)
def test_values_and_slopes_are_pytorchs(name):
    widget, z = ActivationExplorer(name), torch.tensor(INPUTS)
    expected = torch.stack([PYTORCH[name](z), slopes(PYTORCH[name], z)], -1)
    found = []
    for value in INPUTS:
        widget.z = value
        outputs = widget.outputs()
        found.append([outputs["value"], outputs["slope"]])
    torch.testing.assert_close(torch.tensor(found), expected, atol=2e-5, rtol=0)  # stored as multiples of 2⁻¹⁵


@pytest.mark.syllabus("CMU-04", "GT-23")
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 1.7, 10.0])
@pytest.mark.parametrize("name", ["Swish", "ReLU"])
def test_swish_follows_its_parameter(name, beta):
    found, z = ActivationExplorer(name, -1.25, beta).outputs(), torch.tensor(INPUTS)
    at = ((z + 4) * 20).round().long()

    def swish(z):
        return z / (1 + torch.exp(-beta * z))

    torch.testing.assert_close(torch.tensor(found["dashed"])[at], swish(z))
    torch.testing.assert_close(torch.tensor(found["dashed_slopes"])[at], slopes(swish, z))
    own = swish if name == "Swish" else F.relu
    point = torch.tensor(-1.25)
    assert found["value"] == pytest.approx(own(point).item(), abs=1e-6)
    assert found["slope"] == pytest.approx(slopes(own, point).item(), abs=1e-6)


@pytest.mark.syllabus("CMU-04")
def test_the_minimum_of_swish_is_where_the_lecture_has_it():
    found = ActivationExplorer("Swish").outputs()
    assert min(found["curve"]) == pytest.approx(-0.2785, abs=1e-4)
    assert -4 + found["curve"].index(min(found["curve"])) / 20 == pytest.approx(-1.278, abs=0.03)


@pytest.mark.syllabus("GT-23")
def test_swish_goes_from_half_the_identity_to_relu():
    assert ActivationExplorer("Swish", 1.0, 0.0).outputs()["value"] == 0.5
    steep, relu = ActivationExplorer("Swish", 1.0, 10.0).outputs(), ActivationExplorer("ReLU", 1.0).outputs()
    assert steep["curve"] == pytest.approx(relu["curve"], abs=0.03)
    assert steep["small"] == pytest.approx(relu["small"], abs=4) and steep["zero"] == 0


@pytest.mark.syllabus("GT-22")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", [0.4, 1.0, 2.5])
def test_shares_are_those_of_a_normal_distribution(name, beta):
    found = ActivationExplorer(name, beta=beta).outputs()
    edges = torch.linspace(-8, 8, 400_001, dtype=torch.float64)
    function = (lambda z: z * torch.sigmoid(beta * z)) if name == "Swish" else PYTORCH[name]
    slope = slopes(function, (edges[1:] + edges[:-1]) / 2).abs()
    probability = torch.special.ndtr(edges).diff()
    assert found["zero"] == pytest.approx(100 * probability[slope == 0].sum().item(), abs=0.01)
    assert found["small"] == pytest.approx(100 * probability[slope < 0.1].sum().item(), abs=0.15)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_filled_is_where_the_slope_is_small(name):
    found, z = ActivationExplorer(name).outputs(), torch.linspace(-4, 4, 161)
    filled = torch.tensor(found["lost"][0])
    size = slopes(PYTORCH[name], z).abs()
    expected = (size < 0.1) * torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    clear = (size - 0.1).abs() > 1e-4  # the slope of squared ReLU at 0.05 is 0.1
    torch.testing.assert_close(filled[clear], expected[clear], rtol=0, atol=1e-4)


@pytest.mark.parametrize("z", [-4.0, -1.3, 0.5, 3.9])
@pytest.mark.parametrize("name", NAMES)
def test_the_tangent_touches_the_curve_and_stays_in_the_frame(name, z):
    found = ActivationExplorer(name, z).outputs()
    across, up = torch.tensor(found["tangent_z"]), torch.tensor(found["tangent"])
    line = found["value"] + found["slope"] * (across - z)
    expected = torch.where((line >= -2) & (line <= 4), line, torch.nan)
    torch.testing.assert_close(up, expected, equal_nan=True)
    assert math.hypot(across[-1] - across[0], found["slope"] * (across[-1] - across[0])) == pytest.approx(2, abs=1e-3)
    inside = torch.tensor([*found["tangent"], *found["curve"], found["seen"]])
    assert not ((inside < -2) | (inside > 4)).any() and not torch.tensor(found["slopes"]).gt(2).any()
    assert math.isnan(found["seen"]) == (found["value"] > 4)


def test_words_are_complete():
    assert repr(ActivationExplorer()) == (
        "ReLU at z = −1.00: the value is 0.000 and the slope 0.000. For 50% of standard normal inputs the slope is "
        "exactly zero, for 50% it is smaller than 0.1 in size. The dashed curve is Swish with β = 1.0."
    )
    assert repr(ActivationExplorer("Swish", 3.0, 2.0)) == (
        "Swish at z = 3.00: the value is 2.993 and the slope 1.012. For 0% of standard normal inputs the slope is "
        "exactly zero, for 32% it is smaller than 0.1 in size. The parameter β is 2.0."
    )


@pytest.mark.parametrize(
    "given, sentence",
    [
        (("Switch",), r"activation='Switch'; it must be one of ReLU, GELU, GELU \(tanh\), Swish"),
        (("ReLU", 4.05), "z=4.05; it must be a number from -4 to 4"),
        (("ReLU", 0.01), "z=0.01; it must be one of -4, -3.95"),
        (("Swish", 0.0, -1.0), "beta=-1.0; it must be a number from 0 to 10"),
    ],
)
def test_activation_explorer_refuses(given, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        ActivationExplorer(*given)
