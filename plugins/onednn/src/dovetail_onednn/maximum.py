"""Maxima of windows with NaN, and with zeros: what the library ignores."""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array, DType
from dovetail.runtime.plan import (
    Bind,
    Bound,
    Buffers,
    Data,
    PlanRecorder,
    RecipeError,
    Source,
    Value,
)
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import type_of
from dovetail_onednn.nan import elements, marked, set_nan
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.primitives import Addresses, Described, Primitive, PrimitiveDesc
from dovetail_onednn.recipes import BUILDERS, Recorded, record_primitive
from dovetail_onednn.windows import POOLING

_WITH_NAN, _WITH_ZEROS = "onednn.maximum_with_nan", "onednn.maximum_with_zeros"
Edge = tuple[int, slice]


class MaximumWithNan:
    """The bind of a maximum that is NaN where a window has NaN.

    Args:
        pool: The bind of the pooling, which ignores NaN.
        values: Its source and its result.
        search: The search for NaN in the source.
        windows: The pooling without fused nodes, in the same layouts; created when NaN is found.
    """

    def __init__(
        self, pool: Bind, values: tuple[Value, Value], search: NanSearch, windows: Described
    ) -> None:
        self._pool, self._values, self._search, self._windows = pool, values, search, windows

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        pool, kind = self._pool(buffers), type_of(self._values[0].layout)
        values, result = (elements(buffers.array(value), kind) for value in self._values)
        found, windows = self._search.bind(values), self._windows

        def run() -> None:
            pool()
            if found():
                set_nan(result, _windows_with_nan(values, len(result), kind, windows), kind)

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        source, target = map(recorder.value, self._values)
        windows = record_primitive(self._windows, recorder)
        search = self._search.record(recorder)
        return _WITH_NAN, WithNanData(*recorder.inner(self._pool), source, target, search, windows)


class MaximumWithZeros:
    """The bind of a maximum in which 0 takes part at some edges.

    Args:
        pool: The bind of the pooling.
        target: Its result, dense.
        edges: The axes, and the parts of them that are clipped to at least 0.
        zero: The stored form of 0 in the result.
    """

    def __init__(self, pool: Bind, target: Value, edges: Sequence[Edge], zero: int = 0) -> None:
        self._pool, self._target, self._edges = pool, target, tuple(edges)
        self._zero = zero

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        pool, result = self._pool(buffers), buffers.array(self._target)
        zero = np.asarray(self._zero, result.dtype)
        every = slice(None)
        parts: list[Array] = [result[(*(every,) * axis, part)] for axis, part in self._edges]

        def run() -> None:
            pool()
            for part in parts:
                np.maximum(part, zero, out=part)

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        edges = tuple((axis, part.start or 0, part.stop) for axis, part in self._edges)
        target = recorder.value(self._target)
        return _WITH_ZEROS, WithZerosData(*recorder.inner(self._pool), target, edges, self._zero)


def _windows_with_nan(values: Array, count: int, kind: DataType, windows: Described) -> Array:
    """Return which windows of `elements` have NaN: those in which the maximum of a mask is 1."""
    mask = marked(values, kind)
    found = np.zeros(count, values.dtype)
    with PrimitiveDesc(windows.description) as desc:
        addresses: Addresses = {
            arg: (desc.desc(arg), int(array.ctypes.data))
            for arg, array in ((Arg.SOURCE, mask), (Arg.DESTINATION, found))
        }
        Primitive(desc).bind(addresses)()
    return found > 0


class WithNanData(Data, frozen=True):
    """A pooling, its source and result, the primitives of its `NanSearch` and of its windows."""

    builder: str
    pool: Any
    source: int
    target: int
    search: int | None
    windows: int


class WithZerosData(Data, frozen=True):
    """A pooling, its result, the axis, start and end of each edge, and the stored form of 0."""

    builder: str
    pool: Any
    target: int
    edges: tuple[tuple[int, int, int | None], ...]
    zero: int = 0


@BUILDERS.builds(_WITH_NAN, WithNanData)
def _maximum_with_nan(data: WithNanData, source: Source) -> MaximumWithNan:
    values = source.value(data.source), source.value(data.target)
    windows = source.item(data.windows, Recorded).described
    if windows.description.function != POOLING:
        raise RecipeError(f"windows with NaN of '{values[0].name}' are not those of a pooling")
    kind = type_of(values[0].layout)
    # the arguments of a pooling: engine, kind, algorithm, source, result
    for value, desc in zip(values, windows.description.arguments[3:5], strict=True):
        fits = isinstance(desc, MemoryDesc) and (desc.type, desc.nbytes) == (kind, value.nbytes)
        if not fits or type_of(value.layout) is not kind:
            raise RecipeError(f"windows with NaN of '{value.name}' have another size or type")
    search = NanSearch.restored(data.search, source, values[0])
    return MaximumWithNan(source.bind(data.builder, data.pool), values, search, windows)


@BUILDERS.builds(_WITH_ZEROS, WithZerosData)
def _maximum_with_zeros(data: WithZerosData, source: Source) -> MaximumWithZeros:
    target = source.value(data.target)
    rank = len(target.spec.shape)
    if target.layout is not None or any(not 0 <= axis < rank for axis, _, _ in data.edges):
        raise RecipeError(f"'{target.name}' has no such edges")
    if data.zero and not (
        target.spec.dtype.is_fixed_point and _holds(target.spec.dtype, data.zero)
    ):
        raise RecipeError(f"'{target.name}' cannot hold {data.zero}")
    edges = [(axis, slice(start, stop)) for axis, start, stop in data.edges]
    return MaximumWithZeros(source.bind(data.builder, data.pool), target, edges, data.zero)


def _holds(dtype: DType, stored: int) -> bool:
    low, high = dtype.stored_range()
    return low <= stored <= high
