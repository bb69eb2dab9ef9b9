"""Bounds of magnitudes, which exclude NaN: steps then need not search for it.

They follow from the levels of dequantized tensors and from constants, through ops whose results are
numbers if their operands are. Infinite means that nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dovetail.ir import DataFormat, DType, Node, Scalar, Tensor
from dovetail.runtime.plan import KernelCall
from dovetail_opset import STANDARD
from dovetail_opset.families import FAMILIES

_DEEPEST = 6  # maximum of nodes before a value that are checked
_MOST_CONSTANTS = 1 << 22  # maximum of elements of a constant that are checked
# Larger ones may overflow within an op, and a difference of infinities is NaN.
_LARGEST = 1e15

_Rule = Callable[[Node, Sequence[float]], float]


def has_no_nan(call: KernelCall, index: int) -> bool:
    """Return whether an input of a call can have no NaN and no infinity."""
    return _bound(call, call.tensors[index]) < math.inf


def _bound(call: KernelCall, tensor: Tensor | None, depth: int = 0) -> float:
    """Return a number that no magnitude of a tensor's elements exceeds."""
    if tensor is None:
        return 0.0
    if tensor.dtype.is_fixed_point:
        return _limited(_of_levels(tensor))
    if tensor.dtype is not DType.FLOAT_32 or 0 in tensor.shape:
        return math.inf  # nothing's maximum is infinite
    if tensor.data is not None:
        return _limited(_of_constant(tensor))
    node = call.writer(tensor)
    if node is None or depth == _DEEPEST or node.package != STANDARD:
        return math.inf
    if node.op_type == "Dequantize":
        return _bound(call, node.inputs[0])
    rule = _RULES.get(node.op_type)
    if rule is None:
        return math.inf
    # Not indices and conditions; weights of a float node may be stored in fixed point.
    read = [t for t in node.inputs if t is None or t.dtype.is_float or t.dtype.is_fixed_point]
    return _limited(rule(node, [_bound(call, each, depth + 1) for each in read]))


def _limited(bound: float) -> float:
    return bound if bound <= _LARGEST else math.inf  # NaN, too, is infinite then


def _of_constant(tensor: Tensor) -> float:
    is_plain = tensor.data_format is DataFormat.DENSE and not tensor.kind.is_updateable
    if not is_plain or math.prod(tensor.shape) > _MOST_CONSTANTS:
        return math.inf
    return float(np.abs(tensor.values()).max())


def _of_levels(stored: Tensor) -> float:
    """Return the bound of a dequantized tensor, whatever integers it stores."""
    if stored.encoding is None or not stored.encoding.is_convertible:
        return math.inf
    scale, offset = stored.encoding.scales_and_offsets(stored.shape)
    levels = np.maximum(*(np.abs(end + offset) for end in stored.dtype.stored_range()))
    return float((levels.astype(np.float64) * scale).max(initial=0))


def _largest(node: Node, bounds: Sequence[float]) -> float:
    return max(bounds)


def _at_most_one(node: Node, bounds: Sequence[float]) -> float:
    return max(1.0, *bounds)


def _of_softmax(node: Node, bounds: Sequence[float]) -> float:
    # Another beta may multiply numbers beyond float32.
    return math.inf if "beta" in node.params else max(1.0, *bounds)


def _of_windows(node: Node, bounds: Sequence[float]) -> float:
    """Return the bound of a pool: a window in the padding alone has no maximum and no mean."""
    sizes, pads = node.params["filter_size"], node.params.get("pad_amount")
    rounding = node.params.get("rounding_mode")
    if isinstance(rounding, Scalar) and rounding.value:
        return math.inf  # the last window may begin after the data
    if pads is None:
        return max(bounds)
    if not isinstance(sizes, Tensor) or not isinstance(pads, Tensor):
        return math.inf
    meet_data = (pads.values() < sizes.values()[:, None]).all()
    return max(bounds) if meet_data else math.inf


def _sum(node: Node, bounds: Sequence[float]) -> float:
    return sum(bounds)


def _product(node: Node, bounds: Sequence[float]) -> float:
    return math.prod(bounds)


def _sum_of_all(node: Node, bounds: Sequence[float]) -> float:
    return _size(node, 0) * bounds[0]


def _sum_of_products(node: Node, bounds: Sequence[float]) -> float:
    x, weights, *bias = bounds
    return min(_size(node, 0), _size(node, 1)) * x * weights + sum(bias)


def _size(node: Node, index: int) -> int:
    tensor = node.inputs[index]
    return 0 if tensor is None else math.prod(tensor.shape)


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(("ElementWiseAdd", "ElementWiseSubtract"), _sum),
    "ElementWiseMultiply": _product,
    **dict.fromkeys(
        (
            *("ChannelShuffle", "Concat", "DepthToSpace", "ElementWiseAbs", "ElementWiseMaximum"),
            *("ElementWiseMinimum", "ElementWiseNeg", "ElementWiseSelect", "Gather", "ReduceMax"),
            *("ReduceMean", "ReduceMin", "Relu", "Reshape", "SpaceToDepth"),
            *("Split", "StridedSlice", "Tile", "Transpose"),
        ),
        _largest,
    ),
    **dict.fromkeys(("PoolAvg2d", "PoolMax2d"), _of_windows),
    **dict.fromkeys(("Sigmoid", "Tanh"), _at_most_one),
    "Softmax": _of_softmax,
    "ReduceSum": _sum_of_all,
    **dict.fromkeys(
        (*FAMILIES["convolution"], *FAMILIES["matrix"], *FAMILIES["transposed"]), _sum_of_products
    ),
}
