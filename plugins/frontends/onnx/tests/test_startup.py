"""A conversion in a new process: what it must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

CONVERT = """
import sys
import dovetail
dovetail.convert(sys.argv[1])
print(*sys.modules)
"""


def test_a_conversion_imports_no_other_frontend(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,)) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx")
    command = [sys.executable, "-c", CONVERT, tmp_path / "net.onnx"]
    imported = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "dovetail_onnx" in imported
    assert not {"dovetail_qnn", "dovetail_cpu", "dovetail_gpu"} & set(imported)
