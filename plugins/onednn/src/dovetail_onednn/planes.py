"""Conversions of 16-bit tensors to their lower and upper bytes, and back; see `Planes`.

NumPy copies the bytes: the library's copies of every other byte took six times as long.
"""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import functools
import math
from collections.abc import Callable

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import (
    Bound,
    Buffers,
    Data,
    PlanRecorder,
    RecipeError,
    Source,
    Step,
    Storage,
    Value,
    call_sequence,
)
from dovetail_onednn.layouts import Planes
from dovetail_onednn.recipes import BUILDERS

_PLANES = "onednn.planes"
_WORD = 2  # bytes
_SIGN = 0x80  # the bit of an upper byte that differs between signed words and unsigned ones


def planes_of(buffers: Buffers, value: Value, layout: Planes) -> tuple[Array, Array]:
    """Return the lower and the upper bytes of a value that has this layout."""
    stored = buffers.array(value).reshape(-1).view(np.uint8)
    lower, upper = (stored[at : at + layout.count] for at in (0, layout.apart))
    return lower, upper


def conversion(source: Value, target: Value) -> Step:
    """Return the step that copies a dense value into `Planes`, or back."""
    return Step((), (source,), (target,), _Conversion(source, target))


class _Conversion:
    """The bind of a copy between the dense layout and `Planes`.

    Args:
        source: What is copied.
        target: The same tensor in the other layout.

    Raises:
        RecipeError: The layouts are others, as they may be in an image.
    """

    __slots__ = ("_layout", "_source", "_target")

    def __init__(self, source: Value, target: Value) -> None:
        self._source, self._target = source, target
        dtype, layouts = source.spec.dtype, (source.layout, target.layout)
        planes = Planes(math.prod(source.spec.shape))
        is_same = (dtype, source.spec.shape) == (target.spec.dtype, target.spec.shape)
        is_word = dtype.is_fixed_point and dtype.storage.itemsize == _WORD
        if not (is_same and is_word) or layouts not in ((None, planes), (planes, None)):
            raise RecipeError(f"'{source.name}' is not converted between words and their bytes")
        self._layout = planes

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        is_signed = self._source.spec.dtype.is_signed
        if self._target.layout is None:
            planes = planes_of(buffers, self._source, self._layout)
            return _joined(buffers.array(self._target), *planes, is_signed=is_signed)
        planes = planes_of(buffers, self._target, self._layout)
        return _split(buffers.array(self._source), *planes, is_signed=is_signed)

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        values = recorder.value(self._source), recorder.value(self._target)
        return _PLANES, PlanesData(*values)


def _split(words: Array, lower: Array, upper: Array, *, is_signed: bool) -> Bound:
    """Return the call that copies bytes of words apart."""
    stored = words.reshape(-1).view(np.uint8)
    calls: list[Callable[[], object]] = [
        functools.partial(np.copyto, lower, stored.view(np.uint16), casting="unsafe")
    ]
    if lower.size:
        # words that begin a byte later end with the upper bytes: half the time of shifts
        late = stored[1:-1].view(np.uint16)
        calls.append(functools.partial(np.copyto, upper[:-1], late, casting="unsafe"))
        calls.append(functools.partial(np.copyto, upper[-1:], stored[-1:]))
    if is_signed:
        calls.append(functools.partial(np.bitwise_xor, upper, _SIGN, out=upper))
    return call_sequence(calls)


def _joined(words: Array, lower: Array, upper: Array, *, is_signed: bool) -> Bound:
    """Return the call that copies bytes into words."""
    stored = words.reshape(-1).view(np.uint8)
    parts = stored[::_WORD], stored[1::_WORD]
    calls: list[Callable[[], object]] = [
        functools.partial(np.copyto, into, plane)
        for into, plane in zip(parts, (lower, upper), strict=True)
    ]
    if is_signed:
        calls.append(functools.partial(np.bitwise_xor, parts[1], _SIGN, out=parts[1]))
    return call_sequence(calls)


class PlanesData(Data, frozen=True):
    """A `_Conversion`: what it copies, and where to."""

    source: int
    target: int


@BUILDERS.builds(_PLANES, PlanesData)
def _conversion(data: PlanesData, source: Source) -> _Conversion:
    target = source.value(data.target)
    if target.root.storage not in (Storage.ARENA, Storage.OUTPUT):
        raise RecipeError(f"a copy of bytes writes '{target.name}', which is only read")
    return _Conversion(source.value(data.source), target)
