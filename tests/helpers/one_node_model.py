"""The smallest ONNX model with an input list, for tests of commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper


def write_model(folder: Path, op_type: str = "Relu", domain: str = "") -> None:
    """Write net.onnx, one node from x to y of shape (1, 4), and list.txt with one sample."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    node = helper.make_node(op_type, ["x"], ["y"], domain=domain)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "net.onnx")
    np.arange(4, dtype=np.float32).tofile(folder / "x.raw")
    (folder / "list.txt").write_text("x.raw\n")
