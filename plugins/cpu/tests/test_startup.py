"""Start of a process that runs a network: what it must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.container import Model, Producer
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, static

# Each takes milliseconds to import, or imports many others.
UNUSED = {
    "dovetail.adapters",
    "dovetail.api.conversion",
    "dovetail.api.exporting",
    "dovetail.api.quantization",
    "dovetail.container.tensor_facts",
    "dovetail.container.weight_comparison",
    "dovetail.errors._sdk_codes",
    "dovetail.quantization",
    "dovetail.runtime.sharing",
    "dovetail_numpy.integer",
    "dovetail_numpy.registry",
    "dovetail_onednn.kernels",
    "dovetail_onednn.quantized",
    "dovetail_opset.passes",
    "concurrent.futures",
    "packaging",
    "pluggy",
    "yaml",
}
START = """
import sys
import dovetail
session = dovetail.Session(sys.argv[1], cache=sys.argv[2] if len(sys.argv) > 2 else False)
session.run(dict.fromkeys(session.graphs["net"].interface.inputs, [[1.0] * 8]))
print(*sys.modules)
"""


@pytest.mark.usefixtures("onednn")
def test_a_cached_start_imports_neither_kernels_nor_conversions(tmp_path: Path) -> None:
    model = saved_model(tmp_path)
    dovetail.Session(model, cache=tmp_path / "cache").close()
    imported = imported_by(model, tmp_path / "cache")
    assert "dovetail_cpu._backend" in imported
    unused = tuple(f"{name}." for name in UNUSED)
    assert [name for name in imported if f"{name}.".startswith(unused)] == []


@pytest.mark.usefixtures("onednn")
def test_a_float_network_imports_no_kernels_of_integers(tmp_path: Path) -> None:
    imported = imported_by(saved_model(tmp_path))
    assert "dovetail_onednn.kernels" in imported
    assert "dovetail_onednn.quantized.kernels" not in imported


def saved_model(folder: Path) -> Path:
    """Return the file of a product of a row of 8 by a constant matrix."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 8), TensorKind.APP_WRITE))
    weights = static(graph, "w", np.eye(8, dtype=np.float32))
    out = add(graph, "MatMul", [x, weights], name="product")
    out.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "1"), registry=installed_ops())
    model.save(folder / "net.dvt")
    return folder / "net.dvt"


def imported_by(*arguments: Path) -> set[str]:
    """Return the names of the modules that a new process with these arguments imports."""
    command = [sys.executable, "-c", START, *map(str, arguments)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
