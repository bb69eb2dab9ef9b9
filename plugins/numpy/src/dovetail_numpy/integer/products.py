"""Sums of products: convolutions and products of matrices.

The sums are exact: the op's own reference computes them on integers in float64, which holds all
integers below 2**53.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.rescaling import levels, rescale_of_products, scales

_CONVOLUTIONS = tuple(f"{kind}{n}d" for kind in ("Conv", "TransposeConv") for n in (1, 2, 3))


def is_product(view: NodeView) -> bool:
    """Return whether data, weights and result are fixed-point with encodings."""
    specs = (*view.ins[:2], view.outs[0])
    return all(s is not None and s.dtype.is_fixed_point and s.encoding is not None for s in specs)


@DEFINITIONS.defines(*_CONVOLUTIONS, "DepthWiseConv1d", "DepthWiseConv2d", supports=is_product)
def convolution(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Multiply filters and windows, whose padding is real zero."""
    data, weights, bias = (*ins, None)[:3]
    schema, op = view.definition
    x, w = view.ins[:2]
    if data is None or weights is None or x is None or w is None:
        raise AssertionError(f"{view.node.where} lacks an operand")
    (acc,) = schema.reference(op, [levels(data, x), levels(weights, w), None], view.outs)
    channels = scales(w).reshape(-1)
    rescale = rescale_of_products(view, bias, channels if channels.size > 1 else channels[0])
    return [rescale.apply(np.asarray(acc), view.outs[0])]
