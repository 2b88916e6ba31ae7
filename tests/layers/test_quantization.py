"""Quantization of rows: the error is at most half a step, whatever the sizes of the numbers."""

import pytest
import torch

from llm_anatomy.layers.quantization import dequantize_rows, quantize_groups, quantize_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_error_is_at_most_half_a_step(dtype):
    generator = torch.Generator().manual_seed(0)
    matrix = (torch.randn(7, 50, generator=generator) * torch.logspace(-30, 30, 7)[:, None]).to(dtype)
    integers, scales = quantize_rows(matrix)
    assert integers.dtype == torch.int8 and scales.dtype == torch.float32
    assert (integers.abs().amax(-1) == 127).all()
    error = (dequantize_rows(integers, scales).double() - matrix.double()).abs().amax(-1)
    assert (error <= 0.5001 * matrix.double().abs().amax(-1) / 127).all()
    assert (error > 0.4 * matrix.double().abs().amax(-1) / 127).any()


def test_zeros_and_the_smallest_numbers_stay_as_they_are():
    matrix = torch.tensor([[0.0, 0.0], [1e-45, -1e-45]])
    integers, scales = quantize_rows(matrix)
    assert not integers.any() and torch.equal(dequantize_rows(integers, scales), torch.zeros(2, 2))


def test_a_quantized_matrix_is_quantized_to_itself():
    integers, scales = quantize_rows(torch.randn(9, 30, generator=torch.Generator().manual_seed(1)))
    again, scales_again = quantize_rows(dequantize_rows(integers, scales))
    assert torch.equal(again, integers)
    torch.testing.assert_close(scales_again, scales, rtol=2e-7, atol=0)


@pytest.mark.parametrize("number", [torch.nan, torch.inf, 1e39])
def test_numbers_that_are_not_finite_are_refused(number):
    with pytest.raises(ValueError, match="matrix holds numbers that are not finite"):
        quantize_rows(torch.tensor([[1.0, number]], dtype=torch.float64))


# --- Groups of 4 bits ---


def groups_of(integers, scales, zeros, group):
    return (integers.unflatten(1, (-1, group)) * scales[..., None] + zeros[..., None]).flatten(1)


@pytest.mark.parametrize("group", [2, 5, 30])
def test_the_error_of_groups_is_at_most_half_a_step(group):
    matrix = (torch.randn(7, 30, generator=torch.Generator().manual_seed(0)) + 3) * torch.logspace(-5, 5, 7)[:, None]
    integers, scales, zeros = quantize_groups(matrix, group)
    assert integers.dtype == torch.int8 and scales.shape == zeros.shape == (7, 30 // group)
    found = integers.unflatten(1, (-1, group))
    assert (found.amin(-1) == -8).all() and (found.amax(-1) == 7).all()
    error = (groups_of(integers, scales, zeros, group) - matrix).abs().unflatten(1, (-1, group)).amax(-1)
    assert (error <= 0.501 * scales).all() and (error > 0.3 * scales).any() == (group > 2)


def test_equal_numbers_stay_as_they_are():
    matrix = torch.tensor([[3.0, 3.0, 0.0, 0.0]])
    assert torch.equal(groups_of(*quantize_groups(matrix, 2), 2), matrix)


@pytest.mark.parametrize(
    "matrix, group, message",
    [
        (torch.ones(2, 6), 4, "group=4 must be at least 1 and divide the 6 columns"),
        (torch.ones(2, 6), 0, "group=0 must be at least 1"),
        (torch.tensor([[1.0, torch.nan]]), 2, "matrix holds numbers that are not finite"),
    ],
)
def test_what_does_not_divide_into_groups_is_refused(matrix, group, message):
    with pytest.raises(ValueError, match=message):
        quantize_groups(matrix, group)
