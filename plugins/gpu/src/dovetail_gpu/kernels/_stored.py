"""Types in which the weights of products are stored."""

from __future__ import annotations

import enum

import numpy as np

from dovetail.ir import Array
from dovetail_gpu.elements import Element


class Stored(enum.Enum):
    """Type of packed weights: the element of the device, and its weights.

    A unit of NIBBLE has eight weights of 4 bits, the first in the lowest bits.
    """

    FLOAT = (Element.FLOAT, 1)
    HALF = (Element.HALF, 1)
    NIBBLE = (Element.UINT, 8)
    CHAR = (Element.CHAR, 1)
    SHORT = (Element.SHORT, 1)

    @property
    def element(self) -> Element:
        """Type of a unit on the device."""
        return self.value[0]

    @property
    def is_real(self) -> bool:
        """True if weights are real numbers; otherwise they are integers with scales."""
        return self.element.is_float

    def units(self, count: int) -> int:
        """Return the elements of the device for a number of weights."""
        return count // self.value[1]

    @classmethod
    def of(cls, element: Element) -> Stored:
        """Return the type of real numbers."""
        return cls[element.name]

    @classmethod
    def for_range(cls, low: int, high: int) -> Stored | None:
        """Return the narrowest type for integers of a range; None if there is none."""
        for bits, kind in ((4, cls.NIBBLE), (8, cls.CHAR), (16, cls.SHORT)):
            if -(1 << (bits - 1)) <= low and high < 1 << (bits - 1):
                return kind
        return None

    def packed(self, integers: Array) -> Array:
        """Return integers, int32 with a multiple of eight on the last axis, as units."""
        if self is not Stored.NIBBLE:
            return integers.astype(self.element.storage)
        *more, last = integers.shape
        eights = (integers & 15).astype(np.uint32).reshape(*more, last // 8, 8)
        shifts = np.arange(0, 32, 4, dtype=np.uint32)
        units: Array = np.bitwise_or.reduce(eights << shifts, axis=-1)
        return units
