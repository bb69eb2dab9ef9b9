"""Nodes of the domain com.microsoft, and of ONNX's that only ONNX Runtime knows, by family."""

from functools import cache

from microsoft_cases import (
    activation,
    attention,
    blocks,
    grouped_query,
    matrix,
    normalization,
    quantization,
)
from microsoft_cases._case import Case, Known, assert_like, case, make_model, run_peer

FAMILIES = (activation, attention, blocks, grouped_query, matrix, normalization, quantization)


@cache
def load_cases() -> tuple[Case, ...]:
    """Return all cases."""
    return tuple(each for family in FAMILIES for each in family.cases())


__all__ = ["Case", "Known", "assert_like", "case", "load_cases", "make_model", "run_peer"]
