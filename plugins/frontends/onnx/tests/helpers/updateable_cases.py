"""Models whose weights stay updateable, of each form in which networks use them."""

from __future__ import annotations

import numpy as np
from onnx import helper

N = helper.make_node
RNG = np.random.default_rng(5)


def normal(*shape):
    """Return normal numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


X, IMAGE, LINE = normal(2, 4), normal(1, 3, 5, 5), normal(1, 3, 7)
BATCH = normal(2, 5, 4)
# Nodes, the input, and the initializers; `k` stays constant.
CASES = {
    "matmul": ([N("MatMul", ["x", "w"], ["y"])], X, {"w": normal(4, 6)}),
    "batch": ([N("MatMul", ["x", "w"], ["y"])], BATCH, {"w": normal(4, 6)}),
    "vector": ([N("MatMul", ["x", "w"], ["y"])], X, {"w": normal(4)}),
    "left": ([N("MatMul", ["w", "x"], ["y"])], X, {"w": normal(3, 2)}),
    "gemm": ([N("Gemm", ["x", "w", "b"], ["y"])], X, {"w": normal(4, 6), "b": normal(6)}),
    "gemm-transposed": (
        [N("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        X,
        {"w": normal(6, 4), "b": normal(6)},
    ),
    "gemm-factors": (
        [N("Gemm", ["x", "w", "b"], ["y"], alpha=0.5, beta=2.0, transB=1)],
        X,
        {"w": normal(6, 4), "b": normal(1, 6)},
    ),
    "gemm-rows": ([N("Gemm", ["x", "w", "b"], ["y"])], X, {"w": normal(4, 6), "b": normal(2, 6)}),
    "conv": (
        [N("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])],
        IMAGE,
        {"w": normal(4, 3, 3, 3), "b": normal(4)},
    ),
    "depthwise": ([N("Conv", ["x", "w"], ["y"], group=3)], IMAGE, {"w": normal(3, 1, 3, 3)}),
    "line": ([N("Conv", ["x", "w"], ["y"])], LINE, {"w": normal(4, 3, 3)}),
    "transposed": ([N("ConvTranspose", ["x", "w"], ["y"])], IMAGE, {"w": normal(3, 4, 2, 2)}),
    "between-layouts": (
        [N("Conv", ["x", "k"], ["c"]), N("Add", ["c", "w"], ["d"]), N("Relu", ["d"], ["y"])],
        IMAGE,
        {"w": normal(4, 1, 1), "k": normal(4, 3, 1, 1)},
    ),
    "transpose-node": (
        [N("Transpose", ["w"], ["t"], perm=[1, 0]), N("MatMul", ["x", "t"], ["y"])],
        BATCH,
        {"w": normal(6, 4)},
    ),
    "fusible": (
        [
            N("MatMul", ["x", "w"], ["a"]),
            N("Add", ["a", "b"], ["c"]),
            N("Mul", ["c", "s"], ["d"]),
            N("Identity", ["d"], ["y"]),
        ],
        BATCH,
        {"w": normal(4, 6), "b": normal(6), "s": normal(6)},
    ),
    "shared": (
        [
            N("MatMul", ["x", "w"], ["a"]),
            N("Gemm", ["x", "w"], ["b"], transB=1),
            N("Add", ["a", "b"], ["y"]),
        ],
        X,
        {"w": normal(4, 4)},
    ),
}
