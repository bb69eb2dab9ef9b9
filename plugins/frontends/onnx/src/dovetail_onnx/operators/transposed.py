"""Transposed convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import counted
from dovetail.ir import Array, Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import positive
from dovetail_opset.importing.layout import check_spatial, reshaped, spatial_input, spatial_output
from dovetail_opset.importing.windows import Pairs

_CONSTANT = 0  # Pad's scheme


@dataclass(frozen=True, slots=True)
class _Spread:
    """The windows of the output that elements spread over, for each spatial axis.

    Attributes:
        strides: Steps between windows.
        dilations: Distance between a window's elements.
        pads: Elements (before, after) removed from the output, not below 0.
        extra: Additional elements at its end.
        taps: Elements (before, after) of weight 0 that are added to the filters.
    """

    strides: Shape
    dilations: Shape
    pads: Pairs
    extra: Shape
    taps: Pairs

    @property
    def is_dilated(self) -> bool:
        """True if a dilation exceeds 1."""
        return any(d > 1 for d in self.dilations)


@ONNX.importer("ConvTranspose", versions=(1, 11, 22))
def conv_transpose(op: OpContext) -> Tensor:
    """TransposeConv2d or 3d; one dimension becomes two: no QNN backend has TransposeConv1d.

    Features that these ops lack are put into the filters: dilation in two dimensions as zeros
    between the weights, and output beyond all windows as zeros before or after them.
    """
    x, weight = op.spec(0).shape, op.spec(1).shape
    check_spatial(op, len(x))
    group = op.attr.integer("group", 1)
    _check_filters(op, x, weight, group)
    spread = _spread(op, weight[2:], x[2:])
    filters, spread = _filters(op, spread)
    flat = max(4 - len(x), 0)
    pads = ((0, 0),) * flat + spread.pads
    y = op.step(
        "channels_last",
        f"TransposeConv{len(pads)}d",
        [spatial_input(op), filters, op.optional(2)],
        stride=(1,) * flat + spread.strides,
        pad_amount=pads,
        group=group,
        output_padding=(0,) * flat + spread.extra,
        dilation=spread.dilations if len(pads) == 3 else None,
    )
    return spatial_output(op, y, len(x))


def _check_filters(op: OpContext, x: Shape, weight: Shape, group: int) -> None:
    if len(weight) != len(x) or min(weight[2:], default=1) < 1:
        raise op.invalid(f"filters {weight} do not match the input {x}")
    if (stated := op.attr.integers("kernel_shape")) and stated != weight[2:]:
        raise op.invalid(f"kernel_shape {stated} contradicts the filters {weight}")
    if group < 1 or x[1] != weight[0] or x[1] % group:
        raise op.invalid(
            f"filters {weight} in {counted(group, 'group')} do not match an input of "
            f"{counted(x[1], 'channel')}"
        )


def _spread(op: OpContext, kernel: Shape, spatial: Shape) -> _Spread:
    """Return the parameters that a node's attributes describe."""
    rank = len(spatial)
    strides, dilations = positive(op, "strides", rank), positive(op, "dilations", rank)
    extra = op.attr.integers("output_padding") or (0,) * rank
    if len(extra) != rank or min(extra) < 0:
        numbers = counted(rank, "number")
        raise op.invalid(f"output_padding must be {numbers}, none below 0, got {extra}")
    full = tuple(
        s * (n - 1) + (k - 1) * d + 1 + e
        for s, n, k, d, e in zip(strides, spatial, kernel, dilations, extra, strict=True)
    )
    pads = _pads(op, spatial, strides, extra, full)
    found = [_settled(e, pair) for e, pair in zip(extra, pads, strict=True)]
    return _Spread(
        strides,
        dilations,
        tuple((before, after) for _, _, before, after in found),
        tuple(extra for _, extra, _, _ in found),
        tuple((lead, 0) for lead, _, _, _ in found),
    )


def _settled(extra: int, pads: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return (elements before all windows, elements after, padding before, padding after).

    Negative padding is more output, and padding after it removes what would be left there.
    """
    before, after = pads
    net = after - extra
    return max(-before, 0), max(-net, 0), max(before, 0), max(net, 0)


def _pads(op: OpContext, spatial: Shape, strides: Shape, extra: Shape, full: Shape) -> Pairs:
    """Return the elements (before, after) to take off the `full` output of each axis.

    Numbers below 0 are added: to an output that is slightly larger than its windows, after them.
    """
    auto = op.attr.text("auto_pad", "NOTSET")
    rank = len(spatial)
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise op.invalid(
            f"unsupported auto_pad '{auto}'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"
        )
    wanted = op.attr.integers("output_shape")
    if not wanted and auto.startswith("SAME"):
        wanted = tuple(n * s for n, s in zip(spatial, strides, strict=True))
    if not wanted:
        given = op.attr.integers("pads") if auto == "NOTSET" else None
        given = given or (0,) * 2 * rank
        if len(given) != 2 * rank:
            raise op.invalid(f"pads must be {2 * rank} numbers, got {given}")
        return tuple(zip(given[:rank], given[rank:], strict=True))
    if len(wanted) != rank or min(wanted) < 1:
        numbers = counted(rank, "positive number")
        raise op.invalid(f"output_shape must be {numbers}, got {wanted}")
    totals = [extent - target for extent, target in zip(full, wanted, strict=True)]
    if any(e - total >= s for e, total, s in zip(extra, totals, strides, strict=True)):
        raise op.unsupported(
            f"output {wanted} is larger than the {full} that the windows reach, by a stride or "
            "more: no convolution of it has the input's shape",
            hint="state it with pads and output_padding",
        )
    return tuple(_halved(total, auto) for total in totals)


def _halved(total: int, auto: str) -> tuple[int, int]:
    """Return elements (before, after) to remove; those that no window reaches come after.

    ONNX's own tests do so, and ONNX Runtime, whose output under SAME_* is smaller there.
    """
    if total < 0:
        return 0, total
    less, more = total // 2, total - total // 2
    return (less, more) if auto == "SAME_UPPER" else (more, less)


def _filters(op: OpContext, spread: _Spread) -> tuple[Tensor, _Spread]:
    """Return the filters, (c, k, ...), as (..., c, k), and the remaining parameters."""
    rank = len(op.spec(1).shape)
    to_last = (*range(2, rank), 0, 1)
    spread = _without_excess(spread)
    grows = any(map(any, spread.taps))
    dilates = spread.is_dilated and (grows or rank < 5)
    known = op.constant(1)
    if known is not None and (grows or dilates or rank == 3):
        grown = _grown(op, known, spread).transpose(to_last)
        spread = replace(spread, dilations=(1,) * (rank - 2))
        # one axis becomes two
        grown = grown[None] if rank == 3 else grown
        return op.static("filters", grown, op.spec(1).dtype), spread
    filters = op.arranged(1, to_last)
    if dilates:
        filters = _dilated(op, filters, spread.dilations)
        spread = replace(spread, dilations=(1,) * (rank - 2))
    if grows:
        pads = (*spread.taps, (0, 0), (0, 0))
        filters = op.step("grown", "Pad", [filters], scheme=_CONSTANT, pad_amount=pads)
    if rank == 3:
        filters = reshaped(op, "filters", filters, (1, *filters.shape))
    return filters, spread


def _dilated(op: OpContext, filters: Tensor, dilations: Shape) -> Tensor:
    """Return computed filters (..., c, k) with zeros between the weights along each axis."""
    for axis, dilation in enumerate(dilations):
        *extents, channels, kinds = filters.shape
        before, count = math.prod(extents[:axis]), extents[axis]
        rest = math.prod(filters.shape[axis + 1 :])
        if dilation == 1 or count == 1:
            continue
        apart = reshaped(op, "apart", filters, (before, count, 1, rest))
        pads = ((0, 0), (0, 0), (0, dilation - 1), (0, 0))
        padded = op.step("between", "Pad", [apart], scheme=_CONSTANT, pad_amount=pads)
        merged = reshaped(op, "spread", padded, (before, count * dilation, rest))
        extents[axis] = (count - 1) * dilation + 1
        ranges = [(0, before, 1), (0, extents[axis], 1), (0, rest, 1)]
        cut = op.step("cut", "StridedSlice", [merged], ranges=ranges)
        filters = reshaped(op, "dilated", cut, (*extents, channels, kinds))
    return filters


def _without_excess(spread: _Spread) -> _Spread:
    """Extend the windows to elements after all windows that output_padding cannot express."""
    steps = zip(spread.extra, spread.strides, strict=True)
    if all(extra < stride for extra, stride in steps):
        return spread
    pairs = zip(spread.taps, spread.extra, strict=True)
    taps = tuple((before, behind + extra) for (before, behind), extra in pairs)
    return replace(spread, taps=taps, extra=(0,) * len(taps))


def _grown(op: OpContext, weight: Array, spread: _Spread) -> Array:
    """Return (c, k, ...) with zeros between the weights, before and after them."""
    extents, where = [], []
    for k, d, (lead, behind) in zip(weight.shape[2:], spread.dilations, spread.taps, strict=True):
        extents.append(lead + (k - 1) * d + 1 + behind)
        where.append(slice(lead, lead + (k - 1) * d + 1, d))
    shape = (*weight.shape[:2], *extents)
    op.reserve_constant(shape)
    grown = np.zeros(shape, weight.dtype)
    grown[(slice(None), slice(None), *where)] = weight
    return grown
