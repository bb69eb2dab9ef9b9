"""Contracts of quantizers and quantization algorithms, with options and reports."""

from dovetail.ops import Bias, Granularity, Role, Weight
from dovetail.quantization.algorithm import (
    Choice,
    Layer,
    Observation,
    Precision,
    QuantizationAlgorithm,
    Refinement,
    Statistics,
    Trials,
    WeightedNode,
    Workspace,
)
from dovetail.quantization.options import (
    LEGACY_NAMES,
    QuantizationOptions,
    Sharing,
    Style,
    options_from,
    parse_steps,
    unmet_options,
)
from dovetail.quantization.quantizer import Calibration, Quantized, Quantizer, Sample
from dovetail.quantization.report import (
    Advice,
    Difference,
    Judgement,
    QuantizationReport,
    TensorDecision,
)

__all__ = [
    "LEGACY_NAMES",
    "Advice",
    "Bias",
    "Calibration",
    "Choice",
    "Difference",
    "Granularity",
    "Judgement",
    "Layer",
    "Observation",
    "Precision",
    "QuantizationAlgorithm",
    "QuantizationOptions",
    "QuantizationReport",
    "Quantized",
    "Quantizer",
    "Refinement",
    "Role",
    "Sample",
    "Sharing",
    "Statistics",
    "Style",
    "TensorDecision",
    "Trials",
    "Weight",
    "WeightedNode",
    "Workspace",
    "options_from",
    "parse_steps",
    "unmet_options",
]
