"""What `convert` does with what a frontend gives it."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference_backend import OPS, chain

import dovetail
from dovetail.errors import DovetailError, GraphError, PluginError, UnsupportedOpError
from dovetail.ir import DType, Graph
from dovetail.ops import OpPackage, OpRegistry
from dovetail.ops.frontend import FrontendOptions


class Frontend:
    """Reads nothing and gives a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def read(self, path: Path, options: FrontendOptions, ops: OpRegistry) -> Graph:
        return self.graph


def refusal(graph: Graph, monkeypatch: pytest.MonkeyPatch, ops: OpRegistry = OPS) -> DovetailError:
    """Gives the error of converting a graph that is wrong before any pass has run."""
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda path: Frontend(graph))
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda: pytest.fail("ran"))
    with pytest.raises(DovetailError) as caught:
        dovetail.convert("a.net", ops=ops)
    return caught.value


def test_a_node_that_does_not_fit_its_op_is_found_before_the_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = chain("Scale", "Scale")
    for tensor in ("t0", "y"):
        graph.tensors[tensor].dtype = DType.INT_32
    error = refusal(graph, monkeypatch)
    assert isinstance(error, GraphError)
    assert error.code == "GRAPH_INVALID"
    (problem,) = error.problems
    assert "'n0'" in problem.where
    assert "output 't0' is declared INT_32" in problem.message


def test_an_op_that_is_not_there_is_no_pass_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(chain("Scael", "Scael"), monkeypatch)
    assert isinstance(error, UnsupportedOpError)
    (problem,) = error.problems
    assert "has no op 'Scael'" in problem.message
    assert "1 more" in problem.where


def test_an_op_package_of_two_dists_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    conflict = PluginError("more than one dist claims this name", code="PLUGIN_CONFLICT")

    def load(name: str) -> OpPackage | None:
        raise conflict

    ops = OpRegistry(load, list)
    assert refusal(chain("Scale", "Scale", "Scale"), monkeypatch, ops) is conflict
