"""Stacking, unstacking and repetition of tensors."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import Arrays, BatchAxis, Domain, In, Op, Out, tensor, uint32
from dovetail_opset._constants import element_of
from dovetail_opset._indices import INDEX_TYPES
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import ints, moved, need_axis, need_rank, need_same_type


@PACKAGE.op("Pack")
class Pack(Op):
    """Tensors stacked along a new dimension; `axis` is its index in the result.

    One or more tensors of the same shape and type.
    """

    inputs = (In("in[0..m]", variadic=True),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    axis = uint32()

    def infer(self, ins: Sequence[Spec | None], outs: Sequence[Spec | None]) -> Spec:
        given = [s for s in ins if s is not None]
        if not given:
            raise OpError("Pack needs one or more tensors, but got none")
        first = given[0]
        need_same_type(*given)
        for i, other in enumerate(given):
            if other.shape != first.shape:
                raise OpError(f"in[{i}] {other.shape} differs from in[0] {first.shape}")
        axis = need_axis(self.axis, len(first.shape) + 1)
        shape = (*first.shape[:axis], len(given), *first.shape[axis:])
        return moved(first, shape, outs[0] if outs else None)

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> Array:
        return np.stack([x for x in ins if x is not None], axis=self.axis)


@PACKAGE.op("UnPack")
class UnPack(Op):
    """Each slice along `axis` as a separate tensor, without that dimension.

    x: any shape with one or more elements along `axis`; each is one output.
    """

    inputs = (In("in[0]"),)
    outputs = (Out("out[0..m]", variadic=True),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    axis = uint32()

    def infer(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> tuple[Spec, ...]:
        x = ins[0]
        axis = need_axis(self.axis, len(x.shape))
        count = x.shape[axis]
        if count == 0:
            raise OpError(f"in[0] {x.shape} has no elements along axis {axis} to unpack")
        if outs and len(outs) != count:
            raise OpError(
                f"in[0] {x.shape} has {count} slices along axis {axis} for {len(outs)} outputs"
            )
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        return tuple(moved(x, shape, out) for out in outs or (None,) * count)

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> list[Array]:
        if ins[0] is None:
            raise OpError("missing required input 0")
        return list(np.moveaxis(ins[0], self.axis, 0))


@PACKAGE.op("Tile")
class Tile(Op):
    """The tensor repeated multiples[i] times along dimension i.

    x: any shape; multiples: (rank,); a 0 results in an empty tensor.
    """

    inputs = (In("in[0]"),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY

    multiples = tensor((None,))

    @property
    def keeps_all(self) -> bool:
        return bool(self.multiples.all())

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        multiples = ints(self.multiples)
        if len(multiples) != len(x.shape):
            raise OpError(f"multiples has {len(multiples)} elements for in[0] {x.shape}")
        return moved(x, [n * m for n, m in zip(x.shape, multiples, strict=True)], out)

    def arranged(self, x: Array) -> Array:
        """Return x as a view with a separate dimension before each repeated one."""
        split, repeated = [], []
        for size, multiple in zip(x.shape, ints(self.multiples), strict=True):
            is_single = multiple == 1  # saves a dimension, of which NumPy knows not more than 64
            split += [size] if is_single else [1, size]
            repeated += [size] if is_single else [multiple, size]
        return np.broadcast_to(x.reshape(split), repeated)

    def reference(self, x: Array, out: Spec) -> Array:
        return self.arranged(x).reshape(out.shape)


@PACKAGE.op("BatchPermutation")
class BatchPermutation(Op):
    """Slices of x along the batch, in the order of `indices`.

    x: (n, ...); indices: (m,), m <= n. Returns (m, ...). An index out of range is skipped, a
    negative one too; the rows that remain at the end hold the real value 0.
    """

    inputs = (In("in[0]"), In("in[1]", INDEX_TYPES))
    domain = Domain.MOVE

    def infer(self, x: Spec, indices: Spec, out: Spec | None) -> Spec:
        if not x.shape:
            raise OpError("in[0] must have rank 1 or more, but its shape is ()")
        need_rank(indices, 1, "in[1]")
        if indices.shape[0] > x.shape[0]:
            raise OpError(f"in[1] has {indices.shape[0]} indices for a batch of {x.shape[0]}")
        return moved(x, (*indices.shape, *x.shape[1:]), out)

    def reference(self, x: Array, indices: Array, out: Spec) -> Array:
        wanted = indices.astype(np.int64)
        kept = wanted[(wanted >= 0) & (wanted < len(x))]
        result = np.empty(out.shape, x.dtype)
        result[: len(kept)] = x[kept]
        result[len(kept) :] = element_of(0.0, x, out)
        return result
