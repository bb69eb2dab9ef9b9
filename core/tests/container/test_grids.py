"""Grids of float tensors and names that are gone: written with the graph, refused if faulty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.container import Model, verify
from dovetail.errors import ContainerError, GraphError
from dovetail.ir import AxisScaleOffset, Block, DType, ScaleOffset, Spec, copy_graph

from .conftest import Forge, manifest_of

S8 = DType.SFIXED_POINT_8
GRIDS = {
    "weights": Spec(S8, (64, 32), ScaleOffset(0.125, 0, 4)),
    "axis": Spec(S8, (80, 2), AxisScaleOffset(0, np.arange(1, 81, dtype=np.float32))),
    "block": Spec(S8, (80, 2), Block((2, 1), np.full((40, 2), 0.5, np.float32), None, 4)),
}


def test_grids_come_back(model: Model, tmp_path: Path) -> None:
    for graph in model.graphs.values():
        graph.source_encodings.update(GRIDS)
    model.save(tmp_path / "model.dvt")
    again = Model.load(tmp_path / "model.dvt")
    assert [graph.source_encodings for graph in again.graphs.values()] == [GRIDS, GRIDS]
    assert not verify(tmp_path / "model.dvt")


def test_grids_that_no_tensor_goes_by_are_left_out(model: Model, tmp_path: Path) -> None:
    graph = model.graphs["prefill"]
    graph.source_encodings["gone"] = GRIDS["weights"]
    kept = {"middle": GRIDS["weights"]}  # an activation, for which a float model states it
    graph.source_encodings |= kept
    model.save(tmp_path / "model.dvt")
    assert Model.load(tmp_path / "model.dvt").graphs["prefill"].source_encodings == kept


def test_names_that_are_gone_come_back(model: Model, tmp_path: Path) -> None:
    graph = model.graphs["prefill"]
    graph.removed_sources = frozenset(("b", "a"))
    assert copy_graph(graph).removed_sources == {"a", "b"}
    model.save(tmp_path / "model.dvt")
    again = Model.load(tmp_path / "model.dvt")
    assert again.graphs["prefill"].removed_sources == {"a", "b"}
    assert manifest_of(tmp_path / "model.dvt")["graphs"][0]["gone"] == ["a", "b"]


def test_a_copy_has_grids_of_its_own(model: Model) -> None:
    graph = model.graphs["prefill"]
    graph.source_encodings.update(GRIDS)
    made = copy_graph(graph)
    assert made.source_encodings == GRIDS
    made.source_encodings.clear()
    assert graph.source_encodings == GRIDS


def test_a_grid_that_does_not_fit_is_no_graph(model: Model, tmp_path: Path) -> None:
    encoding = AxisScaleOffset(0, np.ones(3, np.float32))
    model.graphs["prefill"].source_encodings["weights"] = Spec(S8, (64, 32), encoding)
    with pytest.raises(GraphError, match="grid of 'weights'"):
        model.save(tmp_path / "model.dvt")


def grid(**changes: Any) -> dict[str, Any]:
    """A grid's entry; a key is changed, or is gone where it is None."""
    made = {
        "source": "weights", "dtype": int(S8), "shape": [64, 32],
        "encoding": {"encoding": "scale_offset", "scale": 0.5},
    } | changes  # fmt: skip
    return {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([grid(), grid()], "duplicate grid of 'weights'"),
        ([grid(shape=[2**31, 2**31])], "impossible shape"),
        ([grid(shape=[-1])], ">= 0"),
        ([grid(shape=None)], "missing required field `shape`"),
        ([grid(dtype=5)], "Invalid enum value 5"),
        ([grid(encoding={"encoding": "scale_offset", "scale": -1.0})], "grid of 'weights'"),
        ([grid(more=1)], "grids[0].more: unknown key"),
        (3, "Expected `array`"),
    ],
)
def test_impossible_grids_are_refused(entries: Any, said: str, saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved)
    manifest["graphs"][0]["grids"] = entries
    with pytest.raises(ContainerError) as caught:
        Model.load(forge(manifest))
    assert said in str(caught.value)
    assert "graphs[0]" in str(caught.value)
