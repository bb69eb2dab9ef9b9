"""Estimates of an HTP's cycles, and counts of saturated results, for detailed profiles.

The estimate of a node is a roofline: the maximum of three times,

    cycles = max(MACs * passes / 2048, VTCM bytes / 256, DRAM bytes / 32)

with one pass for 8-bit products, two for 16-bit data with 8-bit weights and for half precision, and
four for products of 16-bit numbers. VTCM bytes are those of all its tensors. DRAM bytes are
those of its constants, and of its activations too if not all of its tensors fit VTCM at once.

The three rates come from one published measurement, a block of 3.48 G MACs at 8 bits on a v79 with
8 MB of VTCM: 2.1 million cycles, 443 MB in VTCM, 53 MB in DRAM. For such a network the estimate is
within a factor of 2. No source says how far it is off for other networks and architectures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView
from dovetail.runtime.measurements import Counter, EventUnit
from dovetail.runtime.plan import Graphs, Step, Value

MACS_PER_CYCLE = 2048
VTCM_BYTES_PER_CYCLE = 256
DRAM_BYTES_PER_CYCLE = 32
_CHANNELS = 32  # of a tile


def roofline(macs: float, vtcm_bytes: float, dram_bytes: float) -> int:
    """Return the estimated cycles of some work.

    Args:
        macs: Multiply-accumulates of 8-bit numbers.
        vtcm_bytes: Bytes read and written in VTCM.
        dram_bytes: Bytes read and written in DRAM.
    """
    times = (
        macs / MACS_PER_CYCLE,
        vtcm_bytes / VTCM_BYTES_PER_CYCLE,
        dram_bytes / DRAM_BYTES_PER_CYCLE,
    )
    return math.ceil(max(times))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated work of a node.

    Attributes:
        cycles: Cycles of the HTP.
        tile_bytes: Size of the smallest tile: a row of each activation, or as many as a filter has,
            and the weights of 32 channels.
    """

    cycles: int
    tile_bytes: int

    @classmethod
    def of(cls, view: NodeView, vtcm_bytes: int) -> Estimate:
        """Return the estimate of a node.

        Args:
            view: The node.
            vtcm_bytes: Size of VTCM.
        """
        tensors = [t for t in (*view.node.inputs, *view.node.outputs) if t is not None]
        fixed = [t.spec for t in tensors if t.kind.is_static]
        moved = [t.spec for t in tensors if not t.kind.is_static]
        constant, whole = _nbytes(fixed), _nbytes((*fixed, *moved))
        dram = whole if whole > vtcm_bytes else constant
        rows = max((spec.shape[0] for spec in fixed if len(spec.shape) == 4), default=1)
        tile = sum(_part(spec, 1, rows) for spec in moved) + sum(
            _part(spec, len(spec.shape) - 1, _CHANNELS) for spec in fixed
        )
        return cls(roofline(view.work * _passes(view), whole, dram), tile)


class StepCounter:
    """Counts the quantities of steps.

    Args:
        vtcm_bytes: Size of VTCM.
        graphs: The graph; None if nothing is to be estimated.
    """

    def __init__(self, vtcm_bytes: int, graphs: Graphs | None) -> None:
        self._vtcm_bytes = vtcm_bytes
        self._graphs = graphs
        self._given: dict[str, NodeView] = {}
        self._writers: dict[str, NodeView] | None = None

    def __call__(
        self, step: Step, written: Callable[[], Mapping[str, Array]]
    ) -> tuple[Counter, ...]:
        """Return the counters of all backends, the estimate, and the number of saturated results.

        Args:
            step: The step.
            written: Returns what it wrote, by tensor name.
        """
        count = Counter("saturations", _saturations(step.writes, written()))
        return (*step.counters, count, *self._estimated(step))

    def _estimated(self, step: Step) -> Iterator[Counter]:
        views = (self._given.get(view.node.name) for view in self._nodes_of(step))
        found = [Estimate.of(view, self._vtcm_bytes) for view in views if view is not None]
        if found:
            tile = max(estimate.tile_bytes for estimate in found)
            yield Counter("estimated_cycles", sum(e.cycles for e in found), EventUnit.CYCLES)
            yield Counter("tile_bytes", tile, EventUnit.BYTES)
            yield Counter("tile_fits_vtcm", int(tile <= self._vtcm_bytes))

    def _nodes_of(self, step: Step) -> list[NodeView]:
        """Return the nodes of a step: those between what it reads and what it writes."""
        if self._writers is None:
            given, run = [(), ()] if self._graphs is None else [g().nodes for g in self._graphs]
            self._given = {view.node.name: view for view in given}
            self._writers = {t.name: view for view in run for t in view.node.outputs}
        found: dict[str, NodeView] = {}
        known, open_ends = {v.name for v in step.reads}, [v.name for v in step.writes]
        while open_ends:
            view = self._writers.get(open_ends.pop())
            if view is not None and view.node.name not in found:
                found[view.node.name] = view
                before = [t.name for t in view.node.inputs if t is not None]
                open_ends += [name for name in before if name not in known]
        return list(found.values())


def _nbytes(specs: Iterable[Spec]) -> int:
    return sum(spec.nbytes for spec in specs)


def _part(spec: Spec, axis: int, size: int) -> int:
    """Return the bytes of a tensor of which a tile has a part of an axis; all without this axis."""
    whole = spec.shape[axis] if 0 <= axis < len(spec.shape) else 0
    return spec.nbytes if whole <= size else spec.nbytes * size // whole


def _passes(view: NodeView) -> int:
    """Return how many passes of 8-bit products its products need."""
    dtypes = [spec.dtype for spec in view.ins[:2] if spec is not None]
    if any(dtype.is_float for dtype in dtypes):
        return 2
    return math.prod(2 if dtype.bits > 8 else 1 for dtype in dtypes)


def _saturations(values: Sequence[Value], arrays: Mapping[str, Array]) -> int:
    return sum(saturated(arrays[v.name], v.spec) for v in values if v.name in arrays)


def saturated(stored: Array, spec: Spec) -> int:
    """Return how many elements of a fixed-point tensor are at an end of its range.

    An end that represents zero does not count: there, an encoding cuts off negative values as a
    relu does.
    """
    if not spec.dtype.is_fixed_point or spec.encoding is None:
        return 0
    low, high = spec.dtype.stored_range(spec.encoding.bitwidth)
    zeros = -spec.encoding.scales_and_offsets(spec.shape)[1]
    ends = ((stored == low) & (zeros != low)) | ((stored == high) & (zeros != high))
    return int(np.count_nonzero(ends))
