"""Cases of the ops of `toy.ops`, for the conformance kit."""

from __future__ import annotations

import math

import numpy as np

from dovetail.testing import OpCase

_X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)

CASES = (
    OpCase(
        "SoftClip",
        (_X,),
        lambda x: np.vectorize(math.tanh, otypes="d")(x),
        package="toy.ops",
    ),
    OpCase(
        "SoftClip",
        (_X,),
        lambda x: 0.5 * np.vectorize(math.tanh, otypes="d")(x / 0.5),
        {"limit": 0.5},
        name="limit",
        package="toy.ops",
    ),
    OpCase("Mirror", (_X,), lambda x: np.array([row[::-1] for row in x]), package="toy.ops"),
    OpCase(
        "Mirror",
        (_X,),
        lambda x: np.stack([x[2], x[1], x[0]]),
        {"axis": 0},
        name="rows",
        package="toy.ops",
    ),
)
