"""Sizes of an Lstm, and its weights of all gates in one array."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._packing import Packing
from dovetail_gpu.launching import Launch
from dovetail_gpu.layouts import layout_for, read
from dovetail_gpu.programs import Source
from dovetail_gpu.transfers import to_device
from dovetail_opset._recurrent import Gate, gates_of

_GROUP = 64
_BLOCK = 64
Piece = tuple[int | None, int]  # an input, or None for zeros, and its elements


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of an Lstm.

    Attributes:
        steps: Steps of the sequence.
        batch: Rows of the batch.
        features: Elements of an input.
        units: Elements of the cell.
        size: Elements of h.
        gates: The gates, in order.
        strides: Positions from a step to the next one, and from a row of the batch.
        flags: As in the program.
        table: The pieces of the table of biases, norms and peepholes.
    """

    steps: int
    batch: int
    features: int
    units: int
    size: int
    gates: tuple[Gate, ...]
    strides: tuple[int, int]
    flags: int
    table: tuple[Piece, ...]

    @classmethod
    def of(cls, call: KernelCall) -> Sizes:
        """Return the sizes of a call."""
        x, (units, size) = call.spec(0).shape, call.spec(4).shape
        gates = gates_of((*call.head.ins, *[None] * 24))
        if len(x) == 2:
            steps, batch, strides = 1, x[0], (0, 1)
        elif call.op.time_major:
            steps, batch, strides = x[0], x[1], (x[1], 1)
        else:
            steps, batch, strides = x[1], x[0], (1, x[1])
        parts = [13, 19, 22, 10, 11, 24]
        bits = [int(call.op.direction) == 1, *(call.has(i) for i in parts)]
        table: list[Piece] = [(gate.bias, units) for gate in gates]
        table += [(gate.norm, units) for gate in gates]
        table += [(gate.peephole, units) for gate in gates if gate.peephole is not None]
        table.append((23, size))
        return cls(
            steps,
            batch,
            x[-1],
            units,
            size,
            gates,
            strides,
            sum(int(bit) << i for i, bit in enumerate(bits)),
            tuple((i if i is not None and call.has(i) else None, n) for i, n in table),
        )

    @property
    def columns(self) -> int:
        """Elements of all gates."""
        return len(self.gates) * self.units

    @property
    def state(self) -> int:
        """Elements of memory of h for a row of the batch."""
        return -(-self.size // _BLOCK) * _BLOCK

    @property
    def working(self) -> int:
        """Elements of other memory for a row of the batch."""
        padded = -(-self.units // 8) * 8
        return 8 + -(-self.columns // _BLOCK) * _BLOCK + 2 * padded

    @property
    def numbers(self) -> tuple[int, ...]:
        """The last integers among the program's parameters."""
        return (self.units, self.size, len(self.gates), *self.strides, self.flags)


@dataclass(frozen=True, slots=True)
class Parts:
    """A call with the launches that run before the steps.

    Attributes:
        call: The call.
        source: The program.
        sizes: Its sizes.
        launches: The launches.
    """

    call: KernelCall
    source: Source
    sizes: Sizes
    launches: list[Launch] = field(default_factory=list)

    def room(self, count: int) -> Value:
        """Declare memory for numbers in float."""
        layout = layout_for(Element.FLOAT, count)
        return self.call.scratch(layout.nbytes, layout)


def joined(parts: Parts, pieces: Sequence[Piece], pad: int) -> Value:
    """Return inputs one after the other, and zeros at the end.

    Args:
        parts: The call.
        pieces: The inputs.
        pad: Number of zeros.
    """
    call, count = parts.call, sum(n for _, n in pieces) + pad
    inputs = [i for i, _ in pieces if i is not None]
    layout = layout_for(Element.FLOAT, count)
    if all(map(call.has_data, inputs)):
        make = functools.partial(_table, tuple(pieces), pad)
        return call.read_packed(inputs, f"opencl.joined {pad} {_form(pieces)}", make, layout)
    found, at = parts.room(count), 0
    most = max(n for _, n in pieces)
    zeros = call.constant(np.zeros(most, np.float32), layout_for(Element.FLOAT, most))
    for i, n in pieces:
        given = zeros if i is None else read(call, i, Element.FLOAT)
        parts.launches.append(
            Launch(parts.source, "append", [given, found, at, n], (n,), (_GROUP,))
        )
        at += n
    return found


def packed(parts: Parts, inputs: Sequence[int], depth: int, block: int) -> Value:
    """Return matrices of columns times depth, one after the other and packed for products.

    Args:
        parts: The call.
        inputs: The matrices.
        depth: Their second size.
        block: Columns of a block.
    """
    call = parts.call
    columns = sum(call.spec(i).shape[0] for i in inputs)
    packing = Packing.of_matrices(1, depth, columns, transposed=True)
    layout = layout_for(Element.FLOAT, packing.count(block))
    if all(map(call.has_data, inputs)):
        make = functools.partial(_packed, packing, block)
        return call.read_packed(inputs, f"opencl.gates {block} {packing}", make, layout)
    rows = joined(parts, [(i, call.spec(i).shape[0] * depth) for i in inputs], 0)
    found = parts.room(packing.count(block))
    parts.launches.append(packing.launch(rows, found, block, Element.FLOAT))
    return found


def _form(pieces: Sequence[Piece]) -> str:
    return " ".join(f"{'-' if i is None else ''}{n}" for i, n in pieces)


def _real(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> list[Array]:
    return [
        to_device(array, spec, Element.FLOAT)
        for array, spec in zip(arrays, specs, strict=True)
        if array is not None and spec is not None
    ]


def _table(
    pieces: Sequence[Piece],
    pad: int,
    arrays: Sequence[Array | None],
    specs: Sequence[Spec | None],
) -> Array:
    given = iter(_real(arrays, specs))
    parts = [np.zeros(n, np.float32) if i is None else next(given).reshape(-1) for i, n in pieces]
    return np.concatenate([*parts, np.zeros(pad, np.float32)])


def _packed(
    packing: Packing, block: int, arrays: Sequence[Array | None], specs: Sequence[Spec | None]
) -> Array:
    return packing.packed(np.concatenate(_real(arrays, specs)), block)
