"""Exporters of another package's ops, found by their entry point alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

from dovetail import plugins
from dovetail.errors import PluginError, UnsupportedOpError
from dovetail.ir import DType, Graph, Node, Scalar, Tensor, TensorKind
from dovetail_onnx.exporter import OnnxExporter, OnnxExportOptions, OpExporters

MODULE = '''
from dovetail.ops import In, Op, OpPackage, Out, float32
from dovetail_onnx.exporter import OpExporters

PACKAGE = OpPackage("org.toys")

@PACKAGE.op("Wobble")
class Wobble(Op):
    """x times a depth."""

    inputs = (In("x"),)
    outputs = (Out("y"),)
    source = "test"
    depth = float32(default=1.0)

    def infer(self, x, y):
        return x

    def reference(self, x):
        return x * self.depth

TABLE = OpExporters("org.toys")

@TABLE.exports("Wobble")
def wobble(e):
    given = {"name": e.op.depth, "left_out": None}
    e.put(*e.add_custom("org.other", "Shake", [e.input(0), ""], attributes=given))
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Install a dist with an op package, and with exporters as a module has them."""

    def installed(source: str) -> None:
        site = tmp_path / "site"
        info = site / "toy_ops-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "toy_ops.py").write_text(source)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-ops\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[dovetail.op_packages]\norg.toys = toy_ops:PACKAGE\n"
            "[dovetail.op_exporters]\nonnx:org.toys = toy_ops:TABLE\n"
        )
        monkeypatch.syspath_prepend(str(site))
        plugins.refresh()

    yield installed
    sys.modules.pop("toy_ops", None)
    monkeypatch.undo()
    plugins.refresh()


def wobbling() -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,), TensorKind.APP_READ))
    depth = {"depth": Scalar(DType.FLOAT_32, 3.0)}
    graph.add_node(Node("w", "org.toys", "Wobble", [x], [y], depth))
    return graph


def test_they_are_found_and_used(install: Callable[[str], None], tmp_path: Path) -> None:
    install(MODULE)
    path = tmp_path / "net.onnx"
    assert OnnxExporter().export(wobbling(), path, OnnxExportOptions()) == ()
    model = onnx.load(path)
    (node,) = model.graph.node
    assert (node.domain, node.op_type, list(node.input)) == ("org.other", "Shake", ["x"])
    assert [(a.name, a.f) for a in node.attribute] == [("name", 3.0)]
    assert {o.domain: o.version for o in model.opset_import} == {"": 21, "org.other": 1}


def test_without_them_the_error_names_the_entry_point(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        OnnxExporter().export(wobbling(), tmp_path / "net.onnx", OnnxExportOptions())
    (problem,) = caught.value.problems
    assert problem.message == "unsupported op org.toys::Wobble"
    assert "group dovetail.op_exporters, entry point 'onnx:org.toys'" in problem.hint


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("raise RuntimeError('out of order')", "out of order"),
        ("TABLE = 3", "missing 'package'"),
        ("TABLE = OpExporters('org.other')", "org.other"),
        (
            "class TABLE: package = 'org.toys'\nTABLE = TABLE()",
            "expected an OpExporters, got TABLE",
        ),
        ("TABLE = OpExporters('org.toys')", "unsupported op org.toys::Wobble"),
    ],
)
def test_broken_ones_say_why(
    install: Callable[[str], None], change: str, text: str, tmp_path: Path
) -> None:
    install(f"{MODULE}\n{change}\n")
    with pytest.raises(UnsupportedOpError) as caught:
        OnnxExporter().export(wobbling(), tmp_path / "net.onnx", OnnxExportOptions())
    assert text in str(caught.value)
    assert not (tmp_path / "net.onnx").exists()


def test_an_op_has_one_exporter() -> None:
    table = OpExporters("org.toys")
    table.exports("Wobble")(lambda e: None)
    with pytest.raises(PluginError, match="two functions export 'Wobble'"):
        table.exports("Wobble")(lambda e: None)
