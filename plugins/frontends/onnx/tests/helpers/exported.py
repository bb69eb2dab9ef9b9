"""Exporting a graph and running what came of it, for the tests of the exporters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from runtime import peer_session

from dovetail.ir import Array, DType, Graph
from dovetail.ops import from_real, to_real
from dovetail_onnx._dtypes import from_stored
from dovetail_onnx.exporter import OnnxExportOptions, OnnxQdqExporter


def export(graph: Graph, path: Path) -> ModelProto:
    """Export a graph and return the model, which ONNX's own checker has accepted."""
    OnnxQdqExporter().export(graph, path, OnnxExportOptions())
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: ModelProto, feeds: Mapping[str, Array], *, optimized: bool = False) -> list[Array]:
    """Run a model on ONNX Runtime, or on ONNX's own evaluator where that has no kernel.

    Args:
        model: The model.
        feeds: Real values by name.
        optimized: Whether ONNX Runtime may fuse and fold, so that it computes in integers.
    """
    if any(array.dtype.name == "bfloat16" for array in feeds.values()):  # not in its Python API
        return evaluated(model, feeds)
    try:
        session = peer_session(model, optimized=optimized)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return evaluated(model, feeds)
    return [np.asarray(y) for y in session.run(None, dict(feeds))]


def evaluated(model: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Run a model on ONNX's own evaluator."""
    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, dict(feeds))]


def feeds_of(graph: Graph, stored: Mapping[str, Array]) -> dict[str, Array]:
    """Return what the exported model takes for stored inputs of a graph."""
    found = {}
    for tensor in graph.inputs:
        array = stored[tensor.name]
        if tensor.dtype.is_fixed_point:
            array = to_real(array, tensor.spec)
        found[tensor.name] = from_stored(array, tensor.dtype)
    return found


def stored_outputs(graph: Graph, found: list[Array]) -> dict[str, Array]:
    """Return what an exported model gave as the graph's outputs would be stored."""
    made = {}
    for tensor, array in zip(graph.outputs, found, strict=True):
        if tensor.dtype is DType.BFLOAT_16:
            array = array.astype(np.float32)
        made[tensor.name] = from_real(array, tensor.spec)
    return made
