"""The graph of a function: the operators of PyTorch that it calls, written so that a page without PyTorch runs them."""

import base64
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.export import default_decompositions
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from llm_anatomy.layers.quantization import dequantize_rows, quantize_rows

KINDS = {torch.bool: "b", torch.int32: "i", torch.int64: "i", torch.float32: "f", torch.float64: "f"}
STORED = {"b": "u1", "i": "<i4", "f": "<f4", "q": "i1"}
DEFAULTS = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "requires_grad", "generator")
SAME = ("alias", "detach", "lift_fresh_copy")  # operators whose result is what they are given


def export(
    function: Callable[..., Mapping[str, Tensor]], inputs: Mapping[str, Tensor], pool: list | None = None
) -> dict:
    """Export a function of tensors to a graph in JSON's types.

    The graph has ``inputs``, ``nodes`` and ``outputs``. A value is an input, a constant or the result of a node,
    numbered in this order; a node is ``[operator, arguments, kind, shape]``, where a string of digits among the
    arguments is the number of a value. Kinds are "f" (float32), "i" (int32) and "b" (Boolean). Constants stand in
    ``pool``, which several graphs may share, as ``[kind, shape, base64]``. A large matrix of which 8 bits with a scale
    for each row say all, such as that of a stored model, is stored so, with the scales as a fourth entry.

    Args:
        function: called with the inputs by name; returns tensors by name. Its operators must be core ATen ones, the
            shapes of its results must not depend on values, and the modules it uses must have been made before.
        inputs: example tensors by name; only their shapes and dtypes count.
        pool: the constants exported before.

    Raises:
        ValueError: for a dtype that the page does not have, and for a function that reads a value, whose shapes depend
            on values, or that makes a module or a parameter.

    >>> graph = export(lambda x: {"twice": 2 * x}, {"x": torch.tensor([1.0, 3.0])})
    >>> graph["nodes"], graph["outputs"]
    ([['mul', ['0', 2], 'f', [2]]], {'twice': 1})
    """
    traced = _traced(function, inputs)
    pool = [] if pool is None else pool
    numbers = {node: n for n, node in enumerate(traced.graph.find_nodes(op="placeholder"))}
    constants, nodes = [], []
    for node in traced.graph.find_nodes(op="get_attr"):
        numbers[node] = len(numbers)
        constant = _stored(getattr(traced, node.target))
        if constant not in pool:
            pool.append(constant)
        constants.append(pool.index(constant))
    n_values = len(numbers)
    for node in traced.graph.nodes:
        if node.op == "call_function" and _name(node) in SAME:
            numbers[node] = numbers[node.args[0]]
        elif node.op == "call_function":
            arguments = [_argument(argument, numbers) for argument in _arguments(node)]
            numbers[node] = n_values + len(nodes)
            nodes.append([_name(node), arguments, *_result(node.meta["val"])])
    (returned,) = traced.graph.output_node().args
    outputs = {name: numbers[node] for name, node in returned.items()}
    return {"inputs": list(inputs), "constants": constants, "nodes": nodes, "outputs": outputs}


class _ReadsNoIndex(TorchFunctionMode):
    """Within it, an integer tensor without axes is an index whose value is not read, and may be any in the graph."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.__getitem__:
            args = _selected(*args)
        return function(*args, **(kwargs or {}))


def _selected(x: Tensor, index) -> tuple:
    """The tensor and the index that are left when those entries of the index are applied which are scalar tensors."""
    index, axis, selected = index if isinstance(index, tuple) else (index,), 0, {}
    n_axes = [item.ndim if getattr(item, "dtype", None) == torch.bool else item is not None for item in index]
    for item, taken in zip(index, n_axes, strict=True):
        if item is Ellipsis:
            taken = 1 + x.ndim - sum(n_axes)
        elif isinstance(item, Tensor) and not item.ndim and not item.is_floating_point() and item.dtype != torch.bool:
            selected[axis] = item
        axis += taken
    for axis, item in reversed(selected.items()):
        x = x.index_select(axis, item[None]).squeeze(axis)
    return x, tuple(item for item in index if not any(item is one for one in selected.values()))


def _traced(function: Callable, inputs: Mapping[str, Tensor]) -> torch.fx.GraphModule:
    """The core operators that a function calls. ``torch.export`` takes 5 to 8 times as long to find them."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode  # half a second, for tracing alone

    def positional(*tensors):
        return function(**dict(zip(inputs, tensors, strict=True)))

    trace = make_fx(
        functionalize(positional, remove="mutations"),
        decomposition_table=_decompositions(),
        tracing_mode="fake",
        _allow_non_fake_inputs=True,
    )
    without_checks = mock.patch.object(torch.compiler, "is_compiling", lambda: True)  # those that read values
    quiet = warnings.catch_warnings(action="ignore", category=FutureWarning)  # PyTorch's own
    try:
        with torch.no_grad(), quiet, _ReadsNoIndex(), without_checks:
            traced = trace(*inputs.values())
    except GuardOnDataDependentSymNode as error:
        raise ValueError(
            "the function reads a value, as `if x > 0` and `int(x)` do; torch.where and index_select do without"
        ) from error
    traced.graph.eliminate_dead_code()
    return traced


@cache
def _decompositions() -> dict:
    """What makes core operators of the others."""
    return dict(default_decompositions())


def _name(node) -> str:
    if node.target is operator.getitem:
        return "getitem"
    name, overload = node.target._overloadpacket.__name__, node.target._overloadname
    name = name.removesuffix("_")  # parts of a few operators write over their argument; who reads it reads the node
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
        if not all(isinstance(size, int) for size in value.shape):
            raise ValueError(
                "a shape depends on values; a page needs one shape for all, such as that of a padded tensor"
            )
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
    if isinstance(tensor, FakeTensor):
        raise ValueError(
            f"the function makes a parameter of shape {list(tensor.shape)}; make it, or its module, outside of it"
        )
    kind, shape, tensor = _kind(tensor.dtype), list(tensor.shape), tensor.detach().cpu()
    if kind == "f" and tensor.ndim == 2 and tensor.numel() >= 4096:
        integers, scales = quantize_rows(tensor)
        if torch.allclose(dequantize_rows(integers, scales), tensor.float(), rtol=1e-6, atol=0):
            return ["q", shape, _base64(integers.numpy(), "q"), _base64(scales.numpy(), "f")]
    return [kind, shape, _base64(tensor.numpy(), kind)]


def _base64(array: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, STORED[kind]).tobytes()).decode()
