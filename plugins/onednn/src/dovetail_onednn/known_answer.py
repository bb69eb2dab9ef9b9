"""Checks of oneDNN's results on this processor, once per process.

Products represent all primitives without a separate check. Convolutions have one, since the library
generates other code for them, and so have products of stored integers. Products and convolutions in
bfloat16 are checked where that precision is requested. A backend runs the checks when it is
created, but for products of integers: those are checked when kernels are first needed, or when the
first one is restored.
"""

from __future__ import annotations

import enum
import functools
import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from dovetail.errors import DovetailError, PluginError
from dovetail.ir import Array, Shape
from dovetail_onednn._api import SCALES, ZERO_POINTS, Algorithm, Arg, DataType
from dovetail_onednn._library import Library, library
from dovetail_onednn.attributes import Eltwise, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.geometry import Geometry, convolution_desc
from dovetail_onednn.layouts import dense, filters, images, vector
from dovetail_onednn.precision import Precision, computing_in, factor_type
from dovetail_onednn.primitives import Addresses, Description, Primitive, PrimitiveDesc
from dovetail_onednn.product import Product
from dovetail_onednn.reorder import moved
from dovetail_onednn.threads import threads

Case = tuple[str, Callable[[], bool]]  # description, and whether the library is right
Operands = Mapping[int, tuple[MemoryDesc, Array]]  # descriptor and array by argument

_LOG = logging.getLogger("dovetail.onednn")

_CHECKING = threading.Lock()
_RELU = Eltwise(Algorithm.RELU)
# Sums of up to 288 products of whole numbers below 8 are exact in float32, in whatever order.
_PRODUCTS = ((9, 37, 43), (16, 64, 64))
_CONVOLUTIONS = (((9, 7, 32), 48, 1), ((8, 8, 16), 16, 16), ((5, 6, 3), 10, 1))


class Kind(enum.Enum):
    """Kinds of primitives that are checked separately."""

    PRODUCT = "products"
    CONVOLUTION = "convolutions"
    BFLOAT16 = "bfloat16"
    INTEGER = "integers"


def checked_library(kinds: Iterable[Kind] = Kind) -> Library:
    """Return oneDNN after checking its results in small cases.

    Args:
        kinds: The kinds to check, by default all.

    Raises:
        PluginError: oneDNN cannot be used, or its results are wrong.
    """
    found = library()
    for kind in kinds:
        with _CHECKING:
            fault = _fault(kind)
        if fault:
            raise PluginError(
                f"oneDNN {found.version_text} fails its check on this processor: {fault}",
                code="PLUGIN_BROKEN",
                where=found.path,
                hint="install another version of oneDNN, or compute with NumPy (engine = 'numpy')",
            )
    return found


def is_right(kind: Kind, *, strict: bool) -> bool:
    """Return whether the library passes the check of a kind.

    Args:
        kind: The kind.
        strict: Whether a failed check is an error.

    Raises:
        PluginError: The check failed, and `strict`.
    """
    try:
        checked_library((kind,))
    except PluginError as error:
        if strict:
            raise
        _LOG.info("%s are left to other kernels: %s", kind.value, error.message)
        return False
    return True


def require_right(description: Description) -> None:
    """Raise if the library fails the check of a primitive that an image describes.

    Raises:
        PluginError: Its results are wrong.
    """
    is_convolution = "convolution" in description.function
    kinds = [Kind.CONVOLUTION if is_convolution else Kind.PRODUCT]
    read = (given for given in description.arguments if isinstance(given, MemoryDesc))
    if any(desc.type in (DataType.U8, DataType.S8) for desc in read):
        kinds.append(Kind.INTEGER)
    checked_library(kinds)


@functools.cache
def _fault(kind: Kind) -> str:
    """Return the fault of a kind, or an empty text."""
    precision = Precision.BF16 if kind is Kind.BFLOAT16 else Precision.FLOAT32
    # one thread: the code is the same, and waking others would take longer than the cases
    with threads(1), computing_in(precision):
        for case, is_right in _CASES[kind]():
            try:
                if not is_right():
                    return f"{case}: wrong result"
            except DovetailError as error:
                return f"{case}: {error.message}"
    return ""


def _products() -> Iterator[Case]:
    for rows, depth, columns in _PRODUCTS:
        case = f"a {factor_type().text} product, {rows}x{depth} by {depth}x{columns}"
        yield case, functools.partial(_multiplies, rows, depth, columns)


def _convolutions() -> Iterator[Case]:
    for (height, width, channels), made, groups in _CONVOLUTIONS:
        what = f"{height}x{width}x{channels} to {made}, groups {groups}"
        case = f"a {factor_type().text} 3x3 convolution, {what}"
        yield case, functools.partial(_convolves, (1, height, width, channels), made, groups)


def _both() -> Iterator[Case]:
    if factor_type() is not DataType.F32:  # else nothing will be rounded
        yield from (*_products(), *_convolutions())


def _integers() -> Iterator[Case]:
    if library().has_vnni:  # else the library has no exact code, and none is used
        for shape, made, groups in _CONVOLUTIONS:
            what = f"{'x'.join(map(str, shape))} to {made}, groups {groups}"
            case = f"a 3x3 convolution of integers, {what}"
            yield case, functools.partial(_convolves_integers, (1, *shape), made, groups)


_CASES = {
    Kind.PRODUCT: _products,
    Kind.CONVOLUTION: _convolutions,
    Kind.BFLOAT16: _both,
    Kind.INTEGER: _integers,
}


def _multiplies(rows: int, depth: int, columns: int) -> bool:
    """Return whether a product with packed weights, bias and relu equals NumPy's."""
    x, w, b = (_numbers(s) for s in ((rows, depth), (depth, columns), (1, columns)))
    source, weights, bias, target = map(dense, (x.shape, w.shape, b.shape, (rows, columns)))
    kind = factor_type()
    product = Product("matmul", source, MemoryDesc.any(weights.dims, kind), bias, target, kind)
    with product.described((_RELU,)) as desc:
        operands: Operands = {
            Arg.SOURCE: (source, x),
            Arg.WEIGHTS: (weights, w),
            Arg.BIAS: (bias, b),
        }
        found = _computed(desc, operands, target)
    return np.array_equal(found, _rounded(_multiplied(x, w, b)))


def _convolves(shape: Shape, made: int, groups: int) -> bool:
    """Return whether a convolution with bias, relu and padding 1 equals NumPy's."""
    x, w, b = (_numbers(s) for s in (shape, (3, 3, shape[3] // groups, made), (made,)))
    source, weights, bias = images(shape), filters(w.shape, groups), vector(made)
    target = images((*shape[:3], made))
    ones = (1, 1)
    geometry = Geometry(source, weights, bias, target, ones, ones, ones, ones)
    kind = factor_type()
    arranged = None if kind is DataType.F32 else (source.of_type(kind), target.of_type(kind))
    with convolution_desc(geometry, (_RELU,), arranged or (None, None)) as desc:
        operands: Operands = {
            Arg.SOURCE: (source, x),
            Arg.WEIGHTS: (weights, w),
            Arg.BIAS: (bias, b),
        }
        found = _computed(desc, operands, target)
    return np.array_equal(found, _rounded(_convolved(x, w, b, groups)))


def _convolves_integers(shape: Shape, made: int, groups: int) -> bool:
    """Return whether a rescaled convolution of bytes equals NumPy's.

    Neighbors have the largest magnitudes, whose sums of two products exceed 16 bits.
    """
    x, w = _numbers(shape), _numbers((3, 3, shape[3] // groups, made))
    x, w = np.where(x < 0, 0, 255 - x), np.where(w < -5, w, 127 - np.abs(w))
    b, m = _numbers((made,)) / 4, (_numbers((made,)) + 9) / 2**16
    weights, bias = filters(w.shape, groups), vector(made)
    source, target = images(shape), images((*shape[:3], made))
    ones = (1, 1)
    geometry = Geometry(source, weights, bias, target, ones, ones, ones, ones)
    arranged = source.of_type(DataType.U8), target.of_type(DataType.U8)
    mask = 1 if groups == 1 else 3
    scale, zero = SCALES | Arg.WEIGHTS, ZERO_POINTS | Arg.DESTINATION
    quantization = Quantization(((Arg.WEIGHTS, mask),), (Arg.DESTINATION,))
    with convolution_desc(geometry, (), arranged, quantization) as desc:
        operands: Operands = {
            Arg.SOURCE: (arranged[0], x.astype(np.uint8)),
            Arg.WEIGHTS: (weights.of_type(DataType.S8), w.astype(np.int8)),
            Arg.BIAS: (bias, b),
            scale: (vector(made), m),
            zero: (desc.desc(zero), np.full(1, 7, np.int32)),
        }
        found = _computed(desc, operands, arranged[1], np.uint8)
    return np.array_equal(found, _rescaled(x, w, m, b, groups).ravel())


def _numbers(shape: Shape) -> Array:
    """Return irregular whole numbers from -7 to 7, float32.

    They are middle bits of multiplied squares: NumPy's generators take longer to load than the
    check takes, and 2.5 MB.
    """
    index = np.arange(math.prod(shape), dtype=np.uint64) + 1
    return (index * index * 2654435761 // 65536 % 15).astype(np.float32).reshape(shape) - 7


def _computed(
    desc: PrimitiveDesc,
    operands: Operands,
    target: MemoryDesc,
    dtype: type[np.generic] = np.float32,
) -> Array:
    """Return the flat result of a primitive for dense arrays."""
    arrays: dict[int, Array] = {
        arg: moved(array, lies, desc.desc(arg)) for arg, (lies, array) in operands.items()
    }
    made = desc.desc(Arg.DESTINATION)
    arrays[Arg.DESTINATION] = np.empty(made.nbytes, np.uint8)
    places: Addresses = {a: (desc.desc(a), int(v.ctypes.data)) for a, v in arrays.items()}
    Primitive(desc).bind(places)()
    return moved(arrays[Arg.DESTINATION], made, target).view(dtype)


def _rounded(exact: Array) -> Array:
    """Return float32 numbers, flat, rounded to the current precision: ties to even."""
    flat = exact.ravel()
    if factor_type() is DataType.F32:
        return flat
    bits = flat.view(np.uint32)
    rounded: Array = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def _multiplied(x: Array, w: Array, b: Array) -> Array:
    found: Array = np.maximum(x @ w + b, 0)
    return found


def _convolved(x: Array, w: Array, b: Array, groups: int) -> Array:
    found: Array = np.maximum(_sums(x, w, b, groups), 0)
    return found


def _rescaled(x: Array, w: Array, m: Array, b: Array, groups: int) -> Array:
    """Return a convolution of integers, rescaled, plus 7, as bytes."""
    sums = _sums(x.astype(np.float64), w.astype(np.float64), np.zeros(len(b)), groups)
    wanted = np.rint(sums.astype(np.float32) * m + b + np.float32(7))
    found: Array = np.clip(wanted, 0, 255)
    return found


def _sums(x: Array, w: Array, b: Array, groups: int) -> Array:
    """Return a 3x3 convolution with padding 1."""
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
    return out
