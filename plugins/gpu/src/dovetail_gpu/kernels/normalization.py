"""Norms: LayerNorm, RmsNorm, InstanceNorm, GroupNorm and L2Norm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.boxes import Box, copied, described
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.kernels._product import NO_STAGES
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real, axes_of, lanes, row_launch, written_with_stages
from dovetail_gpu.launching import Argument, Launch, launch_all
from dovetail_gpu.layouts import element_of, read, scratch, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.stages import Stages, can_fuse
from dovetail_opset import STANDARD
from dovetail_opset.ops.normalization import NormMode, NormRegion

_MEAN = "sqrt((total) * inverse + epsilon)"
_SUM = "sqrt((total) + epsilon)"
_NORM = "LARGER(V, (V)(epsilon), sqrt(total))"


@dataclass(frozen=True, slots=True)
class _Kind:
    """Computation of a norm.

    Attributes:
        is_centered: Whether the mean is subtracted.
        divisor: The divisor, of `total` and `epsilon`; empty if nothing is divided.
    """

    is_centered: bool
    divisor: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a dense tensor.

    Attributes:
        count: Number of rows.
        side: Rows next to each other.
        pieces, length: Runs of adjacent elements in a row, and their length.
    """

    count: int
    side: int
    pieces: int
    length: int


@dataclass(frozen=True, slots=True)
class _Columns:
    """Rows along the middle axis of (outer, size, inner)."""

    outer: int
    size: int
    inner: int


_Shape = _Rows | _Columns


@KERNELS.register(STANDARD, "LayerNorm", can_fuse=can_fuse)
@KERNELS.register(STANDARD, "RmsNorm", can_fuse=can_fuse)
def norm_over_axes(call: KernelCall) -> Step | None:
    """Run LayerNorm or RmsNorm, whose factors have the normalized axes."""
    kind = _Kind(call.head.op_type == "LayerNorm", _MEAN)
    shape, axes = call.spec(0).shape, axes_of(call.op.axes)
    if not are_real(call):
        return None
    if not _is_in_order(shape, axes):
        return None if call.fused else _transposed(call, kind, axes)
    return _norm(call, kind, _suffix(shape, axes), shape[-1] if shape else 1)


@KERNELS.register(STANDARD, "L2Norm", can_fuse=can_fuse)
def l2_norm(call: KernelCall) -> Step | None:
    """Run L2Norm."""
    kind = _Kind(False, _NORM)
    shape, axes = call.spec(0).shape, tuple(sorted(call.op.over()))
    if not are_real(call):
        return None
    channels = shape[-1] if shape else 1
    if _is_in_order(shape, axes):
        return _norm(call, kind, _suffix(shape, axes), channels)
    if axes != tuple(range(axes[0], axes[-1] + 1)):
        return None if call.fused else _transposed(call, kind, axes)
    parts = (shape[: axes[0]], shape[axes[0] : axes[-1] + 1], shape[axes[-1] + 1 :])
    return _norm(call, kind, _Columns(*map(math.prod, parts)), channels)


@KERNELS.register(STANDARD, "InstanceNorm", can_fuse=can_fuse)
def instance_norm(call: KernelCall) -> Step | None:
    """Run InstanceNorm."""
    kind = _Kind(True, _MEAN if call.op.normalize_variance else "")
    if call.op.mode is NormMode.RMS:
        kind = _Kind(False, _SUM)
    shape = call.spec(0).shape
    batch, spatial, channels = shape[0], math.prod(shape[1:-1]), shape[-1]
    rows: _Shape
    match call.op.region:
        case NormRegion.ACROSS_SPATIAL:
            rows = _Columns(batch, spatial, channels)
        case NormRegion.ACROSS_CHANNEL:
            rows = _Rows(batch * spatial, 1, 1, channels)
        case _:
            rows = _Rows(batch, 1, spatial, channels)
    return _norm(call, kind, rows, channels) if are_real(call) else None


@KERNELS.register(STANDARD, "GroupNorm", can_fuse=can_fuse)
def group_norm(call: KernelCall) -> Step | None:
    """Run GroupNorm."""
    shape, groups = call.spec(0).shape, call.op.group
    rows = _Rows(shape[0] * groups, groups, math.prod(shape[1:-1]), shape[-1] // groups)
    return _norm(call, _Kind(True, _MEAN), rows, shape[-1]) if are_real(call) else None


def _is_in_order(shape: Shape, axes: tuple[int, ...]) -> bool:
    """Return whether axes are the last ones, in order."""
    return bool(described(shape).transpose(_last(shape, axes)).flags.c_contiguous)


def _last(shape: Shape, axes: tuple[int, ...]) -> list[int]:
    """Return the axes of a shape, some of them last."""
    return [*(a for a in range(len(shape)) if a not in axes), *axes]


def _suffix(shape: Shape, axes: tuple[int, ...]) -> _Rows:
    """Return the rows over the last axes."""
    count = math.prod(n for a, n in enumerate(shape) if a not in axes)
    return _Rows(count, 1, 1, math.prod(shape[a] for a in axes))


def _norm(call: KernelCall, kind: _Kind, rows: _Shape, channels: int) -> Step | None:
    """Return the step of a norm and fused nodes; None if vectors of stages cross channels."""
    longest = rows.length if isinstance(rows, _Rows) else rows.inner
    if call.fused and longest > channels and channels % VECTOR:
        return None
    element = element_of(call.outputs[0].spec)
    x = read(call, 0, element)
    factors = _factors(call, element)
    y, stages = written_with_stages(call, element)
    return launch_all(call, [_launch(call, kind, rows, channels, (x, y), factors, stages)])


def _transposed(call: KernelCall, kind: _Kind, axes: tuple[int, ...]) -> Step:
    """Return the step of a norm over axes that are not the last ones: with them moved there."""
    shape = call.spec(0).shape
    order = _last(shape, axes)
    moved = tuple(shape[a] for a in order)
    element = element_of(call.outputs[0].spec)
    x = read(call, 0, element)
    factors = _factors(call, element)
    y = write(call)
    before, after = (scratch(call, element, math.prod(shape)) for _ in range(2))
    whole, dense = described(shape), described(moved)
    view = whole.transpose(order)
    rows = _suffix(shape, axes)
    return launch_all(
        call,
        [
            copied(call, x, before, Box.of(view, dense, whole, dense)),
            _launch(call, kind, rows, 1, (before, after), factors, NO_STAGES),
            copied(call, after, y, Box.of(dense, view, dense, whole)),
        ],
    )


def _factors(call: KernelCall, element: Element) -> tuple[Value | None, Value | None]:
    """Declare gamma and beta as read, where they are given; later inputs are of fused nodes."""
    count = len(call.head.ins)
    gamma, offset = (read(call, i, element) if i < count and call.has(i) else None for i in (1, 2))
    return gamma, offset


def _launch(
    call: KernelCall,
    kind: _Kind,
    rows: _Shape,
    channels: int,
    tensors: tuple[Value, Value],
    factors: tuple[Value | None, Value | None],
    stages: Stages,
) -> Launch:
    x, y = tensors
    element = element_of(call.outputs[0].spec)
    names = ("gamma", "offset")
    terms = [
        f"v = v {sign} LOAD_V({name} + (i));"
        for name, sign, value in zip(names, "*+", factors, strict=True)
        if value is not None
    ]
    defines: dict[str, int | str] = {"GROUP": lanes()}
    defines |= {"CENTERED": int(kind.is_centered), "SCALED": int(bool(kind.divisor))}
    lines = f"#define DIVISOR(V, total) {kind.divisor or 'total'}\n"
    lines += f"#define FACTORS(V, LOAD_V, v, i) {{ {' '.join(terms)} }}\n"
    program = ("groups", "norm")
    source = Source.of(program, defines, type_lines(element) + lines + stages.lines)
    given = [x if value is None else value for value in factors]
    size = rows.pieces * rows.length if isinstance(rows, _Rows) else rows.size
    numbers = (max(1, channels), 1 / max(1, size), float(call.op.epsilon))
    arguments: list[Argument] = [x, y, *given]
    if isinstance(rows, _Rows):
        step = rows.side * rows.length
        arguments += [rows.side, rows.pieces, rows.length, step]
        return row_launch(source, "rows", [*arguments, *numbers, *stages.arguments], rows.count)
    count = rows.outer * -(-rows.inner // VECTOR)
    arguments += [rows.size, rows.inner, *numbers, *stages.arguments]
    return row_launch(source, "columns", arguments, count)
