"""Adapters on prepared graphs: staged together, applied by finalize, undone after errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_backend import BareBackend
from updating_backend import SUM_OPS, UpdatingBackend

from dovetail import runtime
from dovetail.adapters import write_safetensors
from dovetail.api.adapting import Adapters
from dovetail.errors import BackendError, ConfigError
from dovetail.ir import DType, TensorKind

F32 = DType.FLOAT_32
X = np.arange(3, dtype=np.float32)


def add_graph(context: runtime.Context, name: str) -> runtime.Graph:
    """Add the graph y = x + w, with w of ones."""
    graph = context.create_graph(name)
    x = graph.create_tensor("x", F32, (3,), TensorKind.APP_WRITE)
    ones = np.ones(3, np.float32)
    w = graph.create_tensor("w", F32, (3,), TensorKind.UPDATEABLE_STATIC, data=ones)
    y = graph.create_tensor("y", F32, (3,), TensorKind.APP_READ)
    graph.add_node("n", "test.sums", "Add", [x, w], [y])
    graph.finalize()
    return graph


@pytest.fixture
def context() -> Iterator[runtime.Context]:
    with runtime.Backend.create(UpdatingBackend, ops=SUM_OPS) as backend:
        yield backend.create_context()


def sums(graphs: dict[str, runtime.Graph]) -> dict[str, Any]:
    return {name: graph.execute({"x": X})["y"] - X for name, graph in graphs.items()}


def write_config(folder: Path, **weights: float) -> Path:
    """Write the adapter `all`, with one value for each graph."""
    lines = ["use_case:"]
    for graph, value in weights.items():
        write_safetensors(folder / f"{graph}.safetensors", {"w": np.full(3, value, np.float32)})
        lines.append(f"- {{name: all, graph: {graph}, weights: {graph}.safetensors}}")
    path = folder / "a.yaml"
    path.write_text("\n".join(lines))
    return path


def test_several_graphs_are_updated_and_restored(context: runtime.Context, tmp_path: Path) -> None:
    graphs = {name: add_graph(context, name) for name in ("a", "b")}
    adapters = Adapters(SUM_OPS)
    uses = adapters.find(write_config(tmp_path, a=5, b=7), None)
    applied = adapters.apply(uses, graphs, 1.0, None, None)
    assert applied.tensors == {"a": ("w",), "b": ("w",)}
    np.testing.assert_array_equal([*sums(graphs).values()], [[5] * 3, [7] * 3])
    assert adapters.find("all", None) == uses
    adapters.remove(graphs, None)
    np.testing.assert_array_equal([*sums(graphs).values()], np.ones((2, 3)))


def test_an_adapter_of_one_graph_leaves_the_other(context: runtime.Context, tmp_path: Path) -> None:
    graphs = {name: add_graph(context, name) for name in ("a", "b")}
    adapters = Adapters(SUM_OPS)
    uses = adapters.find(write_config(tmp_path, b=7), None)
    adapters.apply(uses, graphs, 1.0, None, None)
    np.testing.assert_array_equal([*sums(graphs).values()], [[1] * 3, [7] * 3])


def test_a_failure_of_the_backend_restores_all_graphs(
    context: runtime.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = {name: add_graph(context, name) for name in ("a", "b")}
    adapters = Adapters(SUM_OPS)
    uses = adapters.find(write_config(tmp_path, a=5, b=7), None)
    update = type(graphs["b"]._prepared).update
    calls: list[object] = []

    def second_fails(self: Any, tensors: Any) -> None:
        calls.append(tensors)
        if len(calls) == 2:
            raise ArithmeticError("cannot update")
        update(self, tensors)

    monkeypatch.setattr(type(graphs["b"]._prepared), "update", second_fails)
    with pytest.raises(BackendError):
        adapters.apply(uses, graphs, 1.0, None, None)
    np.testing.assert_array_equal([*sums(graphs).values()], np.ones((2, 3)))
    adapters.apply(uses, graphs, 1.0, None, None)
    np.testing.assert_array_equal([*sums(graphs).values()], [[5] * 3, [7] * 3])


def test_a_backend_without_updates_says_so(tmp_path: Path) -> None:
    with runtime.Backend.create(BareBackend, ops=SUM_OPS) as backend:
        graph = add_graph(backend.create_context(), "a")
        adapters = Adapters(SUM_OPS)
        uses = adapters.find(write_config(tmp_path, a=5), None)
        with pytest.raises(BackendError, match="updates"):
            adapters.apply(uses, {"a": graph}, 1.0, None, None)
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 1)


def test_what_is_not_found_is_named(context: runtime.Context, tmp_path: Path) -> None:
    graphs = {name: add_graph(context, name) for name in ("a", "b")}
    adapters = Adapters(SUM_OPS)
    with pytest.raises(ConfigError, match="adapter 'x' not found") as caught:
        adapters.find("x", None)
    assert "path of a config" in caught.value.hint
    config = write_config(tmp_path, c=1)
    uses = adapters.find(config, "all")
    with pytest.raises(BackendError, match="graph 'c' not found"):
        adapters.apply(uses, graphs, 1.0, None, None)
    with pytest.raises(BackendError, match="several graphs"):
        adapters.apply(adapters.find(tmp_path / "c.safetensors", None), graphs, 1.0, None, None)
    with pytest.raises(ConfigError, match="only a config of adapters has names"):
        adapters.find(tmp_path / "c.safetensors", "all")
    config.write_text(config.read_text() + "\n- {name: more, weights: c.safetensors}")
    with pytest.raises(ConfigError, match="the config has 2 adapters"):
        adapters.find(config, None)
