"""Exporters of ops, by family; importing this registers all of them in `EXPORTERS`."""

from dovetail_onnx.exporter._table import EXPORTERS
from dovetail_onnx.exporter.operators import (  # noqa: F401 - registers their exporters
    activation,
    arrangement,
    blocks,
    columns,
    convolution,
    elementwise,
    gather,
    image,
    layout,
    logic,
    matrix,
    normalization,
    pooling,
    ranking,
    recurrent,
    reduction,
    resize,
    slicing,
    softmax,
    transform,
    types,
    unary,
)

__all__ = ["EXPORTERS", "FAMILIES"]
