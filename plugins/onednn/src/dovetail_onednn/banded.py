"""Weighted resizes as products by banded matrices, one for each axis.

A new element of an axis is a sum of a few neighboring old ones. Some new elements at a time are a
product of a small matrix and the old elements that they need. An infinity or NaN makes the new
elements NaN that are computed together with those that it reaches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.layouts import FLOAT_BYTES
from dovetail_onednn.precision import math_mode
from dovetail_onednn.primitives import Primitive
from dovetail_onednn.product import Product
from dovetail_onednn.steps import execute, is_slow
from dovetail_onednn.threads import threads_for

_LEAST = 1 << 15  # elements of a result below which NumPy is as fast
# New elements of an axis that are computed together. Half as many took 1.1 to 2.6 times as long,
# twice as many up to 1.9 times.
_ROWS = 32
_WIDEST = 256  # old elements for those: of more, most would be multiplied by 0
_FEW = 16  # with fewer elements after an axis, these are part of the matrix
_MOST_WORKS = 1024


class _Band(msgspec.Struct, frozen=True):
    """Some new elements of an axis, and the old ones that they need.

    Attributes:
        start, first: The first new and the first old element.
        matrix: The weights of the old elements, (new, old), float32.
    """

    start: int
    first: int
    matrix: Array


class _Pass(msgspec.Struct, frozen=True):
    """The resampling of one axis.

    Attributes:
        before, size, new, after: Elements before the axis, old and new ones on it, and after it.
        bands: The new elements.
    """

    before: int
    size: int
    new: int
    after: int
    bands: tuple[_Band, ...]

    @property
    def count(self) -> int:
        """Number of elements of the result."""
        return self.before * self.new * self.after

    def matrix(self, band: _Band) -> Array:
        """Return the matrix of a band as its product reads it."""
        if self.after >= _FEW:
            return band.matrix
        return np.kron(band.matrix.T, np.eye(self.after, dtype=np.float32))

    def product(self, band: _Band) -> tuple[str, Product]:
        """Return the name of the argument that is the matrix, and the product."""
        (rows, taken), before, after = band.matrix.shape, self.before, self.after
        old, new = self.size * after, self.new * after  # elements of the axis and after it
        if after < _FEW:
            lines = MemoryDesc.strided((before, taken * after), (old, 1))
            matrix = MemoryDesc.strided((taken * after, rows * after), (rows * after, 1))
            result = MemoryDesc.strided((before, rows * after), (new, 1))
            return "weights", Product("matmul", lines, matrix, None, result)
        matrix = MemoryDesc.strided((1, rows, taken), (rows * taken, taken, 1))
        lines = MemoryDesc.strided((before, taken, after), (old, after, 1))
        result = MemoryDesc.strided((before, rows, after), (new, after, 1))
        return "source", Product("matmul", matrix, lines, None, result)


class Bands(msgspec.Struct, frozen=True):
    """The products of a weighted resize.

    Attributes:
        passes: The passes, in order.
        primitives: What computes each kind of product.
    """

    passes: tuple[_Pass, ...]
    primitives: dict[Product, Primitive]

    @classmethod
    def of(cls, call: KernelCall) -> Bands | None:
        """Return the products of a resize; None if NumPy is as fast, or it only moves elements."""
        if math_mode() or math.prod(call.outputs[0].shape) < _LEAST:
            return None
        passes = tuple(_passes(call))
        works = sum(len(each.bands) for each in passes)
        widest = max((band.matrix.shape[1] for each in passes for band in each.bands), default=0)
        if not passes or works > _MOST_WORKS or widest > _WIDEST:
            return None
        primitives: dict[Product, Primitive] = {}
        for each in passes:
            for band in each.bands:
                _, product = each.product(band)
                if product in primitives:
                    continue
                with threads_for(product.count), product.described() as desc:
                    if is_slow(desc):
                        return None
                    primitives[product] = Primitive(desc)
        return cls(passes, primitives)

    @property
    def largest_sum(self) -> float:
        """The largest sum of absolute weights of a new element."""
        return math.prod(
            max(float(np.abs(band.matrix).sum(1).max()) for band in each.bands)
            for each in self.passes
        )

    @property
    def roundings(self) -> int:
        """Number of roundings of an element: of each pass its weights, products and sums."""
        return sum(
            max(int(np.count_nonzero(band.matrix, 1).max()) for band in each.bands) + 1
            for each in self.passes
        )

    def works(self, call: KernelCall, source: Value, result: Value) -> list[Work]:
        """Declare what is between the passes, and return the executions of all products.

        Args:
            call: The call of the kernel.
            source: The old elements, float32, dense.
            result: The new ones.
        """
        between = [call.scratch(each.count * FLOAT_BYTES) for each in self.passes[:-1]]
        found: list[Work] = []
        for each, target in zip(self.passes, [*between, result], strict=True):
            ends = source, target
            found += [_work(call, each, band, ends, self.primitives) for band in each.bands]
            source = target
        return found


def banded_resize(call: KernelCall) -> Step | None:
    """Run a resize by weights with fast products; see `Kernel.make`."""
    bands = Bands.of(call) if is_float32(call) else None
    if bands is None:
        return None
    return execute(call, *bands.works(call, call.read(0), call.write()))


def _passes(call: KernelCall) -> Iterator[_Pass]:
    """Yield the passes, the smallest results and the last axes first; none if one only moves."""
    shape, new = list(call.spec(0).shape), call.outputs[0].shape
    taps = call.op.taps_by_axis(tuple(shape), new)
    if any(each.weights is None for each in taps.values()):
        return
    for axis in sorted(taps, key=lambda axis: (new[axis] / shape[axis], -axis)):
        matrix = taps[axis].matrix(shape[axis]).astype(np.float32)
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        yield _Pass(before, shape[axis], new[axis], after, tuple(_bands(matrix)))
        shape[axis] = new[axis]


def _bands(matrix: Array) -> Iterator[_Band]:
    for start in range(0, len(matrix), _ROWS):
        rows = matrix[start : start + _ROWS]
        (used,) = np.nonzero(rows.any(axis=0))
        first, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
        yield _Band(start, first, np.ascontiguousarray(rows[:, first:end]))


def _work(
    call: KernelCall,
    each: _Pass,
    band: _Band,
    ends: tuple[Value, Value],
    primitives: dict[Product, Primitive],
) -> Work:
    role, product = each.product(band)
    source, target = ends
    matrix = call.constant(each.matrix(band))
    old = band.first * each.after * FLOAT_BYTES
    arguments: dict[int, Argument] = {
        Arg.DESTINATION: Argument(product.target, target, band.start * each.after * FLOAT_BYTES)
    }
    if role == "source":
        arguments[Arg.SOURCE] = Argument(product.source, matrix)
        arguments[Arg.WEIGHTS] = Argument(product.weights, source, old)
    else:
        arguments[Arg.SOURCE] = Argument(product.source, source, old)
        arguments[Arg.WEIGHTS] = Argument(product.weights, matrix)
    return Work(primitives[product], arguments)
