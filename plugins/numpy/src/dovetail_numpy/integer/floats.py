"""Quantized nodes that have no definition on integers, by name: they run on real values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS, PACKAGE


@dataclass(frozen=True, slots=True)
class FloatCase:
    """Nodes of an op that run on real values between dequantizing and quantizing.

    Attributes:
        nodes: The nodes, in words.
        reason: Why there is no definition.
    """

    nodes: str
    reason: str


FLOAT_CASES: Mapping[str, FloatCase] = MappingProxyType(
    {
        "DetectionOutput": FloatCase("all", "boxes are floats, computed by exponentials"),
        "ExtractGlimpse": FloatCase("noise UNIFORM and GAUSSIAN", "the noise is random"),
        "MultiClassNms": FloatCase(
            "soft_nms_sigma above 0", "exponentials lower the scores at run time"
        ),
    }
)


def float_case(view: NodeView) -> FloatCase | None:
    """Return the case of a quantized node that is named as float; None for all other nodes."""
    if not view.is_quantized or view.package != PACKAGE or DEFINITIONS.of(view) is not None:
        return None
    return FLOAT_CASES.get(view.op_type)
