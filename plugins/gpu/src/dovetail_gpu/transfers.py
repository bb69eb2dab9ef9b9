"""Reorders: between the host's memory and a device, and between types on the device.

Fixed-point values are dequantized and quantized on the host, by the definitions of their encodings.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, DType, Spec, dequantize, quantize
from dovetail.ops import from_real, to_real
from dovetail.runtime.plan import (
    PLAN_BUILDERS,
    VIEW,
    Bound,
    Buffers,
    Builders,
    Data,
    PlanRecorder,
    RecipeError,
    Source,
    Step,
    Storage,
    Value,
)
from dovetail_gpu import programs
from dovetail_gpu.computing import Computing, current
from dovetail_gpu.elements import Element
from dovetail_gpu.launching import GROUP, Launch
from dovetail_gpu.layouts import DeviceLayout, is_encoded
from dovetail_gpu.space import DeviceBlock

BUILDERS = Builders().joined(PLAN_BUILDERS)
SHARED_BYTES = 1 << 18  # from here on a copy takes longer than binding kernels to another array


class TransferData(Data, frozen=True):
    """A transfer: numbers of its values."""

    source: int
    target: int


class LayoutData(Data, frozen=True):
    """A layout on the device."""

    element: str
    count: int


def reorder(source: Value, target: Value) -> Step:
    """Return the step that converts a value to another layout; see `Reorder`.

    Large inputs of the application that a device can read as they are become views.
    """
    if _is_shared(source, target):
        target.storage, target.alias_of = source.storage, source
        return Step((), (source,), (target,), VIEW)
    return Step((), (source,), (target,), Transfer(source, target))


def _is_shared(source: Value, target: Value) -> bool:
    """Return whether a device reads a value of the application without a copy."""
    layout = target.layout
    return (
        source.storage is Storage.INPUT
        and source.layout is None
        and isinstance(layout, DeviceLayout)
        and source.nbytes == layout.nbytes >= SHARED_BYTES
        and source.spec.dtype.storage == layout.element.storage
        and not is_encoded(source.spec)
        and layout.space.reads_host
    )


@dataclass(frozen=True, slots=True)
class Transfer:
    """The bind of a step that copies and converts a value; a `Recipe`."""

    source: Value
    target: Value

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for the given buffers."""
        source, target = self.source.layout, self.target.layout
        if isinstance(source, DeviceLayout) and isinstance(target, DeviceLayout):
            return _converted(self.source, self.target, source, target).bound(buffers)
        if isinstance(target, DeviceLayout):
            given = buffers.array(self.source)
            if _is_narrowed(given, target, self.source.spec):
                return _narrowed(self, target, buffers, given)
            block, offset = buffers.buffer(self.target)
            return functools.partial(
                _upload, current(), target, block, offset, given, self.source.spec
            )
        if isinstance(source, DeviceLayout):
            block, offset = buffers.buffer(self.source)
            taken = buffers.array(self.target)
            return functools.partial(
                _download, current(), source, block, offset, taken, self.target.spec
            )
        raise AssertionError(f"{self.source.name} is not stored on the device")

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        data = TransferData(recorder.value(self.source), recorder.value(self.target))
        return "opencl.transfer", data


def record_layout(layout: DeviceLayout, recorder: PlanRecorder) -> int:
    """Return the number of a recorded layout."""
    data = LayoutData(layout.element.name, layout.count)
    return recorder.item("opencl.layout", (layout.element, layout.count), lambda: data)


@BUILDERS.builds("opencl.layout", LayoutData)
def _layout(data: LayoutData, source: Source) -> DeviceLayout:
    if data.element not in Element.__members__ or not 0 <= data.count < 1 << 48:
        raise RecipeError(f"an impossible layout of {data.count} {data.element}")
    return DeviceLayout(current().engine.space, Element[data.element], data.count)


@BUILDERS.builds("opencl.transfer", TransferData)
def _transfer(data: TransferData, source: Source) -> Transfer:
    first, second = source.value(data.source), source.value(data.target)
    layouts = [v.layout for v in (first, second) if isinstance(v.layout, DeviceLayout)]
    count = int(np.prod(first.spec.shape, dtype=np.int64))
    if (
        not layouts
        or first.spec.shape != second.spec.shape
        or any(each.count != count for each in layouts)
    ):
        raise RecipeError(f"a transfer from '{first.name}' to '{second.name}', which differ")
    return Transfer(first, second)


def _upload(
    computing: Computing,
    layout: DeviceLayout,
    block: DeviceBlock,
    offset: int,
    given: Array,
    spec: Spec,
) -> None:
    layout.space.upload(to_device(given, spec, layout.element), block, offset, computing)


def _is_narrowed(given: Array, target: DeviceLayout, spec: Spec) -> bool:
    """Return whether the device converts an array to half precision, faster than the host."""
    is_float = given.dtype == np.float32 and not is_encoded(spec)
    return is_float and target.element is Element.HALF and not target.space.device.is_cpu


def _narrowed(transfer: Transfer, target: DeviceLayout, buffers: Buffers, given: Array) -> Bound:
    """Return the call that copies float32 to memory of its own, and converts it there."""
    wide = DeviceLayout(target.space, Element.FLOAT, target.count)
    block = target.space.allocate(wide.nbytes)
    source = Value(transfer.source.name, transfer.source.spec, Storage.ARENA, wide)

    def buffer(value: Value) -> tuple[object, int]:
        return (block, 0) if value is source else buffers.buffer(value)

    upload = functools.partial(_upload, current(), wide, block, 0, given, source.spec)
    convert = _converted(source, transfer.target, wide, target).with_buffers(buffer)

    def run() -> None:
        upload()
        convert()

    return run


def _download(
    computing: Computing,
    layout: DeviceLayout,
    block: DeviceBlock,
    offset: int,
    taken: Array,
    spec: Spec,
) -> None:
    element = layout.element
    if element.storage == taken.dtype or element.storage.itemsize == taken.dtype.itemsize == 1:
        layout.space.download(block, offset, taken, computing)
        return
    found = np.empty(taken.shape, element.storage)
    layout.space.download(block, offset, found, computing)
    if is_encoded(spec) and spec.encoding is not None:
        quantize(found, spec.encoding, spec.dtype, taken)
    elif spec.dtype is DType.BFLOAT_16:
        np.copyto(taken, from_real(found.astype(np.float32, copy=False), spec))
    else:
        np.copyto(taken, found, casting="unsafe")


def to_device(stored: Array, spec: Spec, element: Element) -> Array:
    """Return stored values of a tensor as elements of a device."""
    if is_encoded(spec) and spec.encoding is not None:
        stored = dequantize(stored, spec.encoding)
    elif spec.dtype is DType.BFLOAT_16:
        stored = to_real(stored, spec)
    return np.ascontiguousarray(stored).astype(element.storage, copy=False)


def _converted(x: Value, y: Value, source: DeviceLayout, target: DeviceLayout) -> Launch:
    defines = {
        **programs.type_defines("TO", target.element),
        **programs.type_defines("FROM", source.element),
    }
    program = programs.Source.of("convert", defines)
    return Launch(program, "convert", (x, y, source.count), (source.count,), (GROUP,))
