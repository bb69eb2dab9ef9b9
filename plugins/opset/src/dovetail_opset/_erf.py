"""The error function in NumPy, accurate to float32 and without scipy."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array

# |x| < 1: x * P(x^2) / Q(x^2); 1 <= |x| < 8: 1 - exp(-x^2) * P(|x|) / Q(|x|). Highest power first.
# Source: S. L. Moshier, Cephes Math Library, ndtr.c (tables T, U, P, Q), after W. J. Cody,
# Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969).
_NEAR_P = (
    9.60497373987051638749e0,
    9.00260197203842689217e1,
    2.23200534594684319226e3,
    7.00332514112805075473e3,
    5.55923013010394962768e4,
)
_NEAR_Q = (
    1.0,
    3.35617141647503099647e1,
    5.21357949780152679795e2,
    4.59432382970980127987e3,
    2.26290000613890934246e4,
    4.92673942608635921086e4,
)
_FAR_P = (
    2.46196981473530512524e-10,
    5.64189564831068821977e-1,
    7.46321056442269912687e0,
    4.86371970985681366614e1,
    1.96520832956077098242e2,
    5.26445194995477358631e2,
    9.34528527171957607540e2,
    1.02755188689515710272e3,
    5.57535335369399327526e2,
)
_FAR_Q = (
    1.0,
    1.32281951154744992508e1,
    8.67072140885989742329e1,
    3.54937778887819891062e2,
    9.75708501743205489753e2,
    1.82390916687909736289e3,
    2.24633760818710981792e3,
    1.65666309194161350182e3,
    5.57535340817727675546e2,
)


def erf(x: Array) -> Array:
    """Return the error function, elementwise, in the float type of `x`.

    Computed in float64 inside, since the far branch subtracts from 1; the error of a float32
    result is rounding alone.
    """
    wide = np.asarray(x, np.float64)
    square = wide * wide
    inner = np.minimum(square, 1)
    near = wide * np.polyval(_NEAR_P, inner) / np.polyval(_NEAR_Q, inner)
    # beyond 6 the complement is less than half a step of a float64 below 1
    size = np.clip(np.abs(wide), 1, 6)
    far = 1 - np.exp(-size * size) * np.polyval(_FAR_P, size) / np.polyval(_FAR_Q, size)
    result: Array = np.where(square < 1, near, np.copysign(far, wide))
    return result.astype(x.dtype, copy=False)
