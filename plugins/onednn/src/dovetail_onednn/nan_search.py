"""The search for NaN in a value after a step that ignores it, in as many threads as the step.

In NumPy's one thread the search takes as long as the step itself: 40 us after a maximum pooling of
(1, 111, 111, 64) that took 41, where means take 20 in two threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from dovetail.ir import Array
from dovetail.runtime.plan import PlanRecorder, RecipeError, Source, Value
from dovetail_onednn._api import Arg, DataType, PoolingAlgorithm
from dovetail_onednn.bound_primitive import BoundPrimitive
from dovetail_onednn.layouts import BYTES, images, type_of
from dovetail_onednn.nan import has_nan
from dovetail_onednn.primitives import Addresses, Primitive, PrimitiveDesc
from dovetail_onednn.recipes import Recorded, record_primitive
from dovetail_onednn.steps import is_slow
from dovetail_onednn.windows import Pooling

# Elements below which NumPy is faster: 186,000 took 9 us there and 7 in two threads.
_LEAST = 1 << 17
# Parts for threads, and means of each, which vectors compute together. NumPy searches the means and
# the elements that remain: in a network, where its code is not in the cache, 6,144 means took 24 us
# and 1,024 take 5.
_PARTS, _CHANNELS = 16, 64
_MEANS = _PARTS * _CHANNELS


class NanSearch:
    """A search in values of one size and type.

    A mean is NaN if one of its elements is, so that few numbers remain to be searched. The mean of
    both infinities is NaN too.

    It belongs to one step, and so to one plan, which uses its latest binding.

    Args:
        means: The primitive that computes the means; None where NumPy searches alone.
    """

    def __init__(self, means: Primitive | None) -> None:
        self._means = means
        self._count = 0 if means is None else math.prod(means.desc(Arg.SOURCE).dims)
        self._bound: tuple[BoundPrimitive, Array] | None = None

    @classmethod
    def of(cls, nbytes: int, kind: DataType) -> NanSearch:
        """Create the search in values of a size and type."""
        count = nbytes // BYTES[kind]
        return cls(_means(count // _MEANS, kind) if count >= _LEAST else None)

    def record(self, recorder: PlanRecorder) -> int | None:
        """Return the number of its primitive, or None."""
        return None if self._means is None else record_primitive(self._means.described, recorder)

    @classmethod
    def restored(cls, number: int | None, source: Source, value: Value) -> NanSearch:
        """Return the recorded search in a value."""
        if number is None:
            return cls(None)
        means, kind = source.item(number, Recorded).primitive, type_of(value.layout)
        read, written = means.desc(Arg.SOURCE), means.desc(Arg.DESTINATION)
        if (read.type, written.type) != (kind, kind):
            raise RecipeError(f"a search for NaN in '{value.name}' has other types")
        size, count = (math.prod(desc.dims) * BYTES[kind] for desc in (written, read))
        is_larger = max(read.nbytes, count) > value.nbytes
        if is_larger or written.nbytes != size:
            raise RecipeError(f"a search for NaN exceeds '{value.name}'")
        return cls(means)

    def bind(self, values: Array) -> Callable[[], bool]:
        """Return the search in some `elements`.

        It returns True if one is NaN, perhaps if some are infinite, and False otherwise.
        """
        if self._means is None:
            return lambda: has_nan(values)
        address = int(values.ctypes.data)
        if self._bound is None:
            self._bound = _bound(self._means, address, values.dtype)
        compute, means = self._bound
        compute.memory(Arg.SOURCE).move(address)
        rest = values[self._count :]

        def found() -> bool:
            compute()
            return has_nan(means) or (len(rest) > 0 and has_nan(rest))

        return found


def _bound(primitive: Primitive, address: int, dtype: DTypeLike) -> tuple[BoundPrimitive, Array]:
    """Return the call that computes the means of values at an address, and the means."""
    source, target = (primitive.desc(arg) for arg in (Arg.SOURCE, Arg.DESTINATION))
    means = np.empty(math.prod(target.dims), dtype)
    addresses: Addresses = {
        Arg.SOURCE: (source, address),
        Arg.DESTINATION: (target, int(means.ctypes.data)),
    }
    return primitive.bind(addresses), means


def _means(length: int, kind: DataType) -> Primitive | None:
    """Compile the means of `length` elements each; None if the library only has generic code."""
    source, target = (1, _PARTS * length, 1, _CHANNELS), (1, _PARTS, 1, _CHANNELS)
    window = (length, 1)
    pooling = Pooling(PoolingAlgorithm.AVERAGE, source, target, window, window, (0, 0), (0, 0))
    read, written = (images(shape).of_type(kind) for shape in (source, target))
    with PrimitiveDesc(pooling.described(read, written)) as desc:
        return None if is_slow(desc) else Primitive(desc)
