"""The gradient through time against products written out, and what the lecture says of it."""

import pytest
import torch

from llm_anatomy.layers import gradient_through_time as module
from llm_anatomy.layers.gradient_through_time import gradient_through_time, scale_to_spectral_radius
from llm_anatomy.layers.recurrent import ElmanCell, GRUCell, LSTMCell

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, D_INPUT, D_HIDDEN = 3, 6, 4, 5


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def a_cell(cls, seed=1):
    cell = cls(D_INPUT, D_HIDDEN).double()
    with torch.no_grad():
        for i, parameter in enumerate(cell.parameters()):
            parameter.copy_(randn(*parameter.shape, seed=seed + i) * 0.4)
    return cell


@pytest.mark.parametrize("radius", [0.9, 1.0, 1.1])
def test_a_scaled_matrix_has_the_radius(radius):
    matrix = randn(7, 7)
    scaled = scale_to_spectral_radius(matrix, radius)
    assert torch.linalg.eigvals(scaled).abs().max().item() == pytest.approx(radius, abs=1e-12)
    ratio = scaled / matrix
    torch.testing.assert_close(ratio, ratio[0, 0].expand(7, 7))  # a number times the matrix, no more
    assert scale_to_spectral_radius(matrix, 0.0).eq(0).all()


@pytest.mark.syllabus("UCL-15")
@pytest.mark.parametrize("device", DEVICES)
def test_tanh_network_equals_the_product_of_the_slide(device):
    """The factors diag(1 - h²) W, one at a time, the later on the left."""
    cell, x, h = a_cell(ElmanCell).to(device), randn(BATCH, TOKENS, D_INPUT).to(device), randn(BATCH, D_HIDDEN, seed=9)
    h = h.to(device)
    found = gradient_through_time(cell, x, (h,))
    with torch.no_grad():
        hidden = [h]
        for t in range(TOKENS):
            hidden += cell(x[:, t], (hidden[-1],))
        for row in range(BATCH):
            product = torch.eye(D_HIDDEN, dtype=torch.float64, device=device)
            for t in range(TOKENS, -1, -1):
                expected = torch.linalg.svdvals(product)[0]
                torch.testing.assert_close(found[row, t], expected, rtol=1e-9, atol=1e-12)
                product = product @ torch.diag(1 - hidden[t][row] ** 2) @ cell.weight_hh


@pytest.mark.parametrize("cls", [LSTMCell, GRUCell])
def test_gated_cells_equal_differences(cls):
    """∂h_T / ∂s_0 by central differences, the whole state side by side."""
    cell, x = a_cell(cls), randn(1, TOKENS, D_INPUT)
    state = randn(1, cls.n_states * D_HIDDEN, seed=9)

    @torch.no_grad()
    def last(flat):
        parts = flat.split(D_HIDDEN, 1)
        for t in range(TOKENS):
            parts = cell(x[:, t], tuple(parts))
        return parts[0][0]

    columns = [
        (last(state + nudge) - last(state - nudge)) / 2e-5 for nudge in torch.eye(state.shape[1]).double() * 1e-5
    ]
    found = gradient_through_time(cell, x, state.split(D_HIDDEN, 1))
    assert found.shape == (1, TOKENS + 1) and found[0, -1] == 1
    torch.testing.assert_close(found[0, 0], torch.linalg.svdvals(torch.stack(columns, 1))[0], rtol=1e-6, atol=1e-8)


@pytest.mark.syllabus("UCL-15", "UCL-25")
@pytest.mark.parametrize("radius", [0.9, 1.0, 1.1])
def test_linear_network_shrinks_or_grows_like_the_radius(radius):
    """E-98: the norm is exponential in the distance, and it depends on the radius whether it vanishes or explodes."""
    n_tokens, matrix = 100, scale_to_spectral_radius(randn(D_HIDDEN, D_HIDDEN, seed=3), radius)
    norms = gradient_through_time(
        lambda x, state: (state[0] @ matrix.T,), randn(1, n_tokens, D_INPUT), (randn(1, D_HIDDEN),)
    )[0]
    for t in (0, 40, 99):
        expected = torch.linalg.svdvals(torch.linalg.matrix_power(matrix, n_tokens - t))[0]
        torch.testing.assert_close(norms[t], expected, rtol=1e-9, atol=0)
    pace = (norms[0] / norms[40]) ** (1 / 40)  # as in the power method
    assert pace.item() == pytest.approx(radius, rel=0.02)


@pytest.mark.syllabus("UCL-15")
def test_an_open_forget_gate_keeps_what_a_tanh_network_loses():
    x = randn(1, 60, D_INPUT)
    tanh, lstm = a_cell(ElmanCell), a_cell(LSTMCell)
    with torch.no_grad():
        tanh.weight_hh.copy_(scale_to_spectral_radius(tanh.weight_hh, 0.9))
        lstm.weight_hh.mul_(0.1)
        lstm.bias_ih[D_HIDDEN : 2 * D_HIDDEN] = 6.0
    zeros = torch.zeros(1, D_HIDDEN, dtype=torch.float64)
    assert gradient_through_time(tanh, x, (zeros,))[0, 0] < 1e-6
    assert gradient_through_time(lstm, x, (zeros, zeros))[0, 0] > 0.02


def test_nothing_is_left_behind():
    cell, x, h = a_cell(ElmanCell), randn(BATCH, TOKENS, D_INPUT).requires_grad_(), randn(BATCH, D_HIDDEN)
    with torch.no_grad():
        inside = gradient_through_time(cell, x, (h,))
    torch.testing.assert_close(gradient_through_time(cell, x, (h,)), inside)
    assert x.grad is None and not h.requires_grad and all(p.grad is None for p in cell.parameters())
    assert not inside.requires_grad


bare_scale = getattr(module.scale_to_spectral_radius, "__wrapped__", module.scale_to_spectral_radius)


@pytest.mark.parametrize(
    ("matrix", "radius", "sentence"),
    [
        (torch.eye(3), -0.1, "radius=-0.1 must be at least 0"),
        (torch.eye(3), float("nan"), "radius=nan must be at least 0"),
        (torch.ones(2, 3), 1.0, r"\(2, 3\); it must be square"),
        (torch.tensor([[0.0, 1.0], [0.0, 0.0]]), 1.0, "no eigenvalue other than zero"),
    ],
)
def test_what_cannot_be_scaled_is_refused(matrix, radius, sentence):
    with pytest.raises(ValueError, match=sentence):
        bare_scale(matrix, radius)
