"""Ops on real values in fixed order: additions, multiplications, divisions, comparisons.

Suppression of boxes is computed in float32, as a float run does, so that thresholds mean the same.
The others are computed in extended precision, for which NumPy calls no library of matrix products,
and settled.
"""

from __future__ import annotations

import numpy as np

from dovetail.ops import NodeView
from dovetail_numpy.integer.binary import by_reference
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import is_defined

SUPPRESSIONS = ("NonMaxSuppression", "MultiClassNms", "CombinedNms", "BoxWithNmsLimit")
ARITHMETIC = ("Nv12ToRgb", "Nv21ToRgb", "HeatMapMaxKeyPoint")


def _suppresses(view: NodeView) -> bool:
    # exponentials of overlaps differ between processors
    if view.op_type == "BoxWithNmsLimit" and view.op.nms_kernel_method.name == "GAUSSIAN":
        return False
    return is_defined(view) and not getattr(view.op, "soft_nms_sigma", 0)


@DEFINITIONS.prepares(*SUPPRESSIONS, supports=_suppresses)
def suppression(view: NodeView) -> Run:
    """Suppress boxes by real values in float32."""
    return by_reference(view, kind=np.float32)


@DEFINITIONS.prepares(*ARITHMETIC, supports=is_defined)
def arithmetic(view: NodeView) -> Run:
    """Compute by real values in extended precision."""
    return by_reference(view, kind=np.longdouble, settled=True)
