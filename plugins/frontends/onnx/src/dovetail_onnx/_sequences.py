"""Sequences and optional values: lists of tensors that are known at import, which no op has.

A sequence is the names of its elements. Its operators only choose, join or count these, so the
length of each sequence must be known, and so must the position of an element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import NodeProto, helper

from dovetail.errors import UnsupportedOpError
from dovetail_onnx._subgraph_node import SubgraphNode

# Maximum number of tensors that one node divides its input into.
_MOST_PARTS = 10_000
# From here on, Split has the sizes of its parts as an input.
_SIZES_AS_INPUT = 13


def _construct(node: SubgraphNode) -> None:
    node.give_sequence(node.node.inputs)


def _at(node: SubgraphNode) -> None:
    elements = _elements(node)
    node.give([elements[_position(node, 1, len(elements))]])


def _length(node: SubgraphNode) -> None:
    node.give([node.constant("length", np.asarray(len(_elements(node)), np.int64))])


def _insert(node: SubgraphNode) -> None:
    elements = _elements(node)
    end = len(elements)
    at = _position(node, 2, end + 1, beyond=1) if node.name(2) else end
    node.give_sequence([*elements[:at], node.name(1), *elements[at:]])


def _erase(node: SubgraphNode) -> None:
    elements = _elements(node)
    at = _position(node, 1, len(elements)) if node.name(1) else len(elements) - 1
    if at < 0:
        raise node.invalid("the sequence has no element to erase")
    node.give_sequence([*elements[:at], *elements[at + 1 :]])


def _split(node: SubgraphNode) -> None:
    """Read a SplitToSequence as a Split, or as slices without the axis."""
    x, sizes = node.name(0), node.name(1)
    shape = node.shape(x)
    axis = node.attr.integer("axis", 0)
    if not -len(shape) <= axis < len(shape):
        raise node.invalid(f"axis {axis} is out of range for the input {shape}")
    parts = _sizes(node, sizes, shape[axis])
    if not sizes and not node.attr.integer("keepdims", 1):
        count = len(parts)
        made = node.taken("parts", [x] * count, [axis] * count, range(count))
    else:
        made = [f"{node.node.name}.part{i}" for i in range(len(parts))]
        if made and not node.read([_parted(node, x, axis, parts, made)], made):
            return
    if made is not None:
        node.give_sequence(made)


def _parted(
    node: SubgraphNode, x: str, axis: int, parts: Sequence[int], names: Sequence[str]
) -> NodeProto:
    """Return a Split of a tensor into parts of given sizes."""
    stem = f"{node.node.name}.split"
    if node.node.opset < _SIZES_AS_INPUT:
        return helper.make_node("Split", [x], names, stem, axis=axis, split=parts)
    sizes = node.constant("sizes", np.asarray(parts, np.int64))
    return helper.make_node("Split", [x, sizes], names, stem, axis=axis)


def _sizes(node: SubgraphNode, name: str, whole: int) -> list[int]:
    """Return the sizes of the parts of an axis: one each, equal ones, or those that are given."""
    given = node.known(name, "split") if name else np.asarray(1)
    if given.ndim > 1 or given.dtype.kind not in "iu" or (given < (1 - given.ndim)).any():
        raise node.invalid(f"split {given.tolist()} is neither a size nor a list of sizes")
    count = given.size if given.ndim else -(-whole // int(given))
    if count > _MOST_PARTS:
        raise UnsupportedOpError(
            f"unsupported number {count} of parts; the maximum is {_MOST_PARTS}",
            where=node.node.where,
        )
    if given.ndim == 0:
        return [min(int(given), whole - i * int(given)) for i in range(count)]
    sizes = [int(size) for size in given]
    if sum(sizes) != whole:
        raise node.invalid(f"split {sizes} does not add up to the size {whole} of the axis")
    return sizes


def _concat(node: SubgraphNode) -> None:
    """Read a ConcatFromSequence as a Concat along an axis, or of slices along a new one."""
    elements, axis = _elements(node), node.attr.integer("axis", 0)
    if not elements:
        raise UnsupportedOpError(
            "the sequence is empty, which leaves the shape of the output unknown",
            where=node.node.where,
        )
    if node.attr.integer("new_axis", 0):
        made = node.joined("stacked", elements, axis)
    else:
        stem = f"{node.node.name}.joined"
        proto = helper.make_node("Concat", elements, [stem], stem, axis=axis)
        made = stem if node.read([proto], [stem]) else None
    if made is not None:
        node.give([made])


def _same(node: SubgraphNode) -> None:
    """Return the value itself, for Optional and OptionalGetElement."""
    if not node.name(0):
        raise UnsupportedOpError(
            "unsupported optional value without an element", where=node.node.where
        )
    node.give([node.name(0)])


def _has_element(node: SubgraphNode) -> None:
    node.give([node.constant("has", np.asarray(bool(node.name(0))))])


def _elements(node: SubgraphNode) -> tuple[str, ...]:
    found = node.reader.sequence(node.name(0))
    if found is None:
        raise node.invalid(f"input '{node.name(0)}' is not a sequence")
    return found


def _position(node: SubgraphNode, i: int, count: int, *, beyond: int = 0) -> int:
    """Return a known position from the start.

    Args:
        node: The node.
        i: The input that is the position; negative from the end.
        count: Number of valid positions.
        beyond: Those of them after the end.
    """
    given = int(node.known_number(node.name(i), "position"))
    end = count - beyond
    if not -end <= given < count:
        raise node.invalid(f"position {given} is out of range for a sequence of {end} elements")
    return given + end if given < 0 else given


SEQUENCES: dict[str, Callable[[SubgraphNode], None]] = {
    "SequenceEmpty": _construct,
    "SequenceConstruct": _construct,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": _same,
    "OptionalGetElement": _same,
    "OptionalHasElement": _has_element,
}
