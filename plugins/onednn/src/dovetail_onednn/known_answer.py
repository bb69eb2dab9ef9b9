"""Whether this library, on this processor, computes what it should: asked once per process."""

from __future__ import annotations

import functools
import threading

import numpy as np

from dovetail.errors import DovetailError, PluginError
from dovetail.ir import Array
from dovetail_onednn._api import Algorithm, Arg
from dovetail_onednn._library import Library, library
from dovetail_onednn.convolution import Geometry, convolution_desc
from dovetail_onednn.layouts import filters, images, vector
from dovetail_onednn.primitives import Eltwise, Primitive
from dovetail_onednn.reorder import moved

_CHECKING = threading.Lock()
# Sums of up to 288 products of whole numbers below 8 are exact in float32, in whatever order.
_CASES = (((9, 7, 32), 48, 1), ((8, 8, 16), 16, 16), ((5, 6, 3), 10, 1))


def checked_library() -> Library:
    """Gives oneDNN after it gave the right answers to small convolutions.

    Raises:
        PluginError: There is none, or its answers are wrong.
    """
    with _CHECKING:
        return _checked()


@functools.cache
def _checked() -> Library:
    found = library()
    for (height, width, channels), made, groups in _CASES:
        case = f"a 3x3 convolution, {height}x{width}x{channels} to {made}, groups {groups}"
        try:
            is_right = _holds((1, height, width, channels), made, groups)
        except DovetailError as error:
            raise _refused(found, f"{case}: {error.message}") from error
        if not is_right:
            raise _refused(found, f"{case}: its answer is wrong")
    return found


def _refused(found: Library, why: str) -> PluginError:
    return PluginError(
        f"oneDNN {found.version_text} fails its check on this processor: {why}",
        code="PLUGIN_BROKEN",
        where=found.path,
        hint="the NumPy kernels are used (engine = 'numpy'); install another version of oneDNN",
    )


def _holds(shape: tuple[int, int, int, int], made: int, groups: int) -> bool:
    """Whether a convolution with bias and relu, padded by 1, is exactly what NumPy says."""
    rng = np.random.default_rng(1)
    x, w, b = (
        rng.integers(-7, 8, s).astype(np.float32)
        for s in (shape, (3, 3, shape[3] // groups, made), (made,))
    )
    target = images((*shape[:3], made))
    ones = (1, 1)
    geometry = Geometry(
        images(shape), filters(w.shape, groups), vector(made), target, ones, ones, ones, ones
    )
    with convolution_desc(geometry, (Eltwise(Algorithm.RELU),)) as desc:
        source = moved(x, geometry.source, desc.desc(Arg.SOURCE))
        weights = moved(w, geometry.weights, desc.desc(Arg.WEIGHTS))
        result = np.empty(desc.desc(Arg.DESTINATION).nbytes, np.uint8)
        Primitive(desc).bind(
            {
                Arg.SOURCE: (desc.desc(Arg.SOURCE), source.ctypes.data),
                Arg.WEIGHTS: (desc.desc(Arg.WEIGHTS), weights.ctypes.data),
                Arg.BIAS: (geometry.bias or vector(made), b.ctypes.data),
                Arg.DESTINATION: (desc.desc(Arg.DESTINATION), result.ctypes.data),
            }
        )()
        found = moved(result, desc.desc(Arg.DESTINATION), target).view(np.float32)
    return bool(np.array_equal(found, _convolved(x, w, b, groups).ravel()))


def _convolved(x: Array, w: Array, b: Array, groups: int) -> Array:
    n, height, width, channels = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taken, made = channels // groups, w.shape[3] // groups
    out = np.tile(b, (n, height, width, 1))
    for group in range(groups):
        part = out[..., group * made : (group + 1) * made]
        for row, column in np.ndindex(3, 3):
            window = padded[:, row : row + height, column : column + width]
            window = window[..., group * taken : (group + 1) * taken]
            part += window @ w[row, column, :, group * made : (group + 1) * made]
    found: Array = np.maximum(out, 0)
    return found
