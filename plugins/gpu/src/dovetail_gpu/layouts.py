"""Layouts of values on a device: dense and row-major, with a type of their own.

Float tensors are stored as `float` or `half`, whatever their type in the graph is: that depends on
the precision of the graph. Fixed-point tensors with an encoding are stored as their real values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dovetail.ir import DType, Spec, dequantize
from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import STORED, Element
from dovetail_gpu.space import DeviceSpace

_REAL = (DType.FLOAT_32, DType.FLOAT_16, DType.BFLOAT_16)


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """Dense, row-major elements of a type on a device; see `Layout`.

    Attributes:
        space: The memory of the device.
        element: Type of the elements.
        count: Number of elements.
    """

    space: DeviceSpace
    element: Element
    count: int

    @property
    def nbytes(self) -> int:
        """Size of a value in this layout."""
        return self.count * self.element.nbytes

    @property
    def key(self) -> str:
        """See `Layout`."""
        return f"opencl.dense {self.element.name} {self.count}"


def element_of(spec: Spec) -> Element:
    """Return the type in which values of a tensor are stored in the graph that is prepared.

    Types of the graph are kept, but real numbers have the precision of the graph.
    """
    if spec.dtype.is_float or is_encoded(spec):
        is_half = current().stores_half(given=spec.dtype is DType.FLOAT_16)
        return Element.HALF if is_half else Element.FLOAT
    return STORED[spec.dtype]


def is_real(spec: Spec) -> bool:
    """Return whether values of a tensor are real numbers on a device.

    Those of FLOAT_64 are not: a device would round them.
    """
    return spec.dtype in _REAL or is_encoded(spec)


def all_real(specs: Iterable[Spec | None]) -> bool:
    """Return whether all tensors that are present are real numbers on a device."""
    return all(spec is None or is_real(spec) for spec in specs)


def is_stored(spec: Spec) -> bool:
    """Return whether a device stores a tensor, as real numbers or as what they are."""
    return is_real(spec) or (spec.dtype in STORED and not spec.dtype.is_float)


def is_encoded(spec: Spec) -> bool:
    """Return whether a tensor has fixed-point values, which are stored as real numbers."""
    return spec.dtype.is_fixed_point and spec.encoding is not None


def element_in(value: Value) -> Element:
    """Return the type of a value's elements on the device."""
    if not isinstance(value.layout, DeviceLayout):
        raise AssertionError(f"{value.name} is not stored on the device")
    return value.layout.element


def layout_of(spec: Spec, element: Element | None = None) -> DeviceLayout:
    """Return the layout of a tensor, in another type of elements if one is given."""
    return DeviceLayout(current().engine.space, element or element_of(spec), math.prod(spec.shape))


def layout_for(element: Element, count: int) -> DeviceLayout:
    """Return the layout of a number of elements, for constants and scratchpads."""
    return DeviceLayout(current().engine.space, element, count)


def read(call: KernelCall, index: int, element: Element | None = None) -> Value:
    """Declare that a step reads an input on the device; it is converted if it has another type."""
    return call.read(index, layout_of(call.spec(index), element))


def write(call: KernelCall, index: int = 0) -> Value:
    """Declare that a step writes an output on the device."""
    return call.write(index, layout_of(call.outputs[index].spec))


def scratch(call: KernelCall, element: Element, count: int) -> Value:
    """Declare scratch memory of a step, for a number of elements."""
    layout = layout_for(element, count)
    return call.scratch(layout.nbytes, layout)


def table(call: KernelCall, numbers: ArrayLike, element: Element = Element.INT) -> Value:
    """Declare that a step reads numbers, in order, as elements of a type."""
    found = np.ascontiguousarray(numbers, element.storage).reshape(-1)
    return call.constant(found, layout_for(element, found.size))


def constant_of(call: KernelCall, values: Sequence[float], spec: Spec, element: Element) -> Value:
    """Declare that a step reads constants of a tensor's type; see `CONSTANT_TYPES` of the ops.

    Args:
        call: The call.
        values: Numbers; for a fixed-point tensor integers are stored values.
        spec: The tensor.
        element: Type of its elements on the device.
    """
    found = np.array(values)
    if is_encoded(spec) and spec.encoding is not None and found.dtype.kind != "f":
        found = dequantize(found.astype(spec.dtype.storage), spec.encoding)
    with np.errstate(over="ignore"):  # a number beyond the range of halves is an infinity
        return table(call, found.astype(element.storage), element)
