"""What is recorded is replayed with the same results."""

from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import TraceError
from dovetail.ir import DType, TensorKind
from dovetail.runtime import Backend
from dovetail.runtime.calls import differences
from dovetail_saver.recording import record
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace

INPUT = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def run_relu() -> np.ndarray:
    with Backend.create("cpu") as backend:
        graph = backend.create_context().create_graph("g")
        x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
        y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
        graph.add_node("relu", "qti.aisw", "Relu", [x], [y])
        graph.finalize()
        return np.array(graph.execute({"x": INPUT})["y"])


def test_a_session_is_recorded_and_replayed(tmp_path: Path) -> None:
    with record(tmp_path / "trace"):
        run_relu()
    trace = Trace(tmp_path / "trace")
    played = list(replay(trace))
    assert trace.mark is not None
    assert trace.mark.reason == ""
    assert "graph_execute" in [p.record.function for p in played]
    assert [differences(p) for p in played] == [()] * len(played)


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TraceError, match="new or empty"), record(tmp_path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
