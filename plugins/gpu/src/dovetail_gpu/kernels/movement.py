"""Ops that move elements: views where the elements stay in order, else copies of boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.boxes import Box, copied, described, joins, offset_in
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.launching import Launch, launch_all
from dovetail_gpu.layouts import element_of, is_stored, layout_of, read, write
from dovetail_opset import STANDARD

# Bytes of a tensor that may be kept for any small part of it.
_LITTLE = 1 << 16


def moved_element(call: KernelCall) -> Element | None:
    """Return the type of elements that a call moves; None if the device has no such type."""
    specs = [call.spec(i) for i in range(len(call.tensors)) if call.has(i)]
    return element_of(call.outputs[0].spec) if all(map(is_stored, specs)) else None


@KERNELS.register(STANDARD, "Reshape")
@KERNELS.register(STANDARD, "ExpandDims")
@KERNELS.register(STANDARD, "Squeeze")
def reshape(call: KernelCall) -> Step | None:
    """Run Reshape, ExpandDims and Squeeze: a view."""
    return _arranged(call, lambda x: x.reshape(call.outputs[0].shape))


@KERNELS.register(STANDARD, "Transpose")
def transpose(call: KernelCall) -> Step | None:
    """Run Transpose."""
    return _arranged(call, lambda x: x.transpose([int(p) for p in call.op.perm]))


@KERNELS.register(STANDARD, "ChannelShuffle")
@KERNELS.register(STANDARD, "DepthToSpace")
@KERNELS.register(STANDARD, "SpaceToDepth")
@KERNELS.register(STANDARD, "Tile")
def arranged(call: KernelCall) -> Step | None:
    """Run ops that describe their result as a view."""
    return _arranged(call, call.op.arranged)


@KERNELS.register(STANDARD, "StridedSlice")
def strided_slice(call: KernelCall) -> Step | None:
    """Run StridedSlice."""
    return _arranged(call, lambda x: np.asarray(x[(*call.op.index(), ...)]))


@KERNELS.register(STANDARD, "ArgbToRgb")
def argb_to_rgb(call: KernelCall) -> Step | None:
    """Run ArgbToRgb."""
    return _arranged(call, call.op.reference)


def _arranged(call: KernelCall, arrange: Callable[[Array], Array]) -> Step | None:
    """Return the step of an op whose result is a view of its input, in the order of elements."""
    element = moved_element(call)
    if element is None:
        return None
    whole = described(call.spec(0).shape)
    x = arrange(whole)
    if x.flags.c_contiguous and _keeps_little(call.spec(0), call.outputs[0].spec):
        step = _view(call, element, [offset_in(x, whole) if x.size else 0])
        if step is not None:
            return step
    y = described(x.shape)
    box = Box.of(x, y, whole, y)
    source, target = read(call, 0, element), write(call)
    return launch_all(call, [copied(call, source, target, box)])


def _view(call: KernelCall, element: Element, offsets: Sequence[int]) -> Step | None:
    """Return the step of outputs that are views of the input; None if one is another type."""
    specs = [tensor.spec for tensor in call.outputs]
    if any(element_of(spec) is not element for spec in specs):
        return None
    (layout,) = {layout_of(spec) for spec in specs}
    starts = [offset * element.nbytes for offset in offsets]
    return call.view(0, layout, starts, source=layout_of(call.spec(0), element))


def _keeps_little(whole: Spec, part: Spec) -> bool:
    """Return whether a view keeps no large tensor in memory for a small part of it."""
    return whole.nbytes <= _LITTLE or 2 * part.nbytes >= whole.nbytes


@KERNELS.register(STANDARD, "Concat")
@KERNELS.register(STANDARD, "Pack")
def joined(call: KernelCall) -> Step | None:
    """Run Concat and Pack: copy each input into its columns of the result."""
    element = moved_element(call)
    if element is None:
        return None
    axis: int = call.op.axis
    given = [i for i in range(len(call.tensors)) if call.has(i)]
    rows = math.prod(call.outputs[0].shape[:axis])
    widths = [math.prod(call.spec(i).shape[axis:]) for i in given]
    sources = [read(call, i, element) for i in given]
    return launch_all(call, joins(call, sources, widths, write(call), rows))


@KERNELS.register(STANDARD, "Split")
def split(call: KernelCall) -> Step | None:
    """Run Split: views along the first axis, else copies of the pieces."""
    axis: int = call.op.axis
    whole = described(call.spec(0).shape)
    bounds = np.cumsum([0, *(part.shape[axis] for part in call.outputs)]).tolist()
    return _divided(call, whole, [whole[_along(axis, *p)] for p in itertools.pairwise(bounds)])


@KERNELS.register(STANDARD, "UnPack")
def unpack(call: KernelCall) -> Step | None:
    """Run UnPack: views along the first axis, else copies of the slices."""
    whole = described(call.spec(0).shape)
    return _divided(call, whole, _slices(whole, call.op.axis))


def _divided(call: KernelCall, whole: Array, parts: Sequence[Array]) -> Step | None:
    element = moved_element(call)
    if element is None:
        return None
    sizes = {part.size for part in parts}
    if len(sizes) == 1 and whole.size and all(part.flags.c_contiguous for part in parts):
        offsets = [offset_in(part, whole) for part in parts]
        if step := _view(call, element, offsets):
            return step
    source = read(call, 0, element)
    launches: list[Launch] = []
    for i, part in enumerate(parts):
        target: Value = write(call, i)
        y = described(part.shape)
        launches.append(copied(call, source, target, Box.of(part, y, whole, y)))
    return launch_all(call, launches)


def _along(axis: int, begin: int, end: int) -> tuple[slice, ...]:
    """Return the index of a range on an axis."""
    return (*(slice(None),) * axis, slice(begin, end))


def _slices(whole: Array, axis: int) -> list[Array]:
    """Return the slices along an axis: arrays also where they have no axis left."""
    first = np.moveaxis(whole, axis, 0)
    return [first[i, ...] for i in range(len(first))]
