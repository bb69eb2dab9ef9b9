"""InstanceNorm and GroupNorm of the stored bytes of one item.

NumPy computes the numbers of channels from exact sums, a primitive the results. These are rounded
as `marks` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.integer_item_norms import ItemNorm
from dovetail_numpy.kernels.near_ties import Exact
from dovetail_onednn._api import BinaryAlgorithm
from dovetail_onednn.attributes import Binary
from dovetail_onednn.execution import Argument
from dovetail_onednn.folding import Folding
from dovetail_onednn.quantized.marks import marked_step
from dovetail_onednn.quantized.stages import Stages, Term, has_fast_terms
from dovetail_onednn.quantized.types import TYPES

_LEAST = 1 << 14  # with fewer elements, the calls of primitives take as long as NumPy's
_SMALLEST, _LARGEST = 1e-12, 1e24  # far from underflow and overflow of factors
_KEPT, _DOUBLE = 3, 8  # floor, share and root, in bytes of each


def instance_norm(call: KernelCall) -> Step | None:
    """Run InstanceNorm by mean and deviation over space, with constant factors."""
    return _item_norm(call, call.spec(0).shape[-1]) if call.op.is_by_channel else None


def group_norm(call: KernelCall) -> Step | None:
    """Run GroupNorm with constant factors."""
    return _item_norm(call, call.op.group)


def _item_norm(call: KernelCall, groups: int) -> Step | None:
    spec, out = call.spec(0), call.outputs[0]
    if spec.shape[0] != 1 or math.prod(spec.shape) < _LEAST:
        return None
    norm = ItemNorm.of(call, groups)
    if norm is None or {spec.dtype, out.dtype} - TYPES.keys():
        return None
    largest = float(np.abs(norm.norm.factor).max())
    is_usual = _SMALLEST < norm.norm.epsilon < _LARGEST and largest < _LARGEST
    if not is_usual or grid_of(out.spec)[2] != out.dtype.stored_range():
        return None
    folding = Folding.of(spec.shape, [(norm.width,)])
    full, per_channel = folding.desc(spec.shape), folding.desc((norm.width,))
    source = full.of_type(TYPES[spec.dtype])
    algorithms = BinaryAlgorithm.SUBTRACT, BinaryAlgorithm.MULTIPLY, BinaryAlgorithm.ADD
    ops = [Binary(algorithm, per_channel) for algorithm in algorithms]
    if not has_fast_terms(full, full, ops):
        return None
    stages, stored = Stages(call), call.read(0)
    real, rooms = stages.room(full), [stages.room(per_channel) for _ in ops]
    terms: list[Term] = list(zip(ops, rooms, strict=True))
    stages.move(Argument(source, stored), real)
    stages.add_terms((real, real), 0.0, terms)
    pads = call.scratch(norm.nbytes), call.scratch(_KEPT * _DOUBLE * norm.width)
    found = _Numbers(norm, stored, [room.value for room in rooms], *pads)
    near = norm.norm.near
    return marked_step(
        call, stages, real.value, near.step, near, found.exact_of, before=found.before
    )


class _Numbers(msgspec.Struct, frozen=True):
    """The numbers of channels, which each run computes.

    Attributes:
        norm: The normalization.
        stored: The data.
        rooms: Scratchpads for the floor, the factor and the offset without the zero point, float32.
        pad: That of `ItemNorm`.
        kept: Scratchpad for the numbers of the definition, float64.
    """

    norm: ItemNorm
    stored: Value
    rooms: Sequence[Value]
    pad: Value
    kept: Value

    def _arrays(self, buffers: Buffers) -> tuple[Array, Array]:
        """Return the positions of the item, and the numbers of the definition."""
        width = self.norm.width
        kept = buffers.array(self.kept).view(np.float64).reshape(_KEPT, width)
        return buffers.array(self.stored).reshape(-1, width), kept

    def before(self, buffers: Buffers) -> Bound:
        """Return the call that computes the numbers."""
        norm, (q, kept) = self.norm, self._arrays(buffers)
        whole, factor, offset = (
            buffers.array(v).view(np.float32)[: norm.width] for v in self.rooms
        )
        pads = buffers.array(self.pad).view(np.float32).reshape(2, norm.most, norm.width)
        zero = norm.norm.near.zero

        def run() -> None:
            found = norm.numbers(q, *pads)
            kept[:] = found[:_KEPT]
            whole[:], factor[:], offset[:] = found.floor, found.factor, found.offset - zero

        return run

    def exact_of(self, buffers: Buffers) -> Exact:
        """Return the function that computes elements by the definition."""
        q, kept = self._arrays(buffers)
        return partial(self.norm.exact, q, [*kept])
