"""The tile of a product, chosen by rules or by measurement."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dovetail.ir import DType, Spec
from dovetail.runtime.plan import Bound, Storage, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._product import (
    NO_STAGES,
    Operands,
    Product,
    operand_element,
    product_launches,
)
from dovetail_gpu.kernels._stored import Stored
from dovetail_gpu.kernels._tiles import DEPTH, Tile
from dovetail_gpu.launching import Launch
from dovetail_gpu.layouts import layout_for

_MOST_WORK = 1 << 27  # multiply-accumulates of a run that is measured on a processor
_LEAST_WORK = 1 << 16
# of groups: rows, and vectors of eight columns; the fastest first where all cores have work
_SIZES = ((128, 16), (128, 8), (64, 8), (32, 4), (16, 4))
_SHARES = (1, 2, 4)  # groups for each core, of a tile with parts
_MOST_TILES = 6  # that are measured
_LEAST_STEPS, _MOST_PARTS = 4, 32  # of a part, in DEPTH channels; of a tile
_NARROW, _LINE = 8, 16
_WIDE = 16  # floats in a register


def choose_tile(
    product: Product, element: Element, stored: Stored, *, may_split: bool = True
) -> Tile:
    """Return the tile for a product.

    Args:
        product: The product.
        element: Type of its result.
        stored: Type of its weights.
        may_split: Whether the tile may have parts.
    """
    tiles = _candidates(product, may_split=may_split)
    work = product.positions * product.columns * product.groups * product.channels * product.taps
    if len(tiles) == 1 or work * product.batch < _LEAST_WORK:
        return tiles[0]
    part = _shortened(product, work) if current().engine.device.is_cpu else product

    def measure(tile: Tile) -> Callable[[], float]:
        return stopwatch(measured_launches(part, tile, element, stored))

    text = f"product {element.text} {stored.name} {part}"
    chosen = current().engine.tuning.choose(text, tiles, measure)
    if not isinstance(chosen, Tile):
        raise AssertionError(f"not a tile: {chosen}")
    return chosen


def measured_launches(
    product: Product, tile: Tile, element: Element, stored: Stored
) -> list[Launch]:
    """Return the launches of a product without stages, to be measured."""
    operands = _operands(product, tile, element, stored)
    return product_launches(product, tile, operands, NO_STAGES, element)


def _candidates(product: Product, *, may_split: bool) -> list[Tile]:
    """Return the tiles to measure, best guess first."""
    if current().engine.device.is_cpu:
        return _of_items(product)
    return _of_groups(product, may_split=may_split and product.batch == 1)


def _of_groups(product: Product, *, may_split: bool) -> list[Tile]:
    """Return tiles of work groups, for devices of many small cores, which all need work.

    Where there are too few groups for these, more of them share the terms of a sum.
    """
    device = current().engine.device
    steps = product.taps * -(-product.channels // DEPTH)
    most = min(steps // _LEAST_STEPS, _MOST_PARTS) if may_split else 1
    found = []
    for rows, vectors in _SIZES:
        tile = Tile(rows, vectors, is_shared=True)
        if tile.local_bytes > device.local_bytes:
            continue
        groups = max(1, _groups(product, tile))
        counts = {1} | {min(most, share * device.units // groups) for share in _SHARES}
        found += [dataclasses.replace(tile, parts=n) for n in sorted(counts) if n > 0]
    return sorted(found, key=lambda tile: _expected(product, tile, steps))[:_MOST_TILES]


def _expected(product: Product, tile: Tile, steps: int) -> float:
    """Return the time of a tile, in steps of 64 times 64 sums, as far as groups are concerned."""
    rounds = -(-_groups(product, tile) * tile.parts // current().engine.device.units)
    # a small tile waits for memory as long as a larger one; parts are added by another launch
    step = max(tile.rows * tile.columns / 4096, 0.3)
    return rounds * -(-steps // tile.parts) * step + (tile.parts > 1)


def _groups(product: Product, tile: Tile) -> int:
    rows = -(-product.positions // tile.rows)
    return rows * product.groups * product.blocks(tile) * product.batch


def _of_items(product: Product) -> list[Tile]:
    """Return tiles of work items, for processors.

    Vector registers hold the sums, the weights and an element of the input. There are sixteen, or
    thirty-two if they are wide.
    """
    rows, columns = product.positions, product.columns
    if columns <= _NARROW:
        return [Tile(8, 1)] if rows > 4 else [Tile(4, 1)]
    if rows <= 2:
        return [Tile(1, 4), Tile(1, 8)] if rows == 1 else [Tile(2, 4)]
    if rows <= 4:
        return [Tile(4, 2), Tile(4, 3)]
    if current().engine.device.vector_width >= _WIDE:
        narrow, wide = Tile(12, 2, is_wide=True), Tile(6, 4, is_wide=True)
        return [wide, Tile(4, 6, is_wide=True), narrow] if columns > _LINE else [narrow]
    return [Tile(6, 2), Tile(4, 3)] if columns > _LINE else [Tile(6, 2)]


def _shortened(product: Product, work: int) -> Product:
    """Return a product of fewer rows and batches that takes about as long for each."""
    positions = product.positions
    batch = max(1, min(product.batch, _MOST_WORK // max(1, work)))
    if work > _MOST_WORK:
        positions = min(positions, max(64, positions * _MOST_WORK // work))
    return dataclasses.replace(product, positions=positions, batch=batch)


def _operands(product: Product, tile: Tile, element: Element, stored: Stored) -> Operands:
    """Return operands that are only measured."""
    read = operand_element(element)
    window = product.window
    images = 1
    if window is not None:
        images = -(-product.positions // max(1, math.prod(window.out)))
    pixels = images * math.prod(window.image) if window else product.positions
    pixel = product.pixel or product.channels * product.groups
    x = scratch_value("x", read, pixels * pixel + product.channels * product.taps)
    weights = scratch_value("weights", stored.element, stored.units(product.packed_count(tile)))
    scales = None
    if not stored.is_real:
        columns = product.groups * product.blocks(tile) * tile.columns
        scales = scratch_value("scales", Element.FLOAT, columns)
    y = scratch_value(
        "y", element, product.positions * product.columns * product.groups * product.batch
    )
    tables: tuple[Value, ...] = ()
    if product.batch > 1:
        tables = (scratch_value("table", Element.INT, product.batch),) * 2
    zeros = scratch_value("zeros", read, max(64, product.channels))
    room = product.room(tile)
    sums = scratch_value("sums", Element.FLOAT, room) if room else None
    return Operands(x, weights, y, tables, zeros, stored, scales, sums)


def scratch_value(name: str, element: Element, count: int) -> Value:
    """Return a value that only launches to be measured use; equal names share memory."""
    layout = layout_for(element, count)
    return Value(name, Spec(DType.UINT_8, (layout.nbytes,)), Storage.ARENA, layout)


def stopwatch(launches: Sequence[Launch]) -> Callable[[], float]:
    """Return a function that runs launches on memory of their own.

    It returns the seconds on the device's clock.
    """
    engine = current().engine
    blocks: dict[str, tuple[object, int]] = {}

    def buffer(value: Value) -> tuple[object, int]:
        if value.name not in blocks:
            block = engine.space.allocate(value.nbytes)
            engine.space.write(block, np.zeros(value.nbytes, np.uint8))
            blocks[value.name] = block, 0
        return blocks[value.name]

    runs = [launch.with_buffers(buffer) for launch in launches]
    return functools.partial(_seconds, runs, blocks)


def _seconds(runs: Sequence[Bound], blocks: Mapping[str, object]) -> float:
    """Return the seconds of a run, whose arguments do not own the memory blocks."""
    current().settle()
    for run in runs:
        run()
    return (current().settle() or 0.0) / 1e6
