"""Packed layers: a linear map with other memory behind it, and exactly the rounding that its name says."""

import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.layers import packed_linear
from llm_anatomy.layers.packed_linear import GROUP, BFloat16Linear, Int4Linear, Int8Linear, PackedLinear, pack
from llm_anatomy.layers.quantization import quantize_groups, quantize_rows

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def tensors(d_out, d_in, *shape, dtype=torch.float32, bias=True):
    generator = torch.Generator().manual_seed(0)
    weight, offset, x = (torch.randn(*s, generator=generator) for s in ((d_out, d_in), (d_out,), (*shape, d_in)))
    return weight.to(dtype), offset.to(dtype) if bias else None, x.to(dtype)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("d_out, d_in", [(11, 7), (7, 11), (5, 5)])
@pytest.mark.parametrize("device", DEVICES)
def test_a_packed_layer_is_linear(device, d_out, d_in, dtype, bias):
    weight, offset, x = (t if t is None else t.to(device) for t in tensors(d_out, d_in, 3, 2, dtype=dtype, bias=bias))
    layer = PackedLinear(weight, offset, prepack=False)
    rtol, atol = (0, 0.1) if dtype == torch.bfloat16 else (1e-5, 1e-5)
    torch.testing.assert_close(layer(x), F.linear(x, weight, offset), rtol=rtol, atol=atol)
    assert torch.equal(layer.weight, weight) and not list(layer.parameters()) and not layer.state_dict()


def test_wide_matrices_in_float32_are_stored_by_columns_and_others_are_not_copied():
    wide, tall = torch.randn(9, 4), torch.randn(4, 9)
    assert PackedLinear(wide).weight.stride() == (1, 9)
    assert PackedLinear(tall).weight.data_ptr() == tall.data_ptr()
    assert PackedLinear(wide.bfloat16(), prepack=False).weight.stride() == (4, 1)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("d_out, d_in", [(11, 7), (7, 11), (48, 33)])
def test_a_weight_in_the_layout_of_onednn_is_the_same_weight(monkeypatch, d_out, d_in, both, bias):
    weight, offset, x = tensors(d_out, d_in, 5, 3, bias=bias)
    assert not PackedLinear(weight, offset).is_packed  # it is too small
    monkeypatch.setattr(packed_linear, "SMALLEST", d_out * d_in)
    monkeypatch.setattr(packed_linear, "SMALLEST_FOR_ONE_ROW", d_out * d_in + both)
    layer = PackedLinear(weight.t().contiguous().t(), offset)
    assert layer.is_packed and not PackedLinear(weight.double()).is_packed
    assert torch.equal(layer.packed.to_dense(), weight) and not list(layer.parameters())
    assert torch.equal(layer.weight, weight) if both else layer.weight is None
    for rows in (x, x[0, 0], x[:, -1:], x.transpose(0, 1), torch.randn(d_in, 600).t(), x[:0]):
        torch.testing.assert_close(layer(rows), F.linear(rows, weight, offset), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (3, 2), (40,)])
@pytest.mark.parametrize("kind", [BFloat16Linear, Int8Linear, Int4Linear])
def test_fewer_bits_are_rounded_weights_and_inputs(kind, shape, bias):
    weight, offset, x = tensors(48, 2 * GROUP, *shape, bias=bias)
    if kind is BFloat16Linear:
        rounded, offset = weight.bfloat16().float(), None if offset is None else offset.bfloat16().float()
    elif kind is Int8Linear:
        integers, scales = quantize_rows(weight)
        rounded = integers * scales.bfloat16().float()[:, None]
    else:
        integers, *rest = quantize_groups(weight, GROUP)
        scales, zeros = (t.bfloat16().float()[..., None] for t in rest)
        rounded = (integers.unflatten(1, (-1, GROUP)) * scales + zeros).flatten(1)
    expected = F.linear(x.bfloat16().float(), rounded, offset)
    found = kind(weight, tensors(48, 2 * GROUP, *shape, bias=bias)[1])(x)
    assert found.dtype == torch.float32 and found.shape == (*shape, 48)
    strided = torch.stack((x, x), -1).bfloat16()[..., 0]
    torch.testing.assert_close(kind(weight, offset)(strided).float(), found, rtol=0.05, atol=0.2)
    assert (found - expected).norm() < 0.01 * expected.norm()  # the result is rounded to bfloat16 as well
    if kind is Int4Linear:
        assert (found - F.linear(x, weight, offset)).norm() > 0.03 * expected.norm()


@pytest.mark.parametrize(
    "d_out, d_in, weights, kind",
    [
        (16, 32, None, PackedLinear),
        (16, 32, "bfloat16", BFloat16Linear),
        (16, 32, "int8", Int8Linear),
        (16, 32, "int4", Int4Linear),
        (15, 32, "int4", Int8Linear),
        (15, 31, "int4", PackedLinear),
        (16, 48, "int8", PackedLinear),
    ],
)
def test_a_weight_is_stored_as_nearly_as_its_sizes_allow(d_out, d_in, weights, kind):
    assert type(pack(torch.ones(d_out, d_in), None, weights)) is kind


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: pack(torch.ones(16, 32), None, "int3"),
            "quantize='int3' must be one of None, 'bfloat16', 'int8', 'int4'",
        ),
        (lambda: Int8Linear(torch.ones(3, 33)), r"weight has shape \(3, 33\); it must have multiples of 32 columns"),
        (lambda: Int4Linear(torch.ones(17, 32)), "it must have multiples of 16 rows and 32 columns"),
        (
            lambda: pack(torch.ones(16, 32, device="meta"), None, "int4"),
            "quantize='int4' must be None, 'bfloat16' or 'int8' on",
        ),
        (lambda: Int4Linear(torch.ones(16, 32, device="meta")), "weight is on device meta; it must be on a CPU"),
    ],
)
def test_what_cannot_be_packed_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
