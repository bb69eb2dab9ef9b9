"""Matrix products and fully connected layers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dovetail.ir import Shape
from dovetail.runtime.plan import Branch, KernelCall, Step, Value
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.kernels._choices import choose_tile
from dovetail_gpu.kernels._packing import Packing
from dovetail_gpu.kernels._product import (
    Operands,
    Product,
    operand_element,
    parts_room,
    product_launches,
)
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.kernels._weights import stored_weights, weights_of
from dovetail_gpu.launching import Launch, launch_all
from dovetail_gpu.layouts import element_of, read, scratch, table, write
from dovetail_gpu.stages import can_fuse, stages_of
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "FullyConnected", can_fuse=can_fuse, branch=Branch.GATE)
def fully_connected(call: KernelCall) -> Step | None:
    """Run a fully connected layer: rows of the input times the transposed weights."""
    if not are_real(call):
        return None
    units, depth = call.spec(1).shape
    rows = math.prod(call.outputs[0].spec.shape[:-1])
    packing = Packing.of_matrices(1, depth, units, transposed=True)
    return _product(call, Product(rows, depth, units), packing)


@KERNELS.register(STANDARD, "MatMul", can_fuse=can_fuse, branch=Branch.GATE)
def matrix_product(call: KernelCall) -> Step | None:
    """Run a product of matrices; one matrix on the right serves all rows on the left."""
    if not are_real(call):
        return None
    left, right = call.spec(0).shape, call.spec(1).shape
    result = call.outputs[0].spec.shape
    depth = left[-2 if call.op.transpose_in0 else -1]
    rows, columns = result[-2:]
    batch, matrices = math.prod(result[:-2]), math.prod(right[:-2])
    packing = Packing.of_matrices(matrices, depth, columns, transposed=bool(call.op.transpose_in1))
    if matrices == 1 or batch == 1:
        return _product(call, Product(batch * rows, depth, columns), packing)
    return _product(call, Product(rows, depth, columns, batch=batch), packing)


def _product(call: KernelCall, product: Product, packing: Packing) -> Step:
    element = element_of(call.outputs[0].spec)
    launches: list[Launch] = []
    stored = stored_weights(call, packing, element)
    tile = choose_tile(product, element, stored)
    x = read(call, 0, operand_element(element))
    if getattr(call.op, "transpose_in0", False):
        x, product = _transposed(call, x, product, operand_element(element), launches)
    weights = weights_of(call, packing, tile, stored, launches)
    tables = _tables(call, product, packing, tile) if product.batch > 1 else ()
    stages = stages_of(call, element, bias=2)
    sums = parts_room(call, product, tile)
    operands = Operands(x, weights.value, write(call), tables, None, stored, weights.scales, sums)
    launches += product_launches(product, tile, operands, stages, element)
    return launch_all(call, launches)


def _transposed(
    call: KernelCall, x: Value, product: Product, element: Element, launches: list[Launch]
) -> tuple[Value, Product]:
    """Return the left matrices with their axes swapped, and the product that reads these.

    Rows are padded with zeros to whole vectors.
    """
    *batch, depth, rows = call.spec(0).shape
    packing = Packing.of_matrices(math.prod(batch), rows, depth, transposed=True)
    width = max(1, -(-depth // VECTOR)) * VECTOR
    room = scratch(call, element, packing.count(width))
    launches.append(packing.launch(x, room, width, element))
    return room, dataclasses.replace(product, pixel=width)


def _tables(
    call: KernelCall, product: Product, packing: Packing, tile: Tile
) -> tuple[Value, Value]:
    """Declare tables of where the operands of each product begin."""
    batch = call.outputs[0].spec.shape[:-2]
    one = packing.count(tile.columns) // max(1, packing.shape[0])
    sizes = (product.positions * (product.pixel or product.channels), one)
    starts = [_starts(call.spec(i).shape[:-2], batch) * sizes[i] for i in (0, 1)]
    first, second = (table(call, numbers) for numbers in starts)
    return first, second


def _starts(shape: Shape, batch: Shape) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the number of the matrix of an operand for each of a broadcast batch."""
    numbers = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return np.ascontiguousarray(np.broadcast_to(numbers, batch)).reshape(-1)
