"""Comparison of the outputs' declared shapes with the computed ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from dovetail.ir import Shape, Spec
from dovetail_onnx._inputs import Dim, dims_of
from dovetail_onnx._source import SourceGraph

_LOG = logging.getLogger("dovetail.onnx")


def warn_of_shapes(
    source: SourceGraph, specs: Mapping[str, Spec], computed: Mapping[str, Shape]
) -> None:
    """Log a warning for each output whose declared shape contradicts the computed one.

    There is no warning if the user gave an input a different shape from the file: the outputs'
    shapes are then expected to differ.

    Args:
        source: The model.
        specs: Types and shapes of its inputs, as bound.
        computed: Shapes of its outputs, by the model's names.
    """
    bound = (
        (dims_of(info), specs[name].shape) for name, info in source.inputs.items() if name in specs
    )
    if any(_contradict(dims, shape) for dims, shape in bound):
        return
    for name, shape in computed.items():
        dims = dims_of(source.declared[name]) if name in source.declared else None
        if dims is not None and _contradict(dims, shape):
            _LOG.warning(
                "output '%s' is declared as %s in the model, but its shape is %s",
                name,
                _text(dims),
                _text(shape),
            )


def _contradict(dims: tuple[Dim, ...] | None, shape: Shape) -> bool:
    """Return whether two shapes differ in rank or in a size; exporters write 0 for unknown."""
    if dims is None:
        return False
    if len(dims) != len(shape):
        return True
    pairs = zip(dims, shape, strict=True)
    return any(isinstance(dim, int) and dim not in (0, extent) for dim, extent in pairs)


def _text(dims: tuple[Dim, ...]) -> str:
    return "(" + ", ".join("?" if d is None else str(d) for d in dims) + ")"
