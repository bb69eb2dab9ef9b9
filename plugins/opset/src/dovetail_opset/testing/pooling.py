"""Cases of poolings."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, widely
from dovetail_opset.testing._windows import pooled


def _windows(x: Array, params: dict[str, Any]) -> Array:
    ceil = params.get("rounding_mode", 0) == 1
    return pooled(x, params["filter_size"], params["stride"], params["pad_amount"], ceil=ceil)


def _maximum(seen: Array) -> Array:
    """Return the maximum: the padding counts as 0, elements beyond it do not count."""
    zeros = np.where(np.isinf(seen), 0, seen)
    return np.asarray(np.max(np.where(np.isnan(zeros), -1e300, zeros), -2))


def _mean(seen: Array, *, padding_counts: bool = False) -> Array:
    inside = np.isfinite(seen)
    count = seen.shape[-2] if padding_counts else inside.sum(-2)
    return np.asarray(np.where(inside, seen, 0).sum(-2) / count)


def _norm(seen: Array) -> Array:
    return np.asarray(np.sqrt(np.square(np.where(np.isfinite(seen), seen, 0)).sum(-2)))


def _case(op: str, x: Array, name: str, **params: Any) -> OpCase:
    def expected(x: Array) -> Array:
        seen = _windows(x, params)
        if "Max" in op:
            return _maximum(seen)
        if "L2" in op:
            return _norm(seen)
        return _mean(seen, padding_counts=params.get("count_pad_for_edges", False))

    return OpCase(op, (x,), expected, params, name=name)


_X, _NEGATIVE, _VOLUME = real(2, 7, 8, 5), real(1, 5, 5, 3, low=-9, high=-1), real(1, 4, 5, 6, 3)
_PADDED: dict[str, Any] = {
    "filter_size": (3, 3),
    "stride": (2, 2),
    "pad_amount": [[1, 1], [1, 1]],
}
_BARE: dict[str, Any] = {"filter_size": (2, 3), "stride": (2, 1), "pad_amount": [[0, 0], [0, 0]]}
_DEEP: dict[str, Any] = {
    "filter_size": (2, 3, 2),
    "stride": (1, 2, 2),
    "pad_amount": [[1, 0], [1, 1], [0, 0]],
}

CASES: tuple[OpCase, ...] = (
    *(
        c
        for op in ("PoolMax2d", "PoolAvg2d")
        for c in (
            *widely(_case(op, _X, "padded", **_PADDED)),
            _case(op, _NEGATIVE, "negative", **_PADDED),
            _case(op, _X, "bare", **_BARE),
            _case(op, _X, "rounded up", **_PADDED, rounding_mode=1),
            _case(op, _X[:0], "no batch", **_PADDED),
        )
    ),
    _case("PoolAvg2d", _X, "padding counts", **_PADDED, count_pad_for_edges=True),
    _case(
        "PoolAvg2d",
        _X,
        "whole image",
        filter_size=(7, 8),
        stride=(1, 1),
        pad_amount=[[0, 0], [0, 0]],
    ),
    *widely(_case("L2Pool2d", _X, "padded", **_PADDED)),
    _case("L2Pool2d", _X, "bare", **_BARE),
    *(
        c
        for op in ("PoolMax3d", "PoolAvg3d")
        for c in (
            _case(op, _VOLUME, "padded", **_DEEP),
            _case(op, _VOLUME, "rounded up", **_DEEP, rounding_mode=1),
        )
    ),
    _case("PoolAvg3d", _VOLUME, "padding counts", **_DEEP, count_pad_for_edges=True),
)
