"""`dovetail trace export model` writes the graphs of a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from network import run_network
from recorded_sessions import quantized, record, several_graphs

import dovetail as dt


def test_the_model_computes_the_same(trace: Path, tmp_path: Path, dovetail: Any) -> None:
    file = tmp_path / "net.dvt"
    done = dovetail("trace", "export", "model", trace, "--out", file, "--json")
    assert done.code == 0, done.err
    assert done.data["graphs"] == ["net"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
    found = dt.Session(file, backend="cpu").run({"x": x})["y"]
    np.testing.assert_array_equal(found, run_network()[0])
    assert dovetail("inspect", file, "--verify").code == 0


def test_graphs_are_chosen_by_name(tmp_path: Path, dovetail: Any) -> None:
    trace = record(tmp_path / "trace", several_graphs)
    export = ("trace", "export", "model", trace, "--json", "--out")
    assert dovetail(*export, tmp_path / "all.dvt").data["graphs"] == ["g0", "g1", "g2", "g3"]
    two = dovetail(*export, tmp_path / "two.dvt", "--graph", "g1", "--graph", "g3")
    assert two.data["graphs"] == ["g1", "g3"]
    assert dovetail(*export, tmp_path / "none.dvt", "--graph", "g9").code == 2
    assert dovetail(*export, tmp_path / "none.txt").code == 2
    assert not list(tmp_path.glob("none*"))


def test_quantized_graphs_and_unknown_ops_are_written(tmp_path: Path, dovetail: Any) -> None:
    trace = record(tmp_path / "trace", quantized)
    calls = trace / "calls.jsonl"
    calls.write_text(calls.read_text().replace('"package":"qti.aisw"', '"package":"my.ops"'))
    file = tmp_path / "q.dvt"
    assert dovetail("trace", "export", "model", trace, "--out", file).code == 0
    (graph,) = dt.load(file).graphs.values()
    assert [node.op_type for node in graph.nodes] == ["Conv2d"]
    assert graph.nodes[0].package == "my.ops"
    assert graph.tensors["w"].encoding.axis == 3
