"""Assignments to masked elements, as in `x[x < 0] = y`: written as a choice between elements.

PyTorch exports them as a ScatterND to the positions that NonZero finds, whose number is not known.
The assigned value is a number, or the same for all masked slices: its copies are not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from dovetail.ir.patterns import either, op, value
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._inputs import dims_of
from dovetail_onnx._matching import Found, Replacement, SourceView, replace_matches
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tensors import TensorReader
from dovetail_opset.importing.inputs import Dim

Dims: TypeAlias = tuple[Dim, ...]

# From here on, Unsqueeze has its axes as an input.
_OPSET = 13


def _turns(node: SourceNode) -> bool:
    return Attributes(node.proto).integers("perm") in (None, (1, 0))


def replaces(node: SourceNode) -> bool:
    """Return whether a ScatterND replaces elements."""
    return Attributes(node.proto).text("reduction", "none") == "none"


_POSITIONS = op("Transpose", op("NonZero", value("mask")), where=_turns)
_COPIES = op("Expand", value("new"), value("count"))
_ASSIGNED = op(
    "ScatterND",
    value("data"),
    _POSITIONS,
    either(_COPIES, op("Reshape", _COPIES, value("flat"))),
    where=replaces,
)


def positions_of(view: SourceView, name: str) -> str | None:
    """Return the mask whose true elements' positions, by row, a tensor has; None if it has none."""
    turned = view.producer(name)
    found = None
    if turned is not None and turned.full_type == "Transpose" and _turns(turned):
        found = view.producer(turned.inputs[0])
    return found.inputs[0] if found is not None and found.full_type == "NonZero" else None


def fuse_masked_assignments(source: SourceGraph, reader: TensorReader) -> SourceGraph:
    """Return the graph with every such assignment as a Where."""
    return replace_matches(source, reader, _ASSIGNED, _chosen)


def _chosen(view: SourceView, match: Found) -> Iterator[SourceNode]:
    """Yield the nodes of a choice; none if several values could be assigned."""
    mask, data, new = (match.values[name] for name in ("mask", "data", "new"))
    of_mask, whole = dims_in(view, mask), dims_in(view, data)
    assigned = () if view.number(new) is not None else dims_in(view, new)
    if of_mask is None or whole is None or assigned is None:
        return
    axes = range(len(of_mask), len(whole))  # of slices
    if max(len(of_mask), len(assigned)) > len(whole) or ("flat" in match.values and axes):
        return
    copied = assigned[: max(0, len(assigned) - len(axes))]
    if any(n != 1 for n in copied) and not _is_of_slices(view, mask, assigned, whole):
        return
    made = Replacement(view, match, _OPSET)
    if axes:
        mask = made.add("Unsqueeze", mask, made.constant("axes", [len(axes)], axes))
    yield from made.end("Where", mask, new, data)


def _is_of_slices(view: SourceView, mask: str, new: Dims, data: Dims) -> bool:
    """Return whether a mask of all elements was expanded from one of slices in a shape."""
    maker = view.producer(mask)
    before = dims_in(view, maker.inputs[0]) if maker and maker.full_type == "Expand" else None
    if before is None or len(before) != len(data) or None in new:
        return False
    first = len(data) - len(new)
    return data[first:] == new and all(n == 1 for n in before[first:])


def dims_in(view: SourceView, name: str) -> Dims | None:
    """Return the shape that the model declares of a tensor; None if its rank is unknown."""
    source = view.source
    if (proto := source.initializers.get(name)) is not None:
        return tuple(proto.dims)
    info = source.inputs.get(name) or source.declared.get(name)
    return None if info is None else dims_of(info)
