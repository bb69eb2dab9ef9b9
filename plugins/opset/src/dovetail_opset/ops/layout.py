"""Changes of shape and order, which only move elements."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from dovetail.errors import OpError, QuantizationError
from dovetail.ir import Array, Encoding, Shape, Spec
from dovetail.ops import Arrays, BatchAxis, Domain, In, Op, Out, last_axis, tensor, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import ints, moved, need_axes, need_axis


class _Reshaping(Op):
    """Base of the ops that change only the number of dimensions."""

    inputs = (In("in[0]"),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        shape = self.target(x.shape, None if out is None else out.shape)
        return _reshaped(x, shape, out)

    def reference(self, x: Array, out: Spec) -> Array:
        return x.reshape(out.shape)

    def target(self, x: Shape, declared: Shape | None) -> Shape:
        """Return the new shape."""
        raise NotImplementedError


@PACKAGE.op("Reshape")
class Reshape(Op):
    """The same elements in the same order in another shape, which the output declares.

    x: any shape. in[1] is for shapes known only at run time; shapes are static here, and its values
    are ignored.
    """

    inputs = (In("in[0]"), In("in[1]", optional=True))
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    def infer(self, x: Spec, shape: Spec | None, out: Spec | None) -> Spec:
        if out is None:
            raise OpError("the output must declare the new shape")
        if math.prod(x.shape) != math.prod(out.shape):
            raise OpError(f"{math.prod(x.shape)} elements {x.shape} do not fill {out.shape}")
        return _reshaped(x, out.shape, out)

    def reference(self, x: Array, shape: Array | None, out: Spec) -> Array:
        return x.reshape(out.shape)


@PACKAGE.op("ExpandDims")
class ExpandDims(_Reshaping):
    """New dimensions of size 1 at `axes`, or at `axis` where `axes` is omitted.

    x: any shape. Both params are axes of the result.
    """

    axis = uint32()
    axes = tensor((None,), lambda ins: None)

    def target(self, x: Shape, declared: Shape | None) -> Shape:
        given: Array | None = self.axes
        axes = np.array([self.axis]) if given is None else given
        rank = len(x) + len(axes)
        positions = need_axes(axes, rank)
        sizes = iter(x)
        return tuple(1 if i in positions else next(sizes) for i in range(rank))


@PACKAGE.op("Squeeze")
class Squeeze(_Reshaping):
    """The tensor without the dimensions of size 1 at `axes`.

    x: any shape. Without `axes` the output declares the shape; if it declares none, all dimensions
    of size 1 are removed.
    """

    axes = tensor((None,), lambda ins: None)

    def target(self, x: Shape, declared: Shape | None) -> Shape:
        given: Array | None = self.axes
        kept = tuple(n for n in x if n != 1)
        if given is None:
            if declared is not None and tuple(n for n in declared if n != 1) != kept:
                raise OpError(f"squeezing {x} cannot result in {declared}")
            return kept if declared is None else declared
        axes = need_axes(given, len(x))
        if any(x[a] != 1 for a in axes):
            raise OpError(f"axes {axes} of {x} are not all of size 1")
        return tuple(n for i, n in enumerate(x) if i not in axes)


@PACKAGE.op("Transpose")
class Transpose(Op):
    """Permutation of the axes: axis i of the result is axis perm[i] of x. Any rank."""

    inputs = (In("in[0]"),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    perm = tensor((None,))

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        perm = ints(self.perm)
        if sorted(perm) != list(range(len(x.shape))):
            raise OpError(f"perm {perm} is not a permutation of the axes of {x.shape}")
        shape = tuple(x.shape[p] for p in perm)
        encoding = None if x.encoding is None else x.encoding.transposed(perm)
        return _with_encoding(moved(x, shape, out), encoding, out)

    def reference(self, x: Array) -> Array:
        return x.transpose(ints(self.perm))


@PACKAGE.op("Concat")
class Concat(Op):
    """Concatenation along `axis` of two or more tensors of the same shape on other axes."""

    inputs = (In("in[0..m]", variadic=True),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    axis = uint32(last_axis)

    def infer(self, ins: Sequence[Spec | None], outs: Sequence[Spec | None]) -> Spec:
        given = [s for s in ins if s is not None]
        if len(given) < 2:
            raise OpError(f"Concat needs two or more tensors, but got {len(given)}")
        first = given[0]
        axis = need_axis(self.axis, len(first.shape))
        for i, other in enumerate(given):
            ranks = len(other.shape), len(first.shape)
            if ranks[0] != ranks[1] or _without(other.shape, axis) != _without(first.shape, axis):
                raise OpError(
                    f"in[{i}] {other.shape} differs from in[0] {first.shape} on other axes than "
                    f"axis {axis}"
                )
            if other.dtype is not first.dtype and not other.dtype.is_fixed_point:
                raise OpError(f"in[{i}] is {other.dtype.name}, in[0] is {first.dtype.name}")
        size = sum(s.shape[axis] for s in given)
        shape = (*first.shape[:axis], size, *first.shape[axis + 1 :])
        return moved(first, shape, outs[0] if outs else None)

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> Array:
        return np.concatenate([x for x in ins if x is not None], axis=self.axis)


@PACKAGE.op("Split")
class Split(Op):
    """Pieces along `axis`; `split_index` holds the begins of pieces 1, 2, ..., ascending."""

    inputs = (In("in[0]"),)
    outputs = (Out("out[0..m]", variadic=True),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    axis = uint32()
    split_index = tensor((None,))

    def infer(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> tuple[Spec, ...]:
        x = ins[0]
        axis = need_axis(self.axis, len(x.shape))
        bounds = (0, *ints(self.split_index), x.shape[axis])
        if list(bounds) != sorted(bounds):
            raise OpError(f"split_index {bounds[1:-1]} does not ascend from 0 to {bounds[-1]}")
        count = len(bounds) - 1
        if outs and len(outs) != count:
            raise OpError(
                f"split_index {bounds[1:-1]} defines {count} pieces for {len(outs)} outputs"
            )
        return tuple(
            moved(x, (*x.shape[:axis], end - begin, *x.shape[axis + 1 :]), out)
            for begin, end, out in zip(
                bounds[:-1], bounds[1:], outs or (None,) * count, strict=True
            )
        )

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> list[Array]:
        return np.split(_first(ins), ints(self.split_index), axis=self.axis)


def _first(ins: Arrays) -> Array:
    if ins[0] is None:
        raise OpError("missing required input 0")
    return ins[0]


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _reshaped(x: Spec, shape: Shape, out: Spec | None) -> Spec:
    encoding: Encoding | None = None
    if x.encoding is not None and out is None:
        try:
            encoding = x.encoding.reshaped(x.shape, shape)
        except QuantizationError as error:
            raise OpError(error.message, hint=error.hint) from error
    return _with_encoding(moved(x, shape, out), encoding, out)


def _with_encoding(found: Spec, encoding: Encoding | None, out: Spec | None) -> Spec:
    return replace(found, encoding=encoding) if out is None else found
