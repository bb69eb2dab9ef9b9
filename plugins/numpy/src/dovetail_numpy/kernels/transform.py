"""Transforms of the vectors of attention."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import Array, DType
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels._calls import (
    Call,
    Floats,
    block_size,
    blocks,
    copy,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD

_SIGNS = np.array([[-1], [1]], np.float32)


@KERNELS.register(STANDARD, "RotaryEmbedding")
def rotary_embedding(call: KernelCall) -> Step | None:
    """Run RotaryEmbedding: pairs as complex numbers, or two products of all halves."""
    tensors = [t for t in (*call.tensors[:3], call.outputs[0]) if t is not None]
    if any(t.dtype is not DType.FLOAT_32 or 0 in t.shape for t in tensors):
        return None
    rotation = _Rotation.of(call)
    rows = _Rows(call, rotation)
    x, out = call.read(0), call.write()
    room = scratch_floats(call, 2 * rotation.rows * rotation.turned)
    products = scratch_floats(call, rotation.block)

    def bind(buffers: Buffers) -> Bound:
        calls, turns = rows.bind(buffers)
        values, result = buffers.array(x), buffers.array(out)
        tables, spare = floats(buffers, room), floats(buffers, products)
        turn = rotation.pairs if rotation.interleaved else rotation.halves
        calls += turn((values, result), turns, tables, spare)
        if rotation.turned < values.shape[-1]:
            kept = (..., slice(rotation.turned, None))
            calls.append(copy(result[kept], values[kept]))
        return call_sequence(calls)

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class _Rotation:
    """A rotation of vectors (batch, heads, steps, size).

    Attributes:
        batch, heads, steps: Numbers of vectors.
        turned: Elements of each vector that are rotated.
        interleaved: Whether pairs are adjacent.
        block: Elements that are rotated together, at most.
    """

    batch: int
    heads: int
    steps: int
    turned: int
    interleaved: bool
    block: int

    @classmethod
    def of(cls, call: KernelCall) -> _Rotation:
        """Return the rotation of a call of RotaryEmbedding."""
        batch, heads, steps, size = call.spec(0).shape
        turned = int(call.op.rotary_embedding_dim) or size
        each = max(block_size(batch * heads * steps * turned), turned)
        return cls(batch, heads, steps, turned, bool(call.op.interleaved), each)

    @property
    def rows(self) -> int:
        """Number of rows of angles."""
        return self.batch * self.steps

    def pairs(
        self, ends: tuple[Array, Array], turns: tuple[Array, Array], tables: Floats, _: Floats
    ) -> Iterator[Call]:
        """Yield the calls that multiply pairs, as complex numbers, by those of their angles.

        Args:
            ends: Vectors and their results.
            turns: Cosines and sines, (batch, steps, pairs).
            tables: Scratch for two numbers for each rotated element of a head.
        """
        factors = tables.view(np.complex64)[: turns[0].size].reshape(turns[0].shape)
        yield copy(factors.real, turns[0])
        yield copy(factors.imag, turns[1])
        source, target = (end[..., : self.turned].view(np.complex64) for end in ends)
        for image, heads, steps in self._blocks():
            part = image, heads, steps
            yield ufunc(np.multiply, source[part], factors[image, steps], target[part])

    def halves(
        self, ends: tuple[Array, Array], turns: tuple[Array, Array], tables: Floats, spare: Floats
    ) -> Iterator[Call]:
        """Yield the calls that add products of vectors and of those with their halves exchanged.

        Args:
            ends: Vectors and their results.
            turns: Cosines and sines, (batch, steps, pairs).
            tables: Scratch for two numbers for each rotated element of a head.
            spare: Scratch for the products of a block.
        """
        size = self.rows * self.turned
        shape = self.batch, self.steps, 2, self.turned // 2
        cosines, sines = (tables[i * size : (i + 1) * size].reshape(shape) for i in range(2))
        yield copy(cosines, turns[0][:, :, None])
        yield ufunc(np.multiply, turns[1][:, :, None], _SIGNS, sines)
        factors = cosines.reshape(self.batch, self.steps, self.turned)
        for image, heads, steps in self._blocks():
            source, target = (end[image, heads, steps, : self.turned] for end in ends)
            exchanged = source.reshape(*source.shape[:2], *shape[2:])[:, :, ::-1]
            product = spare[: source.size].reshape(exchanged.shape)
            yield ufunc(np.multiply, exchanged, sines[image, steps], product)
            yield ufunc(np.multiply, source, factors[image, steps], target)
            yield ufunc(np.add, target, product.reshape(target.shape), target)

    def _blocks(self) -> Iterator[tuple[int, slice, slice]]:
        """Yield the index in the batch, heads and steps of each block."""
        high = min(self.steps, self.block // self.turned)
        wide = min(self.heads, self.block // (high * self.turned))
        for image in range(self.batch):
            for steps in blocks(self.steps, high):
                for heads in blocks(self.heads, wide):
                    yield image, heads, steps


class _Rows:
    """The cosines and sines of each vector: inputs as they are, or their rows at positions.

    Args:
        call: Its inputs are declared as read here, and scratchpads.
        rotation: The rotation.
    """

    def __init__(self, call: KernelCall, rotation: _Rotation) -> None:
        self._tables = call.read(1), call.read(2)
        self._shape = rotation.batch, rotation.steps, rotation.turned // 2
        self._where = call.head.node.where
        self._positions: Value | None = None
        if call.has(3):
            self._positions = call.read(3)
            count = rotation.rows * self._shape[-1]
            self._found = scratch_floats(call, count), scratch_floats(call, count)

    def bind(self, buffers: Buffers) -> tuple[list[Call], tuple[Array, Array]]:
        """Return the calls that find cosines and sines, (batch, steps, pairs), and both."""
        cosines, sines = map(buffers.array, self._tables)
        if self._positions is None:
            return [], (cosines, sines)
        positions, size = buffers.array(self._positions), int(np.prod(self._shape))
        found = [floats(buffers, room)[:size].reshape(self._shape) for room in self._found]
        take = functools.partial(self._take, positions, (cosines, sines), found)
        return [take], (found[0], found[1])

    def _take(self, positions: Array, tables: tuple[Array, Array], found: list[Array]) -> None:
        count = len(tables[0])
        if int(positions.min()) < 0 or int(positions.max()) >= count:
            wrong = positions[(positions < 0) | (positions >= count)]
            raise BackendError(
                f"position {wrong[0]} in in[3] is out of range of the {count} positions of in[1] "
                "and in[2]",
                where=self._where,
                hint=f"a position must be between 0 and {count - 1}",
            )
        rows = positions.astype(np.intp)
        for table, out in zip(tables, found, strict=True):
            table.take(rows, 0, out, "clip")
