"""`dovetail trace bisect` names the first node that differs, and whether it is to blame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_backend import FAULT, OFFSET

import dovetail as dt
from dovetail.ir import DType, TensorKind
from dovetail.runtime import Backend

SIDES = ("--backend", "cpu", "--backend", "faulty")


@pytest.mark.usefixtures("faulty")
def test_two_backends_that_agree(trace: Path, dovetail: Any) -> None:
    done = dovetail("trace", "bisect", trace, *SIDES, "--json")
    assert done.code == 0, done.err
    assert done.data == {"executes": 3, "nodes": 9, "node": None}


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize(("op", "node"), [("Tanh", "tanh"), ("Relu", "relu")])
def test_the_node_that_is_wrong_is_named(
    trace: Path, dovetail: Any, monkeypatch: pytest.MonkeyPatch, op: str, node: str
) -> None:
    monkeypatch.setenv(FAULT, op)
    done = dovetail("trace", "bisect", trace, *SIDES, "--compare", "MAE,threshold=1e-3", "--json")
    assert done.code == 1, done.err
    found = done.data
    assert (found["graph"], found["node"], found["call"]) == ("net", node, 12)
    (output,) = found["outputs"]
    assert output["cause"] == "own"
    # the mean of absolute errors of a node that adds OFFSET
    assert output["own"]["value"] == pytest.approx(OFFSET, rel=1e-5)
    assert output["inherited"]["value"] == pytest.approx(0, abs=1e-6)


@pytest.mark.usefixtures("faulty")
def test_an_inherited_error_is_told_apart(
    tmp_path: Path, dovetail: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULT, "Relu")
    with dt.record(tmp_path / "amplified"), Backend.create("cpu") as backend:
        graph = backend.create_context().create_graph("net")
        x = graph.create_tensor("x", DType.FLOAT_32, (3,), TensorKind.APP_WRITE)
        ten = graph.create_tensor(
            "ten", DType.FLOAT_32, (3,), TensorKind.STATIC, data=np.full(3, 10, np.float32)
        )
        a = graph.create_tensor("a", DType.FLOAT_32, (3,), TensorKind.NATIVE)
        y = graph.create_tensor("y", DType.FLOAT_32, (3,), TensorKind.APP_READ)
        graph.add_node("relu", "qti.aisw", "Relu", [x], [a])
        graph.add_node("times", "qti.aisw", "ElementWiseMultiply", [a, ten], [y])
        graph.finalize()
        graph.execute({"x": np.array([1, 2, 3], np.float32)})
    # OFFSET passes, and ten times OFFSET does not
    command = ("trace", "bisect", tmp_path / "amplified", *SIDES, "--compare", "MAE,threshold=1")
    done = dovetail(*command, "--json")
    assert done.code == 1, done.err
    assert done.data["node"] == "times"
    (output,) = done.data["outputs"]
    assert output["cause"] == "inherited"
    assert output["own"]["value"] == 0
    assert output["inherited"]["value"] == pytest.approx(10 * OFFSET, rel=1e-5)
    text = dovetail(*command).out
    assert "'times' (ElementWiseMultiply) of graph 'net' in call 10" in text


def test_settings_of_the_backends(trace: Path, tmp_path: Path, dovetail: Any) -> None:
    exact, half = tmp_path / "exact.toml", tmp_path / "half.toml"
    exact.write_text("[backend.htp]\nexact = true\n")
    half.write_text('[backend.htp]\narch = "v73"\n')
    sides = ("--backend", "htp", "--backend", "htp", "--json")
    command = ("trace", "bisect", trace, *sides, "--config")
    assert dovetail(*command, half).data["node"] is None
    wrong = dovetail(*command, exact)
    assert wrong.code == 2
    assert "exact" in wrong.err
    assert dovetail(*command, half, "--config", exact).code == 2
    assert dovetail(*command, half, *("--config", half) * 2).code == 2


@pytest.mark.usefixtures("faulty")
def test_wrong_options_and_rejected_calls(trace: Path, dovetail: Any) -> None:
    assert dovetail("trace", "bisect", trace, "--backend", "cpu").code == 2
    assert dovetail("trace", "bisect", trace, *SIDES, "--calls", "0").code == 2
    assert dovetail("trace", "bisect", trace, *SIDES, "--compare", "no").code == 2
    assert dovetail("trace", "bisect", trace, "--backend", "cpu", "--backend", "no").code == 6
    done = dovetail("trace", "bisect", trace, "--backend", "cpu", "--backend", "cpu:v73")
    assert done.code == 7
    assert "rejects call 0" in done.err
