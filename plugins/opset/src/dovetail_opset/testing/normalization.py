"""Cases of normalizations."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType
from dovetail.testing import OpCase, typed
from dovetail_opset.testing._data import real, widely

_X = real(2, 3, 5, 6)
_GAMMA, _BETA = real(6, low=0.5, seed=2), real(6, seed=3)
# A mean and a variance of float32 sums, then a root and two products.
_LOOSE = 1e-4


def _standard(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    wide = x.astype(np.float64)
    centered = wide - wide.mean(axes, keepdims=True)
    result: Array = centered / np.sqrt((centered**2).mean(axes, keepdims=True) + epsilon)
    return result


def _rms(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    wide = x.astype(np.float64)
    result: Array = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + epsilon)
    return result


def _summed(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    wide = x.astype(np.float64)
    result: Array = wide / np.sqrt((wide**2).sum(axes, keepdims=True) + epsilon)
    return result


def _l2(x: Array, axes: tuple[int, ...], epsilon: float = 1e-12) -> Array:
    wide = x.astype(np.float64)
    norm = np.sqrt((wide**2).sum(axes, keepdims=True))
    result: Array = wide / np.where(norm > epsilon, norm, epsilon)
    return result


def _grouped(x: Array, group: int, epsilon: float) -> Array:
    parts = np.split(x, group, -1)
    axes = tuple(range(1, x.ndim))
    return np.concatenate([_standard(part, axes, epsilon) for part in parts], -1)


def _neighbors(x: Array, radius: int, axes: tuple[int, ...]) -> Array:
    """Return sums of squares of the elements at most `radius` away along the axes."""
    sums = np.zeros(x.shape)
    for at in np.ndindex(*x.shape):
        near = tuple(
            slice(max(i - radius, 0), i + radius + 1) if axis in axes else i
            for axis, i in enumerate(at)
        )
        sums[at] = np.sum(np.square(x[near].astype(np.float64)))
    return sums


CASES: tuple[OpCase, ...] = (
    *widely(OpCase("Batchnorm", (_X, _GAMMA, _BETA), lambda x, w, b: x * w + b, static=(1, 2))),
    OpCase("Batchnorm", (_X, _GAMMA), lambda x, w: x * w, name="without bias"),
    OpCase("Batchnorm", (real(3, 6), _GAMMA, _BETA), lambda x, w, b: x * w + b, name="rank 2"),
    *(
        c
        for case in (
            OpCase(
                "LayerNorm",
                (_X, _GAMMA, _BETA),
                lambda x, g, b: _standard(x, (3,), 1e-5) * g + b,
                {"axes": [3], "epsilon": 1e-5},
                static=(1, 2),
                atol=_LOOSE,
            ),
            OpCase(
                "RmsNorm",
                (_X, _GAMMA, _BETA),
                lambda x, g, b: _rms(x, (3,), 1e-6) * g + b,
                {"axes": [3]},
                static=(1, 2),
                atol=_LOOSE,
            ),
        )
        for c in (case, *typed(case, DType.FLOAT_16))
    ),
    OpCase(
        "LayerNorm",
        (_X,),
        lambda x: _standard(x, (1, 3), 0.001),
        {"axes": [1, 3]},
        name="two axes, default epsilon",
        atol=_LOOSE,
    ),
    OpCase(
        "LayerNorm",
        (_X, real(3, 6, seed=5)),
        lambda x, g: _standard(x, (1, 3), 0.001) * g[None, :, None, :],
        {"axes": [1, 3]},
        name="gamma of two axes",
        atol=_LOOSE,
    ),
    OpCase(
        "RmsNorm",
        (_X,),
        lambda x: _rms(x, (1, 2), 0.1),
        {"axes": [1, 2], "epsilon": 0.1},
        name="two axes",
        atol=_LOOSE,
    ),
    OpCase(
        "InstanceNorm",
        (_X, _GAMMA, _BETA),
        lambda x, g, b: _standard(x, (1, 2), 1e-5) * g + b,
        {"epsilon": 1e-5},
        static=(1, 2),
        atol=_LOOSE,
    ),
    OpCase(
        "InstanceNorm",
        (_X, _GAMMA),
        lambda x, g: (x - x.astype(np.float64).mean((1, 2), keepdims=True)) * g,
        {"normalize_variance": False},
        name="mean only",
        atol=_LOOSE,
    ),
    OpCase(
        "InstanceNorm",
        (_X, _GAMMA, _BETA),
        lambda x, g, b: _standard(x, (1, 2, 3), 1e-3) * g + b,
        {"epsilon": 1e-3, "region": 2},
        name="across all",
        atol=_LOOSE,
    ),
    OpCase(
        "InstanceNorm",
        (_X, _GAMMA, _BETA),
        lambda x, g, b: _summed(x, (3,), 1e-3) * g + b,
        {"epsilon": 1e-3, "mode": 1, "region": 1},
        name="RMS across channels",
        atol=_LOOSE,
    ),
    OpCase(
        "GroupNorm",
        (_X, _GAMMA, _BETA),
        lambda x, g, b: _grouped(x, 3, 1e-5) * g + b,
        {"group": 3, "epsilon": 1e-5},
        static=(1, 2),
        atol=_LOOSE,
    ),
    OpCase(
        "GroupNorm",
        (_X,),
        lambda x: _grouped(x, 1, 1e-5),
        {"group": 1, "epsilon": 1e-5},
        name="one group",
        atol=_LOOSE,
    ),
    OpCase("L2Norm", (_X,), lambda x: _l2(x, (3,)), {"axis": 3}),
    OpCase("L2Norm", (_X,), lambda x: _l2(x, (0,)), name="default axis"),
    OpCase("L2Norm", (_X,), lambda x: _l2(x, (1, 2)), {"axis": 3, "axes": [1, 2]}, name="axes"),
    OpCase(
        "L2Norm",
        (_X / 100,),
        lambda x: x.astype(np.float64) / 8,
        {"axis": 3, "epsilon": 8.0},
        name="below epsilon",
    ),
    OpCase("L2Norm", (_X * 0,), lambda x: x, {"axis": 3}, name="zeros"),
    OpCase("L2Norm", (_X[..., :0],), lambda x: x, {"axis": 3}, name="empty"),
    *(
        OpCase(op, (_X[..., :0], _GAMMA[:0]), lambda x, g: x, params, name="empty", static=(1,))
        for op, params in {
            "RmsNorm": {"axes": [3]},
            "InstanceNorm": {},
        }.items()
    ),
    OpCase(
        "Lrn",
        (_X,),
        lambda x: x / (1.5 + 0.25 * _neighbors(x, 2, (3,))) ** 0.75,
        {"radius": 2, "alpha": 0.25, "beta": 0.75, "bias": 1.5},
    ),
    OpCase(
        "Lrn",
        (_X,),
        lambda x: x / (1 + _neighbors(x, 1, (1, 2))) ** 0.5,
        {"radius": 1, "region": 1},
        name="within channel",
    ),
)
