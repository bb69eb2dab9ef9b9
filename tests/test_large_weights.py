"""Weights in external data stay in their file until a pass or the writer needs their values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import dovetail as dt
from dovetail.ir.storage import DeferredBlob

SIZE, LAYERS = 1024, 16  # 4 MiB a layer, 64 MiB in all
WEIGHT_BYTES = SIZE * SIZE * 4
# Dry run and conversion with room for six matrices, one that is transposed among them; the
# limit counts anonymous memory only, and what exceeds it is a MemoryError.
SCRIPT = """
import resource, sys
from pathlib import Path
import dovetail as dt
from dovetail.plugins.ops import installed_ops
from dovetail_onnx import OnnxFrontend, OnnxOptions

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(l.split()[1]) for l in lines if l.startswith(key + ":"))

path, ops = Path(sys.argv[1]), installed_ops()
dt.convert(sys.argv[3])  # everything is imported
limit = status("VmData") + 6 * int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
before = status("RssFile")
assert OnnxFrontend().dry_run(path, OnnxOptions(), ops).problems == ()
(graph,) = OnnxFrontend().read(path, OnnxOptions(), ops)
assert status("RssFile") - before < int(sys.argv[2]), "reading the model read its weights"
dt.convert(path).save(path.with_suffix(".dvt"))
"""


def write_model(folder: Path, op_type: str, size: int, layers: int) -> Path:
    """Write a chain of layers whose weights are in a file beside it."""
    weights = [f"w{i}" for i in range(layers)]
    dims = [size, size, 1, 1] if op_type == "Conv" else [size, size]
    shape = [1, size, 1, 1] if op_type == "Conv" else [1, size]
    tensors = []
    for i, name in enumerate(weights):
        tensor = TensorProto(name=name, dims=dims, data_type=1, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=f"{op_type}.bin")
        tensor.external_data.add(key="offset", value=str(i * size * size * 4))
        tensors.append(tensor)
    values = ["x", *(f"y{i}" for i in range(layers))]
    graph = helper.make_graph(
        [helper.make_node(op_type, [values[i], w], [values[i + 1]]) for i, w in enumerate(weights)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(values[-1], TensorProto.FLOAT, shape)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / f"{op_type}.onnx").write_bytes(model.SerializeToString())
    return folder / f"{op_type}.onnx"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA is Linux's")
def test_converting_takes_the_memory_of_a_layer_not_of_the_model(tmp_path: Path) -> None:
    path = write_model(tmp_path, "MatMul", SIZE, LAYERS)
    with (tmp_path / "MatMul.bin").open("wb") as file:
        file.truncate(LAYERS * WEIGHT_BYTES)  # sparse
    small = write_model(tmp_path, "Conv", 4, 1)
    (tmp_path / "Conv.bin").write_bytes(bytes(64))
    command = [sys.executable, "-c", SCRIPT, str(path), str(WEIGHT_BYTES), str(small)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert path.with_suffix(".dvt").stat().st_size > WEIGHT_BYTES


@pytest.mark.parametrize("op_type", ["MatMul", "Conv"])
def test_the_values_are_those_of_the_file(tmp_path: Path, op_type: str) -> None:
    path = write_model(tmp_path, op_type, 4, 2)
    weights = np.random.default_rng(4).standard_normal((2, 4, 4)).astype(np.float32)
    (tmp_path / f"{op_type}.bin").write_bytes(weights.tobytes())
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    by_layer = weights if op_type == "MatMul" else weights.transpose(0, 2, 1)
    wanted = x @ by_layer[0] @ by_layer[1]
    model = dt.convert(path)
    model.save(tmp_path / "model.dvt")
    for source in (model, path, tmp_path / "model.dvt"):
        with dt.Session(source) as session:
            shape = (1, 4) if op_type == "MatMul" else (1, 4, 1, 1)
            found = session.run({"x": x.reshape(shape)})
        # sums of four products in float32, in another order
        np.testing.assert_allclose(next(iter(found.values())).reshape(1, 4), wanted, rtol=1e-5)


def test_a_deferred_blob_is_computed_when_used_and_freed_after() -> None:
    calls = []

    def make() -> np.ndarray:
        calls.append(1)
        return np.arange(6, dtype=np.int16).reshape(2, 3).T

    blob = DeferredBlob(12, make)
    assert (blob.nbytes, calls) == (12, [])
    view = blob.bytes.view(np.int16).reshape(3, 2)
    np.testing.assert_array_equal(view, [[0, 3], [1, 4], [2, 5]])
    assert not view.flags.writeable
    assert blob.bytes.tobytes() == view.tobytes()
    assert len(calls) == 1  # one array, as long as it is in use
    del view
    assert len(blob.hash) == 64
    assert len(calls) == 2
