"""Differences between the weights of two graphs; two tensors are in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from dovetail.container import compare_values, form_differences
from dovetail.ir import Graph, Tensor
from dovetail_tools._model_diff.matching import Matches

_PIECE = 1 << 20  # bytes


class WeightDiff(msgspec.Struct, frozen=True):
    """Two weights that differ.

    Attributes:
        first, second: Their names.
        shapes: Their shapes.
        max_abs: Largest absolute difference of their real values; None if shapes differ.
        cosine: Cosine of the angle between them; None if there is none.
        is_close: Whether all differences are within the tolerance.
    """

    first: str
    second: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    max_abs: float | None
    cosine: float | None
    is_close: bool


class WeightsDiff(msgspec.Struct, frozen=True):
    """The weights of two graphs.

    Attributes:
        compared: Number of pairs.
        identical: Number of pairs with the same bytes and types.
        different: Pairs that differ, those within the tolerance included.
        only_first: Names of weights of the first graph without a counterpart.
        only_second: Those of the second graph.
    """

    compared: int
    identical: int
    different: tuple[WeightDiff, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """True if all weights are equal within the tolerance."""
        is_complete = not (self.only_first or self.only_second)
        return is_complete and all(each.is_close for each in self.different)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The differences of real values that count as equal: at most `atol + rtol * abs(second)`."""

    rtol: float = 0.0
    atol: float = 0.0


def compare_weights(
    first: Graph, second: Graph, matches: Matches, tolerance: Tolerance
) -> WeightsDiff:
    """Compare the constants that matched nodes read, and the others by name.

    Raises:
        ContainerError: Data are damaged.
    """
    pairs = dict.fromkeys(_pairs(first, second, matches))
    diffs = [_compared(ours, theirs, tolerance) for ours, theirs in pairs]
    ours, theirs = {a for a, _ in pairs}, {b for _, b in pairs}
    return WeightsDiff(
        len(pairs),
        sum(diff is None for diff in diffs),
        tuple(diff for diff in diffs if diff is not None),
        tuple(t.name for t in _constants(first) if t not in ours),
        tuple(t.name for t in _constants(second) if t not in theirs),
    )


def _pairs(first: Graph, second: Graph, matches: Matches) -> Iterator[tuple[Tensor, Tensor]]:
    paired: set[Tensor] = set()
    for node, other in matches.nodes.items():
        for ours, theirs in zip(node.inputs, other.inputs, strict=False):
            if ours is None or theirs is None:
                continue
            if ours.data is not None and theirs.data is not None:
                paired |= {ours, theirs}
                yield ours, theirs
    names = {tensor.name: tensor for tensor in _constants(second) if tensor not in paired}
    for tensor in _constants(first):
        if tensor not in paired and tensor.name in names:
            yield tensor, names[tensor.name]


def _constants(graph: Graph) -> Iterator[Tensor]:
    return (tensor for tensor in graph.tensors.values() if tensor.data is not None)


def _compared(first: Tensor, second: Tensor, tolerance: Tolerance) -> WeightDiff | None:
    try:
        if not form_differences(first, second) and has_same_bytes(first, second):
            return None
        shapes = first.shape, second.shape
        found = None
        if first.shape == second.shape:
            found = compare_values(first, second, rtol=tolerance.rtol, atol=tolerance.atol)
        if found is None:
            return WeightDiff(first.name, second.name, shapes, None, None, is_close=False)
        return WeightDiff(
            first.name, second.name, shapes, found.max_abs, found.cosine, found.is_close
        )
    finally:
        for tensor in (first, second):
            if tensor.data is not None:
                tensor.data.release()


def has_same_bytes(first: Tensor, second: Tensor) -> bool:
    """Return whether the data of two constants are equal, piece by piece.

    Raises:
        ContainerError: They are damaged.
    """
    if first.data is None or second.data is None or first.data.nbytes != second.data.nbytes:
        return first.data is second.data
    ours, theirs = first.data.bytes, second.data.bytes  # checked, also if they are one blob
    return first.data is second.data or all(
        np.array_equal(ours[i : i + _PIECE], theirs[i : i + _PIECE])
        for i in range(0, ours.size, _PIECE)
    )
