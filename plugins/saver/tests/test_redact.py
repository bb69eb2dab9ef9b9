"""`dovetail trace redact` replaces data by random data of the same statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.ir import Array, Blob, DType, Scalar, ScaleOffset, TensorKind, pack, unpack
from dovetail.runtime import Backend
from dovetail_saver.recording import Recorder
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace

SHAPE = (64, 32)


def record(folder: Path, weights: Array, x: Array, dtype: DType = DType.FLOAT_32) -> Path:
    encoding = ScaleOffset(0.5, 0) if dtype.is_fixed_point else None
    with Recorder(folder), Backend.create("cpu") as backend:
        graph = backend.create_context().create_graph("g")
        a = graph.create_tensor("a", dtype, SHAPE, TensorKind.APP_WRITE, encoding)
        data = pack(weights, dtype)
        b = graph.create_tensor("b", dtype, SHAPE, TensorKind.STATIC, encoding, data)
        indices = graph.create_tensor(
            "i", DType.INT_32, (2,), TensorKind.STATIC, data=np.array([5, 3], np.int32)
        )
        c = graph.create_tensor("c", dtype, SHAPE, TensorKind.NATIVE, encoding)
        y = graph.create_tensor("y", dtype, (2, SHAPE[1]), TensorKind.APP_READ, encoding)
        graph.add_node("add", "qti.aisw", "ElementWiseAdd", [a, b], [c])
        graph.add_node(
            "gather", "qti.aisw", "Gather", [c, indices], [y], {"axis": Scalar(DType.INT_32, 0)}
        )
        graph.finalize()
        graph.execute({"a": x})
    return folder


def data_of(trace: Path) -> dict[str, Array]:
    """Return the constants and inputs of a trace."""
    found: dict[str, Array] = {}
    for played in replay(Trace(trace)):
        record = played.record
        assert played.error is None, played.error
        if record.function == "graph_create_tensor":
            tensor = played.result.ir
            if isinstance(tensor.data, Blob):
                found[tensor.name] = unpack(tensor.data, tensor.dtype, tensor.shape)
    source = Trace(trace)
    for entry in source:
        if getattr(entry.record, "function", "") == "graph_execute":
            blob = source.payloads.get(entry.record.payloads[0])
            assert blob is not None
            found["x"] = blob.bytes
    return found


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.UFIXED_POINT_8, DType.SFIXED_POINT_8])
def test_weights_have_the_same_statistics(tmp_path: Path, dovetail: Any, dtype: DType) -> None:
    generator = np.random.default_rng(1)
    weights = generator.normal(30, 10, SHAPE).astype(dtype.storage)
    x = generator.normal(40, 10, SHAPE).astype(dtype.storage)
    trace, out = record(tmp_path / "trace", weights, x, dtype), tmp_path / "out"
    done = dovetail("trace", "redact", trace, "--redact", "weights", "--out", out, "--json")
    assert done.code == 0, done.err
    assert done.data["replaced"] == 1
    old, new = data_of(trace), data_of(out)
    assert new["b"].dtype == old["b"].dtype
    assert np.mean(new["b"] == old["b"]) < 0.2
    # 2,048 numbers: the standard error of the mean is 0.2, that of the deviation is 0.16
    assert new["b"].mean() == pytest.approx(old["b"].mean(), abs=1)
    assert new["b"].std() == pytest.approx(old["b"].std(), abs=0.8)
    assert old["b"].min() <= new["b"].min() <= new["b"].max() <= old["b"].max()
    np.testing.assert_array_equal(new["i"], [5, 3])
    np.testing.assert_array_equal(new["x"], old["x"])
    assert dovetail("trace", "verify", out).code == 0
    replayed = dovetail("replay", out, "--compare", "exact", "--json")
    assert replayed.data["tensors"] == {"not recorded": 1}


def test_inputs_are_replaced_in_the_same_way_each_time(tmp_path: Path, dovetail: Any) -> None:
    x = np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)
    trace = record(tmp_path / "trace", x * 2, x)
    for name in ("one", "two"):
        command = ("trace", "redact", trace, "--redact", "inputs", "--out", tmp_path / name)
        assert dovetail(*command).code == 0
    old, one, two = (data_of(tmp_path / name) for name in ("trace", "one", "two"))
    np.testing.assert_array_equal(one["b"], old["b"])
    assert not np.array_equal(one["x"], old["x"])
    np.testing.assert_array_equal(one["x"], two["x"])
    x = old["x"].tobytes()
    assert all(x not in file.read_bytes() for file in (tmp_path / "one").iterdir())
