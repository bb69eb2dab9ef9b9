"""ONNX Runtime's sessions for the tests, and whether its integer kernels are exact here.

Without VNNI instructions (AVX2-only processors) its kernels for products of unsigned by signed
bytes saturate sums of two products at 16 bits. The session option `session.x64quantprecision`
avoids them, by weights that become unsigned, but only at full optimization and for constant
weights.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedByRuntime

LEVELS = onnxruntime.GraphOptimizationLevel


def peer_session(
    model: ModelProto | Path, *, optimized: bool = True
) -> onnxruntime.InferenceSession:
    """Create a session on the CPU, in one thread.

    Args:
        model: The model, or its file.
        optimized: Whether ONNX Runtime may fuse and fold, and integer products avoid the kernels
            that saturate; else it runs node by node.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = LEVELS.ORT_DISABLE_ALL
    else:
        options.graph_optimization_level = LEVELS.ORT_ENABLE_ALL
        options.add_session_config_entry("session.x64quantprecision", "1")
    content = model.SerializeToString() if isinstance(model, ModelProto) else str(model)
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except NotImplementedByRuntime:
        if not optimized:
            raise
        # signed by signed bytes: the option takes their kernels away, which are exact without it
        return peer_session(model, optimized=False)


@functools.cache
def integer_kernels_are_exact() -> bool:
    """Return whether a product of the largest bytes, unsigned by signed, is right here."""
    depth, columns = 64, 32
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    infos = [
        helper.make_tensor_value_info("a", TensorProto.UINT8, [4, depth]),
        helper.make_tensor_value_info("b", TensorProto.INT8, [depth, columns]),
    ]
    made = helper.make_tensor_value_info("y", TensorProto.INT32, [4, columns])
    graph = helper.make_graph([node], "probe", infos, [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feeds = {"a": np.full((4, depth), 255, np.uint8), "b": np.full((depth, columns), 127, np.int8)}
    (found,) = peer_session(model, optimized=False).run(None, feeds)
    return bool((found == 255 * 127 * depth).all())


def skip_if_integer_kernels_saturate() -> None:
    """Skip a test whose peer runs integer kernels that are not exact on this processor."""
    if not integer_kernels_are_exact():
        pytest.skip(
            "ONNX Runtime's kernels for unsigned by signed bytes saturate on this processor"
        )
