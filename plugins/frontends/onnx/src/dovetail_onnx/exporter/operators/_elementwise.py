"""Shared code of elementwise ops, which follow the layout of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import TensorProto

from dovetail_onnx.exporter._node import NodeExport, OpExporter

Body = Callable[[NodeExport, str], str]
PairBody = Callable[[NodeExport, str, str], str]


def follow(e: NodeExport, body: Body) -> None:
    """Write a function of one tensor, in its layout."""
    order = e.layout(0)
    e.put(body(e, e.input(0, order)), order)


def follow_pair(e: NodeExport, body: PairBody, *, kind: int | None = None) -> None:
    """Write a function of two tensors that broadcast, in the layout of the larger one.

    Args:
        e: The node.
        body: Returns the result for two values.
        kind: Element type to which both are cast first.
    """
    order = e.layout()
    a, b = (e.aligned(i, order) for i in (0, 1))
    if kind is not None:
        a, b = e.cast(a, kind), e.cast(b, kind)
    e.put(body(e, a, b), order)


def one(op_type: str, **attributes: Any) -> Body:
    """Return the body that is one ONNX node of one input."""
    return lambda e, x: e.add(op_type, [x], **attributes)


def two(op_type: str, **attributes: Any) -> PairBody:
    """Return the body that is one ONNX node of two inputs."""
    return lambda e, a, b: e.add(op_type, [a, b], **attributes)


def question(op_type: str) -> PairBody:
    """Return the body that is one ONNX node of two inputs with a bool as its result."""
    return lambda e, a, b: e.add(op_type, [a, b], TensorProto.BOOL)


def exporter(body: Body) -> OpExporter:
    """Return the exporter of a function of one tensor."""
    return lambda e: follow(e, body)


def pair_exporter(body: PairBody, *, kind: int | None = None) -> OpExporter:
    """Return the exporter of a function of two tensors."""
    return lambda e: follow_pair(e, body, kind=kind)
