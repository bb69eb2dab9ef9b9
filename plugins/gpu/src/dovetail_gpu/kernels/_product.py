"""Sums of products on the device: the program `product` of convolutions and matrix products."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.kernels._stored import Stored
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.launching import GROUP, Argument, Launch
from dovetail_gpu.layouts import scratch, table
from dovetail_gpu.programs import Source, type_defines, type_lines
from dovetail_gpu.stages import Stages

NO_STAGES = Stages(
    "#define STAGE_PARAMETERS\n#define STAGE_OPERANDS\n#define STAGES(V, LOAD_V, v, at, channel)\n",
    (),
    by_channel=False,
)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of two axes over images, and the positions where it stands.

    Attributes:
        image: Height and width of the input.
        out: Positions along each axis.
        taps: Elements along each axis.
        stride: Distance between positions.
        step: Distance between the elements.
        pads: Elements of padding before each axis.
    """

    image: tuple[int, int]
    out: tuple[int, int]
    taps: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    step: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)

    @property
    def is_pointwise(self) -> bool:
        """True if each position reads the pixel at the same index."""
        return self.taps == self.stride == (1, 1) and self.pads == (0, 0) and self.image == self.out

    @property
    def numbers(self) -> tuple[int, ...]:
        """The parameters of the program, after the row of zeros."""
        return (*self.image, *self.out, *self.taps, *self.stride, *self.step, *self.pads)


@dataclass(frozen=True, slots=True)
class Product:
    """The sizes of a product.

    Attributes:
        positions: Rows of the result.
        channels: Terms of a tap.
        columns: Columns of the result, of one group.
        window: The window that slides over the input; None for rows of a matrix.
        groups: Groups of channels and of columns.
        pixel: Elements from a pixel of the input to the next one.
        batch: Number of products, each with operands of its own.
    """

    positions: int
    channels: int
    columns: int
    window: Window | None = None
    groups: int = 1
    pixel: int = 0
    batch: int = 1

    @property
    def taps(self) -> int:
        """Elements of the window."""
        return math.prod(self.window.taps) if self.window else 1

    @property
    def is_pointwise(self) -> bool:
        """True if position m reads pixel m alone."""
        return self.window is None or self.window.is_pointwise

    def blocks(self, tile: Tile) -> int:
        """Return the blocks of columns of a group."""
        return -(-self.columns // tile.columns)

    def packed_count(self, tile: Tile) -> int:
        """Return the elements of packed weights of one batch."""
        return self.groups * self.blocks(tile) * self.taps * self.channels * tile.columns

    def size(self, tile: Tile) -> tuple[int, int, int]:
        """Return the range of work items."""
        rows, columns = -(-self.positions // tile.rows), self.groups * self.blocks(tile)
        return rows * tile.group[0], columns * tile.group[1], self.batch * tile.parts

    def room(self, tile: Tile) -> int:
        """Return the elements of the sums of a tile's parts; 0 if there is one."""
        result = self.positions * self.columns * self.groups
        return result * tile.parts if tile.parts > 1 else 0


@dataclass(frozen=True, slots=True)
class Operands:
    """The values of a product.

    Attributes:
        x: The input, of elements as `operand_element` returns.
        weights: The packed weights.
        y: The result.
        tables: Tables of where the operands of each product of a batch begin; empty for one.
        zeros: A row of zeros, of `channels` elements or more; None without a window.
        stored: Type of the weights.
        scales: A number for each column, by which sums of integer weights are multiplied.
        sums: Room for the sums of the tile's parts, see `parts_room`; None for one part.
    """

    x: Value
    weights: Value
    y: Value
    tables: tuple[Value, ...] = ()
    zeros: Value | None = None
    stored: Stored = Stored.FLOAT
    scales: Value | None = None
    sums: Value | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """Positions of the result in a larger one: `index * step + first` along each axis.

    Attributes:
        size: Height and width of the larger result.
        step: Distance between positions.
        first: The first position.
    """

    size: tuple[int, int]
    step: tuple[int, int]
    first: tuple[int, int]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The parameters of the program."""
        return (*self.size, *self.step, *self.first)


def operand_element(element: Element) -> Element:
    """Return the type of input and weights of a product whose result has a type.

    A processor converts halves one by one, for each product again: it reads floats.
    """
    return Element.FLOAT if current().engine.device.is_cpu else element


def parts_room(call: KernelCall, product: Product, tile: Tile) -> Value | None:
    """Declare room for the sums of a tile's parts; None if there is one."""
    count = product.room(tile)
    return scratch(call, Element.FLOAT, count) if count else None


def product_launches(
    product: Product,
    tile: Tile,
    operands: Operands,
    stages: Stages,
    element: Element,
    scatter: Scatter | None = None,
) -> list[Launch]:
    """Return the launches of a product.

    Args:
        product: Its sizes.
        tile: The tile of a work item.
        operands: Its values.
        stages: Stages of the result.
        element: Type of the result.
        scatter: Where the result is written, if not one position after the other; the tile then
            has one part.
    """
    read = operand_element(element)
    if operands.sums is None:
        return [_product_launch(product, tile, operands, stages, read, element, scatter)]
    inner = dataclasses.replace(operands, y=operands.sums, sums=None)
    count, columns = product.positions * product.columns * product.groups, product.columns
    arguments: list[Argument] = [operands.sums, operands.y, count, columns * product.groups]
    arguments += [tile.parts, *stages.arguments]
    program = Source.of("product_parts", {}, type_lines(element) + stages.lines)
    return [
        _product_launch(product, tile, inner, NO_STAGES, read, Element.FLOAT),
        Launch(program, "add_parts", arguments, (count,), (GROUP,)),
    ]


def _product_launch(
    product: Product,
    tile: Tile,
    operands: Operands,
    stages: Stages,
    read: Element,
    element: Element,
    scatter: Scatter | None = None,
) -> Launch:
    """Return the launch that reads operands of one type and writes a result of another."""
    is_pointwise = product.is_pointwise and scatter is None
    defines: dict[str, int | str] = {
        **type_defines("X", read),
        "W": operands.stored.element.text,
        f"W_{operands.stored.name}": 1,
        **tile.defines,
        "POINTWISE": int(is_pointwise),
        "BATCHED": int(product.batch > 1),
        "STRIDED_OUT": int(scatter is not None),
        "WHOLE": int(product.columns % VECTOR == 0),
    }
    source = Source.of(("product_head", tile.template), defines, type_lines(element) + stages.lines)
    return Launch(
        source,
        "product",
        _arguments(product, tile, operands, stages, scatter),
        product.size(tile),
        tile.group,
    )


def _arguments(
    product: Product, tile: Tile, operands: Operands, stages: Stages, scatter: Scatter | None
) -> list[Argument]:
    found: list[Argument] = [
        operands.x,
        operands.weights,
        operands.y,
        product.positions,
        product.pixel or product.channels * product.groups,
        product.channels,
        product.columns,
        product.columns * product.groups,
        max(1, product.blocks(tile)),
    ]
    if operands.scales is not None:
        found.append(operands.scales)
    if product.window and operands.zeros and (scatter or not product.is_pointwise):
        found += [operands.zeros, *product.window.numbers]
    if product.batch > 1:
        found += operands.tables
    if scatter is not None:
        found += scatter.numbers
    return [*found, *stages.arguments]


def zero_row(call: KernelCall, channels: int, element: Element) -> Value:
    """Declare a row of zeros that the step reads."""
    count = max(64, 1 << (channels - 1).bit_length()) if channels else 64
    return table(call, np.zeros(count), element)
