"""Cases of ops that only arrange elements: shapes, orders, pieces, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.testing import OpCase, typed
from dovetail_opset.testing._data import NARROW, real, truth, whole

_X, _FLAT = real(2, 3, 4, 5), real(7, seed=2)
_IMAGE = real(2, 4, 6, 12)


def _moved(case: OpCase) -> tuple[OpCase, ...]:
    """Return a case and the same in narrower types, since moves must not change elements."""
    return (case, *typed(case, *NARROW, steps=0))


def _transposed(x: Array, perm: tuple[int, ...]) -> Array:
    made = np.zeros([x.shape[p] for p in perm], x.dtype)
    for at in np.ndindex(*made.shape):
        source = [0] * x.ndim
        for i, p in enumerate(perm):
            source[p] = at[i]
        made[at] = x[tuple(source)]
    return made


def _by_index(
    shape: tuple[int, ...], source: Callable[..., tuple[int, ...]]
) -> Callable[[Array], Array]:
    """Return an expected output defined by the source index of each element."""

    def expected(x: Array) -> Array:
        made = np.zeros(shape, x.dtype)
        for at in np.ndindex(*shape):
            made[at] = x[source(*at)]
        return made

    return expected


def _shuffled(c: int, groups: int) -> int:
    """Return the source channel of channel c, of 12."""
    return (c % groups) * (12 // groups) + c // groups


def _stitched(x: Array) -> Array:
    """Return BatchToSpace with blocks of 2 by 3, one row and two columns cropped."""
    made = np.zeros((2, 8, 15, 3), x.dtype)
    for i, j in np.ndindex(2, 3):
        made[:, i::2, j::3] = x[(i * 3 + j) * 2 : (i * 3 + j) * 2 + 2]
    return made[:, 1:, 1:-1]


def _dealt(x: Array) -> Array:
    """Return SpaceToBatch with blocks of 2 by 3 on an image padded to (6, 9)."""
    padded = np.zeros((2, 6, 9, 3), x.dtype)
    padded[:, 1:5, 2:9] = x
    return np.concatenate([padded[:, i::2, j::3] for i, j in np.ndindex(2, 3)])


_PERMUTED: tuple[tuple[Any, tuple[int, ...]], ...] = (
    (_X, (0, 3, 1, 2)),
    (_X, (3, 2, 1, 0)),
    (_X, (0, 1, 2, 3)),
    (real(3, 4), (1, 0)),
    (real(), ()),
    (real(2, 0, 3), (2, 0, 1)),
    (whole(2, 3, 4), (1, 2, 0)),
    (truth(2, 3), (1, 0)),
)

CASES: tuple[OpCase, ...] = (
    *_moved(
        OpCase("Reshape", (_X,), lambda x: np.array(x.ravel().tolist(), x.dtype).reshape(6, 20))
    ),
    OpCase("Reshape", (real(1, 1),), lambda x: x[0, 0], name="to rank 0"),
    OpCase("Reshape", (real(2, 0, 3),), lambda x: np.zeros((0, 5), x.dtype), name="empty"),
    OpCase(
        "Reshape",
        (_X, np.array([6, 20], np.int32)),
        lambda x, _: x.reshape(6, 20),
        name="shape given too",
        static=(1,),
    ),
    OpCase("Reshape", (whole(4, 3),), lambda x: x.reshape(2, 6), name="int32"),
    *_moved(
        OpCase(
            "Transpose",
            (_X,),
            lambda x: _transposed(x, (0, 3, 1, 2)),
            {"perm": (0, 3, 1, 2)},
            name="to channels first",
        )
    ),
    *(
        OpCase(
            "Transpose",
            (x,),
            _transposed(x, perm),
            {"perm": perm},
            name=f"{x.dtype} {'x'.join(map(str, x.shape))} by {''.join(map(str, perm))}",
        )
        for x, perm in _PERMUTED
    ),
    OpCase("ExpandDims", (_X,), lambda x: x[:, :, None], {"axis": 2}),
    OpCase(
        "ExpandDims",
        (_X,),
        lambda x: x[None, :, None],
        {"axis": 0, "axes": [0, 2]},
        name="axes",
    ),
    OpCase("ExpandDims", (real(),), lambda x: x.reshape(1), {"axis": 0}, name="rank 0"),
    OpCase("Squeeze", (real(2, 1, 3, 1),), lambda x: x[:, 0, :, 0]),
    OpCase("Squeeze", (real(1, 2, 1),), lambda x: x[0], {"axes": [0]}, name="axes"),
    *_moved(OpCase("Concat", (_X[..., :2], _X[..., 2:]), lambda a, b: np.block([a, b]))),
    OpCase(
        "Concat",
        (_X, _X[:, :1], _X[:, :2]),
        lambda a, b, c: np.array([[*x, *y, *z] for x, y, z in zip(a, b, c, strict=True)], a.dtype),
        {"axis": 1},
        name="three",
    ),
    OpCase("Concat", (_FLAT[:0], _FLAT), lambda a, b: b, {"axis": 0}, name="with an empty one"),
    OpCase("Concat", (whole(2, 3), whole(2, 2)), lambda a, b: np.block([a, b]), name="int32"),
    *_moved(
        OpCase("Split", (_X,), lambda x: (x[..., :2], x[..., 2:]), {"axis": 3, "split_index": [2]})
    ),
    OpCase(
        "Split",
        (_FLAT,),
        lambda x: (x[:1], x[1:5], x[5:]),
        {"axis": 0, "split_index": [1, 5]},
        name="three",
    ),
    OpCase("Pack", (_X, -_X), lambda a, b: np.array([a, b]), {"axis": 0}),
    OpCase(
        "Pack",
        (_FLAT, -_FLAT, 2 * _FLAT),
        lambda a, b, c: np.array(list(zip(a, b, c, strict=True)), a.dtype),
        {"axis": 1},
        name="last axis",
    ),
    OpCase("UnPack", (_X,), lambda x: (x[:, 0], x[:, 1], x[:, 2]), {"axis": 1}),
    OpCase("UnPack", (real(2),), lambda x: (x[0], x[1]), {"axis": 0}, name="to rank 0"),
    *_moved(
        OpCase(
            "Tile",
            (real(2, 3),),
            lambda x: np.array([[x[i % 2, j % 3] for j in range(9)] for i in range(4)], x.dtype),
            {"multiples": (2, 3)},
        )
    ),
    OpCase("Tile", (_FLAT,), lambda x: x[:0], {"multiples": (0,)}, name="none"),
    OpCase(
        "BatchPermutation",
        (_X, np.array([1, 0], np.int32)),
        lambda x, i: np.stack([x[1], x[0]]),
    ),
    OpCase(
        "BatchPermutation",
        (real(3, 2), np.array([2, 7, 0], np.int32)),
        lambda x, i: np.stack([x[2], x[0], 0 * x[0]]),
        name="out of range",
    ),
    *_moved(
        OpCase(
            "DepthToSpace",
            (_IMAGE,),
            _by_index(
                (2, 8, 18, 2),
                lambda n, h, w, c: (n, h // 2, w // 3, ((h % 2) * 3 + w % 3) * 2 + c),
            ),
            {"block_size": (2, 3)},
        )
    ),
    OpCase(
        "DepthToSpace",
        (_IMAGE,),
        _by_index(
            (2, 8, 18, 2), lambda n, h, w, c: (n, h // 2, w // 3, c * 6 + (h % 2) * 3 + w % 3)
        ),
        {"block_size": (2, 3), "mode": 1},
        name="CRD",
    ),
    OpCase(
        "SpaceToDepth",
        (_IMAGE,),
        _by_index(
            (2, 2, 2, 72), lambda n, h, w, d: (n, h * 2 + d // 36, w * 3 + d // 12 % 3, d % 12)
        ),
        {"block_size": (2, 3)},
    ),
    OpCase(
        "SpaceToDepth",
        (_IMAGE,),
        _by_index((2, 2, 2, 72), lambda n, h, w, d: (n, h * 2 + d % 6 // 3, w * 3 + d % 3, d // 6)),
        {"block_size": (2, 3), "mode": 1},
        name="CRD",
    ),
    OpCase(
        "BatchToSpace",
        (real(2, 3, 1, 2),),
        lambda x: x.reshape(1, 2, 3, 2).swapaxes(1, 2),
        {"block_size": (1, 2)},
        name="one row of blocks",
    ),
    OpCase(
        "SpaceToBatch",
        (real(1, 3, 2, 2),),
        lambda x: np.stack([x[0, :, :1], x[0, :, 1:]]),
        {"block_size": (1, 2)},
        name="one row of blocks",
    ),
    OpCase(
        "BatchToSpace",
        (real(12, 4, 5, 3),),
        _stitched,
        {"block_size": (2, 3), "crops": [[1, 0], [1, 1]]},
    ),
    OpCase(
        "SpaceToBatch",
        (real(2, 4, 7, 3),),
        _dealt,
        {"block_size": (2, 3), "pad_amount": [[1, 1], [2, 0]]},
    ),
    *_moved(
        OpCase(
            "ChannelShuffle",
            (_IMAGE,),
            _by_index((2, 4, 6, 12), lambda n, h, w, c: (n, h, w, _shuffled(c, 3))),
            {"num_groups": 3},
        )
    ),
    OpCase(
        "ChannelShuffle",
        (real(12, 2),),
        _by_index((12, 2), lambda c, w: (_shuffled(c, 4), w)),
        {"num_groups": 4, "axis": 0},
        name="axis 0",
    ),
    OpCase("Shape", (_X,), np.array([2, 3, 4, 5], np.uint32)),
    OpCase("Shape", (_X,), np.array([3, 4], np.uint32), {"start": 1, "end": 3}, name="part"),
    OpCase("Shape", (real(),), np.zeros(0, np.uint32), name="rank 0"),
    OpCase(
        "ConstantOfShape",
        (np.zeros(0, np.uint32),),
        np.float32(-2.0) + np.zeros((), np.float32),
        {"value": -2.0},
        name="rank 0",
        static=(0,),
        outputs=(Spec(DType.FLOAT_32, ()),),
    ),
    OpCase(
        "ConstantOfShape",
        (np.array([2, 3], np.uint32),),
        np.array([[1.5] * 3] * 2, np.float32),
        {"value": 1.5},
        static=(0,),
        outputs=(Spec(DType.FLOAT_32, (2, 3)),),
    ),
)
