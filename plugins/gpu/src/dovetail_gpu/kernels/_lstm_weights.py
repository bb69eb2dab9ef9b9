"""Weights of an Lstm in blocks of eight units: forms of constants, or copied by the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.boxes import Box, copied, described
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.kernels._packing import Packing
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.launching import Launch
from dovetail_gpu.layouts import layout_for, read, scratch, table
from dovetail_gpu.transfers import to_device
from dovetail_opset.directions import Direction
from dovetail_opset.lstm_ports import (
    ANY_NORM,
    ANY_PEEPHOLE,
    BIASES,
    MATRICES,
    NORMS,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RESET,
    Gate,
    gates_of,
)
from dovetail_opset.recurrent_weights import LstmWeights

_WEIGHTS = tuple(sorted((*MATRICES, *BIASES, *NORMS, *PEEPHOLES)))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of an Lstm.

    Attributes:
        gates: Number of gates: 3 without the input gate.
        units: Elements of the cell.
        size: Elements of h.
        depth: Elements of x.
    """

    gates: int
    units: int
    size: int
    depth: int

    @property
    def blocks(self) -> int:
        """Blocks of units."""
        return -(-self.units // VECTOR)

    @property
    def columns(self) -> int:
        """Sums of all gates, with those of units that only fill blocks."""
        return self.blocks * self.gates * VECTOR

    @property
    def padded(self) -> int:
        """Elements of h in whole blocks."""
        return -(-self.size // VECTOR) * VECTOR

    @property
    def packing(self) -> Packing:
        """The packing of the weights of x, (columns, depth)."""
        return Packing.of_matrices(1, self.depth, self.columns, transposed=True)


@dataclass(frozen=True, slots=True)
class Tables:
    """Weights on the device, see the template `lstm`; None for parts that a layer lacks.

    Attributes:
        inputs: Weights of x.
        are_packed: Whether these are packed for a product, or in blocks like the recurrent ones.
        recurrent, bias, norms, peepholes, projection, projection_bias: The others.
        launches: What computes them in each run.
    """

    inputs: Value
    are_packed: bool
    recurrent: Value
    bias: Value
    norms: Value | None
    peepholes: Value | None
    projection: Value | None
    projection_bias: Value | None
    launches: tuple[Launch, ...] = field(default=())


def are_constant(directions: Sequence[Direction]) -> bool:
    """Return whether all weights are constants."""
    return all(
        each.call.has_data(index)
        for each in directions
        for port in _WEIGHTS
        if (index := each.index(port)) is not None
    )


def tables_of(directions: Sequence[Direction], sizes: Sizes, tile: Tile | None) -> Tables:
    """Declare the weights of a layer, of both directions one after the other.

    Args:
        directions: The directions; two have neither norms, peepholes nor projections.
        sizes: Sizes of each.
        tile: The tile of the product of x; None, for constants alone, if the steps multiply x.
    """
    if tile is None or are_constant(directions):
        return _constants(directions, sizes, tile)
    return _Copies(directions[0].call, sizes).tables(tile)


def _constants(directions: Sequence[Direction], sizes: Sizes, tile: Tile | None) -> Tables:
    gates, columns, packing = sizes.gates, sizes.columns, sizes.packing
    has = directions[0].has

    def blocked(matrix: Array) -> Array:
        return _by_block(_by_gate(matrix, gates), gates)

    def by_step(matrix: Array) -> Array:
        return np.ascontiguousarray(blocked(matrix).transpose(0, 3, 1, 2))

    def inputs(weights: LstmWeights) -> Array:
        if tile is None:
            return by_step(weights.inputs)
        return packing.packed(blocked(weights.inputs), tile.columns)

    def form(name: str, make: Callable[[LstmWeights], Array], count: int) -> Value:
        return _form(directions, name, make, count)

    def part(name: str, port: int, make: Callable[[LstmWeights], Array], n: int) -> Value | None:
        return form(name, make, n) if has(port) else None

    count = columns * sizes.depth if tile is None else packing.count(tile.columns)
    return Tables(
        form(f"x {tile}", inputs, count),
        tile is not None,
        form("h", lambda w: by_step(w.recurrent), columns * sizes.size),
        form("bias", lambda w: _by_block(w.bias, gates), columns),
        part("norms", ANY_NORM, lambda w: _by_block(w.norm, gates), columns),
        part("peepholes", ANY_PEEPHOLE, lambda w: _peepholes(w, gates), columns),
        part("projection", PROJECTION, _projection, sizes.padded * sizes.units),
        part("projection bias", PROJECTION, _projection_bias, sizes.padded),
    )


class _Copies:
    """Copies the weights of a call into blocks, in each run. Units that fill blocks are not set."""

    def __init__(self, call: KernelCall, sizes: Sizes) -> None:
        self._call, self._sizes = call, sizes
        self._gates = gates_of([call.has(i) or None for i in range(RESET)])
        self._launches: list[Launch] = []

    def tables(self, tile: Tile) -> Tables:
        """Return the weights for a product with a tile."""
        sizes, packing = self._sizes, self._sizes.packing
        rows = self._of_gates((sizes.depth,), lambda gate: gate.weights, (0, 1, 2, 3))
        inputs = self._room(packing.count(tile.columns))
        self._launches.append(packing.launch(rows, inputs, tile.columns, Element.FLOAT))
        has_norms, has_peepholes, projects = map(
            self._call.has, (ANY_NORM, ANY_PEEPHOLE, PROJECTION)
        )
        return Tables(
            inputs,
            True,
            self._of_gates((sizes.size,), lambda gate: gate.recurrent, (0, 3, 1, 2)),
            self._of_gates((), lambda gate: gate.bias, (0, 1, 2)),
            self._of_gates((), lambda gate: gate.norm, (0, 1, 2)) if has_norms else None,
            self._of_gates((), lambda gate: gate.peephole, (0, 1, 2)) if has_peepholes else None,
            self._of_h((sizes.units,), PROJECTION) if projects else None,
            self._of_h((), PROJECTION_BIAS) if projects else None,
            tuple(self._launches),
        )

    def _of_gates(
        self, more: tuple[int, ...], port: Callable[[Gate], int | None], order: tuple[int, ...]
    ) -> Value:
        """Return inputs of all gates, each (units, *more), as (block, gate, 8, *more).

        Args:
            more: Sizes of further axes.
            port: Returns the input of a gate; None if it has none.
            order: The order of these axes in the result.
        """
        sizes = self._sizes
        shape = (sizes.blocks, sizes.gates, VECTOR, *more)
        whole = described(tuple(shape[axis] for axis in order))
        view = whole.transpose(np.argsort(order))
        room = self._room(view.size)
        for i, gate in enumerate(self._gates):
            if (index := port(gate)) is not None:
                self._copy(index, room, view[:, i], whole)
        return room

    def _of_h(self, more: tuple[int, ...], index: int) -> Value:
        """Return an input (size, *more) as (block, *more, 8); zeros if it is omitted."""
        padded = self._sizes.padded
        if not self._call.has(index):
            return table(self._call, np.zeros(padded), Element.FLOAT)
        whole = described((padded // VECTOR, *more, VECTOR))
        room = self._room(whole.size)
        self._copy(index, room, np.moveaxis(whole, -1, 1), whole)
        return room

    def _copy(self, index: int, room: Value, view: Array, whole: Array) -> None:
        """Copy an input (n, ...) into a view (blocks, 8, ...): whole blocks, then the rest."""
        source = read(self._call, index, Element.FLOAT)
        given = described(self._call.spec(index).shape)
        full = given.shape[0] // VECTOR
        if full:
            blocks = given[: full * VECTOR].reshape(full, VECTOR, *given.shape[1:])
            box = Box.of(blocks, view[:full], given, whole)
            self._launches.append(copied(self._call, source, room, box))
        if rest := given.shape[0] % VECTOR:
            box = Box.of(given[full * VECTOR :], view[full, :rest], given, whole)
            self._launches.append(copied(self._call, source, room, box))

    def _room(self, count: int) -> Value:
        return scratch(self._call, Element.FLOAT, count)


def _form(
    directions: Sequence[Direction], name: str, make: Callable[[LstmWeights], Array], count: int
) -> Value:
    """Declare a form of the weights of all gates, of one direction after the other.

    Args:
        directions: The directions.
        name: Name of the form.
        make: Returns it for one direction.
        count: Number of its elements.
    """
    ports = [[port for port in _WEIGHTS if each.has(port)] for each in directions]
    indices = [
        index
        for each, own in zip(directions, ports, strict=True)
        for port in own
        if (index := each.index(port)) is not None
    ]

    def form(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
        given = iter(zip(arrays, specs, strict=True))
        parts = []
        for own in ports:
            real: list[Array | None] = [None] * (RESET + 1)
            for port in own:
                array, spec = next(given)
                if array is not None and spec is not None:
                    real[port] = to_device(array, spec, Element.FLOAT)
            parts.append(np.asarray(make(LstmWeights.of(real)), np.float32).reshape(-1))
        return np.concatenate(parts)

    layout = layout_for(Element.FLOAT, count * len(directions))
    call = directions[0].call
    return call.read_packed(indices, f"opencl.lstm {name} {ports}", form, layout)


def _by_gate(matrix: Array, gates: int) -> Array:
    """Return (gates * units, n) as (gates, units, n)."""
    return matrix.reshape(gates, matrix.shape[0] // gates, matrix.shape[1])


def _by_block(values: Array | None, gates: int) -> Array:
    """Return (gates, units, ...) as (blocks, gate, 8, ...), with zeros for units that lack."""
    if values is None:
        raise AssertionError("weights are omitted")
    units, rows = values.shape[1], values
    blocks = -(-units // VECTOR)
    found = np.zeros((gates, blocks * VECTOR, *rows.shape[2:]), np.float32)
    found[:, :units] = rows
    split = found.reshape(gates, blocks, VECTOR, *rows.shape[2:])
    return np.ascontiguousarray(split.swapaxes(0, 1))


def _peepholes(weights: LstmWeights, gates: int) -> Array:
    """Return the peepholes, with zeros for the cell, (blocks, gate, 8)."""
    given = weights.peepholes
    if given is None:
        raise AssertionError("peepholes are omitted")
    return _by_block(np.concatenate([given, np.zeros_like(given[:1])]), gates)


def _projection(weights: LstmWeights) -> Array:
    """Return the projection, (blocks, unit, 8)."""
    if weights.projection is None:
        raise AssertionError("the projection is omitted")
    blocked = _by_block(weights.projection[None], 1)[:, 0]
    return np.ascontiguousarray(blocked.swapaxes(1, 2))


def _projection_bias(weights: LstmWeights) -> Array:
    """Return the bias of the projection, zeros added."""
    if weights.projection is None:
        raise AssertionError("the projection is omitted")
    given = weights.projection_bias
    return _by_block(np.zeros((1, len(weights.projection))) if given is None else given[None], 1)
