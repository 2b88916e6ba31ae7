"""The graph of a function: what ``torch.export`` makes of it, written so that a page without PyTorch can run it."""

import base64
import math
import operator
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from llm_anatomy.layers.quantization import dequantize_rows, quantize_rows

KINDS = {torch.bool: "b", torch.int32: "i", torch.int64: "i", torch.float32: "f", torch.float64: "f"}
STORED = {"b": "u1", "i": "<i4", "f": "<f4", "q": "i1"}
DEFAULTS = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "requires_grad", "generator")


class _Module(torch.nn.Module):
    def __init__(self, function: Callable, module: torch.nn.Module | None):
        super().__init__()
        self.function, self.module = function, module

    def forward(self, inputs):
        return self.function(**inputs)


def export(
    function: Callable[..., Mapping[str, Tensor]],
    inputs: Mapping[str, Tensor],
    pool: list | None = None,
    *,
    module: torch.nn.Module | None = None,
) -> dict:
    """Export a function of tensors to a graph in JSON's types.

    The graph has ``inputs``, ``nodes`` and ``outputs``. A value is an input, a constant or the result of a node,
    numbered in this order; a node is ``[operator, arguments, kind, shape]``, where a string of digits among the
    arguments is the number of a value. Kinds are "f" (float32), "i" (int32) and "b" (Boolean). Constants stand in
    ``pool``, which several graphs may share, as ``[kind, shape, base64]``. A large matrix of which 8 bits with a scale
    for each row say all, such as that of a stored model, is stored so, with the scales as a fourth entry.

    Args:
        function: called with the inputs by name; returns tensors by name. Its operators must be core ATen ones, and the
            shapes of its results must not depend on values.
        inputs: example tensors by name; only their shapes and dtypes count.
        pool: the constants exported before.
        module: the module whose parameters the function uses.

    Raises:
        ValueError: for a dtype that the page does not have.

    >>> graph = export(lambda x: {"twice": 2 * x}, {"x": torch.tensor([1.0, 3.0])})
    >>> graph["nodes"], graph["outputs"]
    ([['mul', ['0', 2], 'f', [2]]], {'twice': 1})
    """
    with torch.no_grad(), warnings.catch_warnings(action="ignore", category=FutureWarning):  # PyTorch's own
        program = torch.export.export(_Module(function, module), (dict(inputs),), strict=False).run_decompositions()
    signature = program.graph_signature
    tensors = {**program.state_dict, **program.constants}
    lifted = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    lifted |= signature.inputs_to_lifted_tensor_constants
    pool = [] if pool is None else pool
    numbers, constants, nodes = {}, [], []
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for number, name in enumerate([n for n in placeholders if n.name not in lifted]):
        numbers[name] = number
    for node in placeholders:
        if node.name in lifted and node.users:
            numbers[node] = len(numbers)
            constant = _stored(tensors[lifted[node.name]])
            if constant not in pool:
                pool.append(constant)
            constants.append(pool.index(constant))
    for node in program.graph.nodes:
        if node.op == "call_function" and not _is_check(node):
            numbers[node] = len(numbers)
            nodes.append([_name(node), [_argument(a, numbers) for a in _arguments(node)], *_result(node.meta["val"])])
    (returned,) = program.graph.output_node().args
    names = torch.utils._pytree.tree_unflatten(list(range(len(returned))), program.call_spec.out_spec)
    outputs = {name: numbers[returned[position]] for name, position in names.items()}
    return {"inputs": list(inputs), "constants": constants, "nodes": nodes, "outputs": outputs}


def _is_check(node) -> bool:
    """Whether a node only checks a value: it has no result that another uses."""
    return "assert" in str(node.target) or "sym_constrain" in str(node.target) or not node.users


def _name(node) -> str:
    if node.target is operator.getitem:
        return "getitem"
    name, overload = node.target._overloadpacket.__name__, node.target._overloadname
    return f"{name}_{overload}" if (name, overload) in (("max", "dim"), ("min", "dim"), ("sort", "stable")) else name


def _arguments(node) -> list:
    """All arguments of a node in the order of its schema, those at their defaults included."""
    if node.target is operator.getitem:
        return list(node.args)
    arguments = []
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.name in DEFAULTS:
            continue
        default = node.kwargs.get(argument.name, argument.default_value)
        arguments.append(node.args[position] if position < len(node.args) else default)
    return arguments


def _argument(value, numbers):
    if isinstance(value, torch.fx.Node):
        return str(numbers[value])
    if isinstance(value, (list, tuple)):
        return [_argument(item, numbers) for item in value]
    if isinstance(value, torch.dtype):
        return _kind(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return int(value) if isinstance(value, bool) else value


def _result(value) -> tuple:
    if isinstance(value, Tensor):
        return _kind(value.dtype), list(value.shape)
    if isinstance(value, (list, tuple)):
        kinds, shapes = zip(*(_result(item) for item in value), strict=True)
        return list(kinds), list(shapes)
    return "i", []


def _kind(dtype: torch.dtype) -> str:
    if dtype not in KINDS:
        allowed = ", ".join(str(name).removeprefix("torch.") for name in KINDS)
        raise ValueError(f"{dtype=} cannot be exported to a page; it must be one of {allowed}")
    return KINDS[dtype]


def _stored(tensor: Tensor) -> list:
    """A constant as ``[kind, shape, base64]``, or with integers and scales where these say as much."""
    kind, shape, tensor = _kind(tensor.dtype), list(tensor.shape), tensor.detach().cpu()
    if kind == "f" and tensor.ndim == 2 and tensor.numel() >= 4096:
        integers, scales = quantize_rows(tensor)
        if torch.allclose(dequantize_rows(integers, scales), tensor.float(), rtol=1e-6, atol=0):
            return ["q", shape, _base64(integers.numpy(), "q"), _base64(scales.numpy(), "f")]
    return [kind, shape, _base64(tensor.numpy(), kind)]


def _base64(array: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, STORED[kind]).tobytes()).decode()
