"""Resizing of images, where the op set and the library agree."""

from __future__ import annotations

from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import FORWARD_INFERENCE, Arg, ResamplingAlgorithm
from dovetail_onednn._library import library
from dovetail_onednn.banded import Bands, banded_resize
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.finite import IfFinite
from dovetail_onednn.layouts import images, input_type
from dovetail_onednn.primitives import ENGINE, Description, Primitive, PrimitiveDesc
from dovetail_onednn.steps import execution, from_one_to_one, is_slow

# The library computes positions in float32: on longer axes their error exceeds 1e-4 of an element.
_LONGEST = 1024
# Channels up to which products are faster for larger images, and the most old elements for each new
# one in a row. The library takes some 2 ns a pixel, for any number: from (160, 160, 1) to
# (640, 640, 1) it took 789 us and products take 107, with 3 channels 814 and 254, with 4 from
# (64, 64) to (128, 128) 33 and 38. Of a matrix for several channels most is 0: with 3 from (160,
# 160) to (320, 320), 4.5 old ones, it took 211 and products take 151, to (240, 240) 121 and 125.
# With AVX2, 2 channels to (320, 320), 2 old ones, took 164 and take 159, 3 of them 159 and 251.
_FEW = 3
_MOST_OLD, _MOST_OLD_AVX2 = 4.5, 2.25


def resize_bilinear(call: KernelCall) -> Step | None:
    """Run ResizeBilinear; see `Kernel.make`."""
    op, spatial = call.op, call.spec(0).shape[1:-1]
    if not is_float32(call):
        return None
    if not op.half_pixel_centers or op.antialias or max(spatial) > _LONGEST:
        return banded_resize(call)
    return (_thin(call) if _is_thin(call) else None) or _resampled(call, ResamplingAlgorithm.LINEAR)


def _thin(call: KernelCall) -> Step | None:
    """Return the step of products; of what is not finite, the library resamples."""
    bands, reads = Bands.of(call), images(call.spec(0).shape)
    writes = images(call.outputs[0].shape)
    if bands is None:
        return None
    with PrimitiveDesc(_description(ResamplingAlgorithm.LINEAR, reads, writes)) as desc:
        if is_slow(desc):
            return None
        resampling = Primitive(desc)
    source, result = call.read(0), call.write()
    products = bands.works(call, source, result)
    ends: dict[int, Argument] = {
        Arg.SOURCE: Argument(reads, source),
        Arg.DESTINATION: Argument(writes, result),
    }
    others = execution(call, Work(resampling, ends))
    return call.step(IfFinite(execution(call, *products), others, source))


def _is_thin(call: KernelCall) -> bool:
    """Return whether an image is enlarged that has few channels, and much if not just one."""
    old, new = call.spec(0).shape, call.outputs[0].shape
    *_, before, channels = old
    after = new[-2]
    most = _MOST_OLD if library().has_avx512 else _MOST_OLD_AVX2
    is_enlarged = all(before <= after for before, after in zip(old, new, strict=True))
    is_cheap = before == after or channels**2 * before <= most * after
    return channels <= _FEW and is_enlarged and is_cheap


def resize_nearest_neighbor(call: KernelCall) -> Step | None:
    """Run ResizeNearestNeighbor by whole factors; see `Kernel.make`.

    With other factors the library rounds to other elements at some positions.
    """
    old, new = call.spec(0).shape, call.outputs[0].shape
    if not is_float32(call) or call.op.align_corners:
        return None
    if any(after % before for before, after in zip(old, new, strict=True)):
        return None
    return _resampled(call, ResamplingAlgorithm.NEAREST)


def _resampled(call: KernelCall, algorithm: ResamplingAlgorithm) -> Step | None:
    source, target = (images(s) for s in (call.spec(0).shape, call.outputs[0].shape))
    kind = input_type(call)
    read, written = source.of_type(kind), target.of_type(kind)
    with PrimitiveDesc(_description(algorithm, read, written)) as desc:
        return from_one_to_one(call, desc, source, target)


def _description(
    algorithm: ResamplingAlgorithm, read: MemoryDesc, written: MemoryDesc
) -> Description:
    name = f"{read.type.text} {algorithm.name.lower()} resampling"
    return Description(
        "resampling_forward",
        (ENGINE, FORWARD_INFERENCE, algorithm, None, read, written),
        lambda: f"a {name} of {read.key} to {written.key}",
    )
