"""The normalized vector: its arrows against PyTorch, line and circle, its words, and what it refuses."""

import math

import pytest
import torch
import torch.nn.functional as F
import traitlets

from llm_anatomy.layers.normalization import LayerNorm, RMSNorm
from llm_anatomy.notebook import NormalizedVector

VECTORS = [(1.8, 1.0, -0.8), (-2.0, 0.3, 1.1), (0.5, -0.4, 2.0), (-1.2, -1.9, -0.1)]


def tensors(vector):
    return {name: torch.tensor(v) for name, v in NormalizedVector(vector).outputs().items()}


def drawn(widget, name):
    return torch.tensor(widget.data[name])


@pytest.mark.syllabus("IITD-40", "CMU-17", "CMU-20")
@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("d", [2, 3])
def test_numbers_are_pytorchs_and_have_length_root_d(vector, d):
    found, x = tensors(vector), torch.tensor(vector[:d])
    torch.testing.assert_close(found[f"ln{d}"], F.layer_norm(x, (d,), eps=1e-5))
    torch.testing.assert_close(found[f"rms{d}"], F.rms_norm(x, (d,), eps=1e-6))
    torch.testing.assert_close(found[f"ln{d}"], LayerNorm(d)(x))
    torch.testing.assert_close(found[f"rms{d}"], RMSNorm(d)(x))
    torch.testing.assert_close(found[f"mean{d}"], x.mean())
    for name in ("ln", "rms"):
        assert found[f"{name}{d}"].norm().item() == pytest.approx(math.sqrt(d), rel=1e-4)


@pytest.mark.syllabus("CMU-17", "CMU-20")
@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("d", [2, 3])
def test_layer_norm_is_rms_norm_of_the_projection(vector, d):
    found, x = tensors(vector), torch.tensor(vector[:d])
    projection = x - (x @ torch.ones(d)) / d * torch.ones(d)  # onto the plane orthogonal to the ones
    torch.testing.assert_close(RMSNorm(d)(projection), found[f"ln{d}"], rtol=1e-4, atol=1e-4)
    view = NormalizedVector().views[d - 2]
    torch.testing.assert_close(found[f"centred{d}_at"], view @ projection)
    torch.testing.assert_close(found[f"x{d}_at"], view @ x)
    torch.testing.assert_close(found[f"ln{d}_at"], view @ found[f"ln{d}"])
    torch.testing.assert_close(found[f"rms{d}_at"], view @ found[f"rms{d}"])


@pytest.mark.syllabus("IITD-40")
@pytest.mark.parametrize("pair", [(1.0, 0.9), (-2.0, 2.0), (0.1, 0.2), (-1.5, -1.4)])
def test_of_two_features_layer_norm_leaves_two_points(pair):
    sign = 1 if pair[0] > pair[1] else -1
    assert tensors((*pair, 0.0))["ln2"].tolist() == pytest.approx([sign, -sign], abs=0.01)


@pytest.mark.parametrize("vector", VECTORS)
def test_of_three_it_leaves_the_circle_that_is_drawn(vector):
    widget, found = NormalizedVector(), tensors(vector)
    circle = drawn(widget, "circle")
    assert (circle.T - found["ln3_at"]).norm(dim=-1).min() < 0.08  # the circle has 72 corners
    assert found["rms3_at"].norm() <= drawn(widget, "ring3").norm(dim=0).max() + 1e-3


def test_the_view_is_a_projection_along_one_direction_with_the_ones_upright():
    widget = NormalizedVector()
    view = widget.views[1]
    torch.testing.assert_close(view @ view.T, torch.eye(2))
    across, up = drawn(widget, "ones")
    assert abs(across.item()) < 1e-3 and 1.4 < up.item() < math.sqrt(3)
    torch.testing.assert_close(drawn(widget, "ring2").norm(dim=0), torch.full((73,), math.sqrt(2)), rtol=0, atol=1e-3)


def test_equal_features_leave_nothing():
    found = tensors((0.7, 0.7, 0.7))
    assert found["ln2"].abs().max() < 1e-3 and found["ln3"].abs().max() < 1e-3
    assert found["rms3"].tolist() == pytest.approx([1, 1, 1], abs=1e-4)
    words = repr(NormalizedVector((0.7, 0.7, 0.7)))
    assert words.endswith(
        " The two features are equal: the mean is all there is, and LayerNorm returns zeros. "
        "The three features are equal: LayerNorm returns zeros."
    )


def test_words_are_complete():
    assert repr(NormalizedVector((0.5, -0.4, 2.0))) == (
        "The vector (0.5, −0.4) has mean 0.05: LayerNorm gives (1.00, −1.00), RMSNorm (1.10, −0.88). The vector "
        "(0.5, −0.4, 2.0) has mean 0.70: LayerNorm gives (−0.20, −1.11, 1.31), RMSNorm (0.41, −0.33, 1.65)."
    )
    assert "two features are equal" not in repr(NormalizedVector((0.5, -0.4, -0.4)))


@pytest.mark.parametrize(
    "vector, sentence",
    [
        ((2.1, 0, 0), r"vector=\[2.1, 0\]; it must be two numbers from -2 to 2"),
        ((1, 0, -3), "third=-3.0; it must be a number from -2 to 2"),
    ],
)
def test_normalized_vector_refuses(vector, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        NormalizedVector(vector)
