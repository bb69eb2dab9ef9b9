"""Cases that norms of rows share: shapes, and grids of data and result."""

import itertools

from dovetail.ir import DType

_U8, _S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
_U16, _S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
SHAPES = [(40, 256), (1, 16, 768), (3, 5, 8, 129), (9000, 1), (2731, 3), (4, 3000)]
# Type, zero point and scale, of the data and of the result.
GRIDS = [
    ((_U8, 128, 0.03), (_U8, 120, 0.04)),
    ((_U8, 0, 0.03), (_U8, 128, 0.004)),
    ((_S8, 37, 0.002), (_S8, -60, 0.004)),
    ((_S8, -128, 0.01), (_U8, 0, 0.5)),
    ((_U16, 32768, 1.2e-4), (_U16, 30000, 1.5e-4)),
    ((_S16, 0, 0.002), (_S16, -500, 2e-4)),
    ((_U16, 3, 0.01), (_U8, 128, 0.03)),
]
# Rows of few bytes; NumPy alone computes those of few words.
_FEW = [(1, 8), (5, 24), (2, 3, 64)]
CASES = [
    *itertools.product(SHAPES, GRIDS),
    *itertools.product(_FEW, [(data, out) for data, out in GRIDS if data[0] in (_U8, _S8)]),
]
