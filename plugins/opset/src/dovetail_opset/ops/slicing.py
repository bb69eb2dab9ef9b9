"""Padding and slicing."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ops import BatchAxis, Domain, In, Op, Range, choice, scalar, tensor, uint32
from dovetail_opset._constants import CONSTANT_TYPES, element_of
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import moved


class PadScheme(enum.IntEnum):
    """Content of the padding."""

    CONSTANT = 0
    MIRROR_SYMMETRIC = 1
    MIRROR_REFLECT = 2
    EDGE = 3


_NUMPY_MODES = {
    PadScheme.MIRROR_SYMMETRIC: "symmetric",
    PadScheme.MIRROR_REFLECT: "reflect",
    PadScheme.EDGE: "edge",
}


@PACKAGE.op("Pad")
class Pad(Op):
    """Additional elements before and after along each dimension.

    x: any shape; pad_amount: (rank, 2). The mirrors copy at most the whole axis, REFLECT without
    the border element. For a fixed-point input an integer pad_constant_value is a stored value and
    a float a real value.
    """

    inputs = (In("in[0]"),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    scheme = choice(PadScheme)
    pad_amount = tensor((None, 2))
    pad_constant_value = scalar(0.0, dtypes=CONSTANT_TYPES)

    @property
    def added_range(self) -> Range | None:
        value = float(self.pad_constant_value)
        return (value, value) if self.scheme is PadScheme.CONSTANT else None

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if len(self.pad_amount) != len(x.shape):
            raise OpError(f"pad_amount has {len(self.pad_amount)} rows for in[0] {x.shape}")
        pads = [(int(before), int(after)) for before, after in self.pad_amount]
        for axis, (length, pair) in enumerate(zip(x.shape, pads, strict=True)):
            if max(pair) > self._most(length):
                raise OpError(
                    f"{self.scheme.name} cannot add {pair} to the {length} elements of axis {axis}"
                )
        if self.scheme is PadScheme.CONSTANT:
            self._need_one_value(x, out)
        shape = tuple(n + sum(pair) for n, pair in zip(x.shape, pads, strict=True))
        return moved(x, shape, out)

    def reference(self, x: Array, out: Spec) -> Array:
        if not x.ndim:  # nothing to pad, which NumPy does not accept
            return x
        pads = self.pad_amount.astype(np.int64)
        if self.scheme is PadScheme.CONSTANT:
            constant = element_of(self.pad_constant_value, x, out)
            return np.pad(x, pads, constant_values=constant)
        if 0 in x.shape:  # there is no padding on an empty axis, but NumPy's mirrors reject one
            return np.zeros(out.shape, x.dtype)
        return np.pad(x, pads, mode=_NUMPY_MODES[self.scheme])  # type: ignore[call-overload,no-any-return]

    def _need_one_value(self, x: Spec, out: Spec | None) -> None:
        if not isinstance(x.encoding, ScaleOffset | None):
            raise OpError(
                "a constant has no single stored value under an encoding by axis or block"
            )
        is_stored = not isinstance(self.pad_constant_value, float)
        if is_stored and out is not None and out.encoding != x.encoding:
            raise OpError(
                f"the stored pad_constant_value {self.pad_constant_value} means different real "
                "values under the encodings of in[0] and out[0]"
            )

    def _most(self, size: int) -> float:
        match self.scheme:
            case PadScheme.MIRROR_SYMMETRIC:
                return size
            case PadScheme.MIRROR_REFLECT:
                return max(size - 1, 0)
            case PadScheme.EDGE:
                return np.inf if size else 0
            case PadScheme.CONSTANT:
                return np.inf


@PACKAGE.op("StridedSlice")
class StridedSlice(Op):
    """Every stride-th element from begin to before end along each dimension.

    x: any shape; ranges: (rank + new, 3), rows (begin, end, stride). Bit i of a mask is for row i:
    begin_mask and end_mask take everything on that side, new_axes_mask adds a dimension of size 1,
    shrink_axes takes the one element at begin and removes the dimension. Nothing counts from the
    end: with a negative stride an end of -1 means up to and including element 0.
    """

    inputs = (In("in[0]"),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY

    ranges = tensor((None, 3), dtype=DType.INT_32)
    begin_mask = uint32(0)
    end_mask = uint32(0)
    shrink_axes = uint32(0)
    new_axes_mask = uint32(0)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        rows = [(int(b), int(e), int(s)) for b, e, s in self.ranges]
        if len(rows) != len(x.shape) + sum(self._is_new(i) for i in range(len(rows))):
            raise OpError(f"ranges has {len(rows)} rows for in[0] {x.shape}")
        old = iter(x.shape)
        for i, (begin, end, stride) in enumerate(rows):
            if not self._is_new(i):
                self._need_row(i, (begin, end, stride), next(old))
        # a view of one element has the shape without allocating the tensor
        view = np.broadcast_to(np.empty((), np.int8), x.shape)
        return moved(x, view[self.index()].shape, out)

    def reference(self, x: Array) -> Array:
        return x[self.index()]

    def index(self) -> tuple[slice | int | None, ...]:
        """Return the NumPy index with the same effect."""
        return tuple(self._entry(i, *map(int, row)) for i, row in enumerate(self.ranges))

    def _is_new(self, i: int) -> bool:
        return bool(self.new_axes_mask >> i & 1)

    def _entry(self, i: int, begin: int, end: int, stride: int) -> slice | int | None:
        if self._is_new(i):
            return None
        if self.shrink_axes >> i & 1:
            return 0 if self.begin_mask >> i & 1 else begin
        first = None if self.begin_mask >> i & 1 else begin
        to_the_end = self.end_mask >> i & 1 or end < 0
        return slice(first, None if to_the_end else end, stride)

    def _need_row(self, i: int, row: tuple[int, int, int], length: int) -> None:
        begin, end, stride = row
        if stride == 0:
            raise OpError(f"row {i} of ranges {row} has the stride 0")
        if begin < 0 and not self.begin_mask >> i & 1:
            raise OpError(f"row {i} of ranges {row} begins before element 0")
        if end < (0 if stride > 0 else -1) and not (self.end_mask | self.shrink_axes) >> i & 1:
            raise OpError(f"row {i} of ranges {row} ends before element 0")
        if self.shrink_axes >> i & 1 and not (begin < length or self.begin_mask >> i & 1):
            raise OpError(f"row {i} of ranges {row} takes element {begin} of {length}")
