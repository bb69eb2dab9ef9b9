"""Rules of the architecture checker: what makes a network slow on an HTP.

Sources: the vendor's reference, section on qnn-architecture-checker, and its public guidelines for
networks on the HTP (low depth, number of channels, activation functions, datatypes). They state no
factors, and the emulator does not confirm any: it computes the results of an HTP, not its times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dovetail.api.architecture import Issue
from dovetail.ir import (
    Array,
    DType,
    Graph,
    Node,
    Pass,
    ScaleOffset,
    Tensor,
    TensorKind,
    dequantize,
    quantize,
)
from dovetail.ops import bind_node
from dovetail_opset import PACKAGE, is_op
from dovetail_opset.build import replace_op
from dovetail_opset.passes import multiply_instead, reciprocals_of

# The matrix unit computes and stores channels in groups of this size.
_GROUP = 32
# Padding that adds less than this share of the channels is no issue.
_MAX_PADDING = 0.25

_CONVOLUTIONS = (
    "Conv2d",
    "Conv3d",
    "DepthWiseConv2d",
    "TransposeConv2d",
    "TransposeConv3d",
)
# What the matrix unit does not compute together with the convolution before it.
_NOT_FUSED = (
    "ElementWiseSoftplus",
    "Elu",
    "Gelu",
    "Sigmoid",
    "Tanh",
)


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit of a param; `holds` takes its value and the rank of the first input."""

    param: str
    holds: Callable[[Any, int], bool]
    allowed: str
    recommendation: str


_LAST_AXIS = _Limit(
    "axis", lambda axis, rank: axis == rank - 1, "the last axis", "transpose the axis to the end"
)
_LAST_AXES = _Limit(
    "axes",
    lambda axes, rank: np.array_equal(axes, [rank - 1]),
    "the last axis alone",
    "transpose to the end, or join axes with a Reshape",
)
# Source: the op definition supplement of the HTP in the vendor's reference, version 2.25. Not here:
# limits of single types, and those of InstanceNorm, Lrn, Lstm, Resize and the color conversions.
_LIMITS: Mapping[str, _Limit] = {
    "FullyConnected": _Limit(
        "keep_dims", lambda kept, _: not kept, "False", "add a Reshape after it"
    ),
    "LayerNorm": _LAST_AXES,
    "LogSoftmax": _LAST_AXIS,
    "RmsNorm": _LAST_AXES,
    "Softmax": _LAST_AXIS,
    "TopK": _Limit(
        "largest", lambda largest, _: bool(largest), "True", "negate the input and the values"
    ),
}


class FewChannels:
    """Convolutions of fewer than 32 channels."""

    name: ClassVar[str] = "channels"
    change: ClassVar[Pass | None] = None

    def issues(self, graph: Graph) -> Iterator[Issue]:
        """Yield the convolutions whose input or output has fewer channels."""
        for node in _nodes(graph, *_CONVOLUTIONS):
            few = [t for t in _ends(node) if t.shape[-1] < _GROUP]
            if few:
                numbers = " and ".join(f"{t.shape[-1]} in '{t.name}'" for t in few)
                yield Issue(
                    node,
                    f"fewer than {_GROUP} channels: {numbers}; the matrix unit computes "
                    f"{_GROUP} at a time",
                    f"use at least {_GROUP} channels, for example after space-to-depth",
                )


class PaddedChannels:
    """Convolutions whose numbers of channels need much padding."""

    name: ClassVar[str] = "padding"
    change: ClassVar[Pass | None] = None

    def issues(self, graph: Graph) -> Iterator[Issue]:
        """Yield the convolutions from 32 channels that are padded by a quarter or more."""
        for node in _nodes(graph, *_CONVOLUTIONS):
            channels = [t.shape[-1] for t in _ends(node)]
            if min(channels) < _GROUP:
                continue
            worst = max(channels, key=_padding)
            if _padding(worst) >= _MAX_PADDING:
                yield Issue(
                    node,
                    f"{worst} channels are stored as {worst + -worst % _GROUP}, "
                    f"{_padding(worst):.0%} more",
                    f"use a multiple of {_GROUP}",
                )


class WideActivations:
    """Graphs with 16-bit activations."""

    name: ClassVar[str] = "activation16"
    change: ClassVar[Pass | None] = None

    def issues(self, graph: Graph) -> Iterator[Issue]:
        """Yield one issue for a graph whose nodes compute 16-bit values."""
        results = [t for node in graph.nodes for t in node.outputs]
        wide = [t for t in results if t.dtype.bits == 16 and not t.dtype.is_int]
        if wide:
            yield Issue(
                None,
                f"{len(wide)} of {len(results)} activations have 16 bits, and take twice the "
                "memory of 8-bit ones",
                "use 8 bits where the accuracy allows it",
            )


class SlowActivations:
    """Activation functions that are not computed together with the convolution before them."""

    name: ClassVar[str] = "activation"
    change: ClassVar[Pass | None] = None

    def issues(self, graph: Graph) -> Iterator[Issue]:
        """Yield the activation functions that directly follow a convolution."""
        for node in _nodes(graph, *_NOT_FUSED):
            before = graph.producer(_first(node))
            if before is not None and is_op(before, *_CONVOLUTIONS):
                yield Issue(
                    node,
                    f"{node.op_type} cannot be computed together with the convolution "
                    f"'{before.name}'",
                    "use Relu, ReluMinMax or HardSwish, and train again",
                )


@dataclass(frozen=True, slots=True)
class MultiplyByReciprocal:
    """Replace divisions by a constant by multiplications with its reciprocal."""

    name: str = "elwisediv"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found = [
            (node, stored)
            for node in _nodes(graph, "ElementWiseDivide")
            if (stored := _reciprocal(node.inputs[1])) is not None
        ]
        for node, (values, encoding) in found:
            multiply_instead(graph, node, values, encoding)
        return bool(found)


class Divisions:
    """Elementwise divisions."""

    name: ClassVar[str] = "elwisediv"
    change: ClassVar[Pass | None] = MultiplyByReciprocal()

    def issues(self, graph: Graph) -> Iterator[Issue]:
        """Yield the divisions; those by a constant can be modified."""
        for node in _nodes(graph, "ElementWiseDivide"):
            is_constant = _reciprocal(node.inputs[1]) is not None
            yield Issue(
                node,
                "ElementWiseDivide is slower than ElementWiseMultiply",
                "multiply with the reciprocal",
                "ElementWiseMultiply with the reciprocal of the constant" if is_constant else "",
            )


@dataclass(frozen=True, slots=True)
class ReluForPrelu:
    """Replace Prelu by Relu; results change where the input is negative."""

    name: str = "prelu"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found = _nodes(graph, "Prelu")
        for node in found:
            slope = _input(node, 1)
            replace_op(graph, node, "Relu", [_first(node)])
            if slope.kind is TensorKind.STATIC and not graph.is_read(slope):
                graph.remove_tensor(slope)
        return bool(found)


class LimitedParams:
    """Values of params that an HTP does not take, though the emulator computes them."""

    name: ClassVar[str] = "params"
    change: ClassVar[Pass | None] = None

    def issues(self, graph: Graph) -> Iterator[Issue]:
        """Yield the nodes with such a value."""
        for node in _nodes(graph, *_LIMITS):
            limit = _LIMITS[node.op_type]
            op = bind_node(PACKAGE.schemas[node.op_type], node)
            found = getattr(op, limit.param)
            if not limit.holds(found, len(_first(node).shape)):
                yield Issue(
                    node,
                    f"{limit.param} is {_text(found)}; an HTP takes {limit.allowed}",
                    limit.recommendation,
                )


class Prelus:
    """Prelu nodes."""

    name: ClassVar[str] = "prelu"
    change: ClassVar[Pass | None] = ReluForPrelu()

    def issues(self, graph: Graph) -> Iterator[Issue]:
        """Yield the Prelu nodes; all can be modified."""
        for node in _nodes(graph, "Prelu"):
            yield Issue(
                node,
                "Prelu is slower than Relu",
                "use Relu, and train again",
                "Relu, which returns 0 for negative inputs",
            )


def _nodes(graph: Graph, *op_types: str) -> list[Node]:
    return [node for node in graph.nodes if is_op(node, *op_types)]


def _input(node: Node, index: int) -> Tensor:
    found = node.inputs[index]
    if found is None:
        raise AssertionError(f"{node.where} has no in[{index}]")
    return found


def _first(node: Node) -> Tensor:
    return _input(node, 0)


def _ends(node: Node) -> Iterable[Tensor]:
    """Return the input and the output of a convolution, whose last axis has the channels."""
    return (_first(node), node.outputs[0])


def _text(value: object) -> str:
    return str(value.tolist() if isinstance(value, np.ndarray) else value)


def _padding(channels: int) -> float:
    """Return the padding of channels to whole groups, in proportion to them."""
    return -channels % _GROUP / channels


def _reciprocal(tensor: Tensor | None) -> tuple[Array, ScaleOffset | None] | None:
    """Return the stored reciprocals of a constant and their encoding; None if there are none.

    Those of quantized constants have one encoding of their own.
    """
    if tensor is None or tensor.kind is not TensorKind.STATIC or tensor.data is None:
        return None
    encoding = tensor.encoding
    if not isinstance(encoding, ScaleOffset):
        found = reciprocals_of(tensor)
        return None if found is None else (found, None)
    real = dequantize(tensor.values(), encoding)
    if not (real.size and np.all(real)):
        return None
    inverse = 1 / real
    own = _range_encoding(inverse, tensor.dtype, encoding.bitwidth)
    return quantize(inverse, own, tensor.dtype), own


def _range_encoding(real: Array, dtype: DType, bitwidth: int | None) -> ScaleOffset:
    """Return the encoding with the smallest steps whose range has 0 and all values."""
    low, high = min(float(real.min()), 0.0), max(float(real.max()), 0.0)
    first, last = dtype.stored_range(bitwidth)
    if dtype.is_signed:
        return ScaleOffset(max(-low, high) / last, 0, bitwidth)
    scale = (high - low) / (last - first)
    return ScaleOffset(scale, round(low / scale), bitwidth)
