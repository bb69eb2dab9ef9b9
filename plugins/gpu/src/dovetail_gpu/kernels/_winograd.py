"""Winograd's convolutions of 3 x 3 elements: fewer products, more sums.

An error of rounding is several times that of the direct sum, but far below 1e-4 of the maximum. A
NaN or an infinity makes the whole tile of 4 x 4 outputs NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.kernels._choices import scratch_value, stopwatch
from dovetail_gpu.kernels._packing import Packing
from dovetail_gpu.kernels._product import (
    NO_STAGES,
    Operands,
    Product,
    Window,
    operand_element,
    product_launches,
)
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.launching import Argument, Launch, spread
from dovetail_gpu.programs import Source, type_defines, type_lines
from dovetail_gpu.stages import Stages
from dovetail_gpu.transfers import to_device

POINTS = 36
_OUT = 4
_LEAST_CHANNELS, _LEAST_TILES = 32, 16
# the transform of a filter along one axis
_FILTER = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)


@dataclass(frozen=True, slots=True)
class Winograd:
    """A convolution by tiles.

    Attributes:
        images: Number of images.
        window: The window: 3 x 3 elements, stride 1.
        channels: Channels of the input.
        columns: Channels of the result.
    """

    images: int
    window: Window
    channels: int
    columns: int

    @classmethod
    def of(cls, images: int, product: Product) -> Winograd | None:
        """Return a convolution by tiles; None where that is not supported or never faster."""
        window = product.window
        if window is None:
            return None
        is_plain = window.taps == (3, 3) and window.stride == window.step == (1, 1)
        channels = (product.channels, product.columns)
        if not is_plain or product.groups != 1 or min(channels) < _LEAST_CHANNELS:
            return None
        if any(n % VECTOR for n in channels):
            return None
        found = cls(images, window, *channels)
        is_large = max(found.scratch_counts()) >= 1 << 31
        return None if found.tiles < _LEAST_TILES or is_large else found

    @property
    def counts(self) -> tuple[int, int]:
        """Tiles along each axis of an image."""
        height, width = self.window.out
        return -(-height // _OUT), -(-width // _OUT)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.images * self.counts[0] * self.counts[1]

    @property
    def product(self) -> Product:
        """The products of points."""
        return Product(self.tiles, self.channels, self.columns, batch=POINTS)

    @property
    def packing(self) -> Packing:
        """Positions of the transformed filters."""
        return Packing.of_matrices(POINTS, self.channels, self.columns)

    def tables(self, tile: Tile) -> tuple[Array, Array]:
        """Return where the operands of each product begin, int32."""
        numbers = np.arange(POINTS, dtype=np.int32)
        one = self.packing.count(tile.columns) // POINTS
        return numbers * (self.tiles * self.channels), numbers * one

    def filters(
        self, tile: Tile, arrays: Sequence[Array | None], specs: Sequence[Spec | None]
    ) -> Array:
        """Return the form of the filters (3, 3, channels, columns): transformed and packed."""
        (stored,), (spec,) = arrays, specs
        if stored is None or spec is None:
            raise AssertionError("a convolution without filters")
        real = to_device(stored, spec, Element.FLOAT).astype(np.float64)
        points = np.einsum("iy,jx,yxcn->ijcn", _FILTER, _FILTER, real).astype(np.float32)
        return self.packing.packed(np.ascontiguousarray(points), tile.columns)

    def launches(
        self,
        tile: Tile,
        operands: Operands,
        scratch: tuple[Value, Value],
        stages: Stages,
        element: Element,
    ) -> list[Launch]:
        """Return the launches.

        Args:
            tile: The tile of the products.
            operands: Input, zeros, transformed filters, their tables and the result.
            scratch: Room for the points of the input and of the result.
            stages: Stages of the result.
            element: Type of the result.
        """
        points, products = scratch
        if operands.zeros is None:
            raise AssertionError("a window without zeros")
        counts = (*self.counts, self.tiles)
        first: list[Argument] = [*self.window.image, *counts, *self.window.pads]
        last: list[Argument] = [*self.window.out, *counts, *stages.arguments]
        inner = Operands(points, operands.weights, products, operands.tables)
        return [
            self._transform(
                "to_points",
                (operands.x, operands.zeros, points),
                self.channels,
                first,
                NO_STAGES,
                element,
            ),
            *product_launches(self.product, tile, inner, NO_STAGES, Element.FLOAT),
            self._transform(
                "from_points", (products, operands.y), self.columns, last, stages, element
            ),
        ]

    def _transform(
        self,
        function: str,
        values: Sequence[Value],
        channels: int,
        arguments: Sequence[Argument],
        stages: Stages,
        element: Element,
    ) -> Launch:
        """Return the launch of a transform; an item has all channels of a tile, or one of many."""
        is_narrow = not current().engine.device.is_cpu
        parts, chunk = (channels, 1) if is_narrow else (1, channels)
        group = spread(parts)
        defines: dict[str, int | str] = {
            **type_defines("X", operand_element(element)),
            "NARROW": int(is_narrow),
            "GROUP_X": group[0],
            "GROUP_Y": group[1],
        }
        source = Source.of("winograd", defines, type_lines(element) + stages.lines)
        given = [*values, channels, chunk, *arguments]
        return Launch(source, function, given, (parts, self.tiles), group)

    def scratch_counts(self) -> tuple[int, int]:
        """Return the elements of the points of the input and of the result."""
        return POINTS * self.tiles * self.channels, POINTS * self.tiles * self.columns

    def is_faster(self, tile: Tile, direct: Callable[[], list[Launch]], element: Element) -> bool:
        """Return whether it is faster than another launch; False if nothing is measured."""
        read = operand_element(element)
        values = {
            name: scratch_value(name, kind, count)
            for name, kind, count in (
                ("x", read, self.images * math.prod(self.window.image) * self.channels),
                ("zeros", read, max(64, self.channels)),
                ("weights", Element.FLOAT, self.packing.count(tile.columns)),
                ("table", Element.INT, POINTS),
                ("y", element, self.images * math.prod(self.window.out) * self.columns),
            )
        }
        counts = self.scratch_counts()
        rooms = (
            scratch_value("points", Element.FLOAT, counts[0]),
            scratch_value("products", Element.FLOAT, counts[1]),
        )
        operands = Operands(
            values["x"], values["weights"], values["y"], (values["table"],) * 2, values["zeros"]
        )
        runs: dict[str, Callable[[], list[Launch]]] = {
            "direct": direct,
            "winograd": lambda: self.launches(tile, operands, rooms, NO_STAGES, element),
        }
        chosen = current().engine.tuning.choose(
            f"winograd {element.text} {self}", list(runs), lambda name: stopwatch(runs[name]())
        )
        return bool(chosen == "winograd")
