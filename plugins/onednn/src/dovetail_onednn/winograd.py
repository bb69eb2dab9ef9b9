"""Convolutions with filters of three rows and half the products, in float32.

Four rows of a result are a product of polynomials: six products of terms, of the image's rows and
of the filters', replace twelve products of rows. There are three primitives: a product by a
constant matrix computes the terms of all rows; for each term, a convolution with filters of one
row sums over columns and channels; and a product by another matrix computes the rows of the result,
with bias and fused nodes. Image, terms and result stay dense.

The rows are divided into strips, so that the matrices are small and the terms stay in the cache.

The rounding errors are up to twice those of a direct convolution (2e-6 of the largest element for
256 channels). With factors rounded to bfloat16 they would be too large. Elements that are not
finite spread: an infinity or NaN makes the columns that it reaches NaN in its whole strip.

Source: A. Lavin, S. Gray 2015, Fast algorithms for convolutional neural networks, arXiv 1509.09308.
The points are of B. Barabasz et al. 2018, Error analysis and improving the accuracy of Winograd
convolution for deep neural networks, arXiv 1803.10986.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import Arg
from dovetail_onednn.attributes import Binary, operand
from dovetail_onednn.convolution import geometry_of
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.geometry import Geometry, convolution_desc
from dovetail_onednn.layouts import FLOAT_BYTES, OneDnnLayout, dense, filters, images
from dovetail_onednn.post_ops import Chain, chain_of
from dovetail_onednn.precision import math_mode
from dovetail_onednn.primitives import Primitive, PrimitiveDesc
from dovetail_onednn.product import Product
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import execute, is_slow
from dovetail_onednn.threads import threads_for

_TAPS = 3  # rows of the filters
_TILE = 4  # rows of the result that are computed together
_TERMS = _TAPS + _TILE - 1
# The points at which polynomials are evaluated; the last term is the highest coefficient.
_POINTS = (0.0, 1.0, -1.0, 0.5, -2.0)
_TILES = 4  # of a strip, at most
_BLOCK = 8192  # columns of filters that are converted at once: their float64 stay in the cache

# Conditions for being faster than a direct convolution, in two threads: 28x28 by 128 channels (116
# million products) took 0.60 ms and 0.69, 14x14 by 256 channels 0.59 and 0.65, 112x112 from 64 to
# 128 (925 million) 4.8 and 6.3, 56x56 by 256 (1,850 million) 7.4 and 11.8; but 28x28 from 96 to 128
# (87 million) both 0.52, 64x64 by 64 both 0.92. The time of 7x7 by 512 is that of reading the
# filters.
_LEAST_PRODUCTS = 100_000_000
_LEAST_CHANNELS = 192  # of image and result together
_LEAST_POSITIONS = 28  # in a strip of terms

_MOST_STRIPS = 512  # of all images: each binds eight primitives


class Strip(msgspec.Struct, frozen=True):
    """Some rows of a result, and the rows of the image from which they are computed.

    Attributes:
        start: First row of the result.
        rows: Number of rows of the result.
        taken_start: First row of the image.
        taken: Number of rows of the image; 0 if all are padding.
        padded: Number of rows of zeros before those.
        tiles: Number of tiles that cover the rows of the result.
    """

    start: int
    rows: int
    taken_start: int
    taken: int
    padded: int
    tiles: int

    def to_terms(self) -> Array:
        """Return the matrix that converts rows of the image to terms, (terms * tiles, taken)."""
        made = np.zeros((_TERMS, self.tiles, self.taken), np.float32)
        for tile in range(self.tiles):
            for row in range(_TERMS):
                at = tile * _TILE + row - self.padded
                if 0 <= at < self.taken:
                    made[:, tile, at] = _of_image()[:, row]
        return made.reshape(-1, self.taken)

    def from_terms(self) -> Array:
        """Return the matrix that converts terms to rows of the result, (rows, terms * tiles)."""
        made = np.zeros((self.rows, _TERMS, self.tiles), np.float32)
        for row in range(self.rows):
            tile, at = divmod(row, _TILE)
            made[row, :, tile] = _of_result()[at]
        return made.reshape(self.rows, -1)


class Parts(msgspec.Struct, frozen=True):
    """The primitives of strips of one size.

    Attributes:
        to_terms: The product that computes the terms of an image's rows.
        sums: The convolution of the terms by filters of one row.
        from_terms: The product that computes the rows of the result, with bias and post-ops.
        products: The operands of these two products, in the same order.
        convolved: The geometry of the convolution.
        packed: The layout of its filters.
        chain: The post-ops.
    """

    to_terms: Primitive
    sums: Primitive
    from_terms: Primitive
    products: tuple[Product, Product]
    convolved: Geometry
    packed: OneDnnLayout
    chain: Chain


def winograd_convolution(call: KernelCall) -> Step | None:
    """Run Conv2d with filters of three rows and fused nodes; None if that is not faster."""
    if not is_float32(call) or math_mode() or len(call.spec(0).shape) != 4:
        return None
    has_bias = call.has(2)
    if not call.has_data(1) or (has_bias and not call.has_data(2)):
        return None
    if not _has_simple_operands(call):
        return None
    geometry = geometry_of(call, call.op.group, 2)
    if call.op.group != 1 or not _pays(geometry):
        return None
    strips = list(strips_of(geometry))
    sizes: dict[Shape, Parts] = {}
    for strip in strips:
        if _size(strip) not in sizes:
            parts = _parts(call, geometry, strip)
            if parts is None:
                return None
            sizes[_size(strip)] = parts
    return _step(call, strips, sizes)


def _pays(geometry: Geometry) -> bool:
    count, _, height, width = geometry.target.dims
    outputs, inputs, *window = geometry.weights.dims
    tiles = math.ceil(height / _TILE)
    return (
        (window[0], geometry.stride, geometry.dilation[0]) == (_TAPS, (1, 1), 1)
        and count * math.ceil(tiles / _TILES) <= _MOST_STRIPS
        and outputs + inputs >= _LEAST_CHANNELS
        and min(_TILES, tiles) * width >= _LEAST_POSITIONS
        and height * width * outputs * inputs * math.prod(window) >= _LEAST_PRODUCTS
    )


def _has_simple_operands(call: KernelCall) -> bool:
    """Return whether operands of post-ops are full or single numbers, not one per channel."""
    result = call.outputs[0].shape
    shapes = [call.spec(i).shape for node in call.fused for i in node.operands if i is not None]
    return all(shape == result or math.prod(shape) == 1 for shape in shapes)


def strips_of(geometry: Geometry) -> Iterator[Strip]:
    """Yield the strips of a result, with about equal numbers of tiles."""
    height, rows = geometry.source.dims[2], geometry.target.dims[2]
    before = geometry.before[0]
    tiles = math.ceil(rows / _TILE)
    each = math.ceil(tiles / math.ceil(tiles / _TILES)) * _TILE
    for start in range(0, rows, each):
        made = min(each, rows - start)
        first = start - before
        end = first + math.ceil(made / _TILE) * _TILE + _TAPS - 1
        taken_start, taken_end = (min(max(at, 0), height) for at in (first, end))
        yield Strip(
            start,
            made,
            taken_start,
            taken_end - taken_start,
            taken_start - first,
            math.ceil(made / _TILE),
        )


def _size(strip: Strip) -> Shape:
    return strip.rows, strip.taken


def _parts(call: KernelCall, geometry: Geometry, strip: Strip) -> Parts | None:
    """Compile the primitives of strips of a size; None if the library only has generic code."""
    _, taken, _, width = geometry.source.dims
    _, made, _, columns = geometry.target.dims
    terms, row = _TERMS * strip.tiles, columns * made
    has_bias = geometry.bias is not None
    products = (
        _product((terms, strip.taken), width * taken),
        replace(_product((strip.rows, terms), row), bias=dense((1, row)) if has_bias else None),
    )
    full = call.outputs[0].shape
    chain = chain_of(call, lambda shape: dense((strip.rows, row) if shape == full else (1, 1)))
    convolved = replace(
        geometry,
        source=images((1, strip.tiles, width, taken)),
        weights=filters((1, geometry.weights.dims[3], taken, made), 1),
        bias=None,
        target=images((1, strip.tiles, columns, made)),
        before=(0, geometry.before[1]),
        after=(0, geometry.after[1]),
    )
    with (
        _described(products[0], Chain((), ())) as to_terms,
        convolution_desc(convolved, (), (convolved.source, convolved.target)) as sums,
        _described(products[1], chain) as from_terms,
    ):
        if any(map(is_slow, (to_terms, sums, from_terms))):
            return None
        packed = OneDnnLayout(sums.desc(Arg.WEIGHTS), convolved.weights)
        primitives = Primitive(to_terms), Primitive(sums), Primitive(from_terms)
        return Parts(*primitives, products, convolved, packed, chain)


def _product(matrix: Shape, row: int) -> Product:
    rows, depth = matrix
    return Product("matmul", dense(matrix), dense((depth, row)), None, dense((rows, row)))


def _described(product: Product, chain: Chain) -> PrimitiveDesc:
    with threads_for(product.count):
        return product.described(chain.ops)


def _step(call: KernelCall, strips: list[Strip], sizes: dict[Shape, Parts]) -> Step:
    """Return the step that executes all strips of all images in order."""
    values = _Values(call, list(sizes.values()))
    works: list[Work] = []
    for image in range(call.spec(0).shape[0]):
        for strip in strips:
            works += values.works(image, strip, sizes[_size(strip)])
    return execute(call, *works)


class _Values:
    """The values that the strips of a call read and write.

    Args:
        call: The call of the kernel.
        parts: The primitives for all sizes of strips.
    """

    def __init__(self, call: KernelCall, parts: list[Parts]) -> None:
        self._call = call
        self._image, self._result = call.read(0), call.write()
        self._others = {index: call.read(index) for _, index in parts[0].chain.operands}
        self._terms = call.scratch(max(each.convolved.source.nbytes for each in parts) * _TERMS)
        self._sums = call.scratch(max(each.convolved.target.nbytes for each in parts) * _TERMS)
        layouts = dict.fromkeys(each.packed for each in parts)
        self._filters = {packed: self._packed(packed) for packed in layouts}
        self._matrices: dict[Strip, tuple[Value, Value]] = {}
        self._bias = self._tiled_bias() if call.has(2) else None

    def works(self, image: int, strip: Strip, parts: Parts) -> Iterator[Work]:
        """Yield the work for a strip of an image's result, in order."""
        _, taken, width, channels = self._call.spec(0).shape
        _, rows, columns, made = full = self._call.outputs[0].shape
        start = (image * taken + strip.taken_start) * width * channels * FLOAT_BYTES
        end = (image * rows + strip.start) * columns * made * FLOAT_BYTES
        to_terms, from_terms = self._matrices_of(strip)
        first, last = parts.products
        yield Work(
            parts.to_terms,
            {
                Arg.SOURCE: Argument(first.source, to_terms),
                Arg.WEIGHTS: Argument(first.weights, self._image, start),
                Arg.DESTINATION: Argument(first.target, self._terms),
            },
        )
        convolved, packed = parts.convolved, parts.packed
        for term in range(_TERMS):
            yield Work(
                parts.sums,
                {
                    Arg.SOURCE: _nth(term, convolved.source, self._terms),
                    Arg.WEIGHTS: _nth(term, packed.desc, self._filters[packed]),
                    Arg.DESTINATION: _nth(term, convolved.target, self._sums),
                },
            )
        arguments: dict[int, Argument] = {
            Arg.SOURCE: Argument(last.source, from_terms),
            Arg.WEIGHTS: Argument(last.weights, self._sums),
            Arg.DESTINATION: Argument(last.target, self._result, end),
        }
        if last.bias is not None and self._bias is not None:
            arguments[Arg.BIAS] = Argument(last.bias, self._bias)
        for position, index in parts.chain.operands:
            op = parts.chain.ops[position]
            if not isinstance(op, Binary):
                raise AssertionError(f"{op} has no operand")
            offset = end if self._call.spec(index).shape == full else 0
            arguments[operand(position, op)] = Argument(op.other, self._others[index], offset)
        yield Work(parts.from_terms, arguments)

    def _matrices_of(self, strip: Strip) -> tuple[Value, Value]:
        """Return the matrices of a strip; strips with the same padding share them."""
        key = replace(strip, start=0, taken_start=0)
        if key not in self._matrices:
            made = strip.to_terms(), strip.from_terms()
            to_terms, from_terms = (self._call.constant(matrix) for matrix in made)
            self._matrices[key] = to_terms, from_terms
        return self._matrices[key]

    def _tiled_bias(self) -> Value:
        """Return the bias of all columns of a row."""
        columns = self._call.outputs[0].shape[2]

        def make(arrays: Arrays, _: object) -> Array:
            return np.tile(given(arrays[0]), columns)

        return self._call.read_packed(2, f"onednn.tiled.{columns}", make)

    def _packed(self, packed: OneDnnLayout) -> Value:
        """Return the filters of all terms, one after the other, each packed for the library."""
        way = f"winograd {_TILE} {_POINTS}"  # the packed data depend on these too
        form = f"{packed.key}/{way}"

        def make(arrays: Arrays, _: object) -> Array:
            return _terms_of(given(arrays[0]), packed)

        return self._call.read_packed(1, form, make)


def _nth(term: int, desc: MemoryDesc, values: Value) -> Argument:
    return Argument(desc, values, term * desc.nbytes)


def _terms_of(weights: Array, packed: OneDnnLayout) -> Array:
    """Return the terms of filters, (3, columns, inputs, outputs), packed."""
    rows = weights.reshape(_TAPS, -1)
    terms = np.empty((_TERMS, rows.shape[1]), np.float32)
    for start in range(0, rows.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        terms[:, block] = _of_filters() @ rows[:, block].astype(np.float64)
    return pack(terms, packed, _TERMS)


@functools.cache
def _of_filters() -> Array:
    """Return the matrix that converts rows of filters to terms, (terms, taps)."""
    return _evaluated(_TAPS)


@functools.cache
def _of_result() -> Array:
    """Return the matrix that converts terms to rows of a tile, (tile, terms)."""
    return _evaluated(_TILE).T


@functools.cache
def _of_image() -> Array:
    """Return the matrix that converts rows of the image to terms: interpolation, transposed."""
    return np.linalg.inv(_evaluated(_TERMS)).T


def _evaluated(length: int) -> Array:
    """Return the values of the powers below `length` at the points, (terms, length)."""
    highest = np.eye(1, length, length - 1)
    return np.concatenate([np.vander(_POINTS, length, increasing=True), highest])
