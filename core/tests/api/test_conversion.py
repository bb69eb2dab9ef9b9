"""What `convert` does with what a frontend gives it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_backend import OPS, chain

import dovetail
from dovetail.container._mapping import MappedBlob, MappedFile
from dovetail.errors import (
    ConfigError,
    DovetailError,
    FrontendError,
    GraphError,
    PluginError,
    UnsupportedOpError,
)
from dovetail.ir import DType, Graph, Tensor, TensorKind, copy_graph
from dovetail.ops import OpPackage, OpRegistry
from dovetail.ops.frontend import FrontendOptions
from dovetail.plugins import refresh
from dovetail.plugins.hooks import hooks


class Frontend:
    """Reads nothing and gives graphs, the only one named after the file."""

    name = "test"
    options_type = FrontendOptions

    def __init__(self, *graphs: Graph) -> None:
        self.graphs = graphs

    def read(self, path: Path, options: FrontendOptions, ops: OpRegistry) -> Sequence[Graph]:
        if len(self.graphs) == 1:
            self.graphs[0].name = path.stem
        return self.graphs


class Rereadable(Frontend):
    """A frontend whose graphs are new at each reading, as those of a file."""

    def read(self, path: Path, options: FrontendOptions, ops: OpRegistry) -> Sequence[Graph]:
        return Frontend(*map(copy_graph, self.graphs)).read(path, options, ops)


@dataclass(frozen=True)
class Step:
    """A pass that changes a graph."""

    name: str
    change: Callable[[Graph], object] = lambda graph: None

    def run(self, graph: Graph) -> bool:
        self.change(graph)
        return True


def refusal(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, ops: OpRegistry = OPS, *steps: Step
) -> DovetailError:
    """Return the error of converting a graph by these passes."""
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda *_: Rereadable(graph))
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: steps)
    with pytest.raises(DovetailError) as caught:
        dovetail.convert("a.net", ops=ops)
    return caught.value


def test_a_pass_that_rejects_its_options_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run would repeat all warnings."""
    runs = []

    def reject(graph: Graph) -> None:
        runs.append(graph.name)
        raise ConfigError("the graph has no input 'z'")

    assert "no input 'z'" in str(refusal(chain("Scale"), monkeypatch, OPS, Step("form", reject)))
    assert runs == ["a"]


def lose(graph: Graph) -> None:
    """Remove the node that writes an output."""
    graph.remove_node(graph.nodes[-1])


def need_writer(graph: Graph) -> None:
    """Fail if nothing writes the first output."""
    if graph.producer(graph.outputs[0]) is None:
        raise ZeroDivisionError


def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for after in ((), (Step("fine"),), (Step("failing", need_writer),)):
        steps = (Step("first"), Step("guilty", lose), *after)
        error = refusal(chain("Scale", "Scale"), monkeypatch, OPS, *steps)
        assert error.code == "PASS_BROKE_GRAPH"
        assert "the pass 'guilty' left a graph with 1 fault" in error.message
        assert [p.where for p in error.problems] == ["tensor 'y'"]


def test_a_node_that_a_pass_leaves_without_match_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(graph: Graph) -> None:
        graph.nodes[0].op_type = "Scael"

    error = refusal(chain("Scale", "Scale"), monkeypatch, OPS, Step("guilty", forget))
    assert "the pass 'guilty' left a graph with 1 fault" in error.message


def test_what_a_pass_raises_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(graph: Graph) -> None:
        raise FrontendError("too deep")

    error = refusal(chain("Scale"), monkeypatch, OPS, Step("first"), Step("failing", fail))
    assert error.message == "too deep"
    assert error.__notes__ == ["in the pass 'failing' on graph 'a'"]


def test_a_fault_that_does_not_return_is_still_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Graph] = []

    def lose_once(graph: Graph) -> None:
        if not ran:
            lose(graph)
        ran.append(graph)

    error = refusal(chain("Scale", "Scale"), monkeypatch, OPS, Step("moody", lose_once))
    assert len(ran) == 2
    assert error.code == "GRAPH_INVALID"
    assert [p.where for p in error.problems] == ["tensor 'y'"]


def test_a_node_that_does_not_fit_its_op_is_no_pass_s_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = chain("Scale", "Scale")
    for tensor in ("t0", "y"):
        graph.tensors[tensor].dtype = DType.INT_32
    error = refusal(graph, monkeypatch, OPS, Step("innocent"))
    assert isinstance(error, GraphError)
    assert error.code == "GRAPH_INVALID"
    (problem,) = error.problems
    assert "'n0'" in problem.where
    assert "output 't0' is declared INT_32" in problem.message


def test_an_op_that_is_not_there_is_no_pass_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(chain("Scael", "Scael"), monkeypatch, OPS, Step("innocent"))
    assert isinstance(error, UnsupportedOpError)
    (problem,) = error.problems
    assert "op 'Scael' not found" in problem.message
    assert "1 more" in problem.where


def test_an_op_package_of_two_dists_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    conflict = PluginError("more than one dist claims this name", code="PLUGIN_CONFLICT")

    def load(name: str) -> OpPackage | None:
        raise conflict

    ops = OpRegistry(load, list)
    assert refusal(chain("Scale", "Scale", "Scale"), monkeypatch, ops) is conflict


def test_options_are_said_in_the_manifest_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dovetail.api.conversion.find_frontend", lambda *_: Frontend(chain("Scale"))
    )
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: ())
    monkeypatch.setattr("dovetail.api.conversion.hash_source", lambda path: "0" * 64)
    large = np.arange(10**5, dtype=np.float32)
    options = FrontendOptions(batch=2, input_values={"shape": np.array([2, -1]), "w": large})
    said = dovetail.convert("a.net", options, ops=OPS).producer.options
    assert said["batch"] == "2"
    assert json.loads(said["input_values"]) == {
        "shape": {"dtype": "int64", "shape": [2], "values": [2, -1]},
        "w": {
            "dtype": "float32",
            "shape": [10**5],
            "sha256": hashlib.sha256(large.tobytes()).hexdigest(),
        },
    }
    assert said.keys() == {"batch", "input_values"}


def test_values_that_a_frontend_makes_nothing_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dovetail.api.conversion.find_frontend", lambda *_: Frontend(chain("Scale"))
    )
    with pytest.raises(FrontendError, match="cannot turn inputs into constants: x"):
        dovetail.convert("a.net", FrontendOptions(input_values={"x": np.zeros(3)}), ops=OPS)


def test_several_graphs_and_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = chain("Scale"), chain("Scale", "Scale")
    small.name, large.name = "small", "large"
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda *_: Frontend(small, large))
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: ())
    monkeypatch.setattr("dovetail.api.conversion.hash_source", lambda path: "0" * 64)
    found = dovetail.convert("a.net", ops=OPS).graphs
    assert {name: len(graph.nodes) for name, graph in found.items()} == {"small": 1, "large": 2}
    with pytest.raises(ConfigError, match="'net' is given for 2 graphs: small, large"):
        dovetail.convert("a.net", name="net", ops=OPS)


@pytest.mark.parametrize("count", [0, 2])
def test_a_frontend_that_returns_no_graphs_with_names_is_broken(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = [chain("Scale") for _ in range(count)]  # all have the same name
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda *_: Frontend(*graphs))
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: ())
    with pytest.raises(PluginError, match="must return a sequence of graphs") as caught:
        dovetail.convert("a.net", ops=OPS)
    assert "'test'" in caught.value.where


def test_a_frontend_must_not_return_a_graph_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend()
    monkeypatch.setattr(frontend, "read", lambda *_: chain("Scale"))
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda *_: frontend)
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: ())
    with pytest.raises(PluginError, match="got Graph"):
        dovetail.convert("a.net", ops=OPS)


def test_chosen_passes_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    monkeypatch.setattr(
        "dovetail.api.conversion.find_frontend", lambda *_: Frontend(chain("Scale"))
    )
    monkeypatch.setattr(
        "dovetail.api.conversion.pipeline_passes",
        lambda text, *, only_chosen: chosen.append((text, only_chosen)) or (),
    )
    monkeypatch.setattr("dovetail.api.conversion.hash_source", lambda path: "0" * 64)
    model = dovetail.convert("a.net", passes="-fold", ops=OPS)
    assert (chosen.pop(), model.producer.options) == (("-fold", False), {"passes": "-fold"})
    dovetail.convert("a.net", passes="+mine", optimize=False, ops=OPS)
    assert chosen == [("+mine", True)]


HOOK_MODULE = """
from dovetail.plugins.hookspecs import hookimpl
seen = []

@hookimpl
def dovetail_pass_finished(event):
    seen.append(event.name)
"""


class Noop:
    name = "noop"

    def run(self, graph: Graph) -> bool:
        return False


def test_installed_hooks_hear_of_conversions(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    site.module("pass_listener", HOOK_MODULE)
    site.dist("listener-dist", {"dovetail.hooks": {"listener": "pass_listener"}})
    source = site.folder / "a.net"
    source.write_bytes(b"net")
    frontend = Frontend(chain("Scale"))
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda *_: frontend)
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: (Noop(),))
    try:
        dovetail.convert(source, ops=OPS)
        assert sys.modules["pass_listener"].seen == ["noop"]
    finally:
        hooks.unregister(sys.modules.get("pass_listener"))


def test_weights_read_into_memory_are_private_and_still_shared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    graph = chain("Scale")
    weights = tmp_path / "weights.bin"
    weights.write_bytes(bytes([1] * 4 + [2] * 4))
    mapped = MappedFile(str(weights))
    source, other = (MappedBlob(mapped, start, 4) for start in (0, 4))
    for name, blob in (("a", source), ("b", source), ("c", other)):
        graph.add_tensor(Tensor(name, DType.UINT_8, (4,), TensorKind.STATIC, data=blob))
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda *_: Frontend(graph))
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: ())
    path = tmp_path / "a.net"
    path.write_bytes(b"net")
    assert dovetail.load_model(path, ops=OPS).graphs["a"].tensors["a"].data is source
    private = dovetail.load_model(path, ops=OPS, map_weights=False).graphs["a"].tensors
    a, b, c = (private[name].data for name in "abc")
    assert a is b
    assert a is not c
    assert a is not None
    weights.write_bytes(b"")
    assert a.bytes.tolist() == [1] * 4


FRONTEND = """
from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.ops.frontend import FrontendOptions

class Frontend:
    name = "{name}"
    suffixes = {suffixes!r}
    options_type = FrontendOptions

    def recognises(self, path):
        return False

    def read(self, path, options, ops):
        graph = Graph("net")
        x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
        y = graph.add_tensor(Tensor("{name}", DType.FLOAT_32, (2, 3), TensorKind.APP_READ))
        graph.add_node(Node("n", "test.ops", "Scale", [x], [y]))
        return [graph]

    def dry_run(self, path, options, ops): ...
"""


def test_installed_frontends_and_an_explicit_format_come_before_a_refusal(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: ())
    monkeypatch.setenv("DOVETAIL_PLUGINS", "")
    refresh()
    model = tmp_path / "net.dlc"
    model.write_bytes(b"anything")
    with pytest.raises(FrontendError) as caught:
        dovetail.convert(model, ops=OPS)
    assert caught.value.code == "MODEL_FOREIGN"
    for name, suffixes in (("compiled", (".dlc",)), ("other", ())):
        site.module(f"{name}_frontend", FRONTEND.format(name=name, suffixes=suffixes))
        entry = {"dovetail.frontends": {name: f"{name}_frontend:Frontend"}}
        site.dist(f"{name}-dist", entry)
    monkeypatch.setenv("DOVETAIL_PLUGINS", "compiled-dist,other-dist")
    refresh()
    found = [
        dovetail.convert(model, ops=OPS),
        dovetail.load_model(model, OPS, input_format="other"),
    ]
    outputs = [made.graphs["net"].outputs[0].name for made in found]
    assert outputs == ["compiled", "other"]
    with pytest.raises(PluginError, match="oter"):
        dovetail.convert(model, ops=OPS, input_format="oter")
