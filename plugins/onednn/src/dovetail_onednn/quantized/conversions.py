"""Conversions of float32 to stored bytes and back; both in a row also by way of 16 bits.

    q = clip(rint(x / s) + z),   real = (q - z) * s

Each operation is one of the library's, rounded to float32 as in the definition. The library loses
NaN, which is the zero point by definition: where there is some, these elements are set afterwards.
"""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import math
from collections.abc import Sequence
from typing import Any

from dovetail.ir import DType, Spec
from dovetail.ops import NodeView
from dovetail.runtime.plan import (
    Bind,
    Bound,
    Buffers,
    Data,
    KernelCall,
    PlanRecorder,
    RecipeError,
    Source,
    Step,
    Storage,
    Value,
)
from dovetail_numpy.integer.grid import is_single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import Algorithm, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.bounds import has_no_nan
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import vector
from dovetail_onednn.nan import is_nan
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, is_narrow
from dovetail_onednn.recipes import BUILDERS

# With fewer elements a table in NumPy takes the time of a call of the library.
_LEAST = 2048
_QUANTIZE = "onednn.quantize"


def can_fuse_dequantize(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a Dequantize follows a Quantize: the integers are not written then."""
    real = group[0].ins[0], node.outs[0]
    return (
        len(group) == 1
        and (node.package, node.op_type) == (group[0].package, "Dequantize")
        and all(each is not None and each.dtype is DType.FLOAT_32 for each in real)
        and is_single(group[0].outs[0])
    )


def quantize(call: KernelCall) -> Step | None:
    """Run Quantize of float32 to bytes, or Dequantize after it; see `Kernel.make`."""
    x, grid = call.spec(0), call.head.outs[0]
    count = math.prod(x.shape)
    if not count or not (call.fused or _is_converted(x, grid)):
        return None
    scale, zero, (low, high) = grid_of(grid)
    flat, kind = vector(count), DataType.F32
    ops = [Eltwise(Algorithm.ROUND)]
    if call.fused:
        clip = Eltwise(Algorithm.CLIP, float(low - zero), float(high - zero))
        ops += [clip, Eltwise(Algorithm.LINEAR, scale)]
    else:
        kind = TYPES[grid.dtype]
        ops += [Eltwise(Algorithm.LINEAR, 1.0, float(zero))] if zero else []
        is_whole = (low, high) == grid.dtype.stored_range()  # then the conversion clips
        ops += [] if is_whole else [Eltwise(Algorithm.CLIP, float(low), float(high))]
    stages, data, result = Stages(call), call.read(0), call.write()
    ends = Argument(flat, data), Argument(flat.of_type(kind), result)
    if not stages.combine(BinaryAlgorithm.DIVIDE, ends[0], scale, ends[1], ops):
        raise AssertionError(f"{call.head.node.where}: the library only has generic code")
    in_place = [(0, 0)] if call.fused else []
    if has_no_nan(call, 0):
        return call.step(stages.execution(), in_place=in_place)
    nearest = min(max(zero, low), high)  # a zero point may be outside of the limits
    number = (nearest - zero) * scale if call.fused else float(nearest)
    search = NanSearch.of(flat.nbytes, DataType.F32)
    bind = _WithoutNan(stages.execution(), (data, result), search, number)
    return call.step(bind, in_place=in_place)


def dequantize(call: KernelCall) -> Step | None:
    """Run Dequantize of bytes to float32; see `Kernel.make`."""
    x, out = call.spec(0), call.outputs[0].spec
    count = math.prod(x.shape)
    if count < _LEAST or not _is_converted(out, x):
        return None
    (scale, zero, _), flat, stages = grid_of(x), vector(count), Stages(call)
    stored = Argument(flat.of_type(TYPES[x.dtype]), call.read(0))
    stages.move(stored, Argument(flat, call.write()), zero, scale)
    return stages.step()


def _is_converted(real: Spec | None, grid: Spec) -> bool:
    """Return whether one tensor is float32, and the other one has bytes on one grid."""
    return (
        real is not None
        and real.dtype is DType.FLOAT_32
        and grid.dtype in TYPES
        and is_narrow(grid)
    )


class _WithoutNan:
    """The bind of a conversion to stored integers, perhaps with one back, in which NaN is zero.

    Args:
        conversion: The bind of the conversion.
        values: Its source and its result.
        search: The search for NaN in the source.
        number: What is stored for NaN.

    Raises:
        RecipeError: The values do not match, as they may not in an image.
    """

    __slots__ = ("_conversion", "_number", "_search", "_values")

    def __init__(
        self, conversion: Bind, values: tuple[Value, Value], search: NanSearch, number: float
    ) -> None:
        self._conversion, self._values = conversion, values
        self._search, self._number = search, number
        read, written = (value.spec for value in values)
        are_dense = all(value.layout is None for value in values)
        is_float = read.dtype is DType.FLOAT_32
        if not are_dense or not is_float or math.prod(read.shape) != math.prod(written.shape):
            raise RecipeError(f"'{values[1].name}' cannot hold what '{values[0].name}' becomes")
        if values[1].root.storage not in (Storage.ARENA, Storage.OUTPUT):
            raise RecipeError(f"a conversion writes '{values[1].name}', which is only read")
        limits = written.dtype.stored_range() if written.dtype in TYPES else (-math.inf, math.inf)
        if not limits[0] <= number <= limits[1]:
            raise RecipeError(f"'{values[1].name}' cannot hold {number}")

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        convert, number = self._conversion(buffers), self._number
        source, result = (buffers.array(value).reshape(-1) for value in self._values)
        found = self._search.bind(source)

        def run() -> None:
            where = is_nan(source) if found() else None  # the result may overwrite the source
            convert()
            if where is not None:
                result[where] = number

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        source, result = map(recorder.value, self._values)
        search = self._search.record(recorder)
        inner = recorder.inner(self._conversion)
        return _QUANTIZE, QuantizeData(*inner, source, result, search, self._number)


class QuantizeData(Data, frozen=True):
    """A conversion, its source and result, the primitive of its `NanSearch`, and its zero."""

    builder: str
    conversion: Any
    source: int
    result: int
    search: int | None
    number: float


@BUILDERS.builds(_QUANTIZE, QuantizeData)
def _without_nan(data: QuantizeData, source: Source) -> _WithoutNan:
    values = source.value(data.source), source.value(data.result)
    search = NanSearch.restored(data.search, source, values[0])
    return _WithoutNan(source.bind(data.builder, data.conversion), values, search, data.number)
