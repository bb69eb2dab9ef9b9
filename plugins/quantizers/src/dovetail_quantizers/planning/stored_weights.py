"""Stored weights and biases of a model that was quantized before."""

from __future__ import annotations

import math
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError, counted
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    dequantize,
    quantize,
)
from dovetail.ops import OpRegistry
from dovetail.quantization import Bias, Difference, Granularity, Sharing, Weight
from dovetail_quantizers.planning.columns import put_back_where
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.grid_recovery import recover_grid
from dovetail_quantizers.planning.overrides import (
    GIVEN_BY_MODEL,
    STATED_BY_MODEL,
    Overrides,
    change_of,
    keep_float,
)
from dovetail_quantizers.planning.precision import Float
from dovetail_quantizers.planning.roles import inputs_with_roles, weight_axes
from dovetail_quantizers.planning.rules import is_quantized, kept_by
from dovetail_quantizers.planning.value_range import values_of

_ON_NO_GRID = "are on no grid of 8 or 16 bits: they are quantized as float weights"
_ASYMMETRIC = (
    "keep the offsets of channels or blocks from the model; the SDK accepts only scales there"
)
_SHARES_ONE_SCALE = (
    "has several scales in the model, but parts of it become a tensor that can have only one: "
    "quantized with one scale"
)
# Scales may be float16: their products with 8-bit integers have errors of up to 1/16 of a step.
_NEAR = 0.125


def recover_encodings(graph: Graph, ops: OpRegistry, found: Overrides) -> None:
    """Recover the encodings of weights; their biases get 32 bits, as in such models.

    Args:
        graph: Changed if weights have blocks: their columns get the order of the blocks.
        ops: Finds ops.
        found: The encodings of activations; those of constants are added.
    """
    _take_open(graph, found)
    searches = any(change_of(encoded) == "encoding" for encoded in found.encodings.values())
    is_stated = _states_activations(graph)
    put_back_where(graph, lambda tensor: _has_blocks(graph.source_encodings.get(tensor.source)))
    shared = {t for node in graph.nodes for t in kept_by(node, ops, Sharing.SHARE)[0]}
    for node, tensor, role in inputs_with_roles(graph, ops):
        if not tensor.kind.is_static or not is_quantized(tensor) or not tensor.shape:
            continue
        if _is_open(graph, tensor) or (is_stated and _take_stated(graph, tensor, found)):
            continue
        if tensor in shared and _has_several_scales(graph, tensor):
            found.remarks[tensor] = _SHARES_ONE_SCALE
        elif isinstance(role, Bias):
            if searches or tensor.source in graph.source_encodings:
                _take_bias(graph, tensor, found)
        elif isinstance(role, Weight) and tensor not in found.encodings:
            axis, _ = weight_axes(role, node, len(tensor.shape))
            if not _take_stored(graph, tensor, "weight", found) and searches:
                _search(tensor, axis, found)
        elif role is None and not _is_sum(graph, tensor):
            _take_stored(graph, tensor, "constant", found)


def _has_blocks(grid: Spec | None) -> bool:
    return grid is not None and isinstance(grid.encoding, Block | BlockwiseExpansion)


def _has_several_scales(graph: Graph, tensor: Tensor) -> bool:
    spec = _recorded(graph, tensor)
    return spec is not None and not isinstance(spec.encoding, ScaleOffset | NoneType)


def _is_sum(graph: Graph, tensor: Tensor) -> bool:
    """Return whether a constant has the 32 bits of a bias, which only sums of products have."""
    spec = graph.source_encodings.get(tensor.source)
    return spec is not None and spec.dtype.bits > 16


def leave_to_channels(graph: Graph, ops: OpRegistry, found: Overrides) -> None:
    """Remove the encodings of filters with one scale for all channels.

    They get one scale per channel instead, as in the SDK.

    Args:
        graph: Not changed.
        ops: Finds ops.
        found: The encodings of the model.
    """
    left: dict[str, None] = {}
    for _, tensor, role in inputs_with_roles(graph, ops):
        given = found.encodings.get(tensor)
        are_filters = isinstance(role, Weight) and role.granularity is Granularity.CHANNEL
        if are_filters and given is not None and isinstance(given.encoding, ScaleOffset):
            del found.encodings[tensor]
            found.remarks.pop(tensor, None)
            found.covered.discard(tensor.source)
            left[tensor.source] = None
    found.changes = [c for c in found.changes if c.kind != "weight" or c.tensor not in left]
    text = "left out: use_per_channel_quantization gives each channel its own scale"
    found.changes += [Difference(tensor=name, kind="dropped", text=text) for name in left]


def _take_bias(graph: Graph, tensor: Tensor, found: Overrides) -> None:
    found.widths.setdefault(tensor, 32)
    spec = graph.source_encodings.get(tensor.source)
    if spec is None or spec.dtype is DType.SFIXED_POINT_32:
        text = "derived again: scale of the input x scale of the weights"
    else:
        text = f"derived again, in 32 bits, where the model has {spec.dtype.name}"
    found.change(tensor, "bias", text)


def _take_stored(graph: Graph, tensor: Tensor, kind: str, found: Overrides) -> bool:
    """Use the encoding that the frontend recorded, if the values are still on its grid."""
    grid = stored_grid(graph, tensor)
    if grid is None or grid.encoding is None:
        return False
    found.encodings[tensor] = EncodingDecision(grid.dtype, grid.encoding, GIVEN_BY_MODEL)
    found.remarks.pop(tensor, None)
    found.covered.add(tensor.source)
    found.change(
        tensor, kind, f"keeps its integers: {describe_encoding(grid.dtype, grid.encoding)}"
    )
    if not isinstance(grid.encoding, ScaleOffset) and np.any(
        grid.encoding.scales_and_offsets(tensor.shape)[1]
    ):
        found.remarks[tensor] = _ASYMMETRIC
    return True


def stored_grid(graph: Graph, tensor: Tensor) -> Spec | None:
    """Return the recorded encoding of a static float tensor, in the tensor's layout.

    None if there is none, or if the values were changed and are no longer on its grid.
    """
    spec = _recorded(graph, tensor)
    if spec is None or spec.encoding is None:
        return None
    return spec if _is_on(values_of(tensor), spec.dtype, spec.encoding) else None


def _recorded(graph: Graph, tensor: Tensor) -> Spec | None:
    """Return the recorded encoding of a tensor, in its layout; None without one."""
    spec = graph.source_encodings.get(tensor.source)
    if spec is None or spec.encoding is None:
        return None
    encoding, shape = spec.encoding, spec.shape
    try:
        perm = tensor.source_perm
        if perm is not None and len(perm) == len(shape):
            encoding, shape = encoding.transposed(perm), tuple(shape[p] for p in perm)
        if shape != tensor.shape:
            if math.prod(shape) != math.prod(tensor.shape):
                return None
            encoding = encoding.reshaped(shape, tensor.shape)
    except QuantizationError:
        return None
    return Spec(spec.dtype, tensor.shape, encoding)


def take_stated(graph: Graph, found: Overrides) -> None:
    """Use the encodings that a float model states for its activations."""
    for tensor in graph.tensors.values():
        if tensor.kind.is_static or not is_quantized(tensor) or tensor in found.encodings:
            continue
        _take_stated(graph, tensor, found)


def _take_stated(graph: Graph, tensor: Tensor, found: Overrides) -> bool:
    """Use the encoding that a float model states for a tensor; return whether it does."""
    spec = _recorded(graph, tensor)
    if spec is None or spec.encoding is None:
        return False
    found.encodings[tensor] = EncodingDecision(spec.dtype, spec.encoding, STATED_BY_MODEL)
    found.covered.add(tensor.source)
    found.change(tensor, "stated", describe_encoding(spec.dtype, spec.encoding))
    return True


def _take_open(graph: Graph, found: Overrides) -> None:
    """Use the bitwidths that a float model states without encodings, and what it keeps float."""
    for tensor in graph.tensors.values():
        if not is_quantized(tensor) or not _is_open(graph, tensor):
            continue
        dtype = graph.source_encodings[tensor.source].dtype
        if dtype.is_float:
            text = f"float{dtype.bits}"
            keep_float(tensor, graph, Float(dtype.bits, STATED_BY_MODEL), found)
        else:
            text = f"{dtype.bits} bits"
            found.widths[tensor] = dtype.bits
        found.covered.add(tensor.source)
        found.change(tensor, "stated", text)


def _is_open(graph: Graph, tensor: Tensor) -> bool:
    """Return whether a float model states something about a tensor, but no encoding."""
    spec = graph.source_encodings.get(tensor.source)
    if spec is None or spec.encoding is not None:
        return False
    return spec.dtype.is_fixed_point or spec.dtype in (DType.FLOAT_16, DType.FLOAT_32)


def _states_activations(graph: Graph) -> bool:
    """Return whether a float model states facts of activations, as from an encodings file.

    Those of its constants are then stated, too; otherwise they say how the constants were stored.
    """
    return any(
        not tensor.kind.is_static
        and is_quantized(tensor)
        and (_is_open(graph, tensor) or _recorded(graph, tensor) is not None)
        for tensor in graph.tensors.values()
    )


def _is_on(values: NDArray[np.float32], dtype: DType, encoding: Encoding) -> bool:
    stored = quantize(values, encoding, dtype)
    scales, _ = encoding.scales_and_offsets(values.shape)
    distance = np.abs(dequantize(stored, encoding) - values)
    return bool((distance <= _NEAR * scales).all())


def _search(tensor: Tensor, axis: int | None, found: Overrides) -> None:
    grid = recover_grid(values_of(tensor), axis)
    if grid is None:
        found.remarks[tensor] = _ON_NO_GRID
        found.change(tensor, "weight", "on no grid: quantized as float weights are")
        return
    dtype, encoding = grid
    found.encodings[tensor] = EncodingDecision(dtype, encoding, GIVEN_BY_MODEL)
    found.remarks.pop(tensor, None)  # another node reads it along another axis
    found.change(
        tensor, "weight", f"grid recovered from its values: {describe_encoding(dtype, encoding)}"
    )
    if isinstance(encoding, AxisScaleOffset) and encoding.offsets is not None:
        found.remarks[tensor] = _ASYMMETRIC


def describe_encoding(dtype: DType, encoding: Encoding) -> str:
    """Return a type and an encoding in words."""
    bits = "" if encoding.bitwidth is None else f" ({encoding.bitwidth} bits)"
    if isinstance(encoding, ScaleOffset):
        return f"{dtype.name}{bits}, scale {encoding.scale:.6g}, offset {encoding.offset}"
    scales = np.size(getattr(encoding, "scales", 0))
    return f"{dtype.name}{bits}, {counted(scales, 'scale')} ({encoding.kind.name})"
