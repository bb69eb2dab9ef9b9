"""The graphs that are written, and how each is created."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx

import dovetail
from dovetail.container import Model
from dovetail.ir import Graph
from dovetail.ops.frontend import FrontendOptions
from dovetail.plugins import refresh
from dovetail.testing import OpCase, bind
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES
from dovetail_qnn._export_options import QnnExportOptions, requested_graph
from netron_check.handmade import forms

ROOT = Path(__file__).parents[2]
HELPERS = ROOT / "tests" / "helpers"
CUSTOM_OP = ROOT / "examples" / "custom_op"
ONE_IMAGE = FrontendOptions(batch=1)
OPTIONS = QnnExportOptions(op_style="2.27", exclude_named_tensors=True, package_name="own.ops")
PER_CHANNEL: Mapping[str, Any] = {
    "use_per_channel_quantization": True,
    "use_per_row_quantization": True,
}
ALL, CONVERTERS = ("json", "dlc", "onnx"), ("json", "dlc")


@dataclass(frozen=True, slots=True)
class Subject:
    """A graph, and the formats in which it is written."""

    name: str
    graph: Graph
    formats: tuple[str, ...] = ALL


def subjects(folder: Path) -> Iterator[Subject]:
    """Yield all subjects.

    Args:
        folder: For the files that they are created from.
    """
    sys.path.append(str(HELPERS))  # the tests' helpers, which no dist contains
    trained, networks = map(importlib.import_module, ("trained", "networks"))
    images = list(trained.calibration(20)[:, None])
    for name in ("digits", "attention"):
        model = dovetail.convert(trained.TRAINED[name].path, ONE_IMAGE)
        yield from _of_model(name, model)
        (graph,) = model.graphs.values()
        yield Subject(f"{name}, options", requested_graph(graph, OPTIONS), CONVERTERS)
        yield from _of_model(f"{name}, int8", dovetail.quantize(model, images, **PER_CHANNEL))
    recurrent = dovetail.convert(trained.TRAINED["recurrent"].path, ONE_IMAGE)
    yield from _of_model("recurrent", recurrent)
    for name, build in (
        ("mobilenet_v3", partial(networks.mobilenet_v3, size=32, classes=10)),
        ("unet", partial(networks.unet, size=16, width=4, depth=2)),
    ):
        path = folder / f"{name}.onnx"
        onnx.save(build(), path)
        yield from _of_model(name, dovetail.convert(path))
    yield from _of_model("snake", _snake(folder))
    digits = trained.TRAINED["digits"].path
    sizes = {"image": [(count, 1, 8, 8) for count in (1, 4)]}
    yield from _of_model("two graphs", dovetail.convert(digits, shapes=sizes))
    yield Subject("each op", each_op(), CONVERTERS)
    yield Subject("forms", forms(), CONVERTERS)


def _of_model(name: str, model: Model) -> Iterator[Subject]:
    for graph in model.graphs.values():
        title = name if len(model.graphs) == 1 else f"{name}: {graph.name}"
        yield Subject(title, graph)


def _snake(folder: Path) -> Model:
    """Return the model of the example of a custom op, whose package is installed for this run."""
    sys.path[:0] = [str(CUSTOM_OP / "src"), str(CUSTOM_OP), str(folder)]
    info = folder / "snake_ops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: snake-ops\nVersion: 1.0\n")
    project = tomllib.loads((CUSTOM_OP / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {path}" for name, path in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    refresh()
    path = folder / "wave.onnx"
    onnx.save(importlib.import_module("make_model").wave_model(), path)
    return dovetail.convert(path)


def each_op() -> Graph:
    """Return a graph with a node of each op of the standard set, which share no tensors."""
    cases: dict[str, OpCase] = {}
    for case in CASES:
        if len(case.params) >= len(cases.get(case.op_type, case).params):
            cases[case.op_type] = case
    merged = Graph("each_op")
    for op_type, case in sorted(cases.items()):
        graph = bind(case).graph(PACKAGE.schemas[op_type], op_type)
        names = {t: f"{op_type}.{t.name}" for t in graph.tensors.values()}
        graph.rename(names, {node: op_type for node in graph.nodes})
        for tensor in graph.tensors.values():
            merged.add_tensor(tensor)
        for node in graph.nodes:
            merged.add_node(node)
    return merged
