"""Quantized nodes that have no definition on integers, by name: they run on real values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.grid import is_defined
from dovetail_opset import STANDARD


def _all(view: NodeView) -> bool:
    return True


def _has_float_result(view: NodeView) -> bool:
    return view.outs[0].dtype.is_float


@dataclass(frozen=True, slots=True)
class FloatCase:
    """Nodes of an op that run on real values between dequantizing and quantizing.

    Attributes:
        nodes: The nodes, in words.
        reason: Why there is no definition.
        applies: Whether a node without a definition is one of them.
    """

    nodes: str
    reason: str
    applies: Callable[[NodeView], bool] = _all


_FLOAT_PRODUCT = FloatCase(
    "float data by fixed-point weights", "sums of floats depend on their order", _has_float_result
)

_SOFT_SUPPRESSION = "exponentials lower the scores at run time"

FLOAT_CASES: Mapping[str, FloatCase] = MappingProxyType(
    {
        "BoxWithNmsLimit": FloatCase("nms_kernel_method GAUSSIAN", _SOFT_SUPPRESSION),
        "Conv2d": _FLOAT_PRODUCT,
        "DetectionOutput": FloatCase("all", "boxes are floats, computed by exponentials"),
        "ExtractGlimpse": FloatCase("noise UNIFORM and GAUSSIAN", "the noise is random"),
        "FullyConnected": _FLOAT_PRODUCT,
        "GenerateProposals": FloatCase("all", "boxes are computed by exponentials"),
        "MatMul": _FLOAT_PRODUCT,
        "MultiClassNms": FloatCase("soft_nms_sigma above 0", _SOFT_SUPPRESSION),
    }
)


def float_case(view: NodeView) -> FloatCase | None:
    """Return the case of a quantized node that is named as float; None for all other nodes."""
    is_standard = view.package == STANDARD and view.is_quantized and is_defined(view)
    if not is_standard or DEFINITIONS.of(view) is not None:
        return None
    case = FLOAT_CASES.get(view.op_type)
    return case if case is not None and case.applies(view) else None
