"""Reductions over any axes: sums, means, products and extremes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real, axes_of, lanes, row_launch
from dovetail_gpu.launching import Launch, launch_all
from dovetail_gpu.layouts import element_of, read, scratch, write
from dovetail_gpu.programs import Source, type_defines, type_lines
from dovetail_opset import STANDARD

_LONGEST = 4096  # elements that one item joins: more of them lose digits of a sum
_SHORTEST = 1024  # elements of a chunk for each item, below which another launch costs more
_GROUPS_PER_UNIT = 4

# start, map of an element `e`, merge, and the end of a result `v` of `count` elements
_REDUCTIONS = {
    "ReduceSum": ("0.0f", "(e)", "ADD", "(v)"),
    "ReduceSumSquare": ("0.0f", "((e) * (e))", "ADD", "(v)"),
    "ReduceMean": ("0.0f", "(e)", "ADD", "((v) / count)"),
    "ReduceProd": ("1.0f", "(e)", "MULTIPLY", "(v)"),
    "ReduceMax": ("(-INFINITY)", "(e)", "LARGER", "(v)"),
    "ReduceMin": ("INFINITY", "(e)", "SMALLER", "(v)"),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A reduction of the middle axis of (outer, size, inner) to (outer, chunks, inner).

    Attributes:
        outer, size, inner: The shape.
        chunk: Elements of a chunk; the last one may have fewer.
    """

    outer: int
    size: int
    inner: int
    chunk: int

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return max(1, -(-self.size // self.chunk))

    @property
    def count(self) -> int:
        """Number of results."""
        return self.outer * self.chunks * self.inner


@KERNELS.register(STANDARD, "ReduceSum")
@KERNELS.register(STANDARD, "ReduceSumSquare")
@KERNELS.register(STANDARD, "ReduceMean")
@KERNELS.register(STANDARD, "ReduceProd")
@KERNELS.register(STANDARD, "ReduceMax")
@KERNELS.register(STANDARD, "ReduceMin")
def reduction(call: KernelCall) -> Step | None:
    """Run a reduction: one launch or two for each run of adjacent axes, the last ones first."""
    if not are_real(call):
        return None
    shape = call.spec(0).shape
    axes = set(axes_of(call.op.axes)) if shape else set()
    count = math.prod(shape[a] for a in axes)
    element = element_of(call.outputs[0].spec)
    source, launches = read(call, 0, element), []
    parts = _parts(shape, axes)
    for i, part in enumerate(parts):
        ends = i == 0, part is parts[-1]
        target = write(call) if ends[1] else scratch(call, Element.FLOAT, part.count)
        program = _program(call.head.op_type, element, ends)
        launches.append(_launch(program, part, source, target, count))
        source = target
    return launch_all(call, launches)


def _parts(shape: Shape, axes: set[int]) -> list[_Part]:
    """Return the reductions in order."""
    parts: list[_Part] = []
    for start, end in reversed(_runs(len(shape), axes)):
        outer, size = math.prod(shape[:start]), math.prod(shape[start:end])
        inner = math.prod(n for i, n in enumerate(shape) if i >= end and i not in axes)
        chunk = _chunk(outer, size, inner)
        parts.append(_Part(outer, size, inner, chunk))
        if parts[-1].chunks > 1:
            parts.append(_Part(outer, parts[-1].chunks, inner, parts[-1].chunks))
    return parts or [_Part(math.prod(shape), 1, 1, 1)]


def _runs(rank: int, axes: set[int]) -> list[tuple[int, int]]:
    """Return begin and end of each run of adjacent axes."""
    starts = [a for a in range(rank) if a in axes and a - 1 not in axes]
    ends = [a + 1 for a in range(rank) if a in axes and a + 1 not in axes]
    return list(zip(starts, ends, strict=True))


def _chunk(outer: int, size: int, inner: int) -> int:
    """Return the size of chunks: all, unless sums are long or too few groups have work."""
    at_once = lanes() * (VECTOR if inner == 1 and lanes() == 1 else 1)
    groups = max(1, outer * -(-inner // VECTOR))
    wanted = -(-current().engine.device.units * _GROUPS_PER_UNIT // groups)
    chunk = min(max(-(-size // wanted), _SHORTEST * at_once), _LONGEST * at_once)
    return max(1, min(chunk, size))


def _program(op_type: str, element: Element, ends: tuple[bool, bool]) -> Source:
    start, map_, merge, finish = _REDUCTIONS[op_type]
    lines = f"#define START {start}\n#define MERGE {merge}\n"
    lines += f"#define MAP(e) {map_ if ends[0] else '(e)'}\n"
    lines += f"#define FINISH(v) {finish if ends[1] else '(v)'}\n"
    types = [element if is_end else Element.FLOAT for is_end in ends]
    defines: dict[str, int | str] = {"GROUP": lanes()}
    for name, type_ in zip("XY", types, strict=True):
        defines |= type_defines(name, type_)
    return Source.of(("groups", "reduce"), defines, type_lines(element) + lines)


def _launch(program: Source, part: _Part, x: Value, y: Value, count: int) -> Launch:
    rows, ends = part.outer * part.chunks, (part.chunks, part.chunk, float(count))
    if part.inner == 1:
        return row_launch(program, "rows", (x, y, part.size, *ends), rows)
    results = rows * -(-part.inner // VECTOR)
    arguments = (x, y, part.size, part.inner, *ends)
    return row_launch(program, "columns", arguments, results)
