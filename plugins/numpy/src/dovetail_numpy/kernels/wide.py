"""Functions of two tensors of up to 16 bits, a block at a time.

The operations and their order are those of the definition, in float32 or float64 on scratchpads
that stay in the cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dovetail.ir import Array, Shape, Spec
from dovetail.ops import NodeView
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.binary import product_rescale, sum_rescale
from dovetail_numpy.integer.grid import is_tabular
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.tables import function_name
from dovetail_numpy.kernels._calls import Call, block_size, blocks, copy


def _divided(a: Array, b: Array, out: Array) -> None:
    """Divide; what is no number has the real value 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(a, b, out=out)
    np.copyto(out, 0, where=np.isnan(out))


def _sloped(a: Array, b: Array, out: Array) -> None:
    """Multiply negative numbers by slopes, which are overwritten.

    A masked copy branches at every element, and takes three times as long.
    """
    np.multiply(np.minimum(a, 0), b, out=b)
    np.maximum(a, 0, out=out)
    np.add(out, b, out=out)


# The function of both operands, then functions of its result.
_FUNCTIONS: dict[str, tuple[Callable[..., object], ...]] = {
    "ElementWiseAdd": (np.add,),
    "ElementWiseSubtract": (np.subtract,),
    "ElementWiseMultiply": (np.multiply,),
    "ElementWiseDivide": (_divided,),
    "ElementWiseMaximum": (np.maximum,),
    "ElementWiseMinimum": (np.minimum,),
    "ElementWiseSquaredDifference": (np.subtract, np.square),
    "Prelu": (_sloped,),
}
# Elements of a block: two scratchpads of 128 kB. Half as many took 1.2 times as long.
BLOCK = 16384
_PADS = 2

# Scale, zero point and limits; see `grid_of`.
Grid = tuple[float, int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of a function of levels.

    Attributes:
        kind: The type that it is computed in.
        factors: Of the levels of both operands; 1 for none.
        multiplier, divisor: Of its result; 1 for none.
    """

    kind: np.dtype[Any]
    factors: tuple[float, float]
    multiplier: float = 1.0
    divisor: float = 1.0

    @classmethod
    def of(cls, view: NodeView) -> _Numbers:
        """Return the numbers of a node."""
        single = np.dtype(np.float32)
        match function_name(view):
            case "ElementWiseMultiply" if (rescale := product_rescale(view)) is not None:
                return cls(single, (1.0, 1.0), float(rescale.multiplier))
            case "ElementWiseAdd" | "ElementWiseSubtract" if found := sum_rescale(view):
                # the sign of a difference belongs to the function
                return cls(single, (float(found[0].multiplier), abs(float(found[1]))))
        (first, *_), (second, *_), (step, *_) = (
            grid_of(spec) for spec in (*view.ins, *view.outs) if spec is not None
        )
        return cls(np.dtype(np.float64), (first, second), divisor=step)


def elementwise(call: KernelCall) -> Step | None:
    """Run one of `_FUNCTIONS`; see `Kernel.make`."""
    functions, view = _FUNCTIONS.get(function_name(call.head)), call.head
    specs = [spec for spec in (*view.ins, *view.outs) if spec is not None]
    if functions is None or DEFINITIONS.of(view) is None or not all(map(is_wide, specs)):
        return None
    shape = call.outputs[0].shape
    folding = _Folding.of(shape, [call.spec(i).shape for i in range(2)])
    numbers = _Numbers.of(view)
    size = block_size(math.prod(shape), BLOCK * 8 // numbers.kind.itemsize)
    first, second, out = call.read(0), call.read(1), call.write()
    zeros = [grid_of(spec)[1] for spec in specs[:2]]
    _, zero, limits = grid_of(specs[2])
    pad = call.scratch(_PADS * numbers.kind.itemsize * size)

    def bind(buffers: Buffers) -> Bound:
        operands = [buffers.array(v) for v in (first, second)]
        result, pads = (
            buffers.array(out),
            buffers.array(pad).view(numbers.kind).reshape(_PADS, size),
        )
        calls: list[Call] = []
        for *parts, into in folding.parts([*operands, result], size):
            reals = [p[: into.size].reshape(into.shape) for p in pads]
            for real, stored, own, factor in zip(reals, parts, zeros, numbers.factors, strict=True):
                calls.append(copy(real, stored))
                if own:
                    calls.append(with_number(np.subtract, real, own))
                if factor != 1:
                    calls.append(with_number(np.multiply, real, factor))
            found = reals[0]
            calls.append(partial(functions[0], *reals, out=found))
            calls += [partial(function, found, out=found) for function in functions[1:]]
            if numbers.multiplier != 1:
                calls.append(with_number(np.multiply, found, numbers.multiplier))
            calls += rounded(found, into, (numbers.divisor, zero, limits))
        return call_sequence(calls)

    return call.step(bind, in_place=[(0, i) for i in range(2) if _is_alike(call, i)])


def is_wide(spec: Spec) -> bool:
    """Return whether a tensor has one scale above 0 and up to 16 bits, and is not empty."""
    return is_tabular(spec) and 0 not in spec.shape and grid_of(spec)[0] > 0


def _is_alike(call: KernelCall, index: int) -> bool:
    """Return whether an input has the output's shape, and elements of as many bytes."""
    spec, out = call.spec(index), call.outputs[0]
    is_even = spec.dtype.storage.itemsize == out.dtype.storage.itemsize
    return is_even and spec.shape == out.shape


def with_number(function: np.ufunc, array: Array, number: float) -> Call:
    """Return a call that combines all elements with a number, in place."""
    return partial(function, array, array.dtype.type(number), out=array)


def rounded(real: Array, out: Array, grid: Grid) -> Iterator[Call]:
    """Yield the calls that round real values, which are overwritten; see `stored_of`."""
    scale, zero, (low, high) = grid
    if scale != 1:
        yield with_number(np.divide, real, scale)
    if zero:
        yield with_number(np.add, real, zero)
    yield partial(np.rint, real, out=real)
    yield partial(real.clip, *map(real.dtype.type, (low, high)), out=real)
    yield partial(np.copyto, out, real, casting="unsafe")


@dataclass(frozen=True, slots=True)
class _Folding:
    """The joined axes of a result: those that each operand either has or broadcasts along.

    Attributes:
        shape: Shape of the result.
        axes: For each joined axis, its axes of the result; at least one.
    """

    shape: Shape
    axes: tuple[Shape, ...]

    @classmethod
    def of(cls, shape: Shape, operands: Iterable[Shape]) -> _Folding:
        """Join as many axes as operands of these shapes allow."""
        full = [(1,) * (len(shape) - len(own)) + own for own in operands]
        real = [axis for axis, count in enumerate(shape) if count != 1]
        runs = itertools.groupby(real, lambda axis: tuple(s[axis] == 1 for s in full))
        return cls(shape, tuple(tuple(run) for _, run in runs) or ((),))

    def parts(self, arrays: Iterable[Array], size: int) -> Iterator[list[Array]]:
        """Yield matching blocks of up to `size` elements of arrays, broadcast."""
        sizes = self._sizes(self.shape)
        after = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        divided = next(axis for axis, count in enumerate(after) if count <= size)
        full = [self._folded(array) for array in arrays]
        for index in itertools.product(*map(range, sizes[:divided])):
            for block in blocks(sizes[divided], size // after[divided]):
                at: tuple[int | slice, ...] = (*index, block)
                yield [array[at] for array in full]

    def _folded(self, array: Array) -> Array:
        own = (1,) * (len(self.shape) - array.ndim) + array.shape
        folded, sizes = array.reshape(self._sizes(own)), self._sizes(self.shape)
        return folded if folded.shape == sizes else np.broadcast_to(folded, sizes)

    def _sizes(self, shape: Shape) -> Shape:
        return tuple(math.prod(shape[axis] for axis in run) for run in self.axes)
