"""The encoding of a tensor that a model quantizes in several ways, each for other consumers."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import ScaleOffset
from dovetail_quantizers.grid import Scheme, grid_for
from dovetail_quantizers.planning.encoding_decision import EncodingDecision


def is_same(a: EncodingDecision, b: EncodingDecision) -> bool:
    """Return whether two decisions are one type and encoding, whatever their reasons."""
    return (a.dtype, a.encoding) == (b.dtype, b.encoding)


def spanning(grids: Sequence[EncodingDecision]) -> EncodingDecision:
    """Return an encoding whose grid spans several ones, so that it clips nothing that they keep.

    It is the finest of them that does; if none does, one of the same bits that is wide enough.

    Args:
        grids: At least one, each with a single scale.
    """
    wide = [one for one in grids if all(_spans(one, other) for other in grids)]
    if wide:
        return min(wide, key=_step)
    ends = [_ends(one) for one in grids]
    signed = all(one.dtype.is_signed for one in grids)
    grid = grid_for(
        min(low for low, _ in ends),
        max(high for _, high in ends),
        max(_bits(one) for one in grids),
        Scheme.SYMMETRIC if signed else Scheme.ASYMMETRIC,
    )
    return EncodingDecision(grid.dtype, grid.encoding, grids[0].why)


def _spans(one: EncodingDecision, other: EncodingDecision) -> bool:
    """Return whether a grid ends within half a step of another's ends, or beyond them."""
    (low, high), (least, most) = _ends(one), _ends(other)
    near = _step(other) / 2
    return low <= least + near and high >= most - near


def _ends(one: EncodingDecision) -> tuple[float, float]:
    assert one.ends is not None
    return one.ends


def _step(one: EncodingDecision) -> float:
    assert isinstance(one.encoding, ScaleOffset)
    return one.encoding.scale


def _bits(one: EncodingDecision) -> int:
    assert one.encoding is not None
    return one.encoding.bitwidth or one.dtype.bits
