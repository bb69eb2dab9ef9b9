"""Reorders between layouts: steps of a plan, and the packing of constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.container import aligned_empty
from dovetail.ir import Array, DType, Spec
from dovetail.runtime.plan import Step, Storage, Value
from dovetail_onednn._api import Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Execution
from dovetail_onednn.layouts import Narrow, OneDnnLayout, Planes, Strided, dense
from dovetail_onednn.moves import moves
from dovetail_onednn.planes import conversion
from dovetail_onednn.primitives import Addresses, reorder_primitive
from dovetail_onednn.threads import ReleaseGil, threads

# Constants of fewer bytes are moved in one thread. A transpose of 1 MB took 0.32 ms in one thread
# and 0.23 in two, but 16 ms in two where one had to wait for a busy core.
_LEAST_SHARED_BYTES = 1 << 20

Arrays = Sequence[Array | None]


def reorder(source: Value, target: Value) -> Step:
    """Create the step that copies a value into another layout; for `build_plan`.

    Raises:
        BackendError: oneDNN has no such reorder.
    """
    if any(isinstance(value.layout, Planes) for value in (source, target)):
        return conversion(source, target)
    from_, to = _descs(source, target)
    rooms: list[Value] = []

    def room(nbytes: int) -> Value:
        rooms.append(Value("scratch", Spec(DType.UINT_8, (nbytes,)), Storage.ARENA))
        return rooms[-1]

    works = moves(Argument(from_, source), Argument(to, target), room)
    bind = Execution(works, None, ReleaseGil.AUTO)
    return Step((), (source,), (target,), bind, tuple(rooms))


def given(array: Array | None) -> Array:
    """Return the elements of an input that is not omitted, for functions that pack it."""
    if array is None:
        raise AssertionError("an omitted input is packed")
    return array


def pack(data: Array, layout: OneDnnLayout, count: int = 1) -> Array:
    """Return dense data in a layout, uint8 (count * layout.nbytes,), aligned.

    Args:
        data: float32, C-contiguous, of the shape of the layout's dense form; `count` of them.
        layout: The layout.
        count: Number of arrays, one after the other.
    """
    return moved(data, layout.dense, layout.desc, count)


def moved(data: Array, source: MemoryDesc, target: MemoryDesc, count: int = 1) -> Array:
    """Return data in another layout, uint8 (count * target.nbytes,), aligned; see `pack`."""
    found = aligned_empty(count * target.nbytes)
    is_whole = data.flags.c_contiguous and data.nbytes == found.nbytes
    if is_whole and source == target:  # a primitive would take 0.2 ms to create
        np.copyto(found, data.reshape(-1).view(np.uint8))
        return found
    if target.nbytes > source.nbytes:
        found.fill(0)  # the library leaves gaps as they are, and equal data are to be equal bytes
    start, end = int(data.ctypes.data), int(found.ctypes.data)
    with threads(1 if target.nbytes < _LEAST_SHARED_BYTES else 0):
        primitive = reorder_primitive(source, target)
        for i in range(count):
            addresses: Addresses = {
                Arg.SOURCE: (source, start + i * source.nbytes),
                Arg.DESTINATION: (target, end + i * target.nbytes),
            }
            primitive.bind(addresses)()
    return found


def _descs(source: Value, target: Value) -> tuple[MemoryDesc, MemoryDesc]:
    known = [v.layout.dense for v in (source, target) if isinstance(v.layout, OneDnnLayout)]
    form = known[0] if known else dense(source.spec.shape)
    if isinstance(source.layout, Strided) and not source.spec.dtype.is_float:
        form = form.of_type(source.layout.type)
    return _desc(source, form), _desc(target, form)


def _desc(value: Value, form: MemoryDesc) -> MemoryDesc:
    if isinstance(value.layout, Strided):
        return value.layout.along(form)
    if isinstance(value.layout, Narrow):
        return form.of_type(value.layout.type)
    return value.layout.desc if isinstance(value.layout, OneDnnLayout) else form
